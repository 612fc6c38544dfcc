"""Source code with the colours that pygments gives it, from the terminal's palette."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Span, Text

if TYPE_CHECKING:
    from pygments.lexer import Lexer

NO_EDGE = ("", " ", "\t", ")", "]", "}")
"""The first characters of a line that depends on the lines above."""

COMMENT = "dim italic"
STRING = "green"
KEYWORD = "magenta"
VALUE = "cyan"
NAME = "bold"
_STYLES = {
    ("Comment",): COMMENT,
    ("Comment", "Preproc"): KEYWORD,
    ("Keyword",): KEYWORD,
    ("Keyword", "Constant"): VALUE,
    ("Operator", "Word"): KEYWORD,
    ("Literal", "String"): STRING,
    ("Literal", "Number"): VALUE,
    ("Name", "Decorator"): VALUE,
    ("Name", "Function"): NAME,
    ("Name", "Class"): NAME,
    ("Name", "Tag"): KEYWORD,
    ("Generic", "Deleted"): "red",
    ("Generic", "Inserted"): "green",
    ("Generic", "Heading"): "bold",
    ("Generic", "Subheading"): "dim",
}
_FLAGS = re.compile(r"\(\?([is]+)\)")
_ALONE = re.compile(r"\\[1-9]|\(\?P|\(\?\(|\(\?[aiLmsux]+\)")
"""Patterns that count or name groups, or set flags elsewhere: they change meaning when joined."""
_GROUP = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\((?!\?)", re.DOTALL)


def highlight(lexer: Lexer | None, lines: list[str]) -> tuple[list[Text], bool]:
    """Colour lines of code; return whether they end inside a string or comment. Without a lexer they stay plain."""
    if lexer is None:
        return [Text(line) for line in lines], False
    code = Text("\n".join([*lines, "", ""]))  # a comment may contain its line end, but not the one after it
    begin, end, last = 0, 0, None
    for start, kind, token in lexer.get_tokens_unprocessed(code.plain):
        style = _style_of(kind)
        if style is last and start == end:  # fewer escape sequences
            end += len(token)
            continue
        if last is not None:
            code.spans.append(Span(begin, end, last))
        begin, end, last = start, start + len(token), style
    if last is not None:
        code.spans.append(Span(begin, end, last))
    return list(code.split("\n", allow_blank=True))[:-2], end >= len(code) and last in (COMMENT, STRING)


@cache
def _style_of(kind: tuple[str, ...]) -> str | None:
    """The style of a token type or of its parent."""
    while kind and kind not in _STYLES:
        kind = kind[:-1]
    return _STYLES.get(kind)


def lexer_of_fence(info: str) -> tuple[Lexer | None, str]:
    """The lexer of a fence such as `python`, `{.py}` or `js:title`, and the words to show above the code."""
    words = info.strip("{}. ").split(maxsplit=1)
    lexer = lexer_of_language(words[0].partition(":")[0].lower()) if words else None
    if lexer is None or ":" in words[0]:
        return lexer, info
    return lexer, words[1] if len(words) > 1 else ""


@cache
def lexer_of_language(name: str) -> Lexer | None:
    """A lexer that keeps tabs and blank lines; None for an unknown language."""
    from pygments.lexer import RegexLexer
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(name, stripnl=False)
    except ClassNotFound:
        return None
    if isinstance(lexer, RegexLexer):
        lexer._tokens = {state: _State(rules) for state, rules in lexer._tokens.items()}
    return lexer


@cache
def lexer_of_file(name: str) -> Lexer | None:
    """The lexer for a file name, or None. The first call compiles the patterns of all languages' file names."""
    from pygments.lexers import find_lexer_class_for_filename

    found = find_lexer_class_for_filename(name)
    return lexer_of_language(found.aliases[0]) if found is not None and found.aliases else None


class _State:
    """The rules of a lexer's state, for pygments' loop: one match finds the rule instead of one match per rule.

    The patterns keep their order, so the first rule that matches is the same. An empty group after each identifies it;
    their own groups count for nothing here, as the loop matches the rule's own pattern again.
    """

    def __init__(self, rules: list[Any]) -> None:
        self._rules = rules
        self._found = 0

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        for find, rules in self._joined:
            if find is not None:
                yield find, None, None  # the loop calls it, as it would a pattern
                yield from rules[self._found - 1 : self._found] if self._found else ()
            else:
                yield from rules

    @cached_property
    def _joined(self) -> list[tuple[Callable[..., None] | None, list[Any]]]:
        """Neighbouring rules with the same flags, and what finds the first that matches."""
        joined: list[tuple[Callable[..., None] | None, list[Any]]] = []
        for flags, group in groupby(self._rules, _flags_of):
            rules = list(group)
            patterns = (_GROUP.sub(lambda found: found[1] or "(?:", _scoped(rule)) for rule in rules)
            whole = "|".join(f"(?:{pattern})()" for pattern in patterns)
            find = None if flags is None else partial(self._find, re.compile(whole, flags).match)
            joined.append((find, rules))
        return joined

    def _find(self, match: Callable[..., re.Match[str] | None], *place: Any) -> None:
        found = match(*place)
        self._found = 0 if found is None else found.lastindex or 0


def _scoped(rule: Any) -> str:
    """The rule's pattern; flags at its beginning apply to it alone."""
    return _FLAGS.sub(r"(?\1:", rule[0].__self__.pattern) + ")" * bool(_FLAGS.match(rule[0].__self__.pattern))


def _flags_of(rule: Any) -> int | None:
    """The flags of a rule that can be joined with others, else None."""
    compiled = rule[0].__self__
    if _ALONE.search(_scoped(rule)) or compiled.flags & re.VERBOSE:
        return None
    own = re.IGNORECASE | re.DOTALL if _FLAGS.match(compiled.pattern) else 0
    return int(compiled.flags & ~(re.UNICODE | own))
