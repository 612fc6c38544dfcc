"""Names in text: one compiled pattern, one pass a line, each distinct word looked at once.

A *name* is a word that points at one thing: a path, a symbol in code, a flag, a version, a long number. Plain words
count too, for far less, so that prose is not worth nothing.
"""

from __future__ import annotations

import re
from itertools import chain

# Words of fewer than four characters tell nothing; not to match them is cheaper than to look them up.
WORD = re.compile(r"[\w$@~/][\w$@~./-]{2,}\w")
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


class Lexicon(dict[str, tuple[int, ...]]):
    """Numbers for words, given in the order in which they first occur: `lexicon[word]` learns a word it does not know.

    A word stands for itself and, where it is a path or a dotted name, for the names inside it; noise for none.
    `shape[i]` is the weight of word i, `words[i]` the word. A dict that fills itself lets whole lines be looked up
    without a step of Python for each word.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shape: list[int] = []
        self.words: list[str] = []

    def __missing__(self, word: str) -> tuple[int, ...]:
        weight = weight_of(word)
        numbers: tuple[int, ...] = (len(self.words),) if weight else ()
        self[word] = numbers
        if not weight:
            return numbers
        self.words.append(word)
        self.shape.append(weight)
        if "/" in word or "." in word or "-" in word:
            numbers = tuple(dict.fromkeys(chain(numbers, *map(self.__getitem__, _PIECES.findall(word)))))
            self[word] = numbers
        return numbers

    def line(self, text: str) -> tuple[int, ...]:
        """The numbers of the words in a text, each once, in the order in which they stand."""
        return tuple(dict.fromkeys(chain.from_iterable(map(self.__getitem__, WORD.findall(text)))))

    def read(self, text: str) -> set[int]:
        """The numbers of all words in a text."""
        return set(chain.from_iterable(map(self.__getitem__, sorted(set(WORD.findall(text))))))
