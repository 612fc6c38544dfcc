"""Read a bash command line into its simple commands, redirections and the parts that are not understood.

tree-sitter-bash finds the structure; nothing is taken on trust from it: every node type is on a list, every
gap between nodes must be blank, and every word is decoded once more from its source (see words.py).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.policy.shell.nested import changes_shell
from codelet.policy.shell.reader import BLOCKS, DEPTH_CAP, WORDS, WordReader, own_name
from codelet.policy.shell.syntax import Script, SimpleCommand, UnclearPart
from codelet.process import find_program
from codelet.text import clean

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LENGTH_CAP = 16_384
"""Bytes of a command that is looked at; a longer one asks."""

NODE_CAP = 6_000
SIGN_CAP = 600
"""Signs of the shell in a command; with more of them it is not even parsed."""

_ONLY_BASH = re.compile(r"\$['\"]|<\(|<<<|&>|>&[^0-9-]|\|&")
COMMAND_CAP = 40
LOOP_CAP = 20
"""Words that a `for` goes through."""

_ANYWHERE = Path("/")
_KEYWORDS = ("if", "then", "elif", "else", "fi", "do", "done")
_BLOCKS = ("if_statement", "elif_clause", "else_clause", "do_group")
_HARMLESS_IN_BLOCKS = ("test", "printf", "command", "exit")
"""Builtins that change the shell only in uses that ask anyhow."""


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def read_script(command: str, workspace: Path = _ANYWHERE) -> Script:
    """The parts of `command`. What cannot be read is an UnclearPart, never left out.

    In `workspace` it would run, by a shell from outside it.
    """
    script = Script()
    source = command.encode("utf-8", "surrogateescape" if command.isascii() else "replace")
    if len(source) > LENGTH_CAP:
        return _unread(f"the command is longer than {LENGTH_CAP} bytes")
    if sum(map(source.count, (b"|", b";", b"&", b"\n", b"$", b"`", b"(", b"{", b"[", b"<", b">", b'"'))) > SIGN_CAP:
        return _unread("it has too many parts to look at")
    if clean(command) != command or "\r" in command or re.search(r"[^\S \t\n]", command):
        script.parts.append(UnclearPart("it holds control characters, invisible letters or unusual blanks"))
    if _ONLY_BASH.search(command) and find_program("bash", workspace) is None:
        script.parts.append(UnclearPart("it has signs that only bash reads in this way, and there is no bash"))
    root = _parser().parse(source).root_node
    if root.descendant_count > NODE_CAP:
        return _unread("it has too many parts to look at")
    if root.has_error:
        script.parts.append(UnclearPart("it cannot be parsed"))
    if (source[: root.start_byte] + source[root.end_byte :]).strip(b" \t\n"):
        script.parts.append(UnclearPart("it has text that the parser passed over"))
    _Reader(source, script).read(root)
    if sum(1 for _ in script.commands) > COMMAND_CAP:
        script.unread = True
        script.parts.insert(0, UnclearPart(f"it has more than {COMMAND_CAP} commands"))
    return script


def _unread(reason: str) -> Script:
    script = Script(unread=True)
    script.parts.append(UnclearPart(reason))
    return script


class _Reader(WordReader):
    """One walk over a syntax tree: its statements."""

    def read(self, node: Node, scope: tuple[int, ...] = (), depth: int = 0) -> None:
        """Read one statement, or a node that holds statements."""
        kind = node.type
        if depth > DEPTH_CAP:
            self.obstacle("it is nested too deep")
        elif node.is_missing or kind == "ERROR":
            self.obstacle("it cannot be parsed")
            self.inside(node, scope, depth)
        elif kind == "command":
            self.command(node, scope, depth)
        elif kind == "redirected_statement":
            self.redirected(node, scope, depth)
        elif kind in ("program", "list", "elif_clause", "else_clause"):
            self._statements(node, scope, depth)
        elif kind == "negated_command":
            self.operator = "||"
            self._statements(node, scope, depth)
        elif kind == "compound_statement" and self.text_of(node).startswith("{"):
            self._statements(node, scope, depth)
        elif kind in ("subshell", "pipeline"):
            self._children_apart(node, scope, depth)
        elif kind == "test_command" and re.match(r"\[[ \t]", self.text_of(node)):
            self._bracket(node, scope)
        elif kind == "comment":
            self._comment(node)
        elif kind == "variable_assignment":
            self.variable(node, scope, depth)
        elif kind == "if_statement":
            self._unchanged(node, scope, depth)
        elif kind == "for_statement" and node.child_by_field_name("body") is not None:
            self._loop(node, scope, depth)
        else:
            self.obstacle(BLOCKS.get(kind, f"it has a part of a kind that is not judged ({kind})"))
            if kind == "function_definition":
                self._fork_bomb(node)
            self.inside(node, scope, depth)

    def _statements(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """Statements one after the other in the same shell."""
        end = node.start_byte
        separated = True
        for child in node.children:
            gap = self.gap(end, child)
            separated = separated or "\n" in gap
            end = child.end_byte
            if child.is_named:
                if not separated and child.type not in ("comment", "elif_clause", "else_clause"):
                    self.obstacle("it cannot be parsed")
                if redirected := self.opened_with.pop(child.id, None):
                    after = self.operator
                    self.redirects(redirected, after, scope, depth)
                    self.operator = after
                self.read(child, scope, depth + 1)
                separated = child.type == "comment"
                self.operator = ";" if child.type != "comment" else self.operator
            else:
                separated = True
                if child.type not in _KEYWORDS or node.type not in _BLOCKS:
                    self.token(child)

    def _unchanged(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """Statements of which some may run, some not, some twice: none of them may change the shell."""
        before = len(self.script.parts)
        self._statements(node, scope, depth)
        for part in self.script.parts[before:]:
            words = [word.text for word in part.words] if isinstance(part, SimpleCommand) else []
            if changes_shell(words) and words[0] not in _HARMLESS_IN_BLOCKS:
                self.obstacle("it may change its shell in a branch or loop")

    def _loop(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """`for name in words; do …; done`: the body is read once for each word."""
        name = self.text_of(node.children[1])
        body = node.children[-1]
        plain = own_name(name) and name not in self.variables and name not in self.loops
        values = []
        end = node.start_byte
        for index, child in enumerate(node.children[:-1]):
            self.gap(end, child)
            end = child.end_byte
            if child.type not in ("for", "in", ";", "\n") and index != 1:
                plain = plain and child.type in WORDS
                values.append(self.word(child, scope, depth))
        if not plain or not values or len(values) > LOOP_CAP or any(value.dynamic for value in values):
            self.obstacle(BLOCKS[node.type])
            self.inside(node, scope, depth)
            return
        self.gap(end, body)
        for value in values:
            self.loops[name] = value
            self._unchanged(body, scope, depth)
        del self.loops[name]

    def _children_apart(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """A subshell, or a pipeline, whose every part is a shell of its own."""
        outer = self.operator
        inner = scope
        end = node.start_byte
        for child in node.children:
            self.gap(end, child)
            end = child.end_byte
            if not child.is_named:
                self.token(child)
                continue
            if node.type == "pipeline":
                self.operator = outer
            if node.type == "pipeline" or inner is scope:
                self.next_scope += 1
                inner = (*scope, self.next_scope)
            self.read(child, inner, depth + 1)
            self.operator = ";"

    def _comment(self, node: Node) -> None:
        before = self.source[node.start_byte - 1 : node.start_byte] if node.start_byte else b"\n"
        after = self.source[node.end_byte : node.end_byte + 1]
        text = self.text_of(node)
        if before not in (b"\n", b" ", b"\t", b";", b"|", b"&", b"(") or after not in (b"", b"\n") or "\n" in text:
            self.obstacle("it has a comment that is not clear")

    def _bracket(self, node: Node, scope: tuple[int, ...]) -> None:
        """`[ … ]` is a command like any other: read it again as `test …`, at the same place in the source."""
        raw = self.source[node.start_byte : node.end_byte]
        if not raw.endswith((b" ]", b"\t]")):
            self.obstacle("it cannot be parsed")
            return
        inner = b" " * node.start_byte + b"test " + raw[1:-1].strip(b" \t")
        again = Script()
        reader = _Reader(inner, again)
        reader.operator = self.operator
        reader.variables, reader.loops = self.variables, self.loops
        reader.read(_parser().parse(inner).root_node, scope)
        if not again.parts or not all(isinstance(part, SimpleCommand) for part in again.parts):
            self.obstacle("it has a test that is not simple")
        self.script.parts += again.parts

    def _fork_bomb(self, node: Node) -> None:
        """A function that calls itself into a pipe or the background multiplies until nothing is left."""
        name = self.text_of(node.children[0]).strip() if node.child_count else ""
        if not name:
            return
        body = self.text_of(node)[len(name) :]
        called = re.findall(rf"(?<![\w./-]){re.escape(name)}(?![\w./-])", body)
        if called and re.search(r"[|&](?!&)", body):
            self.script.fork_bomb = True
