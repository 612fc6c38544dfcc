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
    if not 4 <= len(word) <= 200:
        return 0
    if word.isalpha():
        return WORD_WEIGHT if word.islower() or not _CAMEL.search(word) else NAME_WEIGHT
    if "0" <= word[0] <= "9":
        return NUMBER_WEIGHT if len(word) >= 5 or not word.isdigit() else WORD_WEIGHT
    return NAME_WEIGHT


class Lexicon:
    """Numbers for words, given in the order in which they first occur.

    `shape[i]` is the weight of word i, `words[i]` the word. `known` maps a word to the numbers that it stands for:
    itself and, for a path or a dotted name, the names inside it; none for noise.
    """

    def __init__(self) -> None:
        self.shape: list[int] = []
        self.words: list[str] = []
        self.known: dict[str, tuple[int, ...]] = {}

    def learn(self, word: str) -> tuple[int, ...]:
        """The numbers of a word that is not known yet."""
        weight = weight_of(word)
        if not weight:
            self.known[word] = ()
            return ()
        own = len(self.words)
        self.words.append(word)
        self.shape.append(weight)
        numbers: tuple[int, ...] = (own,)
        if "/" in word or "." in word or "-" in word:
            known, learn = self.known, self.learn
            inside = [own]
            for piece in _PIECES.findall(word):
                found = known.get(piece)
                inside += learn(piece) if found is None else found
            numbers = tuple(dict.fromkeys(inside))
        self.known[word] = numbers
        return numbers

    def read(self, text: str) -> set[int]:
        """The numbers of all words in a text."""
        known, learn = self.known, self.learn
        found: set[int] = set()
        for word in sorted(set(WORD.findall(text))):
            numbers = known.get(word)
            found.update(learn(word) if numbers is None else numbers)
        return found
