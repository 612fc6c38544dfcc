"""Colours source code line by line, as the lines of an open code fence arrive.

A lexer cannot be stopped and taken up again, so each batch of lines is read together with the lines that
its start depends on: those since the last line at the left edge that is outside strings and comments. That
context is bounded, so the work stays proportional to the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Protocol

from rich.style import Style
from rich.text import Span, Text

CONTEXT_LINES = 24
_NEAR_LINES = 8

_COMMENT = "dim italic"
_STRING = "green"
_STYLES = {
    ("Comment",): _COMMENT,
    ("Comment", "Preproc"): "magenta",
    ("Keyword",): "magenta",
    ("Keyword", "Constant"): "cyan",
    ("Operator", "Word"): "magenta",
    ("Literal", "String"): _STRING,
    ("Literal", "Number"): "cyan",
    ("Name", "Decorator"): "cyan",
    ("Name", "Function"): "bold",
    ("Name", "Class"): "bold",
    ("Name", "Tag"): "magenta",
    ("Generic", "Deleted"): "red",
    ("Generic", "Inserted"): "green",
    ("Generic", "Heading"): "bold",
    ("Generic", "Subheading"): "dim",
}
_SPANNING = (Style.parse(_COMMENT), Style.parse(_STRING))
"""What may begin on one line and end on another."""


class _Lexer(Protocol):
    def get_tokens(self, text: str) -> Iterable[tuple[tuple[str, ...], str]]: ...


class Highlighter:
    """One code fence. `language` is what stands after the fence; an unknown one leaves the code plain."""

    def __init__(self, language: str) -> None:
        self._lexer = _lexer(_language_name(language))
        self._context: list[str] = []
        self.work = 0
        """Characters given to the lexer so far."""

    def lines(self, source: list[str]) -> list[Text]:
        """The next lines of the fence, coloured."""
        if self._lexer is None:
            return [Text(line) for line in source]
        code = "\n".join([*self._context, *source]) + "\n"
        self.work += len(code)
        coloured = _Coloured(len(self._context), len(source))
        for kind, text in self._lexer.get_tokens(code):
            coloured.add(text, _style_of(kind))
        if coloured.size != len(code) or [row.plain for row in coloured.rows] != source:
            return [Text(line) for line in source]  # the lexer changes what it reads, such as tabs
        self._remember(source, coloured.inside)
        return coloured.rows

    def _remember(self, source: list[str], inside: set[int]) -> None:
        """Keep the lines that the next batch needs; `inside` holds lines that end in a string or comment.

        Best is a line at the left edge; if none is near, any line will do that begins outside of both.
        """
        lines = [*self._context, *source]
        first = max(0, len(lines) - CONTEXT_LINES)
        outside = [number for number in range(first, len(lines)) if number - 1 not in inside]
        near = [number for number in outside if number >= len(lines) - _NEAR_LINES]
        edges = [number for number in near if lines[number][:1] not in ("", " ", "\t", ")", "]", "}")]
        if edges:
            start = edges[-1]
        elif near:
            start = near[0]
        else:
            start = outside[-1] if outside else first
        self._context = lines[start:]


class _Coloured:
    """Tokens set as rows: `rows` are the lines behind the first `skipped` ones, at most `count`.

    `inside` holds the numbers of the lines whose end stands inside a string or a comment, `size` counts characters.
    """

    def __init__(self, skipped: int, count: int) -> None:
        self.rows: list[Text] = []
        self.inside: set[int] = set()
        self.size = 0
        self._skipped = skipped
        self._end = skipped + count
        self._line = 0
        self._column = 0
        self._parts: list[str] = []
        self._spans: list[Span] = []

    def add(self, text: str, style: Style | None) -> None:
        """Take the next token."""
        self.size += len(text)
        if "\n" not in text:
            self._put(text, style)
            return
        first, *others = text.split("\n")
        self._put(first, style)
        for part in others:
            if style in _SPANNING:
                self.inside.add(self._line)
            self._end_line()
            self._put(part, style)

    def _put(self, text: str, style: Style | None) -> None:
        if not text or self._line < self._skipped:
            return
        self._parts.append(text)
        end = self._column + len(text)
        if style is not None:
            self._spans.append(Span(self._column, end, style))
        self._column = end

    def _end_line(self) -> None:
        if self._skipped <= self._line < self._end:
            self.rows.append(Text("".join(self._parts), spans=self._spans))
        self._line += 1
        self._parts, self._spans, self._column = [], [], 0


def fence_info(info: str) -> str:
    """What stands after a fence apart from the name of a known language, which the colours show."""
    words = info.split(maxsplit=1)
    if not words or _lexer(_language_name(info)) is None or ":" in words[0]:
        return info
    return words[1] if len(words) > 1 else ""


def _language_name(info: str) -> str:
    """The language in what stands after a fence: `python`, `{.py}`, `js:title`."""
    words = info.strip("{}. ").split(maxsplit=1)
    return words[0].split(":")[0].lower() if words else ""


@cache
def _style_of(kind: tuple[str, ...]) -> Style | None:
    """The style of a kind of token, or of what it is a special case of."""
    while kind and kind not in _STYLES:
        kind = kind[:-1]
    return Style.parse(_STYLES[kind]) if kind else None


@lru_cache(maxsize=8)
def _lexer(name: str) -> _Lexer | None:
    from rich.syntax import Syntax

    return Syntax("", name).lexer if name else None
