"""The parts of a bash command line: simple commands, redirections, and unclear parts.

tree-sitter-bash finds the structure, which is not trusted to run unconfined: a line of more than plain words runs in
the read-only sandbox, is covered by a rule, or asks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codelet.record import Record
from codelet.safety.paths import workspace_root
from codelet.safety.tables import rows_by_word, word_list
from codelet.system.process import find_program
from codelet.system.text import clean

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LENGTH_CAP = 16_384
"""Bytes of a command that is parsed; a longer one asks."""
NODE_CAP, SIGN_CAP, COMMAND_CAP, DEPTH_CAP = 6_000, 600, 40, 40
NOT_PARSED, FORK_BOMB = "it cannot be parsed", "it defines a function that multiplies itself"
_SIGNS = (b"|", b";", b"&", b"\n", b"$", b"`", b"(", b"{", b"[", b"<", b">", b'"')
_ONLY_BASH = re.compile(r"\$['\"]|<\(|<<<|&>|>&[^0-9-]|\|&")


class Word(Record):
    """One word of a command: its known value and its source.

    `glob`: it has a file pattern; `dynamic`: a part is known only when it runs; `splits`: it may become several words.
    """

    text: str
    raw: str
    glob: bool = False
    dynamic: bool = False
    splits: bool = False

    @property
    def plain(self) -> bool:
        return not (self.glob or self.dynamic)


class SimpleCommand(Record):
    """One simple command: its words and the variables that it sets.

    `folders` are those in which it may run after each `cd` before it; `lost`: a `cd` led to an unknown place.
    """

    words: tuple[Word, ...]
    variables: tuple[str, ...]
    folders: frozenset[str]
    lost: bool


class Redirect(Record):
    """A redirection to or from a file; `folders` and `lost` as in SimpleCommand."""

    target: Word
    access: Literal["read", "write"]
    folders: frozenset[str]
    lost: bool


class UnclearPart(Record):
    """A part that is no plain command, with the reason. A `confinable` one may run in the read-only sandbox."""

    reason: str
    confinable: bool = False


ScriptPart = SimpleCommand | Redirect | UnclearPart


class Script:
    """The parts of a command line in order of execution; `unread`: it is too large to parse."""

    def __init__(self, text: str, *parts: ScriptPart, unread: bool = False) -> None:
        self.text = text
        self.parts = list(parts)
        self.unread = unread

    @property
    def commands(self) -> Iterator[SimpleCommand]:
        return (part for part in self.parts if isinstance(part, SimpleCommand))


@cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def read_script(command: str, workspace: Path = Path("/")) -> Script:
    """Parse `command`, which would run in `workspace`. Everything unknown becomes an UnclearPart."""
    source = command.encode("utf-8", "surrogateescape" if command.isascii() else "replace")
    if len(source) > LENGTH_CAP:
        return Script(command, UnclearPart(f"the command is longer than {LENGTH_CAP} bytes"), unread=True)
    if sum(map(source.count, _SIGNS)) > SIGN_CAP:
        return Script(command, UnclearPart("it has too many parts to look at"), unread=True)
    script = Script(command)
    if clean(command) != command or re.search(r"[^\S \t\n]", command):
        script.parts.append(UnclearPart("it holds control characters, invisible letters or unusual spaces"))
    if _ONLY_BASH.search(command) and find_program("bash", workspace) is None:
        script.parts.append(UnclearPart("it has bash syntax, and there is no bash"))
    root = _parser().parse(source).root_node
    if root.descendant_count > NODE_CAP:
        return Script(command, UnclearPart("it has too many parts to look at"), unread=True)
    if root.has_error:
        script.parts.append(UnclearPart(NOT_PARSED))
    _Reader(source, script, workspace_root(workspace)).read(root)
    if sum(1 for _ in script.commands) > COMMAND_CAP:
        script.unread = True
        script.parts.insert(0, UnclearPart(f"it has more than {COMMAND_CAP} commands"))
    return script


_KNOWN = frozenset(word_list("shell", "known parts"))
_CONFINABLE = rows_by_word("shell", "confinable parts")
"""Parts that are no plain words but may run in the sandbox."""
_REFUSED = rows_by_word("shell", "refused parts")
_BRANCHES = ("if_statement", "while_statement", "case_statement", "command_substitution", "negated_command")
_SHELLS_OF_THEIR_OWN = ("subshell", "command_substitution", "process_substitution")
_IN_SEQUENCE = ("program", "list", "redirected_statement", "command")
"""Parents whose children run exactly once."""
_WITH_LAST_COMMAND = ("list", "pipeline", "negated_command")
_OWN_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_MOST_FOLDERS = 4
_HOME = re.compile(r"\$(HOME|\{HOME\})")
_LOOP_CAP = 8
"""The most words of a loop whose body is read once for each."""
_SAME_IN_PYTHON = re.compile(
    r"""\$'(?:[^\\]|\\[abfnrtv\\'"]|\\x[0-7][0-9a-fA-F]|\\[01][0-7][0-7]|\\u00[0-7][0-9a-fA-F])*'""", re.DOTALL
)
"""The words `$'…'` whose escapes are Python's too."""
_SPECIAL = re.compile(r"[*?\[{~\\\n]")


class _Reader:
    """The walk over a syntax tree that adds its parts to the script.

    `after` is the operator before the next command: "&&", "||" (also in a branch or a substitution) or ";". `sure` are
    its possible folders after `&&`, when each `cd` before succeeded, `all` its possible folders in any case.
    """

    def __init__(self, source: bytes, script: Script, root: str) -> None:
        self.source = source
        self.script = script
        self.after = ";"
        self.sure = self.all = frozenset((root,))
        self.lost = self.inner = False
        self._depth = 0
        self._late: list[Word] = []
        self._known = {"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}

    def read(self, node: Node, *, in_pipe: bool = False) -> None:
        """Read a node and all below it."""
        self._depth += 1
        if self._depth > DEPTH_CAP:
            self._unclear("it is nested too deep")
        elif node.is_missing:
            self._unclear(NOT_PARSED)
        elif node.is_named:
            before = self.after, self.sure, self.all, self.lost
            inner = self.inner
            own_shell = node.type in _SHELLS_OF_THEIR_OWN or in_pipe
            self.inner = not own_shell and (inner or node.type not in _IN_SEQUENCE)
            self._named(node)
            self.inner = inner
            if own_shell:  # no `cd` in it changes the folder outside
                self.after, self.sure, self.all, self.lost = before
        elif node.type == "&":
            self._unclear("it leaves a process in the background")
        elif node.type in ("&&", "||", ";", "\n"):
            self.after = node.type if node.type in ("&&", "||") else ";"
        self._depth -= 1

    def _named(self, node: Node) -> None:
        kind = node.type
        if kind in _BRANCHES:
            self.after = "||"
        readers = {"command": self._command, "file_redirect": self._redirect, "redirected_statement": self._redirected}
        if kind in readers:
            readers[kind](node)
        elif kind == "variable_assignment":  # as a statement
            name = self._text(node.children[0])
            own = _OWN_NAME.fullmatch(name) is not None and name not in os.environ
            self._unclear(f"it sets the variable {name}", confinable=own)
            self._children(node)
        elif kind == "for_statement" and self._loop(node):
            self._unclear(_CONFINABLE[kind], confinable=True)
        elif kind in _CONFINABLE and not (kind.endswith("expansion") and _HOME.fullmatch(self._text(node))):
            self._unclear(_CONFINABLE[kind], confinable=True)
            late, self._late = self._late, []
            self._children(node)
            self._late = late + [self._word(word) for word in node.children_by_field_name("argument")]
        else:
            if kind not in _KNOWN and kind not in _CONFINABLE:
                self._unclear(_REFUSED.get(kind, f"it has a part of a kind that is not judged ({kind})"))
            if kind == "function_definition":
                named = node.child_by_field_name("name") or node.children[0]
                name = self._text(named).strip()
                body = self.source[named.end_byte : node.end_byte].decode("utf-8", "replace")
                called = re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w./-])", body)
                if name and called and re.search(r"[|&](?!&)", body):  # it calls itself in a pipe or in the background
                    self._unclear(FORK_BOMB)
            self._children(node)

    def _children(self, node: Node) -> None:
        for child in node.children:
            self.read(child, in_pipe=node.type == "pipeline")
            if child.is_named and node.type not in ("list", "pipeline"):  # a new line ends a statement, and is no node
                self.after = ";"

    def _loop(self, node: Node) -> bool:
        """Read the body of `for NAME in …` once for each word, if there are few and all are known."""
        variable, body = node.child_by_field_name("variable"), node.child_by_field_name("body")
        values = [self._word(child) for child in node.children_by_field_name("value")]
        if variable is None or body is None or not (0 < len(values) <= _LOOP_CAP and all(one.plain for one in values)):
            return False
        outer = self._known
        for value in values:
            self._known = {**outer, self._text(variable): value.text}
            self.after = "||"
            self.read(body)
        self._known = outer
        return True

    def _redirected(self, node: Node) -> None:
        """Read a statement with redirections, which bash opens first; the grammar attaches those of the last command of
        a list or pipeline to all of it, with the words after them.
        """
        body, *behind = sorted(node.children, key=lambda child: child.type.endswith("_redirect"))
        first = len(self.script.parts)
        for child in (body, *behind) if body.type in _WITH_LAST_COMMAND else (*behind, body):
            self.read(child)
        late, self._late = self._late, []
        commands = [part for part in self.script.parts[first:] if isinstance(part, SimpleCommand)]
        if late and (not commands or not commands[-1].words or commands[-1].words[0].text == "cd"):
            self._unclear("it has words after a redirection that belong to no plain command")
        elif late:
            at = max(at for at, part in enumerate(self.script.parts) if part is commands[-1])
            self.script.parts[at] = commands[-1].replace(words=(*commands[-1].words, *late))

    def _unclear(self, reason: str, *, confinable: bool = False) -> None:
        part = UnclearPart(reason, confinable)
        if part not in self.script.parts:
            self.script.parts.append(part)

    def _text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _command(self, node: Node) -> None:
        """Read a simple command; commands in its words come first."""
        after, words, variables = self.after, [], []
        late, self._late = self._late, []  # not for the commands in its words
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                variables.append(self._text(child.children[0]))
                self._children(child)
            elif kind.endswith("_redirect"):
                self.read(child)
            else:
                words.append(self._word(child))
                if child.child_count:
                    self.read(child)
        self.after = after
        words, self._late = words + self._late + late, []
        self.script.parts.append(SimpleCommand(tuple(words), tuple(variables), self._folders(), self.lost))
        if not (words and words[0].text == "cd" and words[0].plain):
            return
        operands = words[2:] if words[1:2] and words[1].text == "--" else words[1:]
        text = operands[0].text if operands else os.environ.get("HOME", "/")
        reached = frozenset(os.path.normpath(text if text[:1] == "/" else f"{cwd}/{text}") for cwd in self._folders())
        if len(operands) != 1 or not operands[0].plain or text.startswith("-"):
            self.lost = self.lost or not self.inner
        if len(reached) > _MOST_FOLDERS:
            self._unclear("too many folders to follow")
        elif len(operands) < 2:
            self.all |= reached
            self.sure = self.all if self.inner or self.after == "||" else reached

    def _folders(self) -> frozenset[str]:
        """The possible folders of the next command."""
        if self.after != "&&":
            self.sure = self.all
        return self.sure

    def _redirect(self, node: Node) -> None:
        """Read a redirection; those of /dev/null and between descriptors have no effect. It has one target: further
        ones in the grammar are words of the command.
        """
        children = [child for child in node.children if child.type != "file_descriptor"]
        sign, *targets = children or [node]
        target, *late = [self._word(child) for child in targets] or [Word("", "")]
        self._late += late
        if sign.type in (">&", "<&", ">&-", "<&-") and re.fullmatch(r"[0-9]*-?", target.text):
            return
        if sign.type not in (">", ">>", ">|", "&>", "&>>", ">&", "<") or not targets:
            self._unclear("it has an unusual redirection")
        elif target.text != "/dev/null" or not target.plain:
            access: Literal["read", "write"] = "read" if sign.type == "<" else "write"
            self.script.parts.append(Redirect(target, access, self._folders(), self.lost))
        for child in targets:
            self.read(child)

    def _word(self, node: Node) -> Word:
        raw = self._text(node).strip(" \t")
        if node.type == "word" and not _SPECIAL.search(raw):
            return Word(raw, raw)
        parts = [node]
        while len(parts) == 1 and parts[0].type in ("command_name", "concatenation"):
            parts = parts[0].children
        if len(parts) == 1:
            return self._piece(parts[0], raw, first=True)
        pieces = [self._piece(part, self._text(part), first=part is parts[0]) for part in parts]
        braces = any("{" in self._text(part) for part in parts if part.type in ("word", "{"))
        return Word(
            "".join(piece.text for piece in pieces),
            raw,
            braces or any(piece.glob for piece in pieces),
            any(piece.dynamic for piece in pieces),
            any(piece.splits for piece in pieces),
        )

    def _piece(self, node: Node, text: str, *, first: bool) -> Word:
        match node.type:
            case "raw_string":
                return Word(text[1:-1], text)
            case "ansi_c_string" if _SAME_IN_PYTHON.fullmatch(text):
                return Word(text[2:-1].encode("latin-1", "backslashreplace").decode("unicode_escape"), text)
            case "string":
                return self._quoted(node, text)
            case "simple_expansion" | "expansion":
                value = self._known.get(text.strip("${}"))
                return Word(value or "", text, dynamic=value is None or not _HOME.fullmatch(text), splits=value is None)
        if node.type not in ("word", "number") or "\n" in text.replace("\\\n", ""):
            return Word(text, text, dynamic=True, splits=True)
        raw = text
        if first and (home := re.match(r"~(?=/|$)", text)):
            text = (os.environ.get("HOME") or "~") + text[home.end() :]
        elif first and text.startswith("~"):
            return Word(text, text, dynamic=True)
        unescaped = re.sub(r"\\\n", "", text)
        pattern = re.search(r"(?<!\\)[*?\[]|(?<!\\)\{[^}]*(?:,|\.\.)", unescaped) is not None
        return Word(re.sub(r"\\(.)", r"\1", unescaped, flags=re.DOTALL), raw, glob=pattern)

    def _quoted(self, node: Node, text: str) -> Word:
        pieces, dynamic, end = [], False, node.start_byte + 1
        for child in node.children:
            if child.is_named and child.type != "string_content":
                expansion = self._text(child)
                value = self._known.get(expansion.strip("${}"))
                pieces += [self.source[end : child.start_byte].decode("utf-8", "replace"), value or ""]
                dynamic = dynamic or value is None or not _HOME.fullmatch(expansion)
                end = child.end_byte
        pieces.append(self.source[end : node.end_byte - 1].decode("utf-8", "replace"))
        plain = re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), "".join(pieces))
        return Word(plain, text, dynamic=dynamic)
