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
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from codelet.context.compaction.engine import CompactionSettings, IrreducibleContext, compact
from codelet.context.tokens import estimate_message
from codelet.messages import unpaired
from scripts.bench.context import recall
from scripts.bench.context.readers import Message, Transcript, read_all
from tests.context.compaction.planted import made_up

Questions = Sequence[tuple[str, str, list[str]]]
"""Each with its kind, its text, and the words of the answer."""
NEAR, ROUNDS, CUTS = 5, 30, 5


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


def answered(questions: Questions, messages: Sequence[Message]) -> int:
    """Return the number of questions that a list answers: all words of the answer within five lines."""
    lines = [flat(line).lower() for message in messages for line in recall.spoken(message).split("\n")]
    lines = [line for line in lines if line]
    right = 0
    for _, _, words in questions:
        places = [[at for at, line in enumerate(lines) if word.lower() in line] for word in words]
        starts = [at for own in places for at in own]
        right += any(all(any(0 <= at - start < NEAR for at in own) for own in places) for start in starts)
    return right


def cuts_of(messages: list[Message]) -> list[recall.Cut]:
    """Cuts after the first quarter of a session, at the user's prompts if it has enough of them."""
    least = sum(len(recall.spoken(message)) for message in messages) // 4
    found = recall.cuts(messages, CUTS, max(30_000, least), at_user=True)
    return found if len(found) >= 3 else recall.cuts(messages, CUTS, max(8_000, least), at_user=False)


def sessions(transcripts: Sequence[Transcript], questions: dict[str, Questions], share: float) -> bool:
    """Print what is kept of real sessions at one share of their size; whether no list is too large or broken."""
    rows: list[tuple[float, ...]] = []
    broken = right = asked = 0
    for name, messages in transcripts:
        if size(messages) < 20_000:
            continue
        for cut in cuts_of(messages):
            target = int(size(cut.before) * share)
            after = compacted(list(cut.before), target)
            text = flat("\n".join(map(recall.spoken, after)))
            heads = [flat(recall.spoken(m)[:60]) for m in cut.before if m["role"] == "user"]
            users = sum(head in text for head in heads) / max(1, len(heads))
            rows.append((*recall.recall(cut, after), users, size(after) / target))
            broken += len(unpaired(after))
        own = questions.get(name, [])
        asked += len(own)
        right += answered(own, compacted(messages, int(size(messages) * share)))
    frr, related, users, fill = zip(*rows, strict=True)
    show("FRR", share, f"{mean(frr):.3f} ({len(frr)} cuts)")
    show("relFRR", share, f"{mean(related):.3f}")
    show("questions", share, f"{right}/{asked}")
    show("user's words", share, f"{mean(users):.3f}")
    show("fill, unpaired", share, f"{max(fill):.2f}, {broken}")
    return max(fill) <= 1 and not broken


def rounds(transcripts: Sequence[Transcript], questions: dict[str, Questions], share: float) -> None:
    """Print how many questions are answered after many compactions next to one."""
    once = often = asked = 0
    for name, messages in transcripts:
        own = questions.get(name, [])
        if not own or size(messages) < 30_000:
            continue
        target, step = int(size(messages) * share), -(-size(messages) // ROUNDS)

        def shorter(grown: list[Message], target: int = target) -> list[Message]:
            return compacted(grown, target) if size(grown) > target else grown

        kept, part = list[Message](), list[Message]()
        for message in messages:
            if message["role"] != "tool" and size(part) >= step:
                kept, part = shorter(kept + part), []
            part.append(message)
        once += answered(own, compacted(messages, target))
        often += answered(own, shorter(kept + part))
        asked += len(own)
    show(f"questions after {ROUNDS} rounds, after one", share, f"{often}, {once} of {asked}")


def speed() -> None:
    """Print the time for 150,000 tokens as a ratio to `json.dumps`, and for a million."""
    for tokens in (150_000, 1_000_000):
        messages = made_up(tokens)
        whole = size(messages)
        dumped = seconds(lambda messages=messages: json.dumps(messages))
        spent = seconds(lambda messages=messages, whole=whole: compacted(messages, whole // 8))
        per = f"{spent * 150_000 / whole:.2f}, {spent / dumped:.0f} times json.dumps"
        show(f"s per 150k of {whole:,}", 0.125, per)
    entries, settings = made_up(30_000)[1:51], CompactionSettings(fold=True, keep_last=5)
    whole = size(entries)
    least = min(seconds(lambda: compact(entries, whole, settings=settings)) for _ in range(9))
    show(f"ms for 50 entries of {whole:,} tokens", None, f"{1_000 * least:.1f}")


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def show(name: str, share: float | None, value: str) -> None:
    """Print one row of the table."""
    print(f"| {name} | {'' if share is None else f'{share:.2%}'} | {value} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.25, 0.125, 0.0625])
    parser.add_argument("--only", default="sessions,rounds,speed")
    options = parser.parse_args()
    only, good = options.only.split(","), True
    transcripts = read_all(options.data) if options.data else []
    questions: dict[str, Any] = json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))
    print("| measure | share | value |\n|---|---|---|")
    for share in options.shares if transcripts else ():
        if "sessions" in only:
            good &= sessions(transcripts, questions, share)
        if "rounds" in only:
            rounds(transcripts, questions, share)
    if "speed" in only:
        speed()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
