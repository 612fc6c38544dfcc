"""What a compaction did and what it lost: everything that a preview and `/why` need.

The loss check compares what went with what stays: words that stand nowhere in the new list, and the user's rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, count, groupby
from typing import Any, Literal, NamedTuple

from codelet.context.compaction.identifiers import NAME_WEIGHT, STEP, Lexicon
from codelet.context.compaction.score import Score, TurnAnchor
from codelet.context.compaction.signals import states_rule
from codelet.context.compaction.user_text import sentences

_PATH = re.compile(r"[\w.~@$-]*/[\w./@~$-]*\w\Z")
_NUMBER = re.compile(r"\d[\d.,_:/-]*\Z")


@dataclass(frozen=True)
class Loss:
    """What can no longer be found, the most used first, each list cut short; `names_gone` counts all names.

    `decisions` are the agent's sentences that told a cause or a decision, newest first; `decisions_gone` counts all.
    """

    rules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    names_gone: int = 0
    decisions: tuple[str, ...] = ()
    decisions_gone: int = 0


def find_loss(
    lexicon: Lexicon,
    used: Sequence[int],
    present: set[int],
    said: Iterable[str],
    after: str,
    decided: Sequence[str] = (),
    most: int = 20,
) -> Loss:
    """Compare what went with what stays.

    `used[i]` is how much word i was used in what went, `present` the words in what stays, `said` the user's texts
    that went, `after` the user's words that stay.
    """
    shape = lexicon.shape
    gone = [i for i in compress(count(), used) if i not in present]
    found: dict[str, list[str]] = {"paths": [], "numbers": [], "names": []}
    open_kinds = len(found)
    for i in _most_used_first(gone, used, lexicon):
        kind = _kind(lexicon.words[i], shape[i])
        if kind and len(found[kind]) < most:
            found[kind].append(lexicon.words[i])
            open_kinds -= len(found[kind]) == most
            if not open_kinds:
                break
    flat = " ".join(after.split())
    rules = [
        sentence
        for text in said
        for sentence in sentences(text[:20_000])
        if states_rule(sentence) and " ".join(sentence.split()) not in flat
    ]
    names_gone = sum([shape[i] >= NAME_WEIGHT for i in gone])
    paths, names, numbers = (tuple(found[kind]) for kind in ("paths", "names", "numbers"))
    return Loss(tuple(rules[:most]), paths, names, numbers, names_gone, tuple(decided[:most]), len(decided))


def _most_used_first(words: Sequence[int], used: Sequence[int], lexicon: Lexicon) -> Iterator[int]:
    """Sort words by how much they were used, equal ones by where they first occurred."""
    places: dict[int, int] = {}

    def place(word: int) -> int:
        return places.get(word, word * STEP)

    for _, group in groupby(sorted(words, key=used.__getitem__, reverse=True), used.__getitem__):
        equal = list(group)
        if len(equal) > 1:
            places = places or lexicon.places()
            equal.sort(key=place)
        yield from equal


def _kind(word: str, shape: int) -> str:
    if word[0].isdecimal() and _NUMBER.match(word):
        return "numbers"
    if shape < NAME_WEIGHT:
        return ""
    return "paths" if "/" in word and _PATH.match(word) else "names"


Fate = Literal["kept", "reduced", "summarised"]


@dataclass(frozen=True)
class TurnFate:
    """What became of one turn, and why. Sizes in tokens by the estimate used; `lines` were chosen from it."""

    turn: int
    fate: Fate
    why: str
    before: int
    after: int
    messages: int
    lines: int
    score: Score


@dataclass(frozen=True)
class CompactionReport:
    """What one compaction did.

    `tier`: 0 only put in order, 1 old results reduced, 2 summarised, 3 newest turns or the prompt touched as well.
    `before` and `after` are the sizes of the whole list in tokens. `removed` are the indices, in the list given, of
    messages that are not in the result as they were: the archive takes those. `warnings` are sentences for the user,
    `struck` the lines of a narrative that were not kept, each with the reason. `kept_steps` are the agent's
    messages that stay as they were.
    """

    tier: int
    target: int
    before: int
    after: int
    turns: tuple[TurnFate, ...] = ()
    anchors: tuple[TurnAnchor, ...] = ()
    segments: int = 0
    removed: tuple[int, ...] = ()
    user_messages: int = 0
    user_mode: str = "verbatim"
    loss: Loss = field(default_factory=Loss)
    warnings: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()
    kept_steps: int = 0


class Compacted(NamedTuple):
    """The new list, and the report of what was done."""

    messages: list[dict[str, Any]]
    report: CompactionReport
