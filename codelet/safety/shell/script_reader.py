"""Walk over the syntax tree of a bash command line: its statements, their commands, the words of these.

Nothing is taken on trust from the parser: every node type is on a list (see `grammar`), every gap between nodes must be
blank, and every word is decoded once more from its source (see `word_decoder`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Literal

from codelet.safety.shell import grammar, syntax
from codelet.safety.shell.nested import changes_shell
from codelet.safety.shell.syntax import NOT_PARSED, PASSED_OVER, Redirect, Script, SimpleCommand, UnclearPart, Word
from codelet.safety.shell.word_decoder import QUOTED_ONLY, UnclearError, decode

if TYPE_CHECKING:
    from tree_sitter import Node

DEPTH_CAP = 24
WORD_CAP = 200
"""Words of one command that are looked at."""
LOOP_CAP = 20
"""Words that a `for` goes through."""


class ScriptReader:
    """One walk over a syntax tree, which adds the parts that it finds to `script` in the order of execution.

    `scope` names the subshells around a node, outermost first; `depth` is how many nodes are around it.
    """

    def __init__(self, source: bytes, script: Script) -> None:
        self.source = source
        self.script = script
        self._spans: dict[int, tuple[int, str | None]] = {}
        self._next_scope = 0
        self.operator = ";"
        self.variables: set[str] = set()
        self.loops: dict[str, Word] = {}
        self._opened_with: dict[int, Node] = {}

    def read(self, node: Node, scope: tuple[int, ...] = (), depth: int = 0) -> None:
        """Read one statement, or a node that holds statements."""
        kind = node.type
        if depth > DEPTH_CAP:
            self._unclear("it is nested too deep")
        elif node.is_missing or kind == "ERROR":
            self._unclear(NOT_PARSED)
            self._inside(node, scope, depth)
        elif kind == "command":
            self._command(node, scope, depth)
        elif kind == "redirected_statement":
            self._redirected(node, scope, depth)
        elif kind in ("program", "list", "elif_clause", "else_clause"):
            self._statements(node, scope, depth)
        elif kind == "negated_command":
            self.operator = "||"
            self._statements(node, scope, depth)
        elif kind == "compound_statement" and self._text(node).startswith("{"):
            self._statements(node, scope, depth)
        elif kind in ("subshell", "pipeline"):
            self._children_apart(node, scope, depth)
        elif kind == "test_command" and (test := grammar.as_test(self.source[node.start_byte : node.end_byte])):
            self._bracket(test, node, scope)
        elif kind == "comment":
            if not grammar.is_plain_comment(self.source, node):
                self._unclear("it has a comment that is not clear")
        elif kind == "variable_assignment":
            self._variable(node, scope, depth)
        elif kind == "if_statement":
            self._unchanged(node, scope, depth)
        elif kind == "for_statement" and node.child_by_field_name("body") is not None:
            self._loop(node, scope, depth)
        else:
            self._unclear(grammar.REFUSALS.get(kind, f"it has a part of a kind that is not judged ({kind})"))
            if kind == "function_definition" and grammar.multiplies(node, self._text(node)):
                self.script.fork_bomb = True
            self._inside(node, scope, depth)

    def _statements(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """Statements one after the other in the same shell."""
        separated = True
        for gap, child in self._spaced(node):
            separated = separated or "\n" in gap
            if child.is_named:
                if not separated and child.type not in ("comment", "elif_clause", "else_clause"):
                    self._unclear(NOT_PARSED)
                if redirected := self._opened_with.pop(child.id, None):
                    after = self.operator
                    self._redirects(redirected, scope, depth)
                    self.operator = after
                self.read(child, scope, depth + 1)
                separated = child.type == "comment"
                self.operator = ";" if child.type != "comment" else self.operator
            else:
                separated = True
                if child.type not in grammar.KEYWORDS or node.type not in grammar.BRANCH_NODES:
                    self._token(child)

    def _unchanged(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """Statements that may run, be skipped or be repeated: none of them may change the shell."""
        before = len(self.script.parts)
        self._statements(node, scope, depth)
        for part in self.script.parts[before:]:
            words = [word.text for word in part.words] if isinstance(part, SimpleCommand) else []
            if changes_shell(words) and words[0] not in grammar.HARMLESS_IN_BRANCHES:
                self._unclear("it may change its shell in a branch or loop")

    def _loop(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """`for name in words; do …; done`: the body is read once for each word."""
        name = self._text(node.children[1])
        body = node.children[-1]
        plain = grammar.is_own_name(name) and name not in self.variables and name not in self.loops
        values = []
        end = node.start_byte
        for index, child in enumerate(node.children[:-1]):
            self._gap(end, child)
            end = child.end_byte
            if child.type not in ("for", "in", ";", "\n") and index != 1:
                plain = plain and child.type in grammar.WORD_NODES
                values.append(self._word(child, scope, depth))
        if not plain or not values or len(values) > LOOP_CAP or any(value.dynamic for value in values):
            self._unclear(grammar.REFUSALS[node.type])
            self._inside(node, scope, depth)
            return
        self._gap(end, body)
        for value in values:
            self.loops[name] = value
            self._unchanged(body, scope, depth)
        del self.loops[name]

    def _children_apart(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """A subshell, or a pipeline, whose every part is a shell of its own."""
        outer, inner = self.operator, scope
        front: tuple[SimpleCommand, ...] | None = ()
        for _, child in self._spaced(node):
            if not child.is_named:
                self._token(child)
                continue
            if node.type == "pipeline":
                self.operator = outer
            if node.type == "pipeline" or inner is scope:
                self._next_scope += 1
                inner = (*scope, self._next_scope)
            before = len(self.script.parts)
            self.read(child, inner, depth + 1)
            front = syntax.tell_pipeline(self.script, before, front) if node.type == "pipeline" else front
            self.operator = ";"

    def _bracket(self, test: bytes, node: Node, scope: tuple[int, ...]) -> None:
        """Brackets are a command like any other: read it again as `test …`, at the same place in the source."""
        inner = b" " * node.start_byte + test
        again = Script()
        reader = ScriptReader(inner, again)
        reader.operator = self.operator
        reader.variables, reader.loops = self.variables, self.loops
        reader.read(grammar.parser().parse(inner).root_node, scope)
        if not again.parts or not all(isinstance(part, SimpleCommand) for part in again.parts):
            self._unclear(grammar.REFUSALS[node.type])
        self.script.parts += again.parts

    def _unclear(self, reason: str) -> None:
        """Note a part that is not understood."""
        self.script.parts.append(UnclearPart(reason))

    def _text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _inside(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """Find the commands in a part that is not understood: critical ones are denied there, too."""
        for child in node.named_children:
            if child.type in grammar.WORD_NODES and child.child_count == 0:
                continue
            if child.type == "file_redirect":
                self._redirect(child, scope, depth)
            elif child.type in ("command", "redirected_statement", "list", "pipeline", "subshell"):
                self.read(child, scope, depth + 1)
            elif depth < DEPTH_CAP:
                self._inside(child, scope, depth + 1)

    def _gap(self, end: int, child: Node) -> str:
        """What stands between the end of the node before and `child`; it must be blank."""
        gap = self.source[end : child.start_byte].decode("utf-8", "replace")
        if gap.strip(" \t\n"):
            self._unclear(PASSED_OVER)
        return gap

    def _spaced(self, node: Node) -> Iterator[tuple[str, Node]]:
        """The children, each with what stands in front of it."""
        end = node.start_byte
        for child in node.children:
            yield self._gap(end, child), child
            end = child.end_byte

    def _token(self, node: Node) -> None:
        """Take an operator; one that is not on the list is noted."""
        token = self._text(node).strip(" \t")
        if node.type == "&":
            self._unclear("it leaves a process in the background")
        elif node.type not in grammar.OPERATORS:
            self._unclear(f"it has the sign {token!r}")
        if node.type in ("&&", "||"):
            self.operator = node.type
        elif node.type in (";", "\n"):
            self.operator = ";"

    def _command(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """A simple command: assignments, the program's name, its arguments."""
        after = self.operator
        words: list[Word] = []
        assignments: list[tuple[str, Word | None]] = []
        if node.child_count > WORD_CAP:
            self._unclear(f"it has a command of more than {WORD_CAP} words")
        for gap, child in islice(self._spaced(node), WORD_CAP):
            kind = child.type
            if "\n" in gap or (not gap and words and kind != "file_redirect"):
                self._unclear(NOT_PARSED)
            if kind == "variable_assignment":
                assignments.append(self._assignment(child, scope, depth))
            elif kind == "file_redirect":
                self._redirect(child, scope, depth)
            elif kind == "herestring_redirect":
                self._here_string(child, scope, depth)
            elif kind == "command_name" or kind in grammar.WORD_NODES:
                words.append(self._word(child, scope, depth))
            elif kind == "process_substitution" and self._text(child).startswith("<("):
                self._substitution(child, "", scope, depth)
                # The program reads a pipe, whose name it gets as a word.
                words.append(Word("/dev/stdin", self._text(child), child.start_byte, child.end_byte))
            else:
                self._unclear(grammar.REFUSALS.get(kind, f"it has the sign {self._text(child)!r}"))
                self._inside(child, scope, depth)
        if grammar.varies_by_loop(words, self.loops):
            self._unclear("it loops over programs or options")
        self.script.parts.append(SimpleCommand(tuple(words), tuple(assignments), after, scope))
        self.operator = after

    def _variable(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """`name=value` as a statement: a variable of the script's own, whose value may be printed."""
        name, value = self._assignment(node, scope, depth)
        if value is None or not grammar.is_own_name(name) or name in self.loops:
            self._unclear(f"it sets the variable {name}")
        self.variables.add(name)

    def _here_string(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """`<<< word`: the word comes as standard input, as it would out of a pipe."""
        if len(node.children) != 2 or node.children[0].type != "<<<" or node.children[1].type not in grammar.WORD_NODES:
            self._unclear(grammar.REFUSALS[node.type])
            self._inside(node, scope, depth)
            return
        self.script.text_input = True
        sign, word = node.children
        if "\n" in self._gap(sign.end_byte, word):
            self._unclear(NOT_PARSED)
        self._word(word, scope, depth)

    def _assignment(self, node: Node, scope: tuple[int, ...], depth: int) -> tuple[str, Word | None]:
        if node.child_count < 2:
            self._unclear(NOT_PARSED)
            return self._text(node), None
        name, _, *value = node.children
        kinds = [child.type for child in node.children]
        if kinds[:2] != ["variable_name", "="] or len(value) != 1 or kinds[2] not in grammar.WORD_NODES:
            self._inside(node, scope, depth)
            return self._text(name), None
        return self._text(name), self._word(value[0], scope, depth)

    def _word(self, node: Node, scope: tuple[int, ...], depth: int) -> Word:
        """The decoded word; one that cannot be decoded is noted and counts as dynamic."""
        if node.child_count:
            self._expansions(node, scope, depth)
        raw = self._text(node)
        start = node.start_byte
        # An expansion's node takes in the blanks in front of it.
        blank = len(raw) - len(raw.lstrip(" \t")) if raw[:1] in " \t" else 0
        looped = grammar.quoted_variable(raw[blank:])
        if looped and (value := self.loops.get(looped)):
            return Word(value.text, raw[blank:], start + blank, node.end_byte, value.glob)
        try:
            return decode(raw[blank:], start + blank, node.end_byte, self._spans)
        except UnclearError as reason:
            self._unclear(f"it has {reason}")
            return Word(raw, raw, start, node.end_byte, dynamic=True, splits=True)

    def _expansions(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """Note where the expansions of a word are, and read the commands in them."""
        kind = node.type
        if kind in grammar.EXPANSIONS:
            raw = self._text(node)
            start = node.start_byte + len(raw) - len(raw.lstrip(" \t\n"))
            self._spans[start] = (node.end_byte, self._value(node, raw.strip(), scope, depth))
            return
        if kind in ("process_substitution", "translated_string", "extglob_pattern", "ERROR"):
            self._unclear(grammar.REFUSALS.get(kind, "it has a special quote or pattern"))
            self._inside(node, scope, depth)
            return
        for child in node.children:
            if child.child_count or child.type in grammar.EXPANSIONS:
                self._expansions(child, scope, depth + 1)

    def _value(self, node: Node, raw: str, scope: tuple[int, ...], depth: int) -> str | None:
        """The value of an expansion where it is known; notes what makes it unsafe."""
        if node.type == "command_substitution":
            self._substitution(node, raw, scope, depth)
            return None
        variable = grammar.expanded_variable(raw)
        if (value := self.loops.get(variable or "")) and grammar.quoted_variable(f'"{raw}"'):
            return QUOTED_ONLY if value.glob else value.text
        if variable in self.variables:
            return QUOTED_ONLY
        if node.type == "arithmetic_expansion" and grammar.is_constant(raw):
            return None
        if variable == "HOME" and os.environ.get("HOME"):
            return os.environ["HOME"]
        if variable not in grammar.TEXT_VARIABLES:
            self._unclear("it expands a variable" if node.type != "arithmetic_expansion" else "it computes")
            self._inside(node, scope, depth)
        return None

    def _substitution(self, node: Node, raw: str, scope: tuple[int, ...], depth: int) -> None:
        if raw.startswith("`") and "\\" in raw:
            self._unclear("it has a backslash inside backticks")
        outer = self.operator
        self.operator = "||"
        self._next_scope += 1
        inner = (*scope, self._next_scope)
        children = node.children
        if len(children) < 3 or children[-1].type not in (")", "`"):
            self._unclear(NOT_PARSED)
        for child in children:
            if child.type == "file_redirect":
                self._redirect(child, inner, depth)
            elif child.is_named:
                self.read(child, inner, depth + 1)
                self.operator = ";"
            elif child is not children[0] and child is not children[-1]:
                self._token(child)
        self.operator = outer

    def _redirected(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """A statement with redirections behind it, which bash opens before it runs the statement."""
        after = self.operator
        for _ in self._spaced(node):
            pass
        body = [child for child in node.children if child.type not in grammar.REDIRECTS]
        for number, child in enumerate(body):  # more than one only where some of it cannot be parsed
            if child.type == "list" and child.child_count > 1 and not number:
                # The grammar.parser hangs a redirection on the whole list; bash on its last command.
                self._opened_with[child.children[-1].id] = node
            elif not number:
                self._redirects(node, scope, depth)
            self.operator = after
            self.read(child, scope, depth + 1)
            last = child.children[-1].id if child.child_count else None
            if last in self._opened_with:
                self._unclear("it redirects in an unusual place")
        if not body:
            self._redirects(node, scope, depth)

    def _redirects(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """The redirections behind a statement, which hang on what is before it as it does."""
        for child in node.children:
            if child.type == "file_redirect":
                self._redirect(child, scope, depth)
            elif child.type == "herestring_redirect":
                self._here_string(child, scope, depth)
            elif child.type in grammar.REDIRECTS:
                self._unclear(grammar.REFUSALS[child.type])
                self._inside(child, scope, depth)

    def _redirect(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """A redirection: to and from /dev/null and between descriptors it is nothing."""
        children = node.children
        if children and children[0].type == "file_descriptor":
            children = children[1:]
        if not children:
            self._unclear(NOT_PARSED)
            return
        operator, *targets = children
        if operator.type in (">&", "<&") and len(targets) == 1 and self._text(targets[0]).isdigit():
            return
        if operator.type in (">&-", "<&-") and not targets:
            return
        if len(targets) != 1 or operator.type not in (">", ">>", ">|", "&>", "&>>", ">&", "<"):
            self._unclear("it has an unusual redirection")
        for target in targets:
            word = self._word(target, scope, depth)
            if word.dynamic or word.glob is not None:
                self._unclear("it redirects to a place known only at run time")
            elif word.text != "/dev/null":
                access: Literal["read", "write"] = "read" if operator.type == "<" else "write"
                self.script.parts.append(Redirect(word, access, self.operator, scope))
