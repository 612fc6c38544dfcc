"""A fast test whether an encoded message may hold a secret and needs the exact search.

The exact search takes 0.1 s per MB, and more with each key of the environment; the export of a long session would wait
for it. The prefilter may return a false True, but never a false False.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from codelet.system.text.secret_shapes import ADDRESS_PASSWORD, ADDRESS_USER, PRIVATE_KEY_START, TOKENS

_GRAM = 4
"""Letters that are compared as one number, at every fourth position of a text."""
_RUN = 20
"""The shortest run of letters in which long tokens are searched."""
_ESCAPED = r"\\[bfnrt]|\\u00[0-9a-f]{2}"
_WORD = r"A-Za-z0-9_\x80-\xff"
"""Any byte of a letter that is not ASCII counts as one."""
_IN_A_RUN = bytes(ord("a") if re.match(f"[{_WORD}-]", chr(code)) else ord(" ") for code in range(256))


class SecretPrefilter:
    """The prefilter for a set of secrets. `pieces` holds the shortest pieces of each spelling of each."""

    def __init__(self, pieces: Iterable[Sequence[str]] = ()) -> None:
        self._always = False
        self._by_gram: dict[int, set[tuple[bytes, int]]] = {}
        for piece in {piece for spelling in pieces for piece in spelling}:
            try:
                text = json.dumps(piece, ensure_ascii=False)[1:-1].encode()
            except UnicodeEncodeError:  # no text: its form in JSON differs from its form here
                self._always = True
                continue
            for first in range(_GRAM):  # a text with the piece has one of these numbers, and the next one after it
                self._by_gram.setdefault(_gram(text, first), set()).add((text, _gram(text, first + _GRAM)))
        self._grams = frozenset(self._by_gram) | {following for some in self._by_gram.values() for _, following in some}

    def __call__(self, data: bytes) -> bool:
        """Return whether UTF-8 JSON (any number of messages) is worth an exact search."""
        short, long = _shapes()
        if self._always or any(_matches(data, start, pattern) for start, pattern in short):
            return True
        if self._grams:
            met = self._grams.intersection(memoryview(data)[: len(data) - len(data) % _GRAM].cast("I")) | {0}
            found = (each for gram in met & self._by_gram.keys() for each in self._by_gram[gram])
            if any(following in met and text in data for text, following in found):
                return True
        return long.search(b"\n" + b"\n".join(_runs(data))) is not None


def _gram(text: bytes, at: int) -> int:
    """The number of four letters, 0 past the end."""
    letters = text[at : at + _GRAM]
    return int.from_bytes(letters, sys.byteorder) if len(letters) == _GRAM else 0


def _matches(data: bytes, start: bytes, pattern: re.Pattern[bytes]) -> bool:
    """Return whether the pattern matches at its start, which is found ten times as fast as the pattern."""
    at = data.find(start)
    while at >= 0:
        if pattern.match(data, at):
            return True
        at = data.find(start, at + 1)
    return False


@cache
def _shapes() -> tuple[list[tuple[bytes, re.Pattern[bytes]]], re.Pattern[bytes]]:
    """The known shapes: short ones, each with its start and a pattern that matches there, and one pattern for long
    tokens at the start of a run, perhaps after the end of an escape or a byte that is no ASCII. None requires a digit.
    """
    # The rarest letter of "authorization". Case-insensitively, an i with a dot above and one without match too.
    blanks = rf"(?:\s|[\x80-\xff]|{_ESCAPED})*"
    short = [(letter, f"(?<=[oO][rR][iI])(?i:zation){blanks}:{blanks}[bBtT]") for letter in "zZ"]
    short += [(letter.encode().decode("latin-1"), "") for letter in "\u0130\u0131"]
    short += [(PRIVATE_KEY_START.strip(), ""), ("://", f"{ADDRESS_USER}{ADDRESS_PASSWORD}@")]
    long: list[str] = []
    for shape in TOKENS:
        whole = f"{shape.start}{shape.between}{shape.letters}{{{shape.count}}}{shape.tail}"
        whole = whole.replace(r"[\w-]", f"[{_WORD}-]").replace(r"\w", f"[{_WORD}]")
        if shape.shortest >= _RUN and not shape.tail:
            long.append(whole)
        else:
            short += [(start, whole) for start in shape.starts]
    tokens = rf"[\n\x80-\xff](?:[bfnrt]|u00[0-9a-f]{{2}})?(?:{'|'.join(long)})"
    patterns = [(start.encode("latin-1"), re.compile(pattern.encode("latin-1"))) for start, pattern in short]
    return patterns, re.compile(tokens.encode("latin-1"))


def _runs(data: bytes) -> Iterator[bytes]:
    """The long runs of letters."""
    marked = data.translate(_IN_A_RUN)
    at = marked.find(b"a" * _RUN)
    while at >= 0:
        end = marked.find(b" ", at)
        yield data[at : end if end >= 0 else None]
        at = marked.find(b"a" * _RUN, end) if end >= 0 else -1
