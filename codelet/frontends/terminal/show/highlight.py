"""Colours source code as the lines of an open code fence arrive.

A lexer cannot be paused, so each batch is read together with the lines that its start depends on: those since the last
line at the left edge outside strings and comments. That context is bounded, so the work stays proportional to the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import PurePath
from typing import Protocol

from rich.style import Style
from rich.text import Span, Text

CONTEXT_LINES = 24
_NEAR_LINES = 8
_NO_EDGE = ("", " ", "\t", ")", "]", "}")
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
_SPANNING = (Style.parse(COMMENT), Style.parse(STRING))
"""Styles of tokens that span lines."""

_FENCE = re.compile(r"(?m)^[ \t>]*(?:`{3,}|~{3,})[ \t]*([^`\s][^`\n]*)\n")
_PREPARED: set[str] = set()
_SAMPLE = '@a\nclass B(c): # d\n    def e(f: int) -> g:\n        """h"""\n        return f"{i + 1.5}" "j"\nimport k\n'
"""Compiles the lexer states that code uses most."""


class _Lexer(Protocol):
    def get_tokens_unprocessed(self, text: str) -> Iterable[tuple[int, tuple[str, ...], str]]: ...


class Highlighter:
    """One code fence. An unknown `language` leaves the code plain."""

    def __init__(self, language: str) -> None:
        self._lexer = _lexer(_language_name(language))
        self._context: list[str] = []
        self._inside = False

    def lines(self, source: list[str]) -> list[Text]:
        """Colour the next lines."""
        if self._lexer is None:
            return [Text(line) for line in source]
        if not self._inside and source[0][:1] not in _NO_EDGE:
            self._context = []
        lines = [*self._context, *source]
        code = "\n".join(lines) + "\n"
        rows, inside = _coloured(lines, _parts(self._lexer, code))
        skipped = len(self._context)
        self._remember(source, inside)
        return rows[skipped:]

    def _remember(self, source: list[str], inside: set[int]) -> None:
        """Keep the lines that the next batch needs; `inside` are lines that end in a string or comment.

        Best is a line at the left edge; else any line that begins outside of both.
        """
        lines = [*self._context, *source]
        self._inside = len(lines) - 1 in inside
        first = max(0, len(lines) - CONTEXT_LINES)
        outside = [number for number in range(first, len(lines)) if number - 1 not in inside]
        near = [number for number in outside if number >= len(lines) - _NEAR_LINES]
        edges = [number for number in near if lines[number][:1] not in _NO_EDGE]
        if edges:
            start = edges[-1]
        elif near:
            start = near[0]
        else:
            start = outside[-1] if outside else first
        self._context = lines[start:]


def part_of_file(path: str, lines: list[str]) -> tuple[list[Text], bool] | None:
    """Colour part of a file; return whether it ends inside a string or comment.

    None for an unknown language.
    """
    lexer = _lexer_of_file(path.rpartition("/")[2])
    if lexer is None:
        return None
    rows, inside = _coloured([*lines, ""], _parts(lexer, "\n".join(lines) + "\n\n"))
    return rows[:-1], len(lines) in inside


def _parts(lexer: _Lexer, code: str) -> list[tuple[int, int, Style]]:
    """The styled parts of the code, in order; neighbours of one style are merged."""
    parts: list[tuple[int, int, Style]] = []
    begun, end, last = 0, 0, None
    for start, kind, text in lexer.get_tokens_unprocessed(code):
        style = _style_of(kind)
        if style is None or start < end or not code.startswith(text, start):
            continue  # a lexer that changes what it reads colours no more than it has right
        if style is last and start == end:
            end += len(text)
            continue
        if last is not None:
            parts.append((begun, end, last))
        begun, end, last = start, start + len(text), style
    return parts if last is None else [*parts, (begun, end, last)]


def _coloured(lines: list[str], parts: list[tuple[int, int, Style]]) -> tuple[list[Text], set[int]]:
    """The styled lines, and the numbers of those that end inside a string or comment."""
    rows: list[Text] = []
    inside: set[int] = set()
    place, begin = 0, 0
    for number, line in enumerate(lines):
        end = begin + len(line)
        spans: list[Span] = []
        while place < len(parts) and parts[place][0] <= end:
            start, stop, style = parts[place]
            if start < end and stop > begin:
                spans.append(Span(max(start, begin) - begin, min(stop, end) - begin, style))
            if stop > end:  # the line's end is a part of it
                if style in _SPANNING:
                    inside.add(number)
                break
            place += 1
        rows.append(Text(line, spans=spans))
        begin = end + 1
    return rows, inside


def fence_info(info: str) -> str:
    """The text after a fence, without the name of a known language."""
    words = info.split(maxsplit=1)
    if not words or _lexer(_language_name(info)) is None or ":" in words[0]:
        return info
    return words[1] if len(words) > 1 else ""


def _language_name(info: str) -> str:
    """The language of a fence: `python`, `{.py}`, `js:title`."""
    words = info.strip("{}. ").split(maxsplit=1)
    return words[0].split(":")[0].lower() if words else ""


@cache
def _style_of(kind: tuple[str, ...]) -> Style | None:
    """The style of a token type or of its parent."""
    while kind and kind not in _STYLES:
        kind = kind[:-1]
    return Style.parse(_STYLES[kind]) if kind else None


def unprepared(text: str) -> list[str]:
    """The languages of a text's fences whose lexers are not loaded."""
    names = (_language_name(found[1]) for found in _FENCE.finditer(text)) if "```" in text or "~~~" in text else ()
    return [name for name in dict.fromkeys(names) if name and name not in _PREPARED]


def prepare(name: str) -> None:
    """Load a lexer, in a thread: compiling its patterns would delay keys."""
    if (lexer := _lexer(name)) is not None:
        list(lexer.get_tokens_unprocessed(_SAMPLE))
    _PREPARED.add(name)


@lru_cache(maxsize=32)
def _lexer(name: str) -> _Lexer | None:
    """A lexer that keeps tabs and blank lines; None for an unknown language."""
    from pygments.lexer import RegexLexer
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    from codelet.frontends.terminal.show.joined_lexer import JoinedLexer

    try:
        lexer = get_lexer_by_name(name, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None
    reads_itself = type(lexer).get_tokens_unprocessed is not RegexLexer.get_tokens_unprocessed
    return lexer if reads_itself else JoinedLexer(lexer)


@lru_cache(maxsize=32)
def _lexer_of_file(name: str) -> _Lexer | None:
    """The lexer for a file name. pygments' own search compiles each of its thousand patterns."""
    ending = PurePath(name).suffix.lower()
    languages, files = _languages()
    return _lexer(
        files.get(name, "") or (languages.get(ending[1:], "") or files.get(f"*{ending}", "") if ending else "")
    )


@cache
def _languages() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Languages by name, and by file name and extension; the first to claim one has it."""
    from pygments.lexers import get_all_lexers

    found: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for _, names, files, _ in get_all_lexers(plugins=False):
        for kind, claimed in zip(found, (names, files) if names else ((), ()), strict=True):
            for each in claimed:
                kind.setdefault(each, names[0])
    return found
