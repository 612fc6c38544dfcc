"""Colours source code line by line, as the lines of an open code fence arrive.

A lexer cannot be stopped and taken up again, so each batch of lines is read together with the lines that
its start depends on: those since the last line at the left edge that is outside strings and comments. That
context is bounded, so the work stays proportional to the code.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text

if TYPE_CHECKING:
    from rich.syntax import Syntax

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


class Highlighter:
    """One code fence. `language` is what stands after the fence; an unknown one leaves the code plain."""

    def __init__(self, language: str) -> None:
        self._syntax = _syntax(_language_name(language))
        self._context: list[str] = []
        self.work = 0
        """Characters given to the lexer so far."""

    def lines(self, source: list[str]) -> list[Text]:
        """The next lines of the fence, coloured."""
        if self._syntax is None:
            return [Text(line) for line in source]
        code = "\n".join([*self._context, *source]) + "\n"
        self.work += len(code)
        text = self._syntax.highlight(code)
        rows = list(text.split("\n", allow_blank=True))
        if text.plain != code:
            return [Text(line) for line in source]
        fresh = rows[len(self._context) : len(self._context) + len(source)]
        self._remember(source, _inside(text))
        return fresh

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


def _inside(text: Text) -> set[int]:
    """The numbers of the lines whose end stands inside a string or a comment."""
    marks = {Style.parse(_COMMENT), Style.parse(_STRING)}
    found: set[int] = set()
    line, counted = 0, 0
    for span in text.spans:
        line += text.plain.count("\n", counted, span.start)
        counted = span.start
        if span.style in marks:
            found.update(range(line, line + text.plain.count("\n", span.start, span.end)))
    return found


def fence_info(info: str) -> str:
    """What stands after a fence apart from the name of a known language, which the colours show."""
    words = info.split(maxsplit=1)
    if not words or _syntax(_language_name(info)) is None or ":" in words[0]:
        return info
    return words[1] if len(words) > 1 else ""


def _language_name(info: str) -> str:
    """The language in what stands after a fence: `python`, `{.py}`, `js:title`."""
    words = info.strip("{}. ").split(maxsplit=1)
    return words[0].split(":")[0].lower() if words else ""


@lru_cache(maxsize=8)
def _syntax(name: str) -> Syntax | None:
    from rich.syntax import ANSISyntaxTheme, Syntax

    if not name:
        return None
    theme = ANSISyntaxTheme({kind: Style.parse(style) for kind, style in _STYLES.items()})
    # The lexer itself, not its name: by name it would be looked up again for each line.
    lexer = Syntax("", name).lexer
    return None if lexer is None else Syntax("", lexer, theme=theme, tab_size=4)
