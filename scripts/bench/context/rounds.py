"""What is left after many compactions: questions on real sessions after ten, conclusions planted in a long turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from context import handover
from context.baselines import Message, Policy, size
from context.readers import Transcript
from context.recall import spoken

ROUNDS = 10
STEPS, CONCLUSIONS, LONG_ROUNDS = 300, 60, 6
# As a session with a budget of 40,000 tokens gives it.
LONG_TARGET = 13_000


def drift(
    transcripts: Sequence[Transcript], policies: dict[str, Policy], shares: Sequence[float]
) -> list[dict[str, Any]]:
    """Questions answered after ten rounds: a tenth of the session is added, then all is compacted to one fixed size."""
    asked = handover.questions()
    rows = []
    for name, policy in policies.items():
        row: dict[str, Any] = {"policy": name}
        for share in shares:
            right = total = 0
            for transcript in transcripts:
                own = asked.get(transcript.name, [])
                if own and size(transcript.messages) > 30_000:
                    target = int(size(transcript.messages) * share)
                    messages: list[Message] = []
                    for part in parts(transcript.messages, ROUNDS):
                        messages = (
                            policy(messages + part, target) if size(messages + part) > target else messages + part
                        )
                    right, total = right + len(handover.answered(own, messages)), total + len(own)
            row[f"questions, {share:.1%}"] = f"{right}/{total}"
        whole, said = long_turn()
        kept: list[Message] = []
        for part in parts(whole, LONG_ROUNDS):
            kept = policy(kept + part, LONG_TARGET)
        text = handover.flat("\n".join(map(spoken, kept)))
        held = [conclusion in text for conclusion in said]
        row[f"conclusions of {CONCLUSIONS}, first 20"] = f"{sum(held)}, {sum(held[:20])}"
        rows.append(row)
    return rows


def parts(messages: Sequence[Message], count: int) -> list[list[Message]]:
    """The list in parts of about equal size; a call stays with its results."""
    total, spent = size(list(messages)), 0
    found: list[list[Message]] = [[]]
    for message in messages:
        if spent >= total * len(found) // count and message["role"] != "tool":
            found.append([])
        found[-1].append(message)
        spent += size([message])
    return found


def long_turn(seed: int = 11) -> tuple[list[Message], list[str]]:
    """A turn of 300 steps that reads and runs things, and the conclusions that the agent states every fifth step."""
    chance = random.Random(seed)
    nouns = "cache parser queue router index ledger worker socket buffer planner".split()
    verbs = "drops keeps reorders rejects duplicates truncates delays rounds swallows rewrites".split()
    what = "keys rows frames offsets headers tokens deltas leases cursors digests".split()
    said: list[str] = []
    messages: list[Message] = [
        {"role": "user", "content": "Find out why the nightly import loses rows, and mend it. Never touch legacy/."}
    ]
    for step in range(STEPS):
        path = f"src/{chance.choice(nouns)}/{chance.choice(what)}_{step % 37}.py"
        noun, verb, thing = chance.choice(nouns), chance.choice(verbs), chance.choice(what)
        text = f"Looking at {path} next."
        if step % (STEPS // CONCLUSIONS) == 2:
            said.append(
                f"The {noun} {verb} {thing} after batch {step + 100}, because its {chance.choice(nouns)} is shared."
            )
            text = said[-1]
        call = {"name": "read", "arguments": f'{{"path": "{path}"}}'}
        if step % 3 == 1:
            call = {"name": "bash", "arguments": f'{{"command": "pytest -q tests/test_{noun}_{step}.py"}}'}
        lines = [
            f"    {chance.choice(what)}_{chance.randint(0, 400)} = {chance.choice(nouns)}.{chance.choice(verbs)}"
            f"({chance.choice(what)}, {chance.randint(0, 9999)})"
            for _ in range(chance.randint(20, 60))
        ]
        messages.append(
            {
                "role": "assistant",
                "content": text,
                "tool_calls": [{"id": f"step_{step}", "type": "function", "function": call}],
            }
        )
        messages.append({"role": "tool", "tool_call_id": f"step_{step}", "content": "\n".join(lines)})
    return messages, said
