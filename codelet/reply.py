"""The reply: an assistant message still being assembled from chunks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from codelet import events
from codelet.messages import Message, ToolCall, tool_call
from codelet.providers.base import (
    Chunk,
    FinishChunk,
    FinishReason,
    ReasoningChunk,
    RetryChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.tokens.usage import Usage


@dataclass(eq=False, repr=False)
class _OpenCall:
    id: str
    index: int
    name: str = ""
    pieces: list[str] = field(default_factory=list)


class Reply:
    """Folds the chunks of one answer; `add` gives the events to show for each.

    Rule for tool calls: a new non-empty id opens a new call, because some servers use one index for all of
    them; a piece without an id belongs to the call last opened at its index.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.finish: FinishReason | None = None
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._details: list[dict[str, Any]] = []
        self._thinking: list[dict[str, Any]] = []
        self._calls: list[_OpenCall] = []
        self._at_index: dict[int, _OpenCall] = {}

    def add(self, chunk: Chunk) -> events.Event | None:
        """Take one chunk in; gives the event that shows it, if it is one to show."""
        match chunk:
            case TextChunk():
                self._text.append(chunk.text)
                return events.Text(chunk.text)
            case ReasoningChunk():
                return self._add_reasoning(chunk)
            case ToolCallChunk():
                self._add_call_piece(chunk)
            case UsageChunk():
                self.usage = chunk.usage
            case FinishChunk():
                self.finish = chunk.reason
            case RetryChunk():
                return events.Retry(chunk.attempt, chunk.attempts, chunk.wait, chunk.reason)
        return None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def calls(self, taken: set[str]) -> list[ToolCall]:
        """The finished calls. Ids that are missing or in `taken` are replaced, and all are added to it.

        Arguments stay as the model wrote them, empty ones as `{}`.
        """
        finished = []
        for call in self._calls:
            call_id = call.id
            while not call_id or call_id in taken:
                call_id = f"{call.id or 'call'}_{len(taken) + 1}"
            taken.add(call_id)
            finished.append(tool_call(call_id, call.name, "".join(call.pieces).strip() or "{}"))
        return finished

    def message(self, calls: list[ToolCall], origin: str) -> Message:
        """The assistant message. Arguments that are no JSON object become `{}`.

        A history with invalid arguments would make every later request fail at some providers.
        """
        message: Message = {"role": "assistant", "content": self.text or None}
        if calls:
            message["tool_calls"] = [
                call if isinstance(parsed_arguments(call), dict) else _without_arguments(call) for call in calls
            ]
        if self._thinking:
            message["thinking_blocks"] = self._thinking
        if self._details:
            message["reasoning_details"] = self._details
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._thinking or self._details or self._reasoning:
            message["origin"] = origin
        return message

    def _add_reasoning(self, chunk: ReasoningChunk) -> events.Event | None:
        if chunk.block is not None:
            self._thinking.append(chunk.block)
        if chunk.details:
            self._details.extend(chunk.details)
        if not chunk.text:
            return None
        self._reasoning.append(chunk.text)
        return events.Reasoning(chunk.text)

    def _add_call_piece(self, chunk: ToolCallChunk) -> None:
        call = self._at_index.get(chunk.index)
        if call is None or (chunk.id and chunk.id != call.id):
            call = _OpenCall(chunk.id, chunk.index)
            self._calls.append(call)
            self._at_index[chunk.index] = call
        call.name = call.name or chunk.name
        if chunk.arguments:
            call.pieces.append(chunk.arguments)


def parsed_arguments(call: ToolCall) -> object:
    """The arguments as JSON, or their raw text where they do not parse."""
    text = call["function"]["arguments"]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _without_arguments(call: ToolCall) -> ToolCall:
    return tool_call(call["id"], call["function"]["name"], "{}")
