"""A request as a recording stores it, for reading. An image's data is replaced by its digest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codelet.messages import Message, images_of, kind_of, reminder_type
from codelet.providers.protocol import Request
from codelet.safety.secrets import mask as masked_text

Plain = dict[str, Any]


def plain_request(request: Request) -> Plain:
    """The request as JSON, without secrets."""

    def mask(text: str) -> str:
        return masked_text(text, patterns=True)

    return {
        "system": mask(request.system),
        "tools": [tool["function"] for tool in request.tools],
        "messages": [_plain_message(message, mask) for message in request.messages],
    }


def without_same(request: Plain, before: Plain | None) -> Plain:
    """The request without the parts that equal the one `before` it in the file."""
    if before is None:
        return request
    short = {name: request[name] for name in ("system", "tools") if request[name] != before[name]}
    same = 0
    for one, other in zip(request["messages"], before["messages"], strict=False):
        if one != other:
            break
        same += 1
    return {**short, "same": same, "messages": request["messages"][same:]}


def _plain_message(message: Message, mask: Callable[[str], str]) -> Plain:
    plain: Plain = {
        "role": message["role"],
        "content": None if message["content"] is None else mask(message["content"]),
    }
    if kind_of(message) == "reminder":
        plain["reminder"] = reminder_type(message)
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
