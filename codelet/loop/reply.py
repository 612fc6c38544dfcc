"""The reply: an assistant message still being assembled from chunks."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import Any, Literal

from codelet import events
from codelet.context.tokens import estimate_text
from codelet.messages import Message, ToolCall, has_reasoning, tool_call
from codelet.providers.content.inline_reasoning import split_reasoning
from codelet.providers.protocol import (
    BlockChunk,
    BlocksChunk,
    Chunk,
    ExtraChunk,
    FinishChunk,
    FinishReason,
    NoteChunk,
    ReasoningChunk,
    RefusalChunk,
    RetryChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.system.text import is_blank
from codelet.tools.call_forms import arguments_in, plain_name, strict_object
from codelet.usage import Usage

_PLAIN = {"role", "content", "tool_calls"}
_CONTENT = (TextChunk, ReasoningChunk, BlockChunk, BlocksChunk, ToolCallChunk, ExtraChunk, RefusalChunk, FinishChunk)


class _OpenCall:
    def __init__(self, number: str, index: int) -> None:
        self.id = number
        self.index = index
        self.name = ""
        self.pieces: list[str] = []
        self.extra: dict[str, Any] = {}


class Reply:
    """Folds the chunks of one answer; `add` gives the events to show for each.

    Rule for tool calls: a new non-empty id opens a new call, because some servers use one index for all of
    them; a piece without an id belongs to the call last opened at its index, unless that one is whole and the
    piece names a function again: some servers send neither ids nor indices.
    """

    def __init__(self) -> None:
        self.usage: Usage | None = None
        self.dropped = 0
        """Blocks of earlier reasoning that the server left out of the request."""
        self._again = False
        self._counted = 0
        self._forget()

    def _forget(self) -> None:
        self.finish: FinishReason | None = None
        self.refusal = ""
        """The wire's report of a refusal instead of an answer, if any."""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
        self._extra: dict[str, Any] = {}
        self._details: list[dict[str, Any]] = []
        self._inline: list[str] = []
        self._blocks: list[dict[str, Any]] = []
        self._bound_to = ""
        self._calls: list[_OpenCall] = []
        self._at_index: dict[int, _OpenCall] = {}
        self._counted = 0
        self._by_id: dict[tuple[str, int], _OpenCall] = {}

    def add(self, chunk: Chunk) -> events.Event | None:
        """Add one chunk; return the event that shows it, if any.

        The text of an answer that is requested again is kept until the new answer begins.
        """
        if self._again and isinstance(chunk, _CONTENT):
            self._again = False
            self._forget()
        match chunk:
            case TextChunk():
                self._text.append(chunk.text)
                if self._blocks and self._blocks[-1]["type"] == "text":
                    self._blocks[-1]["length"] += len(chunk.text)
                return events.Text(chunk.text)
            case ReasoningChunk():
                return self._add_reasoning(chunk)
            case BlockChunk():
                self._blocks.append({"type": "text", "length": 0} if chunk.kind == "text" else {"type": chunk.kind})
            case BlocksChunk():
                self._blocks = chunk.blocks
                first = next((block for block in self._blocks if block["type"] == "text"), {"length": 0})
                first["length"] = max(0, first["length"] - len("".join(self._inline)))  # it is no part of the text
            case ToolCallChunk():
                self._add_call_piece(chunk)
            case ExtraChunk():
                _merge(self._extra, chunk.extra)
            case UsageChunk():
                self.usage = chunk.usage if chunk.usage.known else self.usage
                self.dropped = chunk.dropped or self.dropped
            case RefusalChunk():
                self.refusal += chunk.text
            case FinishChunk():
                self.finish, self._bound_to = chunk.reason, chunk.bound_to
                if not is_blank(self.refusal) and chunk.reason == "stop":
                    self.finish = "refused"
                if self.finish == "refused":
                    self._calls.clear()  # what was refused is not to be run: a filter may have taken parts of it
            case RetryChunk():
                self._again = True
                return events.Retry(
                    attempt=chunk.attempt, attempts=chunk.attempts, wait=chunk.wait, reason=chunk.reason
                )
            case NoteChunk():
                return events.Note(chunk.text)
        return None

    @property
    def text(self) -> str:
        """The text so far, without reasoning."""
        return self._split()[1]

    def _split(self) -> tuple[str, str]:
        """Reasoning that only a closing tag ends, and the text after it. The lengths of several texts stay right."""
        whole = "".join(self._text)
        return ("", whole) if sum(each["type"] == "text" for each in self._blocks) > 1 else split_reasoning(whole)

    def newly_written(self) -> int:
        """An estimate, in tokens, of what came of the answer since this was last asked."""
        arguments = (piece for call in self._calls for piece in call.pieces)
        written = estimate_text("".join((*self._text, *self._reasoning, *self._inline, *arguments)))
        new, self._counted = written - self._counted, written
        return new

    @property
    def has_begun(self) -> bool:
        """Return whether anything of the answer has come."""
        return bool(self._text or self._reasoning or self._inline or self._calls or self._has_blocks or self._details)

    @property
    def _has_blocks(self) -> bool:
        """Return whether blocks have come that hold more than their order, so that it matters."""
        return any(block["type"] not in ("text", "tool_use") or len(block) > 2 for block in self._blocks)

    @property
    def is_void(self) -> bool:
        """Return whether a finished answer has neither text nor calls. One that reached its output limit does not
        count.
        """
        return self.finish != "length" and not self._calls and is_blank(self.text)

    def calls(self, taken: set[str]) -> list[ToolCall]:
        """The finished calls. Ids that are missing or in `taken` are replaced, and all are added to it.

        Arguments stay as the model wrote them, empty ones as `{}`.
        """
        finished = []
        for call in self._calls:
            call_id = call.id
            if not call_id or call_id in taken:
                fresh = (f"{call.id or 'call'}_{number}" for number in count(len(taken) + 1))
                call_id = next(each for each in fresh if each not in taken)
            taken.add(call_id)
            made = tool_call(call_id, call.name, "".join(call.pieces).strip() or "{}")
            finished.append({**made, "extra": call.extra} if call.extra else made)
        return finished

    def message(self, calls: list[ToolCall], origin: str) -> Message:
        """Return the assistant message. Arguments that cannot be read become `{}`, almost-JSON becomes JSON, and names
        are made legal.

        A history with invalid arguments or names would make every later request fail at some providers.
        """
        reasoning, text = self._split()
        message: Message = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = [_legal(call) for call in calls]
        if self._has_blocks:
            message["blocks"] = self._blocks
        if self._details:
            message["reasoning_details"] = self._details
        if self._reasoning:
            message[self._reasoning_field] = "".join(self._reasoning)
        if reasoning or self._inline:
            message["inline_reasoning"] = "".join((*self._inline, reasoning))
        if self._extra:
            message["extra"] = self._extra
        if self._bound_to and has_reasoning(message):
            message["bound_to"] = self._bound_to
        if message.keys() - _PLAIN or any("extra" in call for call in calls):
            message["origin"] = origin
        return message

    def _add_reasoning(self, chunk: ReasoningChunk) -> events.Event | None:
        if chunk.block is not None:
            self._blocks.append(chunk.block)
        if chunk.details:
            for detail in chunk.details:
                self._add_detail(detail)
        if chunk.inline:
            self._inline.append(chunk.inline)
        if not chunk.text:
            return None
        if not chunk.inline:
            self._reasoning.append(chunk.text)
            self._reasoning_field = chunk.field
        return events.Reasoning(chunk.text)

    def _add_detail(self, detail: dict[str, object]) -> None:
        """One entry of `reasoning_details`: pieces of the same entry are put together, as it must go back whole."""
        last = self._details[-1] if self._details else None
        kind = detail.get("type")
        if last is None or kind is None or last.get("type") != kind or last.get("index") != detail.get("index"):
            self._details.append(dict(detail))
            return
        for name, value in detail.items():
            if name in ("text", "summary", "data") and isinstance(last.get(name), str) and isinstance(value, str):
                last[name] += value
            elif value is not None:
                last[name] = value

    def _add_call_piece(self, chunk: ToolCallChunk) -> None:
        call = self._call_of(chunk)
        if call is None:
            call = _OpenCall(chunk.id, chunk.index)
            self._calls.append(call)
            self._by_id[call.id, call.index] = call
        self._at_index[chunk.index] = call
        call.name = call.name or chunk.name
        if chunk.arguments:
            call.pieces.append(chunk.arguments)
        if chunk.extra:
            _merge(call.extra, chunk.extra)

    def _call_of(self, chunk: ToolCallChunk) -> _OpenCall | None:
        """The open call that a piece belongs to, or None if it begins a new one."""
        last = self._at_index.get(chunk.index)
        if not chunk.id:
            again = last is not None and chunk.name and last.name and _is_whole("".join(last.pieces))
            return None if again else last
        return self._by_id.get((chunk.id, chunk.index))


def _is_whole(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _legal(call: ToolCall) -> ToolCall:
    """The call as every provider takes it back: unchanged if it can be."""
    name, written = call["function"]["name"], call["function"]["arguments"]
    legal, arguments = name, written
    if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) is None:
        legal = re.sub(r"[^a-zA-Z0-9_-]", "_", plain_name(name))[:64] or "unnamed"
    if strict_object(written) is None:
        meant = arguments_in(written)
        arguments = json.dumps(meant, ensure_ascii=False) if isinstance(meant, dict) else "{}"
    if (legal, arguments) == (name, written):
        return call
    return {**call, "function": {"name": legal, "arguments": arguments}}


def _merge(whole: dict[str, object], piece: dict[str, object]) -> None:
    """Take a later piece of such fields into the earlier ones: lists grow, another value replaces the one before."""
    for name, value in piece.items():
        known = whole.get(name)
        if isinstance(known, dict) and isinstance(value, dict):
            merged = dict(known)
            _merge(merged, value)
            whole[name] = merged
        elif isinstance(known, list) and isinstance(value, list):
            whole[name] = known + value
        else:
            whole[name] = value
