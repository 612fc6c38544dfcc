"""Tier 1 as a step of its own: old results reduced in place, and the receipt of that.

Calls, ids, the user's words and the model's text stay as they are; so do the newest turns, which only tier 3 touches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

from codelet.compaction import anchors as anchor_rules
from codelet.compaction import loss
from codelet.compaction.content import AnyMessage, Estimate, call_arguments, calls_of
from codelet.compaction.coverage import log2_milli
from codelet.compaction.history import History
from codelet.compaction.identifiers import Lexicon
from codelet.compaction.ledger import open_errors
from codelet.compaction.reading import Reading, read
from codelet.compaction.reduce import Reduced, old_results
from codelet.compaction.report import Compacted, Report, TurnFate
from codelet.compaction.score import Score, scores
from codelet.tokens.estimate import text_of

_SAID = {"cut": "cut to head and tail", "superseded": "read again later, one line", "arguments": "written, sizes left"}
_CONVERSATION = frozenset({"user", "assistant", "result", "other"})


def reduction(
    messages: Sequence[dict[str, Any]],
    measure: Estimate,
    *,
    keep_turns: int,
    least: int,
    enough: int,
    spared: Collection[int] = (),
    first_id: int | None = None,
) -> Compacted | None:
    """A normalised list with old results reduced until `enough` tokens are saved; None where `least` are not.

    The newest `keep_turns` turns and messages at `spared` stay as they are. `first_id` is the number of the archive's
    next id.
    """
    readings = read(messages)
    newest = set(_turns(readings)[-keep_turns:])
    kept = {index for index, reading in enumerate(readings) if reading.turn in newest} | set(spared)
    made = old_results(messages, measure, least=least, enough=enough, spared=kept, first_id=first_id)
    if not made.changed:
        return None
    return Compacted(made.messages, _report(messages, readings, made, measure, newest))


def holds_as_much(one: Sequence[AnyMessage], other: Sequence[AnyMessage], before: Sequence[AnyMessage]) -> bool:
    """Whether `one` holds at least as much of what `before` says as `other` does.

    Counted are words, each by its shape and by the logarithm of how many messages use it.
    """
    lexicon = Lexicon()
    words = {id(message): lexicon.read(_all_text(message)) for message in before}
    used = Counter(chain.from_iterable(words.values()))

    def worth(messages: Sequence[AnyMessage]) -> int:
        here = (words.get(id(message)) or lexicon.read(_all_text(message)) for message in messages)
        found = set().union(*here) & used.keys()
        return sum(lexicon.shape[word] * log2_milli(1 + used[word]) for word in found)

    return worth(one) >= worth(other)


def _turns(readings: Sequence[Reading]) -> list[int]:
    return sorted({reading.turn for reading in readings if reading.kind in _CONVERSATION})


def _all_text(message: AnyMessage) -> str:
    return "\n".join([text_of(message), *map(call_arguments, calls_of(message))])


def _report(
    messages: Sequence[dict[str, Any]],
    readings: Sequence[Reading],
    made: Reduced,
    measure: Estimate,
    newest: Collection[int],
) -> Report:
    lexicon = Lexicon()
    names: dict[int, set[int]] = {}
    present: set[int] = set()
    for reading, message in zip(readings, made.messages, strict=True):
        here = lexicon.read(_all_text(message))
        present |= here
        if reading.kind in _CONVERSATION:
            names.setdefault(reading.turn, set()).update(here)
    used = Counter(word for index in made.changed for word in lexicon.read(_all_text(messages[index])))
    history = History(readings)
    anchors = anchor_rules.find(readings, history.attempts)
    faults = open_errors(list(enumerate(readings)), history)
    rated = scores(readings, names, lexicon, anchors, [fault.turn for fault in faults])
    before, after = sum(map(measure, messages)), sum(map(measure, made.messages))
    return Report(
        tier=1,
        target=after,
        before=before,
        after=after,
        turns=tuple(_fates(messages, readings, made, measure, newest, rated)),
        anchors=tuple(anchors),
        kept_messages=len(messages) - len(made.changed),
        removed=made.changed,
        user_messages=sum(reading.kind == "user" for reading in readings),
        loss=loss.check(lexicon, [used[word] for word in range(len(lexicon.shape))], present, (), ""),
    )


def _fates(
    messages: Sequence[dict[str, Any]],
    readings: Sequence[Reading],
    made: Reduced,
    measure: Estimate,
    newest: Collection[int],
    rated: dict[int, Score],
) -> list[TurnFate]:
    """What became of each turn: which of its messages were reduced, and how."""
    before: Counter[int] = Counter()
    after: Counter[int] = Counter()
    count: Counter[int] = Counter()
    for reading, old, new in zip(readings, messages, made.messages, strict=True):
        if reading.kind in _CONVERSATION:
            before[reading.turn] += measure(old)
            after[reading.turn] += measure(new)
            count[reading.turn] += 1
    done: dict[int, Counter[str]] = {}
    for index, how in zip(made.changed, made.how, strict=True):
        done.setdefault(readings[index].turn, Counter())[how] += 1
    found = []
    for turn in sorted(count):
        ways = done.get(turn)
        why = "newest turns" if turn in newest else "nothing to reduce, or not needed"
        if ways:
            why = ", ".join(f"{number} {_SAID[how]}" for how, number in sorted(ways.items()))
        score = rated.get(turn, Score(turn))
        fate = TurnFate(turn, "reduced" if ways else "kept", why, before[turn], after[turn], count[turn], 0, score)
        found.append(fate)
    return found
