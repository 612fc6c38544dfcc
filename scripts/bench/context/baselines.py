"""What we are measured against, as functions from (messages, target in tokens) to messages.

LangChain's three run for real where its package is installed; their summaries come from an extractive stand-in, because
the ruler calls no model, and the names say so. pi's and codex's shapes and the seed's algorithm are rebuilt from their
descriptions, and the names say that too. All are given the same default estimate, and all keep what a list begins with
of system messages: each of those agents holds its system prompt outside the list that it compacts.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from codelet.context.compaction import CompactionSettings, IrreducibleContext, compact
from codelet.context.tokens import estimate_message, estimate_text
from context.recall import spoken

Message = dict[str, Any]
Policy = Callable[[list[Message], int], list[Message]]


def size(messages: list[Message]) -> int:
    """The default estimate of a list in tokens."""
    return sum(map(estimate_message, messages))


def codelet(messages: list[Message], target: int) -> list[Message]:
    """Ours. A target that cannot be met counts as an empty list."""
    try:
        return compact(messages, target).messages
    except IrreducibleContext:
        return []


def unrated(messages: list[Message], target: int) -> list[Message]:
    """Ours, but that anchors and scores decide nothing."""
    try:
        return compact(messages, target, settings=CompactionSettings(rated=False)).messages
    except IrreducibleContext:
        return []


def with_system(policy: Policy) -> Policy:
    """The policy for what follows the leading system messages, which stay; they count against the target."""

    def kept(messages: list[Message], target: int) -> list[Message]:
        first = next((i for i, m in enumerate(messages) if m["role"] != "system"), len(messages))
        system, rest = messages[:first], messages[first:]
        return [*system, *policy(rest, max(1, target - size(system)))]

    return kept


def window(messages: list[Message], target: int) -> list[Message]:
    """Drop the oldest messages; results without their call go too."""
    left = target
    start = len(messages)
    while start > 0 and estimate_message(messages[start - 1]) <= left:
        start -= 1
        left -= estimate_message(messages[start])
    while start < len(messages) and messages[start]["role"] == "tool":
        start += 1
    return messages[start:]


def masked(messages: list[Message], target: int, keep: int = 10) -> list[Message]:
    """All but the last ten results replaced by a placeholder, then the window."""
    results = [i for i, m in enumerate(messages) if m["role"] == "tool"]
    old = set(results[:-keep])
    return window([{**m, "content": "[output omitted]"} if i in old else m for i, m in enumerate(messages)], target)


def extract(messages: list[Message], tokens: int) -> str:
    """The extractive stand-in for a model's summary: the lines with the highest mean TF-IDF, in order."""
    lines = [line.strip() for m in messages for line in spoken(m).split("\n") if len(line.strip()) > 15]
    lines = list(dict.fromkeys(line[:300] for line in lines))
    found = [re.findall(r"\w{3,}", line) for line in lines]
    frequency = Counter(word for words in found for word in set(words))
    total = Counter(word for words in found for word in words)

    def worth(words: list[str]) -> float:
        weights = [math.log1p(total[w]) * math.log(len(lines) / frequency[w] + 1) for w in set(words)]
        return sum(weights) / (len(weights) + 3) if weights else 0.0

    chosen: list[int] = []
    left = tokens
    for index in sorted(range(len(lines)), key=lambda i: -worth(found[i])):
        cost = estimate_text(lines[index]) + 1
        if cost <= left:
            left -= cost
            chosen.append(index)
    return "\n".join(lines[i] for i in sorted(chosen))


def _recent(messages: list[Message], tokens: int) -> int:
    """Where the newest messages that fit begin, never at a tool result."""
    start = len(messages)
    while start > 0 and tokens >= estimate_message(messages[start - 1]):
        start -= 1
        tokens -= estimate_message(messages[start])
    while start < len(messages) and messages[start]["role"] == "tool":
        start += 1
    return start


def pi_shape(messages: list[Message], target: int) -> list[Message]:
    """Pi's shape, rebuilt: the newest 60 % verbatim, a summary, cumulative lists of files read and modified."""
    start = _recent(messages, target * 6 // 10)
    read: dict[str, None] = {}
    changed: dict[str, None] = {}
    for message in messages[:start]:
        for call in message.get("tool_calls") or []:
            try:
                path = json.loads(call["function"]["arguments"]).get("path")
            except (ValueError, AttributeError):
                path = None
            if isinstance(path, str):
                (changed if call["function"]["name"] in ("edit", "write") else read)[path] = None
    files = "\n".join(["<read-files>", *read, "</read-files>", "<modified-files>", *changed, "</modified-files>"])
    files = files[: target * 4 // 10]
    left = target - size(messages[start:]) - estimate_text(files) - 20
    summary = extract(messages[:start], max(0, left))
    return [{"role": "user", "content": f"<summary>\n{summary}\n{files}\n</summary>"}, *messages[start:]]


def codex_shape(messages: list[Message], target: int) -> list[Message]:
    """Codex's shape, rebuilt: user messages newest first to 20k tokens or half the target, a summary, no tools."""
    left = min(20_000, target // 2)
    kept: list[Message] = []
    for message in reversed([m for m in messages if m["role"] == "user"]):
        cost = estimate_message(message)
        if cost > left:
            kept.append({**message, "content": str(message["content"])[: max(0, 4 * left - 16)]})
            break
        left -= cost
        kept.append(message)
    kept.reverse()
    summary = extract(messages, max(0, target - size(kept) - 12))
    return [*kept, {"role": "user", "content": f"Summary of the work so far:\n{summary}"}]


_TESTS_PASS = re.compile(r"test", re.IGNORECASE)


def seed(messages: list[Message], target: int) -> list[Message]:
    """The seed's algorithm, rebuilt: the newest anchor before the last three turns to the end, a template summary.

    Anchors are turns with an edit and a result that says "test" and "pass" or "success". The seed ignores its target;
    here the oldest go until it fits, so that it can be compared.
    """
    starts = [i for i, m in enumerate(messages) if m["role"] == "user"] or [0]
    turns = [messages[a:b] for a, b in zip(starts, [*starts[1:], len(messages)], strict=True)]
    anchor = None
    for number, turn in enumerate(turns[:-3]):
        edits = any(c["function"]["name"].lower() in ("edit", "write") for m in turn for c in m.get("tool_calls") or [])
        text = "\n".join(str(m["content"]).lower() for m in turn if m["role"] == "tool")
        if edits and _TESTS_PASS.search(text) and ("pass" in text or "success" in text):
            anchor = number
    first = max(0, len(turns) - 3) if anchor is None else anchor
    files = {
        path
        for turn in turns[:first]
        for m in turn
        for c in m.get("tool_calls") or []
        if isinstance(path := _argument(c, "path"), str)
    }
    goals = "; ".join(str(turn[0]["content"])[:80] for turn in turns[:first][-5:])
    outcome = "\n".join(f"✓ {str(turn[-1]['content'])[:120]}" for turn in turns[:first])
    summary = f"Active files: {', '.join(sorted(files))}\nGoals: {goals}\nBuild: unknown\n\nKey outcomes:\n{outcome}"
    kept = [m for turn in turns[first:] for m in turn]
    summary = summary[: max(0, 2 * target)]
    left = target - estimate_text(summary) - 4
    return [*window(kept, left), {"role": "user", "content": summary}]


def _argument(call: dict[str, Any], key: str) -> Any:
    try:
        return json.loads(call["function"]["arguments"]).get(key)
    except (ValueError, AttributeError):
        return None


OWN = ("codelet", "codelet without anchors and score")
"""Ours among them, which are given whole lists."""
PLAIN: dict[str, Policy] = {
    "codelet": codelet,
    "codelet without anchors and score": unrated,
    "drop-oldest window": window,
    "masking, last 10 results + window": masked,
    "pi's shape, rebuilt (stand-in summary)": pi_shape,
    "codex's shape, rebuilt (stand-in summary)": codex_shape,
    "the seed's algorithm, rebuilt + window": seed,
}
