"""Read the words, assignments and redirections of one simple command from the syntax tree."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from codelet.policy.shell.syntax import Redirect, Script, SimpleCommand, UnclearPart, Word
from codelet.policy.shell.word_decoder import QUOTED_ONLY, UnclearError, decode

if TYPE_CHECKING:
    from tree_sitter import Node

DEPTH_CAP = 24
WORD_CAP = 200
"""Words of one command that are looked at."""

_TEXT_VARIABLES = (
    "?",
    "#",
    "$",
    "PWD",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "HOSTNAME",
    "PATH",
    "EDITOR",
)
_EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
WORDS = (
    "word", "string", "raw_string", "concatenation", "number", "simple_expansion", "expansion",
    "command_substitution", "arithmetic_expansion", "ansi_c_string",
)  # fmt: skip
_REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect")
_OPERATORS = (";", "&&", "||", "|", "|&", "\n", "!", "(", ")", "{", "}")
BLOCKS = {
    "function_definition": "it defines a function",
    "if_statement": "it branches",
    "for_statement": "it loops",
    "c_style_for_statement": "it loops",
    "while_statement": "it loops",
    "case_statement": "it branches",
    "declaration_command": "it sets variables",
    "unset_command": "it changes variables",
    "variable_assignment": "it sets a variable",
    "variable_assignments": "it sets variables",
    "heredoc_redirect": "it has a here-document",
    "herestring_redirect": "it has a here-string",
    "process_substitution": "it has a process substitution",
    "arithmetic_expansion": "it has an arithmetic expansion",
    "ERROR": "it cannot be parsed",
}


_LOOPED = re.compile(r'"\$(?:\{(\w+)\}|(\w+))"')
_CONSTANT = re.compile(r"\$\(\([0-9 +*/%()<>-]*\)\)")


def own_name(name: str) -> bool:
    """Whether a variable of this name means something to the script alone: to no program, and not to the shell."""
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and name not in os.environ


class WordReader(ABC):
    """The lower half of a walk over a syntax tree; `read` is the upper half (see shell.py)."""

    def __init__(self, source: bytes, script: Script) -> None:
        self.source = source
        self.script = script
        self.spans: dict[int, tuple[int, str | None]] = {}
        self.next_scope = 0
        self.operator = ";"
        self.variables: set[str] = set()
        self.loops: dict[str, Word] = {}
        self.opened_with: dict[int, Node] = {}

    @abstractmethod
    def read(self, node: Node, scope: tuple[int, ...] = (), depth: int = 0) -> None:
        """Read one statement, or a node that holds statements."""

    def obstacle(self, reason: str) -> None:
        """Note a part that is not understood."""
        self.script.parts.append(UnclearPart(reason))

    def text_of(self, node: Node) -> str:
        """The source of a node."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def inside(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """Find the commands in a part that is not understood: what is critical there counts all the same."""
        for child in node.named_children:
            if child.type in WORDS and child.child_count == 0:
                continue
            if child.type in (
                "command",
                "redirected_statement",
                "list",
                "pipeline",
                "subshell",
                "file_redirect",
            ):
                if child.type == "file_redirect":
                    self._redirect(child, scope, depth)
                else:
                    self.read(child, scope, depth + 1)
            elif depth < DEPTH_CAP:
                self.inside(child, scope, depth + 1)

    def gap(self, end: int, child: Node) -> str:
        """What stands between the end of the node before and `child`; it must be blank."""
        gap = self.source[end : child.start_byte].decode("utf-8", "replace")
        if gap.strip(" \t\n"):
            self.obstacle("it has text that the parser passed over")
        return gap

    def token(self, node: Node) -> None:
        """Take an operator; one that is not on the list is noted."""
        token = self.text_of(node).strip(" \t")
        if node.type == "&":
            self.obstacle("it leaves a process in the background")
        elif node.type not in _OPERATORS:
            self.obstacle(f"it has the sign {token!r}")
        if node.type in ("&&", "||"):
            self.operator = node.type
        elif node.type in (";", "\n"):
            self.operator = ";"

    def command(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """A simple command: assignments, the program's name, its arguments."""
        after = self.operator
        words: list[Word] = []
        assignments: list[tuple[str, Word | None]] = []
        end = node.start_byte
        children = node.children
        if len(children) > WORD_CAP:
            self.obstacle(f"it has a command of more than {WORD_CAP} words")
        for child in children[:WORD_CAP]:
            gap = self.gap(end, child)
            if "\n" in gap or (not gap and words and child.type != "file_redirect"):
                self.obstacle("it cannot be parsed")
            end = child.end_byte
            kind = child.type
            if kind == "variable_assignment":
                assignments.append(self._assignment(child, scope, depth))
            elif kind == "file_redirect":
                self._redirect(child, scope, depth)
            elif kind == "herestring_redirect":
                self._here_string(child, scope, depth)
            elif kind == "command_name" or kind in WORDS:
                words.append(self.word(child, scope, depth))
            elif kind == "process_substitution" and self.text_of(child).startswith("<("):
                self._substitution(child, "", scope, depth)
                # The program reads a pipe, whose name it gets as a word.
                words.append(Word("/dev/stdin", self.text_of(child), child.start_byte, child.end_byte))
            else:
                self.obstacle(BLOCKS.get(kind, f"it has the sign {self.text_of(child)!r}"))
                self.inside(child, scope, depth)
        self._refuse_loop_in_front(words)
        self.script.parts.append(SimpleCommand(tuple(words), tuple(assignments), after, scope))
        self.operator = after

    def _refuse_loop_in_front(self, words: Sequence[Word]) -> None:
        """What runs, and with which options, must be the same each time round: it is rewritten only once."""
        for index, word in enumerate(words if self.loops else ()):
            varies = any(re.search(rf"\$\{{?{name}\b", word.raw) for name in self.loops)
            if varies and (index == 0 or (index == 1 and words[0].text == "git") or word.text.startswith("-")):
                self.obstacle("it loops over programs or options")

    def variable(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """`name=value` as a statement: a variable of the script's own, whose value may be printed."""
        name, value = self._assignment(node, scope, depth)
        if value is None or not own_name(name) or name in self.loops:
            self.obstacle(f"it sets the variable {name}")
        self.variables.add(name)

    def _here_string(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """`<<< word`: the word comes as standard input, as it would out of a pipe."""
        if len(node.children) != 2 or node.children[0].type != "<<<" or node.children[1].type not in WORDS:
            self.obstacle(BLOCKS[node.type])
            self.inside(node, scope, depth)
            return
        sign, word = node.children
        if "\n" in self.gap(sign.end_byte, word):
            self.obstacle("it cannot be parsed")
        self.word(word, scope, depth)

    def _assignment(self, node: Node, scope: tuple[int, ...], depth: int) -> tuple[str, Word | None]:
        if node.child_count < 2:
            self.obstacle("it cannot be parsed")
            return self.text_of(node), None
        name, equals, *value = node.children
        if name.type != "variable_name" or equals.type != "=" or len(value) != 1 or value[0].type not in WORDS:
            self.inside(node, scope, depth)
            return self.text_of(name), None
        return self.text_of(name), self.word(value[0], scope, depth)

    def word(self, node: Node, scope: tuple[int, ...], depth: int) -> Word:
        """The decoded word; one that is not understood is noted, and dynamic."""
        if node.child_count:
            self._expansions(node, scope, depth)
        raw = self.text_of(node)
        start = node.start_byte
        # An expansion's node takes in the blanks in front of it.
        blank = len(raw) - len(raw.lstrip(" \t")) if raw[:1] in " \t" else 0
        looped = _LOOPED.fullmatch(raw[blank:])
        if looped and (value := self.loops.get(looped[1] or looped[2])):
            return Word(value.text, raw[blank:], start + blank, node.end_byte, value.glob)
        try:
            return decode(raw[blank:], start + blank, node.end_byte, self.spans)
        except UnclearError as reason:
            self.obstacle(f"it has {reason}")
            return Word(raw, raw, start, node.end_byte, dynamic=True, splits=True)

    def _expansions(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """Note where the expansions of a word are, and read the commands in them."""
        kind = node.type
        if kind in _EXPANSIONS:
            raw = self.text_of(node)
            start = node.start_byte + len(raw) - len(raw.lstrip(" \t\n"))
            self.spans[start] = (node.end_byte, self._value(node, raw.strip(), scope, depth))
            return
        if kind in ("process_substitution", "translated_string", "extglob_pattern", "ERROR"):
            self.obstacle(BLOCKS.get(kind, "it has a special quote or pattern"))
            self.inside(node, scope, depth)
            return
        for child in node.children:
            if child.child_count or child.type in _EXPANSIONS:
                self._expansions(child, scope, depth + 1)

    def _value(self, node: Node, raw: str, scope: tuple[int, ...], depth: int) -> str | None:
        """The value of an expansion where it is known; notes what makes it unsafe."""
        if node.type == "command_substitution":
            self._substitution(node, raw, scope, depth)
            return None
        name = re.fullmatch(r"\$(?:\{(\w+)\}|(\w+|[?#$]))", raw)
        variable = (name[1] or name[2]) if name else None
        if variable in self.loops and _LOOPED.fullmatch(f'"{raw}"'):
            value = self.loops[variable]
            return QUOTED_ONLY if value.glob else value.text
        if variable in self.variables:
            return QUOTED_ONLY
        if node.type == "arithmetic_expansion" and _CONSTANT.fullmatch(raw):
            return None
        if variable == "HOME" and os.environ.get("HOME"):
            return os.environ["HOME"]
        if variable not in _TEXT_VARIABLES:
            self.obstacle("it expands a variable" if node.type != "arithmetic_expansion" else "it computes")
            self.inside(node, scope, depth)
        return None

    def _substitution(self, node: Node, raw: str, scope: tuple[int, ...], depth: int) -> None:
        if raw.startswith("`") and "\\" in raw:
            self.obstacle("it has a backslash inside backticks")
        outer = self.operator
        self.operator = "||"
        self.next_scope += 1
        inner = (*scope, self.next_scope)
        children = node.children
        if len(children) < 3 or children[-1].type not in (")", "`"):
            self.obstacle("it cannot be parsed")
        for child in children:
            if child.type == "file_redirect":
                self._redirect(child, inner, depth)
            elif child.is_named:
                self.read(child, inner, depth + 1)
                self.operator = ";"
            elif child is not children[0] and child is not children[-1]:
                self.token(child)
        self.operator = outer

    def redirected(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """A statement with redirections behind it, which bash opens before it runs the statement."""
        after = self.operator
        end = node.start_byte
        for child in node.children:
            self.gap(end, child)
            end = child.end_byte
        body = [child for child in node.children if child.type not in _REDIRECTS]
        for child in body:
            if child.type == "list" and child.child_count > 1:
                # The parser hangs a redirection on the whole list; bash on its last command.
                self.opened_with[child.children[-1].id] = node
            else:
                self.redirects(node, after, scope, depth)
            self.operator = after
            self.read(child, scope, depth + 1)
            last = child.children[-1].id if child.child_count else None
            if last in self.opened_with:
                self.obstacle("it redirects in an unusual place")
        if not body:
            self.redirects(node, after, scope, depth)

    def redirects(self, node: Node, after: str, scope: tuple[int, ...], depth: int) -> None:
        """The redirections behind a statement, which hangs on what is before it by `after`."""
        for child in node.children:
            self.operator = after
            if child.type == "file_redirect":
                self._redirect(child, scope, depth)
            elif child.type == "herestring_redirect":
                self._here_string(child, scope, depth)
            elif child.type in _REDIRECTS:
                self.obstacle(BLOCKS[child.type])
                self.inside(child, scope, depth)

    def _redirect(self, node: Node, scope: tuple[int, ...], depth: int) -> None:
        """A redirection: to and from /dev/null and between descriptors it is nothing."""
        children = node.children
        if children and children[0].type == "file_descriptor":
            children = children[1:]
        if not children:
            self.obstacle("it cannot be parsed")
            return
        operator, *targets = children
        if operator.type in (">&", "<&") and len(targets) == 1 and self.text_of(targets[0]).isdigit():
            return
        if operator.type in (">&-", "<&-") and not targets:
            return
        if len(targets) != 1 or operator.type not in (">", ">>", ">|", "&>", "&>>", ">&", "<"):
            self.obstacle("it has an unusual redirection")
        for target in targets:
            word = self.word(target, scope, depth)
            if word.dynamic or word.glob is not None:
                self.obstacle("it redirects to a place known only at run time")
            elif word.text != "/dev/null":
                access: Literal["read", "write"] = "read" if operator.type == "<" else "write"
                self.script.parts.append(Redirect(word, access, self.operator, scope))
