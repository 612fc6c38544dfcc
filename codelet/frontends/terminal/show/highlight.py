"""Source code with the colours that pygments gives it, from the terminal's palette."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

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
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(name, stripnl=False)
    except ClassNotFound:
        return None


@cache
def lexer_of_file(name: str) -> Lexer | None:
    """The lexer for a file name, or None. The first call compiles the patterns of all languages' file names."""
    from pygments.lexers import find_lexer_class_for_filename

    found = find_lexer_class_for_filename(name)
    return None if found is None else found(stripnl=False)
