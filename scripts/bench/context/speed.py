"""Time of a compaction against one `json.dumps` of the same list, by size; processor time, best of several."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from codelet.compaction import compact
from context.baselines import Message, size

SIZES = (10_000, 50_000, 150_000, 500_000, 1_000_000, 2_000_000)


def of_size(host: Sequence[Message], tokens: int) -> list[Message]:
    """The host, repeated with fresh ids and fresh names, until it has that many tokens."""
    found: list[Message] = []
    total, lap = 0, 0
    while total < tokens:
        for message in host:
            copy = renamed(message, lap) if lap else message
            found.append(copy)
            total += size([copy])
            if total >= tokens and copy["role"] == "assistant" and not copy.get("tool_calls"):
                break
        lap += 1
    return found


def renamed(message: Message, lap: int) -> Message:
    """The message as it might be in another part of a session: other ids, and other names at the end of each word."""
    text = str(message.get("content") or "").replace("tion", f"tion{lap}").replace("er(", f"er{lap}(")
    copy = {**message, "content": text}
    if "tool_call_id" in message:
        copy["tool_call_id"] = f"{message['tool_call_id']}_{lap}"
    if message.get("tool_calls"):
        copy["tool_calls"] = [{**call, "id": f"{call['id']}_{lap}"} for call in message["tool_calls"]]
    return copy


def best(action: Callable[[], Any], times: int) -> float:
    """The least processor time of several runs, in seconds."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        action()
        found.append(time.process_time() - begun)
    return min(found)


def measure(host: Sequence[Message], sizes: Sequence[int] = SIZES) -> list[dict[str, Any]]:
    """One row per size: tokens, messages, milliseconds of both, and their ratio, at a target of a quarter."""
    rows = []
    for tokens in sizes:
        messages = of_size(host, tokens)
        total = size(messages)
        times = 5 if tokens <= 200_000 else 2
        dumped = best(lambda messages=messages: json.dumps(messages), 9)
        compacted = best(lambda messages=messages, total=total: compact(messages, total // 4), times)
        rows.append(
            {
                "tokens": total,
                "messages": len(messages),
                "dumps ms": round(1000 * dumped, 2),
                "compact ms": round(1000 * compacted, 1),
                "ratio": round(compacted / dumped, 1),
            }
        )
    return rows
