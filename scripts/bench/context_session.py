"""How much a session still holds of what is needed later: recall over a real session, compacted as a session compacts.

Use: python scripts/bench/context_session.py (--data FILE | --history REPOSITORY)
     [--windows 64000,128000,200000] [--starts 3] [--share 15]

The ruler measures `compact()` at a share of a list's size. Here the longest transcript is played into the session's own
compactor, with its limits, tiers, shares, pins and archive, from several starts; a compaction happens where a session
makes one. Shown are recall and related recall at fixed places and right after each compaction, and what rewriting the
prompt cache cost (read 0.1, write 1.25, in millions of tokens). `--share` is the share of history in per cent.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import is_
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context import history, readers, recall

from codelet import events
from codelet.context import CompactionOptions, Compactor, ContextWindow
from codelet.context.compaction.parsing import normalise
from codelet.context.tokens import estimate_message
from codelet.context.tokens.budget import Budget
from codelet.conversation import Conversation
from codelet.messages import unpaired

Message = dict[str, Any]
FIXED = 2_500
EVERY = 12
READERS: dict[str, Callable[[str], set[str]]] = {"names": recall.identifiers, "words": recall.words}


@dataclass
class Played:
    """One replay: lists at fixed places, lists right after compactions, their tiers and sizes, and the cost."""

    places: list[tuple[int, list[Message]]] = field(default_factory=list)
    after: list[tuple[int, list[Message]]] = field(default_factory=list)
    tiers: Counter[int] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    cost: float = 0.0


async def play(transcript: list[Message], window: int, options: CompactionOptions) -> Played:
    """Put message after message into a list, and compact it before a request where that is due."""
    measured = ContextWindow(Budget(window), FIXED)
    conversation = Conversation(measured)
    compactor = Compactor(conversation, measured, options)
    pending: list[Any] = []
    played, sent, requests = Played(), list[Message](), 0
    for place, message in enumerate(transcript):
        if message["role"] == "user":
            compactor.new_turn()
        if message["role"] == "assistant":
            measured.settle(conversation)
            if (reason := compactor.due()) is not None:
                async for event in compactor.run(reason):
                    if isinstance(event, events.Compaction) and event.phase == "done":
                        played.tiers[event.tier] += 1
                        played.sizes.append(event.after)
                        played.after.append((place, conversation.sent()))
            messages = conversation.sent()
            same = list(map(is_, sent, messages))
            known = same.index(False) if False in same else len(same)
            sizes = list(map(estimate_message, messages))
            played.cost += 0.1 * (FIXED + sum(sizes[:known])) + 1.25 * sum(sizes[known:])
            sent = messages
            requests += 1
            if requests % EVERY == 0 and played.after:
                played.places.append((place, sent))
        pending.append(message)
        if not unpaired(pending):  # calls and results go in together
            conversation.append(*pending)
            pending.clear()
    return played


def recalls(
    transcript: list[Message], lists: list[tuple[int, list[Message]]], reader: Callable[[str], set[str]]
) -> list[recall.Recall]:
    """What each list holds of what is needed after its place."""
    cuts = [(recall.cut_at(transcript, place, reader), messages) for place, messages in lists]
    return [recall.recall(cut, messages, reader) for cut, messages in cuts if len(cut.needed) >= 3]


def shown(found: list[recall.Recall]) -> str:
    """`recall/related recall`, means."""
    return f"{fmean(r.frr for r in found):.3f}/{fmean(r.rel for r in found):.3f}" if found else "-"


def starts(messages: list[Message], count: int) -> list[list[Message]]:
    """The session from its beginning, and from later prompts, each with half of it at least."""
    prompts = [place for place, message in enumerate(messages) if message["role"] == "user"]
    wanted = [number * len(messages) // (2 * count) for number in range(count)]
    return [messages[next(place for place in prompts if place >= least) :] for least in wanted]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder of transcripts, or a file: the longest one is played")
    parser.add_argument("--history", type=Path, help="a git repository: sessions made up from its commits instead")
    parser.add_argument("--windows", default="64000,128000,200000")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--share", type=int, default=15)
    args = parser.parse_args()
    if not args.data and not args.history:
        parser.error("name a session with --data or --history")
    found = history.sessions(args.history) if args.history else readers.read_all(args.data)
    sessions = [normalise(transcript.messages).messages for transcript in found]
    longest = max(sessions, key=lambda session: sum(map(estimate_message, session)))
    parts = sessions if args.history else starts(longest, args.starts)
    options = CompactionOptions(shares=(5, 30, args.share, 65 - args.share))
    heads = ("window", "tiers", "tokens after", "cost", "names", "names, right after", "words", "words, right after")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for window in map(int, args.windows.split(",")):
        played = [asyncio.run(play(part, window, options)) for part in parts]
        tiers = sum((one.tiers for one in played), Counter())
        sizes = [size for one in played for size in one.sizes]
        row = [f"{window:,}", ", ".join(f"{n} of tier {tier}" for tier, n in sorted(tiers.items()))]
        row += [f"{fmean(sizes):,.0f}" if sizes else "-", f"{sum(one.cost for one in played) / 1e6:.2f}"]
        for reader in READERS.values():
            for name in ("places", "after"):
                pairs = zip(parts, played, strict=True)
                row.append(shown([r for part, one in pairs for r in recalls(part, getattr(one, name), reader)]))
        print("| " + " | ".join(row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
