"""A fast test whether an encoded message may hold a secret: only then is the exact search needed.

The exact search takes a tenth of a second a megabyte, and more with each key of the environment; an export of a long
session would wait for it. The prefilter may say yes without need, but never no where the exact search finds something.
What it looks for keeps its order when the common letters are taken out of both it and the text, which leaves a tenth to
search: there, marks that plain text seldom has are looked for, and the pieces of all keys at once, by numbers of four
letters each. What has no such mark is a long run of letters and digits that begins in a way of its own.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache

from codelet.record import Record
from codelet.system.text.secret_shapes import (
    ADDRESS_PASSWORD,
    ADDRESS_USER,
    AWS,
    JSON_WEB_TOKEN,
    PRIVATE_KEY_START,
    SENDGRID,
    SLACK,
    TOKENS,
    TokenShape,
)

_SELDOM = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789jqxyz-")
"""What is kept of keys and text: two thirds of a random key, a tenth of a real session."""
_GRAM = 4
"""Letters of a piece that are looked for as one number. Each second place of the text is looked at, so one more letter
than these must be left of a piece for one of its numbers to be met wherever it stands."""
_CORE = 8
"""Bytes that are looked for where less is left; every piece has as many."""

_WORDS = rb"[A-Za-z0-9_\x80-\xff-]"
_IN_A_WORD = bytes(ord("a") if re.match(_WORDS, bytes([code])) else ord(" ") for code in range(256))
_DIGITS = b"0123456789abcdef"
"""Pieces of these alone are looked for apart: there are texts full of numbers, and few long runs of these letters."""
_IN_A_NUMBER = bytes(ord("a") if code in _DIGITS else ord(" ") for code in range(256))
_MARKED = (SLACK, AWS, JSON_WEB_TOKEN, SENDGRID)
"""Tokens that are short or have dots in them. Each has a mark that plain text seldom has (see `_has_mark`)."""
_SHORTEST_TOKEN = min(shape.shortest for shape in TOKENS if shape not in _MARKED)
"""Bytes of the shortest of the others: each is a run of letters, digits, `_`, `-` and what is not ASCII."""
_KEY_MARK = PRIVATE_KEY_START.strip().encode()
_ESCAPED = rb"(?:\\[bfnrt]|\\u00[0-9a-f]{2})"


class _Piece(Record):
    """A piece of a key as JSON writes it, and what is left of it without the common letters."""

    left: bytes
    text: bytes

    def stands_in(self, seldom: bytes, data: bytes) -> bool:
        return self.left in seldom and self.text in data


class _Neighbours(Record):
    """What stands around one number of a piece: the numbers beside it; its letters and one more on each side."""

    left: bytes
    beside: frozenset[int]

    def stand_in(self, met: set[int], seldom: bytes) -> bool:
        return self.beside <= met and self.left in seldom


class SecretPrefilter:
    """The prefilter for a set of secrets. `pieces` holds the shortest pieces of each spelling of each."""

    def __init__(self, pieces: Iterable[Sequence[str]] = ()) -> None:
        self._always = False
        self._by_gram: dict[int, dict[_Neighbours, list[_Piece]]] = {}
        self._digits: dict[int, dict[_Neighbours, list[_Piece]]] = {}
        self._by_core: dict[_Piece, list[_Piece]] = {}
        taken: set[bytes] = set()
        for spelling in pieces:
            cores: list[_Piece] = []
            for piece in spelling:
                try:
                    text = json.dumps(piece, ensure_ascii=False)[1:-1].encode()
                except UnicodeEncodeError:  # a byte that is no text: it is written otherwise than it is searched
                    self._always = True
                    continue
                if text not in taken:
                    taken.add(text)
                    self._take(_piece(text), cores)
        beside = [one.beside for known in (self._by_gram, self._digits) for some in known.values() for one in some]
        self._grams = frozenset(self._by_gram.keys() | self._digits.keys()).union(*beside)

    def __call__(self, data: bytes) -> bool:
        """Whether UTF-8 JSON (any number of messages) is worth an exact search."""
        if self._always:
            return True
        seldom = _without_common(data)
        return self._holds_piece(seldom, data) or _has_mark(seldom, data) or _has_token(data)

    def _holds_piece(self, seldom: bytes, data: bytes) -> bool:
        met: set[int] = set()
        for start in (0, _GRAM // 2):
            end = len(seldom) - (len(seldom) - start) % _GRAM
            met |= self._grams.intersection(memoryview(seldom)[start : max(start, end)].cast("I"))
        if not met.isdisjoint(self._digits) and self._holds_digits(met, data):
            return True
        for gram in met & self._by_gram.keys():
            for neighbours, pieces in self._by_gram[gram].items():
                if neighbours.stand_in(met, seldom) and any(piece.stands_in(seldom, data) for piece in pieces):
                    return True
        return any(
            core.stands_in(seldom, data) and any(piece.text in data for piece in pieces)
            for core, pieces in self._by_core.items()
        )

    def _holds_digits(self, met: set[int], data: bytes) -> bool:
        """Whether a piece of hexadecimal digits stands in the long runs of them."""
        sought = [
            piece
            for gram in met & self._digits.keys()
            for neighbours, pieces in self._digits[gram].items()
            if neighbours.beside <= met
            for piece in pieces
        ]
        if not sought:
            return False
        runs = b"\n".join(_runs(data, _IN_A_NUMBER, min(len(piece.text) for piece in sought)))
        return any(piece.text in runs for piece in sought)

    def _take(self, piece: _Piece, cores: list[_Piece]) -> None:
        """See to it that the piece is found: at even and odd places of a text, or by a part of it that others share."""
        if len(piece.left) > _GRAM:
            for first in (0, 1):
                self._take_at(piece, first)
            return
        if len(piece.left) > 1:
            self._by_core[piece] = [piece]
            return
        # The pieces come in order, each one character further: the next ones hold this one's end too.
        core = next((core for core in reversed(cores) if core.text in piece.text), None)
        if core is None:
            core = _piece(piece.text[-_CORE:])
            cores.append(core)
        self._by_core.setdefault(core, []).append(piece)

    def _take_at(self, piece: _Piece, first: int) -> None:
        """Note one of the numbers that are met where the `first`-th letter left stands at an even place."""
        left = piece.left
        places = range(first, len(left) - _GRAM + 1, 2)
        grams = {int.from_bytes(left[at : at + _GRAM], sys.byteorder): at for at in places}
        known = self._by_gram if piece.text.translate(None, _DIGITS) else self._digits
        gram = next((gram for gram in grams if gram in known), max(grams, key=_weight))
        at = grams[gram]
        beside = frozenset(gram for gram, place in grams.items() if abs(place - at) == _GRAM // 2)
        neighbours = _Neighbours(left[max(at - 1, 0) : at + _GRAM + 1], beside)
        known.setdefault(gram, {}).setdefault(neighbours, []).append(piece)


def _weight(gram: int) -> int:
    """How seldom four letters are: digits and dashes are not."""
    return sum(chr(code).isalpha() for code in gram.to_bytes(_GRAM, sys.byteorder))


def _piece(text: bytes) -> _Piece:
    return _Piece(_without_common(text), text)


def _without_common(text: bytes) -> bytes:
    return text.translate(None, _common())


def _has_mark(seldom: bytes, data: bytes) -> bool:
    """Whether there may be one of the secrets that have a mark, found by its seldomest letter or what is left of it."""
    return (
        (_KEY_MARK in seldom and _KEY_MARK in data)
        or (b"xx-" in seldom and _token(SLACK).search(data) is not None)
        or (_token(AWS).search(seldom) is not None and _token(AWS).search(data) is not None)
        or _matches(_token(SENDGRID), data, b"G", (b"S",), 1)
        or _matches(_token(JSON_WEB_TOKEN), data, b"J", (b"ey",), 2)
        or _matches(_header(), data, b"z", (b"i", b"I"), 7)
        or _matches(_header(), data, b"Z", (b"i", b"I"), 7)
        or _holds_password(data)
        # Without regard to case, an i with a dot above and one without are letters of "authorization" too.
        or (b"\xc4" in data and (b"\xc4\xb0" in data or b"\xc4\xb1" in data))
    )


def _matches(pattern: re.Pattern[bytes], data: bytes, letter: bytes, before: tuple[bytes, ...], back: int) -> bool:
    """Whether the pattern matches `back` bytes before a letter that comes after one of `before`.

    To go from one seldom letter to the next takes a tenth of the time that a search for two letters takes.
    """
    at = data.find(letter)
    while at >= 0:
        if data.endswith(before, 0, at) and pattern.match(data, max(at - back, 0)):
            return True
        at = data.find(letter, at + 1)
    return False


def _holds_password(data: bytes) -> bool:
    """Whether a name and a password stand between `://` and an `@`."""
    start, at = 0, data.find(b"@")
    while at >= 0:
        slash = data.rfind(b"/", start, at)
        if slash >= 2 and data.startswith(b"://", slash - 2) and _password().match(data, slash - 2):
            return True
        start, at = at, data.find(b"@", at + 1)
    return False


def _has_token(data: bytes) -> bool:
    """Whether a long run of word characters begins as a token does."""
    runs = _runs(data, _IN_A_WORD, _SHORTEST_TOKEN)
    return bool(runs) and _tokens().search(b"\n" + b"\n".join(runs)) is not None


def _runs(data: bytes, classes: bytes, least: int) -> set[bytes]:
    """The runs of at least so many bytes that `classes` makes an `a`, all others a blank."""
    marked = data.translate(classes)
    find, shortest = marked.find, b"a" * least
    runs = set()
    at = find(shortest)
    while at >= 0:
        end = find(b" ", at + least)
        end = len(marked) if end < 0 else end
        runs.add(data[at:end])
        at = find(shortest, end)
    return runs


@cache
def _common() -> bytes:
    return bytes(code for code in range(256) if code not in _SELDOM)


@cache
def _tokens() -> re.Pattern[bytes]:
    """A token at the start of a line. The end of an escape may stand before it, and what is no ASCII may be no word."""
    starts = []
    for shape in TOKENS:
        if shape not in _MARKED:
            letters = f"{shape.between}{shape.letters}{{{shape.count}}}" if shape.between else ""
            starts.append((shape.start + letters).encode())
    return re.compile(rb"[\n\x80-\xff](?:[bfnrt]|u00[0-9a-f]{2})?(?:" + b"|".join(starts) + rb")")


@cache
def _token(shape: TokenShape) -> re.Pattern[bytes]:
    """A whole token in bytes; any byte above ASCII counts as a letter."""
    return re.compile(shape.regex.encode().replace(rb"[\w-]", _WORDS))


@cache
def _header() -> re.Pattern[bytes]:
    blanks = rb"(?:\s|[\x80-\xff]|" + _ESCAPED + rb")*"
    return re.compile(rb"(?i:authorization)" + blanks + rb":" + blanks + rb"[bBtT]")


@cache
def _password() -> re.Pattern[bytes]:
    return re.compile(f"{ADDRESS_USER}{ADDRESS_PASSWORD}@".encode())
