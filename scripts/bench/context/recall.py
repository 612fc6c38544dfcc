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
from typing import Any, NamedTuple

Message = dict[str, Any]
HORIZON = 40
_TOKEN = re.compile(r"[A-Za-z_$@~./][\w$@~./-]*[\w]")
_MARKED = re.compile(r"[a-z][A-Z]|[A-Z]{2,}[a-z]|\w[_./-]\w|[a-zA-Z]\d|^[./~@$_]")


class Cut(NamedTuple):
    """The messages before a cut, and what is needed of them, each with the neighbours that it had."""

    before: list[Message]
    needed: dict[str, set[str]]


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
        parts.extend(_values(call["function"]["arguments"]))
    return "\n".join(part for part in parts if part)


def _values(arguments: str) -> Iterator[str]:
    """The string values in JSON arguments; the raw text where they do not parse."""
    try:
        stack = [json.loads(arguments)]
    except ValueError:
        yield arguments
        return
    while stack:
        value = stack.pop()
        if isinstance(value, dict | list):
            stack.extend(reversed(value.values() if isinstance(value, dict) else value))
        else:
            yield str(value)


def _names(messages: Sequence[Message]) -> Iterator[set[str]]:
    """The identifiers of each line."""
    for message in messages:
        yield from map(identifiers, spoken(message).split("\n"))


def cut_at(messages: list[Message], index: int) -> Cut:
    """The cut before `messages[index]`."""
    shown: set[str] = set()
    used: set[str] = set()
    for message in messages[index : index + HORIZON]:
        found = identifiers(spoken(message))
        if message["role"] == "assistant":
            used |= found - shown
        shown |= found
    needed: dict[str, set[str]] = {}
    for found in _names(messages[:index]):
        for name in found & used:
            needed.setdefault(name, set()).update(found - {name})
    return Cut(messages[:index], needed)


def recall(cut: Cut, after: Sequence[Message]) -> tuple[float, float]:
    """FRR and relFRR of `after`; a name without neighbours counts as related anywhere."""
    present: set[str] = set()
    related: set[str] = set()
    for found in _names(after):
        for name in found & cut.needed.keys():
            present.add(name)
            if not cut.needed[name] or cut.needed[name] & found:
                related.add(name)
    total = max(1, len(cut.needed))
    return len(present) / total, len(related) / total


def cuts(messages: list[Message], count: int, smallest: int, *, at_user: bool) -> list[Cut]:
    """Up to `count` cuts, evenly spread, before an assistant's message; with `at_user` only right after a user's.

    Only cuts with at least `smallest` characters before them and three needed identifiers count.
    """
    size = 0
    places: list[int] = []
    for index, message in enumerate(messages):
        follows_user = index > 0 and messages[index - 1]["role"] == "user"
        if message["role"] == "assistant" and size >= smallest and (follows_user or not at_user):
            places.append(index)
        size += len(spoken(message))
    step = max(1, -(-len(places) // count))
    found = [cut_at(messages, index) for index in places[::step]]
    return [cut for cut in found if len(cut.needed) >= 3]
