"""Measure compaction on a folder of sessions, and its speed on made-up ones; print one table.

Use: python -m scripts.bench.context --data DIR [--shares S …] [--only sessions,rounds,speed]

sessions: FRR and relFRR (see `recall`), the user's words, fill, pairs, and questions. rounds: questions after 30
compactions. speed: seconds for 150,000 tokens, also as a ratio to `json.dumps` of the list, and the time to fold 50
entries. Exit status 1 for a list that is too large or broken. Truth and languages are in tests/context/compaction.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

from codelet.context.compaction.engine import compact
from codelet.context.compaction.plan import CompactionSettings, IrreducibleContext
from codelet.context.tokens import estimate_message
from codelet.messages import unpaired
from scripts.bench.context import recall
from scripts.bench.context.readers import Transcript, read_all
from tests.context.compaction.planted import made_up

Message = dict[str, Any]
NEAR, ROUNDS, CUTS = 5, 30, 5


@dataclass
class Counts:
    """Sums over sessions of what was kept."""

    frr: list[float]
    related: list[float]
    users: list[float]
    fill: list[float]
    broken: int = 0
    right: int = 0
    asked: int = 0


def size(messages: Sequence[Message]) -> int:
    """The default estimate of a list in tokens."""
    return sum(map(estimate_message, messages))


def compacted(messages: list[Message], target: int) -> list[Message]:
    """The compacted list; a target that cannot be met counts as an empty one."""
    try:
        return compact(messages, target).messages
    except IrreducibleContext:
        return []


def flat(text: str) -> str:
    """A text with every run of white space as one space."""
    return " ".join(text.split())


def answered(questions: Sequence[tuple[str, str, list[str]]], messages: Sequence[Message]) -> int:
    """Return the number of questions that a list answers: all words of the answer within five lines."""
    lines = [flat(line).lower() for message in messages for line in recall.spoken(message).split("\n")]
    lines = [line for line in lines if line]
    right = 0
    for _, _, words in questions:
        places = [[at for at, line in enumerate(lines) if word.lower() in line] for word in words]
        starts = chain.from_iterable(places)
        right += any(all(any(0 <= at - start < NEAR for at in own) for own in places) for start in starts)
    return right


def cuts_of(messages: list[Message]) -> list[recall.Cut]:
    """Cuts after the first quarter of a session, at the user's prompts if it has enough of them."""
    least = sum(len(recall.spoken(message)) for message in messages) // 4
    found = recall.cuts(messages, CUTS, max(30_000, least), at_user=True)
    return found if len(found) >= 3 else recall.cuts(messages, CUTS, max(8_000, least), at_user=False)


def sessions(transcripts: Sequence[Transcript], questions: dict[str, Any], share: float) -> None:
    """Print what is kept of real sessions at one share of their size."""
    counts = Counts([], [], [], [])
    for transcript in transcripts:
        if size(transcript.messages) < 20_000:
            continue
        for cut in cuts_of(transcript.messages):
            target = int(size(cut.before) * share)
            after = compacted(list(cut.before), target)
            found = recall.recall(cut, after)
            text = flat("\n".join(map(recall.spoken, after)))
            heads = [flat(recall.spoken(m)[:60]) for m in cut.before if m["role"] == "user"]
            counts.frr.append(found.frr)
            counts.related.append(found.rel)
            counts.users.append(sum(head in text for head in heads) / max(1, len(heads)))
            counts.fill.append(size(after) / target)
            counts.broken += len(unpaired(after))  # type: ignore[arg-type]
        own = questions.get(transcript.name, [])
        counts.asked += len(own)
        counts.right += answered(own, compacted(transcript.messages, int(size(transcript.messages) * share)))
    row("FRR", share, f"{mean(counts.frr):.3f} ({len(counts.frr)} cuts)")
    row("relFRR", share, f"{mean(counts.related):.3f}")
    row("questions", share, f"{counts.right}/{counts.asked}")
    row("user's words", share, f"{mean(counts.users):.3f}")
    row("fill, unpaired", share, f"{max(counts.fill):.2f}, {counts.broken}")
    check(max(counts.fill) <= 1 and not counts.broken, "a list is too large or broken")


def rounds(transcripts: Sequence[Transcript], questions: dict[str, Any], share: float) -> None:
    """Print how many questions are answered after many compactions next to one."""
    once = often = asked = 0
    for transcript in transcripts:
        own, messages = questions.get(transcript.name, []), transcript.messages
        if not own or size(messages) < 30_000:
            continue
        target, kept = int(size(messages) * share), list[Message]()
        step = -(-size(messages) // ROUNDS)
        part: list[Message] = []
        for message in messages:
            if message["role"] != "tool" and size(part) >= step:
                kept, part = shorter(kept + part, target), []
            part.append(message)
        kept = shorter(kept + part, target)
        once += answered(own, compacted(messages, target))
        often += answered(own, kept)
        asked += len(own)
    row(f"questions after {ROUNDS} rounds, after one", share, f"{often}, {once} of {asked}")


def shorter(messages: list[Message], target: int) -> list[Message]:
    """The list, compacted if it is too long."""
    return compacted(messages, target) if size(messages) > target else messages


def speed() -> None:
    """Print the time for 150,000 tokens as a ratio to `json.dumps`, and for a million."""
    for tokens in (150_000, 1_000_000):
        messages = made_up(tokens)
        begun = time.process_time()
        json.dumps(messages)
        dumped = time.process_time() - begun
        begun = time.process_time()
        compacted(messages, size(messages) // 8)
        spent = time.process_time() - begun
        scale = 150_000 / size(messages)
        row(f"s per 150k of {size(messages):,}", 0.125, f"{spent * scale:.2f}, {spent / dumped:.0f} times json.dumps")
    entries, times = made_up(30_000)[1:51], []
    for _ in range(9):
        begun = time.process_time()
        compact(entries, size(entries), settings=CompactionSettings(fold=True, keep_last=5))
        times.append(time.process_time() - begun)
    row(f"ms for 50 entries of {size(entries):,} tokens", None, f"{1_000 * min(times):.1f}")


def row(name: str, share: float | None, value: str) -> None:
    """Print one row of the table."""
    print(f"| {name} | {'' if share is None else f'{share:.2%}'} | {value} |")


_bad: list[str] = []


def check(good: bool, what: str) -> None:
    """Remember what must not be."""
    if not good:
        _bad.append(what)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.125, 0.0625])
    parser.add_argument("--only", default="sessions,rounds,speed")
    options = parser.parse_args()
    only = options.only.split(",")
    transcripts = read_all(options.data) if options.data else []
    questions = json.loads((Path(__file__).parent / "questions.json").read_text(encoding="utf-8"))
    print("| measure | share | value |\n|---|---|---|")
    for share in options.shares:
        if transcripts and "sessions" in only:
            sessions(transcripts, questions, share)
        if transcripts and "rounds" in only:
            rounds(transcripts, questions, share)
    if "speed" in only:
        speed()
    return int(bool(_bad))


if __name__ == "__main__":
    sys.exit(main())
