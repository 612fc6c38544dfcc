"""What the nodes of tree-sitter-bash are called, and which of them are understood.

`script_reader` walks over them; what a node or a word of it means by itself is told here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from codelet.safety.shell.git_commands import split_git
from codelet.safety.shell.syntax import NOT_PARSED, Word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

TEXT_VARIABLES = (
    "?", "#", "$", "PWD", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "HOSTNAME", "PATH", "EDITOR",
)  # fmt: skip
"""Variables whose values are harmless text, whatever they are."""
EXPANSIONS = ("simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")
WORD_NODES = (
    "word", "string", "raw_string", "concatenation", "number", "simple_expansion", "expansion",
    "command_substitution", "arithmetic_expansion", "ansi_c_string",
)  # fmt: skip
REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect")
OPERATORS = (";", "&&", "||", "|", "|&", "\n", "!", "(", ")", "{", "}")
REFUSALS = {
    "function_definition": "it defines a function",
    "if_statement": "it branches",
    "for_statement": "it loops",
    "test_command": "it has a test that is not simple",
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
    "ERROR": NOT_PARSED,
}
"""Nodes that are not judged, each with the reason to ask."""
KEYWORDS = ("if", "then", "elif", "else", "fi", "do", "done")
BRANCH_NODES = ("if_statement", "elif_clause", "else_clause", "do_group")
HARMLESS_IN_BRANCHES = ("test", "printf", "command", "exit")
"""Builtins that change the shell only in uses that ask anyhow."""

_IN_QUOTES = re.compile(r'"\$(?:\{(\w+)\}|(\w+))"')
_CONSTANT = re.compile(r"\$\(\([0-9 +*/%()<>-]*\)\)")
_TEST = re.compile(
    rb"\[(?=[ \t])(.*[ \t])\]|\[\[[ \t]((?:![ \t]+)?-[defhnrswxzL][ \t][^&|<>()\n]*[ \t])\]\]", re.DOTALL
)
"""`[ … ]`, and `[[ … ]]` where it asks for the kind of a file or for the length of a text, which computes nothing."""
_BEFORE_COMMENT = (b"\n", b" ", b"\t", b";", b"|", b"&", b"(")


@cache
def parser() -> Parser:
    """The parser for bash."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def is_own_name(name: str) -> bool:
    """Whether a variable of this name means something to the script alone: to no program, and not to the shell."""
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and name not in os.environ


def quoted_variable(raw: str) -> str | None:
    """The variable that a word consists of, in double quotes."""
    found = _IN_QUOTES.fullmatch(raw)
    return found and (found[1] or found[2])


def expanded_variable(raw: str) -> str | None:
    """The variable that an expansion gives as it is."""
    found = re.fullmatch(r"\$(?:\{(\w+)\}|(\w+|[?#$]))", raw)
    return found and (found[1] or found[2])


def is_constant(raw: str) -> bool:
    """Whether an arithmetic expansion is of numbers alone."""
    return _CONSTANT.fullmatch(raw) is not None


def as_test(raw: bytes) -> bytes | None:
    """The command `test …` that brackets stand for; None where `[[ … ]]` might do more.

    Bash neither splits words nor matches file names in `[[ … ]]`: read as `test`, it does no less than it really does.
    """
    found = _TEST.fullmatch(raw)
    return found and b"test " + (found[1] or found[2]).strip(b" \t")


def is_plain_comment(source: bytes, node: Node) -> bool:
    """Whether every shell takes the node for a comment: it begins a word and goes to the end of its line."""
    before = source[node.start_byte - 1 : node.start_byte] if node.start_byte else b"\n"
    after = source[node.end_byte : node.end_byte + 1]
    return before in _BEFORE_COMMENT and after in (b"", b"\n") and b"\n" not in source[node.start_byte : node.end_byte]


def varies_by_loop(words: Sequence[Word], loops: Iterable[str]) -> bool:
    """Whether what runs, or its options, differ from round to round: a command is rewritten only once for all."""
    fixed = 1 + split_git([word.text for word in words[1:]])[0] if words and words[0].text == "git" else 0
    for index, word in enumerate(words):
        varies = any(re.search(rf"\$\{{?{name}\b", word.raw) for name in loops)
        if varies and (index <= fixed or word.text.startswith("-")):
            return True
    return False


def multiplies(function: Node, text: str) -> bool:
    """Whether a function calls itself into a pipe or the background, until nothing is left of the machine."""
    name = (function.children[0].text or b"").decode("utf-8", "replace").strip() if function.child_count else ""
    body = text[len(name) :]
    called = name and re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w./-])", body)
    return bool(called) and re.search(r"[|&](?!&)", body) is not None
