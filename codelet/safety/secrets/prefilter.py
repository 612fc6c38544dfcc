"""A fast test whether an encoded message may hold a secret: only then is the exact search needed.

The exact search takes a tenth of a second a megabyte, and more with each key of the environment; an export of a long
session would wait for it. The prefilter may say yes without need, but never no where the exact search finds something.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from codelet.system.text.secret_shapes import ADDRESS_PASSWORD, ADDRESS_USER, PRIVATE_KEY_START, TOKENS, TokenShape

_GRAM = 4
"""Letters that are looked for as one number, at every fourth place of a text."""
_RUN = 20
"""Letters in a row that a token has at least, if it is looked for in long runs of them only."""
_ESCAPED = r"\\[bfnrt]|\\u00[0-9a-f]{2}"
_WORD = r"A-Za-z0-9_\x80-\xff"
"""Any byte of a letter that is not ASCII counts as one."""
_IN_A_RUN = bytes(ord("a") if re.match(f"[{_WORD}-]", chr(code)) else ord(" ") for code in range(256))

_Shape = tuple[bytes, re.Pattern[bytes]]


class SecretPrefilter:
    """The prefilter for a set of secrets. `pieces` holds the shortest pieces of each spelling of each."""

    def __init__(self, pieces: Iterable[Sequence[str]] = ()) -> None:
        self._always = False
        self._by_gram: dict[int, set[tuple[bytes, int]]] = {}
        for piece in {piece for spelling in pieces for piece in spelling}:
            try:
                text = json.dumps(piece, ensure_ascii=False)[1:-1].encode()
            except UnicodeEncodeError:  # a byte that is no text: it is written otherwise than it is searched
                self._always = True
                continue
            for first in range(_GRAM):  # one of these numbers is met, and the next one right after it
                self._by_gram.setdefault(_gram(text, first), set()).add((text, _gram(text, first + _GRAM)))
        self._grams = frozenset(self._by_gram) | {following for some in self._by_gram.values() for _, following in some}

    def __call__(self, data: bytes) -> bool:
        """Return whether UTF-8 JSON (any number of messages) is worth an exact search."""
        if self._always or (self._grams and self._holds_piece(data)) or any(_matches(data, each) for each in _marks()):
            return True
        return _tokens().search(b"\n" + b"\n".join(_runs(data))) is not None

    def _holds_piece(self, data: bytes) -> bool:
        met = self._grams.intersection(memoryview(data)[: len(data) - len(data) % _GRAM].cast("I")) | {0}
        found = (each for gram in met & self._by_gram.keys() for each in self._by_gram[gram])
        return any(following in met and text in data for text, following in found)


def _gram(text: bytes, at: int) -> int:
    """The number of four letters, 0 if the text ends before."""
    letters = text[at : at + _GRAM]
    return int.from_bytes(letters, sys.byteorder) if len(letters) == _GRAM else 0


def _matches(data: bytes, shape: _Shape) -> bool:
    """Return whether the pattern matches where its start stands, which is found ten times as fast as the pattern."""
    start, pattern = shape
    at = data.find(start)
    while at >= 0:
        if pattern.match(data, at):
            return True
        at = data.find(start, at + 1)
    return False


def _pattern(shape: TokenShape) -> str:
    """A whole token in bytes; that one of its letters is a digit is not asked."""
    whole = f"{shape.start}{shape.between}{shape.letters}{{{shape.count}}}{shape.tail}"
    return whole.replace(r"[\w-]", f"[{_WORD}-]").replace(r"\w", f"[{_WORD}]")


def _is_long(shape: TokenShape) -> bool:
    return shape.shortest >= _RUN and not shape.tail


@cache
def _tokens() -> re.Pattern[bytes]:
    """A long token at the start of a run. The end of an escape may stand before it, and what may be no letter."""
    tokens = "|".join(_pattern(shape) for shape in TOKENS if _is_long(shape))
    return re.compile(rf"[\n\x80-\xff](?:[bfnrt]|u00[0-9a-f]{{2}})?(?:{tokens})".encode("latin-1"))


@cache
def _marks() -> list[_Shape]:
    """Return what else is known by its shape: how it begins, and a pattern that matches there."""
    blanks = rf"(?:\s|[\x80-\xff]|{_ESCAPED})*"
    shapes = [(start, _pattern(shape)) for shape in TOKENS if not _is_long(shape) for start in shape.starts]
    shapes += [(PRIVATE_KEY_START.strip(), ""), ("://", f"{ADDRESS_USER}{ADDRESS_PASSWORD}@")]
    # The seldomest letter of "authorization". Without regard to case, an i with a dot above and one without count too.
    shapes += [(letter, f"(?<=[oO][rR][iI])(?i:zation){blanks}:{blanks}[bBtT]") for letter in "zZ"]
    shapes += [(letter.encode().decode("latin-1"), "") for letter in "\u0130\u0131"]
    return [(start.encode("latin-1"), re.compile(pattern.encode("latin-1"))) for start, pattern in shapes]


def _runs(data: bytes) -> Iterator[bytes]:
    """The long runs of letters."""
    marked = data.translate(_IN_A_RUN)
    at = marked.find(b"a" * _RUN)
    while at >= 0:
        end = marked.find(b" ", at)
        yield data[at : end if end >= 0 else None]
        at = marked.find(b"a" * _RUN, end) if end >= 0 else -1
