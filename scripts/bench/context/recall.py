"""Future-reference recall: of what the agent used later, how much does the compacted list still hold?

Cut a session at a message. *Needed* are the identifiers that occurred before the cut and that the agent then uses, in
text or arguments, in the next 40 messages before a tool result or the user shows them again. Recall (FRR) is the share
of them that is still present. relFRR also needs each next to one of its original neighbours on a line, so that a bare
list of words earns nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
HORIZON = 40

_TOKEN = re.compile(r"[A-Za-z_$@~./][\w$@~./-]*[\w]")
_MARKED = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]|\w[_./-]\w|[a-zA-Z]\d|^[./~@$_]")


def identifiers(text: str) -> set[str]:
    """Words that look like names in code, paths or flags: mixed case, digits, `_ . / -` inside; length ≥ 4."""
    return {t for t in set(_TOKEN.findall(text)) if len(t) >= 4 and _MARKED.search(t)}


def spoken(message: Message) -> str:
    """All text of a message: content and the values of its call arguments, one line each."""
    content = message.get("content")
    parts = [content if isinstance(content, str) else ""]
    if isinstance(content, list):
        parts += [part.get("text", "") for part in content if isinstance(part, dict)]
    for call in message.get("tool_calls") or []:
        parts.append(call["function"]["name"])
        parts.extend(values(call["function"]["arguments"]))
    return "\n".join(part for part in parts if part)


def values(arguments: str) -> Iterator[str]:
    """The string values in JSON arguments; the raw text where they do not parse."""
    try:
        stack = [json.loads(arguments)]
    except ValueError:
        yield arguments
        return
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(reversed(value.values()))
        elif isinstance(value, list):
            stack.extend(reversed(value))
        else:
            yield str(value)


@dataclass(frozen=True)
class Cut:
    """One cut: the messages before it, what is needed of them, and the neighbours that each needed one had."""

    index: int
    before: list[Message]
    needed: frozenset[str]
    neighbours: dict[str, frozenset[str]]


@dataclass(frozen=True)
class Recall:
    """Shares between 0 and 1."""

    frr: float
    rel: float


def needed_after(messages: Sequence[Message], index: int) -> set[str]:
    """Identifiers used by the agent within the horizon, before anything showed them again."""
    shown: set[str] = set()
    used: set[str] = set()
    for message in messages[index : index + HORIZON]:
        found = identifiers(spoken(message))
        if message["role"] == "assistant":
            used |= found - shown
            shown |= found
        else:
            shown |= found
    return used


def cut_at(messages: Sequence[Message], index: int) -> Cut:
    """The cut before `messages[index]`."""
    before = list(messages[:index])
    neighbours: dict[str, set[str]] = {}
    later = needed_after(messages, index)
    for message in before:
        for line in spoken(message).split("\n"):
            found = identifiers(line)
            for name in found & later:
                neighbours.setdefault(name, set()).update(found - {name})
    needed = frozenset(neighbours)
    return Cut(index, before, needed, {name: frozenset(near) for name, near in neighbours.items()})


def recall(cut: Cut, after: Sequence[Message]) -> Recall:
    """Return the share of needed names in `after`; a name without neighbours counts as related anywhere."""
    present: set[str] = set()
    related: set[str] = set()
    for message in after:
        for line in spoken(message).split("\n"):
            found = identifiers(line)
            for name in found & cut.needed:
                present.add(name)
                near = cut.neighbours[name]
                if not near or near & found:
                    related.add(name)
    total = max(1, len(cut.needed))
    return Recall(len(present) / total, len(related) / total)


def cuts(messages: Sequence[Message], count: int, smallest: int, at_user: bool = True) -> list[Cut]:
    """Up to `count` cuts, evenly spread, right after a user message (or before an assistant's where users are few).

    Only cuts with at least `smallest` characters before them and three needed identifiers count.
    """
    size = 0
    places: list[int] = []
    for index, message in enumerate(messages):
        follows_user = index > 0 and messages[index - 1]["role"] == "user"
        if message["role"] == "assistant" and size >= smallest and (follows_user or not at_user):
            places.append(index)
        size += len(spoken(message))
    step = max(1, -(-len(places) // count)) if places else 1
    found = [cut_at(messages, index) for index in places[::step]]
    return [cut for cut in found if len(cut.needed) >= 3]
