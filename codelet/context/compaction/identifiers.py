"""Names in text: one compiled pattern, one pass a line, each distinct word looked at once.

A *name* is a word that points at one thing: a path, a symbol in code, a flag, a version, a long number. Plain words
count too, for far less, so that prose is not worth nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import chain, compress, count, islice, repeat
from operator import call

# Words of fewer than four characters tell nothing; not to match them is cheaper than to look them up.
WORD = re.compile(r"[\w$@~/][\w$@~./-]{2,}\w")
# The same words in a text that is all ASCII: a set that is spelt out is matched twice as fast as `\w`.
_ASCII_WORD = re.compile(r"[A-Za-z0-9_$@~/][A-Za-z0-9_$@~./-]{2,}[A-Za-z0-9_]")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PIECES = re.compile(r"[A-Za-z_$][\w$]{3,}")
_LONGEST = 200
# More than a word can have pieces.
STEP = 64

NAME_WEIGHT = 100
NUMBER_WEIGHT = 60
WORD_WEIGHT = 26


def weight_of(word: str) -> int:
    """How much a word tells by its shape: 0 for noise, 26 for a plain word, 60 for a number, 100 for a name."""
    if not 4 <= len(word) <= _LONGEST:
        return 0
    if word.isalpha():
        return WORD_WEIGHT if word.islower() or not _CAMEL.search(word) else NAME_WEIGHT
    if "0" <= word[0] <= "9":
        return NUMBER_WEIGHT if len(word) >= 5 or not word.isdigit() else WORD_WEIGHT
    return NAME_WEIGHT


_FINDERS = (WORD.findall, _ASCII_WORD.findall)


class Lexicon:
    """Numbers for words, given in the order in which they are first seen. `words[i]` is word i.

    A word stands for itself and, if it is a path or a dotted name, for the names inside it; noise stands for nothing.
    Lines are read in bulk, without a step of Python for each word: what a word stands for is worked out once, later.
    """

    def __init__(self) -> None:
        self.words: list[str] = []
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._shape: list[int] = []
        # Names inside words, and words that are noise.
        self._inside: dict[int, tuple[int, ...]] = {}
        self._noise: set[int] = set()

    @property
    def shape(self) -> list[int]:
        """The weight of each word."""
        words = self.words[len(self._shape) :]
        # What has more than letters and begins with no digit is a name: nearly all words of code, told at a glance.
        self._shape += [
            weight_of(word) if "0" <= word < ":" or word.isalpha() or len(word) > _LONGEST else NAME_WEIGHT
            for word in words
        ]
        return self._shape

    def lines(self, texts: Collection[str]) -> list[tuple[int, ...]]:
        """For each text the numbers of the words in it, each once."""
        if all(map(str.isascii, texts)):
            words = map(_ASCII_WORD.findall, texts)
        else:
            words = map(call, map(_FINDERS.__getitem__, map(str.isascii, texts)), texts)
        found = self._numbered(map(dict.fromkeys, words))
        self._learn()
        inside = self._inside
        plain = inside.keys().isdisjoint
        found = [
            own if plain(own) else tuple(dict.fromkeys(chain(own, *[inside[n] for n in own if n in inside])))
            for own in found
        ]
        if self._noise:
            found = [tuple([n for n in own if n not in self._noise]) for own in found]
        return found

    def read(self, text: str) -> set[int]:
        """The numbers of all words in a text."""
        words = set(_FINDERS[text.isascii()](text))
        numbers = self._numbers
        # Sorted, as a set has another order in every run.
        for word in sorted([word for word in words if word not in numbers]):
            numbers[word]
        self._learn()
        own = set(map(numbers.__getitem__, words))
        inside = self._inside
        own.update(*[inside[n] for n in own if n in inside])
        return own - self._noise

    def ending(self, *ends: str) -> list[int]:
        """The numbers of the words with these endings; to search one text is far cheaper than to ask each word."""
        text = "\n".join(["", *self.words, ""])
        found: list[int] = []
        for end in ends:
            at = text.find(end + "\n")
            while at >= 0:
                found.append(self._numbers[text[text.rindex("\n", 0, at) + 1 : at + len(end)]])
                at = text.find(end + "\n", at + 1)
        return found

    def places(self) -> dict[int, int]:
        """Sort keys of the names that were first seen inside a word: that word, then their place in it.

        Numbers count whole lines first; by where it stands, a name follows the word that it is in.
        """
        found: dict[int, int] = {}
        for number, names in self._inside.items():
            for place, name in enumerate(names, 1):
                if name > number:
                    found.setdefault(name, number * STEP + place)
        return found

    def _numbered(self, words: Iterable[Iterable[str]]) -> list[tuple[int, ...]]:
        return list(map(tuple, map(map, repeat(self._numbers.__getitem__), words)))

    def _learn(self) -> None:
        """Work out what the words stand for that were numbered since the last time."""
        first = len(self.words)
        fresh = self._fresh()
        if max(map(len, fresh), default=0) > _LONGEST:
            self._noise.update(n for n, word in enumerate(fresh, first) if len(word) > _LONGEST)
        made = [n for n, word in enumerate(fresh, first) if "/" in word or "." in word or "-" in word]
        made = [n for n in made if n not in self._noise] if self._noise else made
        names = self._numbered(map(dict.fromkeys, map(_PIECES.findall, [self.words[n] for n in made])))
        self._inside.update(zip(compress(made, names), filter(None, names), strict=True))
        self._fresh()

    def _fresh(self) -> list[str]:
        """Store the words that came in since the last time; return them."""
        fresh = list(islice(reversed(self._numbers), len(self._numbers) - len(self.words)))[::-1]
        self.words += fresh
        return fresh
