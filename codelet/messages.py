"""The message: one entry sent to a provider, in the shape of OpenAI's Chat Completions.

Messages are plain dicts and are never changed once they stand in a list: whoever wants another text puts
another dict in its place. Encoders rely on that to encode each message once (see `providers/encoding.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NotRequired, Required, TypedDict

Role = Literal["system", "user", "assistant", "tool"]


class FunctionCall(TypedDict):
    """The function's name and its arguments as the JSON text of an object."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """The model's request to run one tool.

    `extra` is what the server sent beside it (a thought signature), field by field; it goes back with the call, to
    the provider that its message's `origin` names and to no other.
    """

    id: str
    type: Literal["function"]
    function: FunctionCall
    extra: NotRequired[dict[str, Any]]


class Message(TypedDict, total=False):
    """One message. `content` is text (None for an assistant message that only calls tools).

    `failed` marks a tool's result that is an error, a refusal or cut short; it is there only where it is true.

    `reasoning_content`, `reasoning`, `reasoning_details` (OpenAI-like servers) and `thinking_blocks` (Anthropic) are
    an assistant's reasoning as it came, `extra` is what else came beside its text (a signature), field by field. They
    are kept so that they can be sent back to the provider that made them, which `origin` names; to no other.
    """

    role: Required[Role]
    content: Required[str | None]
    tool_calls: list[ToolCall]
    tool_call_id: str
    failed: bool
    reasoning_content: str
    reasoning: str
    reasoning_details: list[dict[str, Any]]
    thinking_blocks: list[dict[str, Any]]
    extra: dict[str, Any]
    origin: str


def system(text: str) -> Message:
    """A system message."""
    return {"role": "system", "content": text}


def user(text: str) -> Message:
    """A user message."""
    return {"role": "user", "content": text}


def assistant(text: str | None, calls: list[ToolCall] | None = None) -> Message:
    """An assistant message, with its tool calls if there are any."""
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    return message


def tool_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """A tool call; `arguments` is the JSON text of an object."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_result(call_id: str, text: str, *, failed: bool = False) -> Message:
    """The answer to the tool call with that id."""
    message: Message = {"role": "tool", "tool_call_id": call_id, "content": text}
    if failed:
        message["failed"] = True
    return message


def unpaired(messages: Iterable[Message]) -> list[str]:
    """The ids that break the pairing rule: each call has exactly one result, right after its message.

    An empty list means that the list is valid. Used by tests and by whoever takes a list from outside.
    """
    wrong: list[str] = []
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            if call_id in open_ids:
                open_ids.remove(call_id)
            else:
                wrong.append(call_id)
            continue
        wrong.extend(open_ids)
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
    return wrong + open_ids
