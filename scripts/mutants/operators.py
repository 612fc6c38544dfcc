"""The mutants: each turns one expression or statement into a likely slip of a programmer."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.FloorDiv(), ast.FloorDiv: ast.Mult(),
}  # fmt: skip
_EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One mutant: the text of a file from `start` to `end` (bytes) becomes `after`.

    `about` are the lines that a test runs with it: those of its statement, or of the function whose head it is in. It
    is None outside functions.
    """

    path: Path
    line: int
    about: range | None
    what: str
    start: int
    end: int
    after: str

    def text(self, before: str) -> str:
        """The whole file with the change."""
        whole = before.encode()
        return (whole[: self.start] + self.after.encode() + whole[self.end :]).decode()


def mutants(path: Path) -> list[Mutant]:
    """All mutants of a file, in the order of its lines."""
    text = path.read_bytes()
    starts = [0, *accumulate(len(line) + 1 for line in text.split(b"\n"))]
    found = []
    for about, (node, what, after) in _visit(ast.parse(text), None):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        new = after if isinstance(after, str) else ast.unparse(ast.fix_missing_locations(after))
        if isinstance(node, ast.expr) and not isinstance(after, str | ast.Name | ast.Call | ast.Attribute):
            new = f"({new})"
        if new.encode() != text[start:end]:
            found.append(Mutant(path, node.lineno, about, what, start, end, new))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.what))


_Change = tuple[ast.expr | ast.stmt, str, ast.AST | str]


def _visit(node: ast.AST, about: range | None) -> Iterator[tuple[range | None, _Change]]:
    """The changes of a node and of what is in it, each with its lines; text, annotations and decorators are left alone.

    So is `strict=` of a zip: it says that both are of one length, and only a list that is not would show the change.
    """
    if isinstance(node, ast.JoinedStr):
        return  # what is in it has no place before Python 3.12
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.expr):
        yield from ((about, change) for change in _of_expression(node))
    elif isinstance(node, ast.stmt):
        body, end = getattr(node, "body", None), (node.end_lineno or 0) + 1
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            about = range(node.body[0].lineno, end)
        elif about is not None:
            about = range(node.lineno, body[0].lineno if body else end)
        yield from ((about, change) for change in _of_statement(node))
    skipped = {"annotation", "returns", "decorator_list", "bases"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
        skipped.add("keywords")
    for name, value in ast.iter_fields(node):
        if name not in skipped:
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, ast.AST):
                    yield from _visit(inner, about)


def _of_expression(node: ast.expr) -> Iterator[_Change]:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, "dropped a not", operand
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield node, "swapped a comparison", ast.Compare(left, [_SWAPPED[type(operator)]()], [right])
        case ast.BoolOp(op=operator, values=values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield node, "exchanged and with or", ast.BoolOp(other, values)
            for number in range(len(values)):
                rest = values[:number] + values[number + 1 :]
                yield node, "dropped a condition", ast.BoolOp(operator, rest) if len(rest) > 1 else rest[0]
        case ast.IfExp(test=test, body=body, orelse=other):
            yield node, "negated a condition", ast.IfExp(ast.UnaryOp(ast.Not(), test), body, other)
        case ast.Constant(value=bool(value)):
            yield node, "turned a truth value", repr(not value)
        case ast.Constant(value=int(value)) if value <= 10:
            yield node, "off by one", repr(value + 1)
        case ast.Constant(value=int(value)):  # one more or less of many is hardly a bug
            yield node, "changed a number", repr(2 * value)
        case ast.Constant(value=float(value)):
            yield node, "changed a number", repr(value * 3 + 1)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            if not any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) for side in (left, right)):
                yield node, "exchanged an operator", ast.BinOp(left, _ARITHMETIC[type(operator)], right)
        case ast.Call(func=ast.Name(id=name)) if name in _EXCHANGED:
            changed = copy.deepcopy(node)
            changed.func = ast.Name(_EXCHANGED[name], ast.Load())
            yield node, f"exchanged {name}", changed
        case _:
            pass


def _of_statement(node: ast.stmt) -> Iterator[_Change]:
    match node:
        case ast.If(test=test) | ast.While(test=test):
            if not isinstance(test, ast.Constant | ast.UnaryOp):
                yield test, "negated a condition", ast.UnaryOp(ast.Not(), test)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "returned None", "return None"
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise() | ast.Delete():
            yield node, "dropped a statement", "pass"
        case ast.Continue() | ast.Break():
            yield node, "dropped a jump", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "dropped an assignment", "pass"
        case _:
            pass
