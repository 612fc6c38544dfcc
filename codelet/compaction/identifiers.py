"""Names in text: one compiled pattern, one pass a line, each distinct word looked at once.

A *name* is a word that points at one thing: a path, a symbol in code, a flag, a version, a long number. Plain words
count too, for far less, so that prose is not worth nothing.
"""

from __future__ import annotations

import re

WORD = re.compile(r"[\w$@~/][\w$@~./-]*\w")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PIECES = re.compile(r"[A-Za-z_$][\w$]{3,}")

NAME_WEIGHT = 100
NUMBER_WEIGHT = 60
WORD_WEIGHT = 26


def weight_of(word: str) -> int:
    """How much a word tells by its shape: 0 for noise, 26 for a plain word, 60 for a number, 100 for a name."""
    if len(word) < 4 or len(word) > 200:
        return 0
    if word.isalpha():
        return NAME_WEIGHT if _CAMEL.search(word) else WORD_WEIGHT
    if word[0].isdigit():
        return NUMBER_WEIGHT if len(word) >= 5 or not word.isdigit() else WORD_WEIGHT
    return NAME_WEIGHT


class Lexicon:
    """Numbers for words, given in the order in which they first occur; `shape[i]` is the weight of word i."""

    def __init__(self) -> None:
        self.shape: list[int] = []
        self.words: list[str] = []
        self._numbers: dict[str, int] = {}
        self.known: dict[str, tuple[int, ...]] = {}

    def number(self, word: str) -> int:
        """The number of a word, new or known."""
        found = self._numbers.get(word)
        if found is None:
            found = self._numbers[word] = len(self.shape)
            self.shape.append(weight_of(word))
            self.words.append(word)
        return found

    def learn(self, word: str) -> tuple[int, ...]:
        """The numbers that a word stands for: itself and, for a path or dotted name, the names inside it."""
        if weight_of(word) == 0:
            numbers: tuple[int, ...] = ()
        elif "/" in word or "." in word or "-" in word:
            pieces = [piece for piece in _PIECES.findall(word) if weight_of(piece)]
            numbers = tuple(dict.fromkeys(self.number(w) for w in (word, *pieces)))
        else:
            numbers = (self.number(word),)
        self.known[word] = numbers
        return numbers

    def read(self, text: str) -> set[int]:
        """The numbers of all words in a text."""
        known, learn = self.known, self.learn
        found: set[int] = set()
        for word in set(WORD.findall(text)):
            numbers = known.get(word)
            found.update(learn(word) if numbers is None else numbers)
        return found
