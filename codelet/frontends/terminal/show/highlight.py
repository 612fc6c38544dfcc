"""Source code with the colours that pygments gives it, from the terminal's palette."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate, groupby
from threading import Lock
from typing import TYPE_CHECKING, Any

from rich.text import Span, Text

if TYPE_CHECKING:
    from pygments.lexer import Lexer

NO_EDGE = ("", " ", "\t", ")", "]", "}")
"""The first characters of a line that depends on the lines above."""

COMMENT = "dim italic"
STRING = "green"
_STYLES = {
    ("Comment",): COMMENT,
    ("Comment", "Preproc"): "magenta",
    ("Keyword",): "magenta",
    ("Keyword", "Constant"): "cyan",
    ("Operator", "Word"): "magenta",
    ("Literal", "String"): STRING,
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
_MAKING = Lock()
"""Held while a lexer is made: two threads that make the first one of a class would each replace its states."""
_FLAGS = re.compile(r"\A\(\?([is]+)\)(.*)", re.DOTALL)
_ALONE = re.compile(r"\\[1-9]|\(\?P|\(\?\(|\(\?[aiLmsux]+\)")
"""Patterns that count or name groups, or set flags elsewhere: they change meaning when joined."""
_GROUP = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\((?!\?)", re.DOTALL)


def highlight(lexer: Lexer | None, lines: list[str]) -> tuple[list[Text], bool]:
    """Colour lines of code; return whether they end inside a string or comment. Without a lexer they stay plain."""
    rows = [Text(line) for line in lines]
    if lexer is None:
        return rows, False
    code = "\n".join([*lines, "", ""])  # a comment may contain its line end, but not the one after it
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    end, style = 0, None
    for begin, kind, token in tokens_of(lexer, code):
        end, style = begin + len(token), _style_of(kind)
        number = bisect(starts, begin) - 1 if style else len(rows)
        while number < len(rows) and starts[number] < end:
            first, last = max(begin - starts[number], 0), min(end - starts[number], len(lines[number]))
            spans = rows[number].spans
            if spans and spans[-1].end == first and spans[-1].style == style:  # fewer escape sequences
                first = spans.pop().start
            if first < last:
                spans.append(Span(first, last, style or ""))
            number += 1
    return rows, end >= len(code) and style in (COMMENT, STRING)


@cache
def _style_of(kind: tuple[str, ...]) -> str | None:
    """The style of a token type or of its parent."""
    while kind and kind not in _STYLES:
        kind = kind[:-1]
    return _STYLES.get(kind)


def lexer_of_fence(info: str) -> tuple[Lexer | None, str]:
    """The lexer of a fence such as `python`, `{.py}` or `js:title`, and the words to show above the code."""
    name, *title = re.split("[: ]+", info.strip("{}. "), maxsplit=1)
    lexer = lexer_of_language(name.lower()) if name else None
    return lexer, " ".join(title) if lexer else info


def lexer_of_language(name: str) -> Lexer | None:
    """A lexer that keeps tabs and empty lines; None for an unknown language."""
    with _MAKING:
        return _made(name)


@cache
def _made(name: str) -> Lexer | None:
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
    return lexer_of_language(found.aliases[0]) if found is not None and found.aliases else None


def tokens_of(lexer: Lexer, code: str) -> Iterator[tuple[int, Any, str]]:
    """Return start, type and text of each token, as pygments' own loop does, in a third of its time.

    It tries a state's patterns one by one; here neighbouring ones are joined. A lexer with its own loop keeps it.
    """
    from pygments.lexer import RegexLexer
    from pygments.token import Error, Whitespace, _TokenType

    if not isinstance(lexer, RegexLexer) or type(lexer).get_tokens_unprocessed != RegexLexer.get_tokens_unprocessed:
        yield from lexer.get_tokens_unprocessed(code)
        return
    stack, place = ["root"], 0
    while True:
        for match, rules in _joined(lexer, stack[-1]):
            if (found := match(code, place)) is not None:
                rule, action, states = rules[0 if len(rules) == 1 else (found.lastindex or 0) - 1]
                break
        else:
            if place >= len(code):
                return
            if code[place] == "\n":
                stack = ["root"]
            yield place, Whitespace if code[place] == "\n" else Error, code[place]
            place += 1
            continue
        if type(action) is _TokenType:
            yield place, action, found[0]
        elif action is not None:
            yield from action(lexer, rule(code, place))
        place = found.end()
        for state in states if isinstance(states, tuple) else () if states is None else (states,):
            if isinstance(state, int) or state == "#pop":
                del stack[max(len(stack) - abs(1 if state == "#pop" else state), 1) :]
            else:
                stack.append(stack[-1] if state == "#push" else state)


@cache
def _joined(lexer: Any, state: str) -> list[tuple[Callable[..., re.Match[str] | None], list[Any]]]:
    """A state's neighbouring rules in their order, and a function that finds the first that matches.

    An empty group after each pattern identifies it; its own groups become plain ones.
    """
    joined: list[tuple[Callable[..., re.Match[str] | None], list[Any]]] = []
    for is_alone, group in groupby(lexer._tokens[state], lambda rule: bool(_ALONE.search(_scoped(rule)))):
        rules = list(group)
        if is_alone or len(rules) == 1 or lexer.flags & re.VERBOSE:
            joined += [(rule[0], [rule]) for rule in rules]
        else:
            patterns = (_GROUP.sub(lambda found: found[1] or "(?:", _scoped(rule)) for rule in rules)
            joined.append((re.compile("|".join(f"(?:{pattern})()" for pattern in patterns), lexer.flags).match, rules))
    return joined


def _scoped(rule: Any) -> str:
    """The rule's pattern; flags at its beginning apply to it alone."""
    return _FLAGS.sub(r"(?\1:\2)", rule[0].__self__.pattern)
