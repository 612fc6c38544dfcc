"""Colours source code line by line, as the lines of an open code fence arrive.

A lexer cannot be stopped and taken up again, so each batch of lines is read together with the lines that
its start depends on: those since the last line at the left edge that is outside strings and comments. That
context is bounded, so the work stays proportional to the code.
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
"""What begins a line that depends on the lines above it."""

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
"""What may begin on one line and end on another."""

_FENCE = re.compile(r"(?m)^[ \t>]*(?:`{3,}|~{3,})[ \t]*([^`\s][^`\n]*)\n")
_PREPARED: set[str] = set()
_SAMPLE = '@a\nclass B(c): # d\n    def e(f: int) -> g:\n        """h"""\n        return f"{i + 1.5}" "j"\nimport k\n'
"""What leads a lexer through the states that code has most."""


class _Lexer(Protocol):
    def get_tokens_unprocessed(self, text: str) -> Iterable[tuple[int, tuple[str, ...], str]]: ...


class Highlighter:
    """One code fence. `language` is what stands after the fence; an unknown one leaves the code plain."""

    def __init__(self, language: str) -> None:
        self._lexer = _lexer(_language_name(language))
        self._context: list[str] = []
        self._inside = False

    def lines(self, source: list[str]) -> list[Text]:
        """The next lines of the fence, coloured."""
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
        """Keep the lines that the next batch needs; `inside` holds lines that end in a string or comment.

        Best is a line at the left edge; if none is near, any line will do that begins outside of both.
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
    """Some lines of a file, coloured, and whether their end stands inside a string or a comment.

    None if the name tells no language.
    """
    lexer = _lexer_of_file(path.rpartition("/")[2])
    if lexer is None:
        return None
    rows, inside = _coloured([*lines, ""], _parts(lexer, "\n".join(lines) + "\n\n"))
    return rows[:-1], len(lines) in inside


def _parts(lexer: _Lexer, code: str) -> list[tuple[int, int, Style]]:
    """The parts of the code that have a style, in order; neighbours of one style are one part."""
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
    """The lines with their styles, and the numbers of those whose end stands inside a string or a comment."""
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
    """Return what stands after a fence apart from the name of a known language, which the colours show."""
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


def unprepared(text: str) -> list[str]:
    """The languages of the fences in a text whose lexers are still to be made."""
    names = (_language_name(found[1]) for found in _FENCE.finditer(text)) if "```" in text or "~~~" in text else ()
    return [name for name in dict.fromkeys(names) if name and name not in _PREPARED]


def prepare(name: str) -> None:
    """Make a language's lexer, in a thread: compiling its patterns takes longer than a key may wait."""
    if (lexer := _lexer(name)) is not None:
        list(lexer.get_tokens_unprocessed(_SAMPLE))
    _PREPARED.add(name)


@lru_cache(maxsize=32)
def _lexer(name: str) -> _Lexer | None:
    """The lexer of a language, which keeps tabs and blank lines; None for an unknown one."""
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
    """The lexer for a file's name. pygments' own search compiles each of its thousand patterns."""
    ending = PurePath(name).suffix.lower()
    languages, files = _languages()
    return _lexer(
        files.get(name, "") or (languages.get(ending[1:], "") or files.get(f"*{ending}", "") if ending else "")
    )


@cache
def _languages() -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Languages by their names, and by the names and endings of files; the first one that claims it has it."""
    from pygments.lexers import get_all_lexers

    found: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for _, names, files, _ in get_all_lexers(plugins=False):
        for kind, claimed in zip(found, (names, files) if names else ((), ()), strict=True):
            for each in claimed:
                kind.setdefault(each, names[0])
    return found
