"""Planted needles: six kinds of fact, three positions, one to five rounds of work and compaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from context.baselines import Message, Policy, size
from context.recall import spoken

KINDS = ("path", "error", "decision", "constraint", "number", "superseded")
POSITIONS = ("early", "middle", "late")
ROUNDS = 5


@dataclass(frozen=True)
class Needle:
    """What is planted, what must still be found, and what must not be shown as current."""

    kind: str
    position: str
    messages: tuple[Message, ...]
    wanted: tuple[str, ...]
    stale: str = ""


def needle(kind: str, position: str, number: int) -> Needle:
    """The needle of a kind; `number` makes its words its own."""
    call_id = f"needle_{kind}_{number}"
    n = 7_100 + 37 * number
    path = f"services/ledger{number}/rates_{n}.toml"
    error = f"LedgerMismatchError: expected {n} entries in flush_queue_{number}, got {n - 3}"
    if kind == "path":
        call = {"name": "read", "arguments": f'{{"path": "{path}"}}'}
        messages: list[Message] = [
            {
                "role": "assistant",
                "content": f"The rates are read from {path}.",
                "tool_calls": [{"id": call_id, "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": "[rates]\nbase = 3\n"},
        ]
        return Needle(kind, position, tuple(messages), (path,))
    if kind == "error":
        call = {"name": "bash", "arguments": f'{{"command": "python run_{number}.py"}}'}
        messages = [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": f"starting\nloading rates\n{error}\nstopped"},
        ]
        return Needle(kind, position, tuple(messages), (error,))
    if kind == "decision":
        text = f"Let's go with sqlite for queue_{number}, not redis: one file is easier to back up."
        return Needle(kind, position, ({"role": "user", "content": text}, _ok()), (f"sqlite for queue_{number}",))
    if kind == "constraint":
        text = f"Never edit legacy/payments_{number}.py, it must stay byte for byte as it is."
        return Needle(
            kind, position, ({"role": "user", "content": text}, _ok()), ("Never edit", f"legacy/payments_{number}.py")
        )
    if kind == "number":
        said: Message = {
            "role": "assistant",
            "content": f"Measured: flush_queue_{number} takes {n} ms with a batch of {n % 97 + 11}.",
        }
        return Needle(kind, position, (said,), (f"{n} ms",))
    old, new = 8_100 + number, 9_400 + number
    messages = [
        {"role": "user", "content": f"Use port {old} for gateway_{number}."},
        _ok(),
        {"role": "user", "content": f"Actually, use port {new} for gateway_{number} instead."},
        _ok(),
    ]
    return Needle(kind, position, tuple(messages), (f"port {new}",), f"port {old}")


def _ok() -> Message:
    return {"role": "assistant", "content": "Understood."}


def run(policy: Policy, host: Sequence[Message], share: float) -> list[dict[str, Any]]:
    """Survival by round: the host is cut into six parts; a part is added, then everything is compacted.

    The target is `share` of the first part's size and stays the same. Needles stand in the first part.
    """
    parts = _parts(list(host), ROUNDS + 1)
    first, needles = _planted(parts[0])
    target = max(1_500, int(size(first) * share))
    rows: list[dict[str, Any]] = []
    messages = first
    for number in range(1, ROUNDS + 1):
        messages = policy(messages, target)
        lines = [line for m in messages for line in spoken(m).split("\n")]
        text = "\n".join(lines)
        rows.extend(
            {
                "kind": one.kind,
                "position": one.position,
                "round": number,
                "held": all(wanted in text for wanted in one.wanted),
                "stale": bool(one.stale) and _shown_as_current(one, lines),
                "tokens": size(messages),
                "target": target,
            }
            for one in needles
        )
        messages = messages + parts[number]
    return rows


def _shown_as_current(one: Needle, lines: list[str]) -> bool:
    """Whether the old value stands somewhere without the mark, and with no new value after it."""
    places = [i for i, line in enumerate(lines) if one.stale in line and "superseded" not in line]
    newer = [i for i, line in enumerate(lines) if one.wanted[0] in line]
    return bool(places) and (not newer or max(places) > max(newer))


def _parts(host: list[Message], count: int) -> list[list[Message]]:
    """The host in parts of about equal size, cut at user messages."""
    total = size(host)
    parts: list[list[Message]] = [[]]
    spent = 0
    for message in host:
        if message["role"] == "user" and spent >= total * len(parts) // count and len(parts) < count:
            parts.append([])
        parts[-1].append(message)
        spent += size([message])
    while len(parts) < count:
        parts.append([{"role": "user", "content": "go on"}, _ok()])
    return parts


def _planted(part: list[Message]) -> tuple[list[Message], list[Needle]]:
    """The first part with needles of every kind at three positions, before user messages or at the ends."""
    places = [i for i, m in enumerate(part) if m["role"] in ("user", "assistant") and i > 0] or [len(part)]
    needles: list[Needle] = []
    inserts: list[tuple[int, Needle]] = []
    for p, position in enumerate(POSITIONS):
        for k, kind in enumerate(KINDS):
            at = places[min(len(places) - 1, (2 * p + 1) * len(places) // 6 + k)]
            one = needle(kind, position, 10 * p + k)
            needles.append(one)
            inserts.append((at, one))
    out = list(part)
    for at, one in sorted(inserts, key=lambda item: -item[0]):
        out[at:at] = one.messages
    return out, needles


def synthetic(turns: int = 90) -> list[Message]:
    """A made-up host: the same few files read and changed over and over, with test runs."""
    messages: list[Message] = []
    for turn in range(turns):
        path = f"src/module_{turn % 11}/handler_{turn % 23}.py"
        messages.append({"role": "user", "content": f"Now make handler {turn % 23} cope with case {turn}."})
        for step in range(4):
            call_id = f"s{turn}_{step}"
            name, arguments = (
                ("read", f'{{"path": "{path}"}}') if step % 2 == 0 else ("bash", '{"command": "pytest -q"}')
            )
            body = "\n".join(f"    result_{i} = transform_{i % 13}(payload_{turn % 5}, {i})" for i in range(60))
            messages.append(
                {
                    "role": "assistant",
                    "content": f"Looking at case {turn} in {path}." if step == 0 else None,
                    "tool_calls": [
                        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                    ],
                }
            )
            output = f"def handle_{turn % 23}(payload):\n{body}" if step % 2 == 0 else f"{turn + 5} passed in 1.2s"
            messages.append({"role": "tool", "tool_call_id": call_id, "content": output})
        messages.append({"role": "assistant", "content": f"Case {turn} is covered; the tests pass."})
    return messages
