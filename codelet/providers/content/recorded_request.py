"""A request as a recording keeps it, and where another one differs from it.

A reminder of the moment (the date, git's status, the tokens, …) is kept with a mark and not compared: it is never the
same twice. Of a picture the digest stands for its data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from codelet.messages import Message, images_of, is_momentary, kind_of, reminder_type
from codelet.providers.protocol import Request
from codelet.safety.secrets import mask as masked_text

_UNMARKED = frozenset({"environment", "gitStatus", "tokenStatus", "machine"})
"""Those in recordings from before there was a mark; a new reminder does not belong here."""
_AROUND = 30
_LONGEST = 60

Plain = dict[str, Any]


def plain_request(request: Request) -> Plain:
    """The request as JSON has it, without secrets."""

    def mask(text: str) -> str:
        return masked_text(text, patterns=True)

    return {
        "system": mask(request.system),
        "tools": [tool["function"] for tool in request.tools],
        "messages": [_plain_message(message, mask) for message in request.messages],
    }


def without_same(request: Plain, before: Plain | None) -> Plain:
    """The request as it stands in a file behind the one `before`: what is the same is left out."""
    if before is None:
        return request
    short = {name: request[name] for name in ("system", "tools") if request[name] != before[name]}
    same = 0
    for one, other in zip(request["messages"], before["messages"], strict=False):
        if one != other:
            break
        same += 1
    return {**short, "same": same, "messages": request["messages"][same:]}


def whole(short: Plain, before: Plain | None) -> Plain:
    """The reverse of `without_same`. Raises AttributeError, KeyError or TypeError for what is no request."""
    earlier = before or {"system": "", "tools": [], "messages": []}
    kept = earlier["messages"][: short.get("same", 0)]
    made = {**earlier, **short, "messages": [*kept, *short["messages"]]}
    named = [each.get("reminder") for each in made["messages"]]
    texts = [made["system"], *(name for name in named if name is not None)]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(tool, dict) for tool in made["tools"]):
        raise TypeError("a text or a tool has another type")
    return made


def difference(recorded: Plain, now: Plain) -> str | None:
    """The first thing in which a request is another than the recorded one, in a line; None if there is none."""
    if recorded["system"] != now["system"]:
        return f"the system prompt: {_differing(recorded['system'], now['system'])}"
    names = [[str(tool.get("name")) for tool in one["tools"]] for one in (recorded, now)]
    if names[0] != names[1]:
        return f"the tools: recorded {', '.join(names[0]) or 'none'}, now {', '.join(names[1]) or 'none'}"
    for name, one, other in zip(names[0], recorded["tools"], now["tools"], strict=True):
        if one != other:
            return f"the tool {name}: {_differing(repr(one), repr(other))}"
    before, after = (
        [each for each in one["messages"] if not each.get("momentary") and each.get("reminder") not in _UNMARKED]
        for one in (recorded, now)
    )
    for number, (one, other) in enumerate(zip(before, after, strict=False), 1):
        for name in dict.fromkeys((*one, *other)):
            if one.get(name) != other.get(name):
                told = _differing(_text(one.get(name)), _text(other.get(name)))
                return f"message {number} ({other.get('role')}), {name}: {told}"
    if len(before) != len(after):
        return f"the number of messages: recorded {len(before)}, now {len(after)}"
    return None


def _plain_message(message: Message, mask: Callable[[str], str]) -> Plain:
    plain: Plain = {
        "role": message["role"],
        "content": None if message["content"] is None else mask(message["content"]),
    }
    if kind_of(message) == "reminder":
        plain["reminder"] = reminder_type(message)
        if is_momentary(message):
            plain["momentary"] = True
    if calls := message.get("tool_calls"):
        plain["calls"] = [
            {
                "id": call["id"],
                "name": mask(call["function"]["name"]),
                "arguments": mask(call["function"]["arguments"]),
            }
            for call in calls
        ]
    if "tool_call_id" in message:
        plain["answers"] = message["tool_call_id"]
    if "images" in message:
        from hashlib import sha256

        plain["pictures"] = [
            {"name": each["name"], "digest": sha256(each["data"].encode()).hexdigest()} for each in images_of(message)
        ]
    return plain


def _text(value: object) -> str:
    return value if isinstance(value, str) else "nothing" if value is None else repr(value)


def _differing(recorded: str, now: str) -> str:
    """Return where two texts part, with a few characters of each."""
    place = next(
        (at for at, (one, other) in enumerate(zip(recorded, now, strict=False)) if one != other),
        min(len(recorded), len(now)),
    )
    return f"recorded {_excerpt(recorded, place)}, now {_excerpt(now, place)}"


def _excerpt(text: Sequence[str], place: int) -> str:
    start = max(0, place - _AROUND)
    return repr(("…" if start else "") + "".join(text[start : start + _LONGEST]))
