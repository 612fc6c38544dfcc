"""Which of the user's statements a later one replaced: the same subject, another value.

Two statements speak of the same subject when they share most of their telling words once values are masked, or some of
them where the later one says that it changes something. Different names in both mean two subjects, not one. Requests
that go through a row ("look at item 4", "look at item 5", "look at item 6") replace nothing, and nobody corrects the
same value many times without saying so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

from codelet.compaction.vocabulary import COMMON_WORDS
from codelet.compaction.words import Said, sentences

_VALUE = re.compile(
    r"(?<![\w/.$€£-])[$€£]?\d[\d.,:%/-]*(?:[a-zA-Z]{1,12}\b)?(?![\w/])|"
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|fifty|"
    r"sixty|seventy|eighty|ninety|hundred|thousand|million|monday|tuesday|wednesday|thursday|friday|saturday|sunday|"
    r"january|february|march|april|june|july|august|september|october|november|december)\b|`[^`\n]+`",
    re.IGNORECASE,
)
_CHANGE = re.compile(
    r"\b(?:instead|actually|now|changed?|update[ds]?|correction|rather|no longer|switch(?:ed)?|moved?|raised?|lowered?|"
    r"revised|new|from now on|scratch that|forget)\b",
    re.IGNORECASE,
)
# What tells a statement from a request.
_STATES = re.compile(
    r"^\s*(?:the|our|its?|this|that|an?|we|my|each|every|all)\b|"
    r"\b(?:is|are|be|becomes?|use|set|keep|limit|max|min|maximum|minimum|at (?:most|least)|must|never|always|budget|"
    r"deadline|costs?|should|runs? on)\b|[:=]",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z_][\w-]{2,}")
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][\w-]+|\b\w+[_./]\w[\w./]*|\b[a-z]+[A-Z]\w*")
_LATEST = 12
# So many times a value may be set anew without a word that says so.
_CORRECTIONS = 4


def mark(said: Sequence[Said], later: Sequence[Said] = ()) -> list[Said]:
    """`said` with those marked whose values were all replaced in it or in `later` (newer words, not returned)."""
    index: dict[str, list[int]] = {}
    stated: list[tuple[int, frozenset[str], frozenset[str], frozenset[str]]] = []
    replaced: dict[int, set[int]] = {}
    silent: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    owned: dict[int, set[int]] = {}
    everything = [*said, *later]
    for place, one in enumerate(everything):
        for sentence in sentences(one.text[:4000])[:40]:
            values = frozenset(value.lower() for value in _VALUE.findall(sentence))
            if not values or len(sentence) > 400:
                continue
            masked = _VALUE.sub(" ", sentence)
            names = frozenset(_NAME.findall(masked))
            changes = _CHANGE.search(sentence) is not None
            keys = frozenset(_stem(w) for w in _WORD.findall(masked.lower())) - COMMON_WORDS
            for other in sorted({n for key in keys for n in index.get(key, ())[-_LATEST:]}):
                owner, old_values, old_names, old_keys = stated[other]
                if owner == place or not _replaces(changes, values, names, keys, old_values, old_names, old_keys):
                    continue
                if changes:
                    replaced.setdefault(owner, set()).add(other)
                else:
                    silent[_STATES.search(sentence) is not None].append((other, len(stated)))
            number = len(stated)
            stated.append((place, values, names, keys))
            owned.setdefault(place, set()).add(number)
            for key in keys:
                index.setdefault(key, []).append(number)
    for other in [*_not_in_rows(silent[True], _CORRECTIONS), *_not_in_rows(silent[False], 1)]:
        replaced.setdefault(stated[other][0], set()).add(other)
    return [
        Said(one.turn, one.text, one.superseded or (place in replaced and replaced[place] == owned[place]))
        for place, one in enumerate(said)
    ]


def _not_in_rows(pairs: Sequence[tuple[int, int]], most: int) -> list[int]:
    """The older ones of pairs (older, newer), but where one has more than `most` partners: that is a row."""
    partners = Counter(chain.from_iterable(pairs))
    return [other for other, number in pairs if partners[other] <= most and partners[number] <= most]


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word[: -len(ending)]
    return word


def _replaces(
    changes: bool,
    values: frozenset[str],
    names: frozenset[str],
    keys: frozenset[str],
    old_values: frozenset[str],
    old_names: frozenset[str],
    old_keys: frozenset[str],
) -> bool:
    """Whether a statement replaces an older one; `changes` tells that it says so itself."""
    if values == old_values or (names - old_names and old_names - names):
        return False
    shared = len(keys & old_keys)
    if shared * 10 >= 7 * len(keys | old_keys) and shared >= 2:
        return True
    return changes and shared >= 1 and shared * 2 >= min(len(keys), len(old_keys))
