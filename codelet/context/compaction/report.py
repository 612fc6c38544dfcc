"""What a compaction did and what it lost: what previews, receipts, and `/why` show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from codelet.context.compaction.observed import TurnAnchor
from codelet.context.compaction.score import Score

_PATH = re.compile(r"[\w.~@$-]*/[\w./@~$-]*\w\Z")
_MOST_LOST = 20


class Loss(NamedTuple):
    """Names that can no longer be found, the most used first, and the agent's last words of turns that went.

    Each list is cut short; `names_gone` and `sentences_gone` count all.
    """

    paths: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    names_gone: int = 0
    sentences: tuple[str, ...] = ()
    sentences_gone: int = 0


def find_loss(used: Mapping[str, float], present: set[str], closing: Iterable[str], after: str) -> Loss:
    """Compare what went with what stays: `used` weighs names that went, `after` is the text that stays."""
    gone = sorted(set(used) - present, key=lambda name: (-used[name], name))
    paths = [name for name in gone if _PATH.match(name)]
    others = [name for name in gone if not _PATH.match(name)]
    flat = " ".join(after.split())
    sentences = [text for text in closing if " ".join(text.split()) not in flat]
    listed = (tuple(found[:_MOST_LOST]) for found in (paths, others, sentences))
    shown_paths, shown_names, shown_sentences = listed
    return Loss(shown_paths, shown_names, len(gone), shown_sentences, len(sentences))


Fate = Literal["kept", "reduced", "summarised"]


class TurnFate(NamedTuple):
    """What became of one turn, and why. Sizes are in tokens by the estimate used; `lines` are those in the segment."""

    turn: int
    fate: Fate
    why: str
    before: int
    after: int
    messages: int
    lines: int
    score: Score


class Allocation(NamedTuple):
    """Where the tokens of a compacted list go, decided once: what stays as it is, and the parts of the segments."""

    verbatim: int = 0
    words: int = 0
    state: int = 0
    prose: int = 0
    evidence: int = 0
    handoff: int = 0


@dataclass(frozen=True)
class CompactionReport:
    """What one compaction did.

    `tier`: 0 only put in order, 2 summarised, 3 fewer of the newest turns kept whole than asked for, or a message cut.
    `before` and `after` are the sizes of the whole list in tokens. `removed` are the indices, in the list given, of
    messages that are not in the result as they were; `cut` are those of them that are there cut, in order: the archive
    takes them. `kept_turns` of the newest turns, and `kept_steps` of the agent's messages, stay as they were.
    `words_each` are the characters that each of the user's messages has at most; None: they are whole. `warnings` are
    sentences for the user; `struck` are the lines of a handoff that were not kept, with the reason.
    """

    tier: int
    target: int
    before: int
    after: int
    turns: tuple[TurnFate, ...] = ()
    anchors: tuple[TurnAnchor, ...] = ()
    segments: int = 0
    removed: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()
    words_each: int | None = None
    loss: Loss = field(default_factory=Loss)
    warnings: tuple[str, ...] = ()
    struck: tuple[str, ...] = ()
    kept_turns: int = 0
    kept_steps: int = 0
    allocation: Allocation = field(default_factory=Allocation)


class Compacted(NamedTuple):
    """The new list, and the report of what was done."""

    messages: list[dict[str, Any]]
    report: CompactionReport
