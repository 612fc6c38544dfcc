"""A quick look at an encoded message that tells whether it may hold a secret, so that the exact search can be spared.

The exact search takes a tenth of a second a megabyte, and more with each key of the environment; an export of a long
session would wait for it. The quick look says yes too often and never no where the exact search finds something. It
stands on three things that cost next to nothing: tokens and keys are long runs of word characters, so only such runs
are looked at; other secrets have a mark that plain text seldom has; and a piece of a key is still a piece of it after
the common letters were taken out of both, which leaves little to search.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

_LETTERS_AND_DIGITS = frozenset(code for code in range(128) if chr(code).isalnum())
_NOT_ASCII = frozenset(range(128, 256))

_SHORTEST_TOKEN = 20
"""Bytes of the shortest token that is a run of letters, digits, `_`, `-`, `.` and what is not ASCII."""
_WORD = rb"[A-Za-z0-9_\x80-\xff]"
_WORDS = rb"[A-Za-z0-9_\x80-\xff-]"
_ESCAPED = rb"(?:\\[bfnrt]|\\u00[0-9a-f]{2})"


def _at_a_start(prefix: bytes) -> bytes:
    """The prefix where no word stands before it. The end of an escape is none, even where a run begins within it."""
    before = rb"(?<![A-Za-z0-9_-]%b)", rb"(?<=\A[bfnrt]%b)", rb"(?<=\\[bfnrt]%b)", rb"(?<=u00[0-9a-f]{2}%b)"
    return prefix + b"(?:" + b"|".join(one % prefix for one in before) + b")"


_OTHERS = b"|".join(_at_a_start(prefix) for prefix in (b"hf", b"gsk", b"npm", b"r8", b"dop_v1", b"tvly", b"pplx"))
_IN_A_RUN = (
    _at_a_start(b"sk-") + _WORDS + rb"{20}", rb"[srp]k_(?:live|test)_", rb"gh[pousr]_", rb"github_pat_", rb"glpat-",
    rb"A[KSBC][IC]A[A-Z0-9]{16}", rb"AIza", rb"(?:" + _OTHERS + rb")_?-?[A-Za-z0-9]{30}",
    rb"xai-" + _WORD + rb"{40}", rb"pypi-AgEI", rb"eyJ" + _WORDS + rb"{8,}\.eyJ", rb"SG\.", rb"age-secret-key-1",
)  # fmt: skip

_MARKS = frozenset(b"-BEGINxuhzUHZ")
"""What is kept of a text to find `-----BEGIN`, `xoxb-` (of which `xx-` is left) and `authorization` (`uhz`)."""

_SELDOM = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789bjkqvwxyz")
"""What is kept of keys and text: two thirds of a random key, little of plain text."""
_ENOUGH = 12
"""The weight of what is looked for: four capitals, six digits. Lighter ones would be found everywhere."""


class Suspects:
    """The quick look for a set of secrets: `pieces` are, for each spelling of each, its shortest pieces that count."""

    def __init__(self, pieces: Iterable[Sequence[str]] = ()) -> None:
        self._always = False
        self._seldom: list[bytes] = []
        self._whole: list[bytes] = []
        self._shortest = _SHORTEST_TOKEN
        in_a_run: set[int] = {*_LETTERS_AND_DIGITS, *_NOT_ASCII, *b"_-."}
        for piece in (piece for spelling in pieces for piece in spelling):
            try:
                encoded = json.dumps(piece, ensure_ascii=False)[1:-1].encode()
            except UnicodeEncodeError:  # a byte that is no text: it is written otherwise than it is searched
                self._always = True
                continue
            self._shortest = min(self._shortest, len(encoded))
            in_a_run.update(encoded)
            self._take(encoded)
        self._classes = bytes(ord("a") if code in in_a_run else ord(" ") for code in range(256))

    def __call__(self, data: bytes) -> bool:
        """Whether UTF-8 JSON (any number of messages) is worth an exact search."""
        if self._always or _has_mark(data):
            return True
        runs = [data[start:end] for start, end in _runs(data, self._classes, self._shortest)]
        token = _tokens()
        if any(token.search(run) for run in runs if len(run) >= _SHORTEST_TOKEN):
            return True
        return bool(runs) and self._may_hold_piece(b"\n".join(runs))

    def _may_hold_piece(self, runs: bytes) -> bool:
        seldom = runs.translate(None, _all_but(_SELDOM))
        return any(needle in seldom for needle in self._seldom) or any(needle in runs for needle in self._whole)

    def _take(self, piece: bytes) -> None:
        """See to it that the piece is found."""
        left = piece.translate(None, _all_but(_SELDOM))
        needle = _heavy_end(left)
        if needle is None:
            self._whole.append(piece)
        # The pieces come in order, each one character further: the next ones hold this one's end too.
        elif not any(known in left for known in reversed(self._seldom)):
            self._seldom.append(needle)


def _heavy_end(text: bytes) -> bytes | None:
    """The shortest end of a text that is heavy enough."""
    weight = 0
    for start in range(len(text) - 1, -1, -1):
        weight += 2 if chr(text[start]).isdecimal() else 3
        if weight >= _ENOUGH:
            return text[start:]
    return None


def _has_mark(data: bytes) -> bool:
    """Whether there may be one of the secrets that are not one long run."""
    marks = data.translate(None, _all_but(_MARKS))
    return (
        b"-----BEGIN" in marks
        or (b"xx-" in marks and _bot().search(data) is not None)
        or (b"@" in data and _login().search(data) is not None)
        or (b"uhz" in marks.translate(None, b"-BEGINx").lower() and _header().search(data) is not None)
        # Without regard to case, an i with a dot above and one without are letters of "authorization" too.
        or (b"\xc4" in data and (b"\xc4\xb0" in data or b"\xc4\xb1" in data))
    )


def _runs(data: bytes, classes: bytes, least: int) -> Iterator[tuple[int, int]]:
    """Where the runs of at least so many bytes are that `classes` makes an `a`, all others a blank."""
    marked = data.translate(classes)
    shortest = b"a" * least
    at = marked.find(shortest)
    while at >= 0:
        end = marked.find(b" ", at + least)
        end = len(marked) if end < 0 else end
        yield at, end
        at = marked.find(shortest, end)


@cache
def _all_but(kept: frozenset[int]) -> bytes:
    return bytes(code for code in range(256) if code not in kept)


@cache
def _tokens() -> re.Pattern[bytes]:
    return re.compile(b"|".join(_IN_A_RUN))


@cache
def _bot() -> re.Pattern[bytes]:
    return re.compile(rb"xox[abeprs]-")


@cache
def _header() -> re.Pattern[bytes]:
    blanks = rb"(?:\s|[\x80-\xff]|" + _ESCAPED + rb")*"
    return re.compile(rb"(?i:authorization)" + blanks + rb":" + blanks + rb"[bBtT]")


@cache
def _login() -> re.Pattern[bytes]:
    return re.compile(rb"://[^\s/:@]*:[^\s/@]+@")
