"""The native wire for Anthropic's Messages.

Source: Anthropic's API reference for `POST /v1/messages` with `stream: true`, prompt caching and extended
thinking. Cache marks: on the system prompt (which covers the tools), on the last block before the volatile
reminders, and where the last request had it, so that a step with many results still finds its prefix.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from typing import Any

from codelet import prompt
from codelet.errors import ProviderError
from codelet.messages import Message
from codelet.providers.answer import DONE, NO_MARKER, as_count, as_text, decoded, until_silent
from codelet.providers.catalog import Endpoint
from codelet.providers.failure import stream_failure
from codelet.providers.native import NativeProvider, compact_json
from codelet.providers.protocol import (
    Chunk,
    FinishChunk,
    FinishReason,
    ProviderOptions,
    ReasoningChunk,
    Request,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.usage import Usage

_VERSION = "2023-06-01"
_DEFAULT_MAX_OUTPUT = 8_192
_MARK = {"cache_control": {"type": "ephemeral"}}
_MARK_BYTES = b"," + compact_json(_MARK)[1:]

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "paused",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class AnthropicProvider(NativeProvider):
    """A model behind a server that speaks Anthropic's Messages."""

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions) -> None:
        own = endpoint.vendor.prefix == "anthropic" and endpoint.base == endpoint.vendor.base
        super().__init__(model, endpoint, options, origin="anthropic" if own else f"anthropic:{endpoint.base}")
        self._last_mark = -1

    def body(self, request: Request) -> bytes:
        """The request's body: what never changes comes first, then the messages, then the options."""
        head = b'{"model":' + compact_json(self._endpoint.model_name(self.model))
        if request.tools:
            head += b',"tools":' + compact_json([_tool(tool["function"]) for tool in request.tools])
        if request.system:
            head += b',"system":' + compact_json([{"type": "text", "text": request.system, **_MARK}])
        options = {"max_tokens": request.max_output or _DEFAULT_MAX_OUTPUT, "stream": True}
        fragments = self._cache.fragments(request.messages)
        self._mark(fragments, len(request.messages) - request.tail)
        closing = (b"]}]," if any(fragments) else b"],") + compact_json(options)[1:]
        return b"".join([head, b',"messages":[', *fragments, closing])

    def _mark(self, fragments: list[bytes], stable: int) -> None:
        """Set the cache marks in this request's copy of the fragments."""
        here = stable - 1
        while here > 0 and not fragments[here]:
            here -= 1
        for place in {here, self._last_mark}:
            if 0 <= place < stable and fragments[place]:
                fragments[place] = fragments[place][:-1] + _MARK_BYTES
        self._last_mark = here

    def _encode(self, message: Message, open_role: str) -> tuple[bytes, str]:
        """A message's content blocks, with what closes the message before where the role changes."""
        role = "assistant" if message["role"] == "assistant" else "user"
        blocks = b",".join(compact_json(block) for block in self._blocks(message))
        if not blocks:
            return b"", open_role
        if role == open_role:
            return b"," + blocks, role
        start = b'{"role":"' + role.encode() + b'","content":['
        return (b"]}," if open_role else b"") + start + blocks, role

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        text = message["content"] or ""
        if message["role"] == "tool":
            call_id = _call_id(message.get("tool_call_id", ""))
            result = {"type": "tool_result", "tool_use_id": call_id, "content": text or prompt.NO_OUTPUT}
            return [{**result, "is_error": True} if message.get("failed") else result]
        blocks: list[dict[str, Any]] = []
        calls = message.get("tool_calls", ())
        if message.get("origin") == self.origin and (text.strip() or calls):  # thinking may not come last
            blocks.extend(message.get("thinking_blocks", ()))
        if text.strip():
            blocks.append({"type": "text", "text": text})
        for call in calls:
            function = call["function"]
            blocks.append(
                {
                    "type": "tool_use",
                    "id": _call_id(call["id"]),
                    "name": function["name"],
                    "input": json.loads(function["arguments"]),
                }
            )
        return blocks

    def _path(self) -> str:
        return "/messages" if self._endpoint.base.rstrip("/").endswith("/v1") else "/v1/messages"

    def _headers(self) -> dict[str, str]:
        key = {"x-api-key": self._endpoint.key} if self._endpoint.key else {}
        return {"anthropic-version": _VERSION, **key}

    def _chunks(self, events: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[Chunk, None]:
        return _Decoder().chunks(events)


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function["description"],
        "input_schema": function["parameters"],
    }


def _call_id(call_id: str) -> str:
    """Ids made by other vendors may hold characters that this one refuses."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)


class _Decoder:
    """Turns the events of one answer into chunks; holds the open thinking block and the usage so far."""

    def __init__(self) -> None:
        self._thinking: dict[str, Any] | None = None
        self._thoughts: list[str] = []
        self._input: dict[str, int] = {}
        self._finish: FinishReason | None = None

    async def chunks(self, events: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[Chunk, None]:
        """The chunks, ended by the finish marker; raises ProviderError where it is missing.

        An end before anything came is an empty answer.
        """
        empty = True
        async for event in until_silent(events, lambda: self._finish is not None):
            if event is DONE:
                if self._finish is None:
                    continue
                yield FinishChunk(self._finish)
                return
            for chunk in decoded(self._decode, event):
                empty = False
                yield chunk
            if event.get("type") == "message_stop":
                yield FinishChunk(self._finish or "stop")
                return
        if empty:
            yield FinishChunk("stop")
            return
        raise ProviderError(NO_MARKER, retryable=True)

    def _decode(self, event: dict[str, Any]) -> list[Chunk]:
        match event.get("type"):
            case "message_start":
                return [self._usage((event.get("message") or {}).get("usage"))]
            case "content_block_start":
                return self._block_start(event.get("index", 0), event.get("content_block") or {})
            case "content_block_delta":
                return self._delta(event.get("index", 0), event.get("delta") or {})
            case "content_block_stop" if self._thinking is not None:
                block, self._thinking = self._thinking, None
                if self._thoughts:
                    block["thinking"] = block.get("thinking", "") + "".join(self._thoughts)
                    self._thoughts = []
                return [ReasoningChunk(block=block)]
            case "message_delta":
                reason = (event.get("delta") or {}).get("stop_reason")
                self._finish = _FINISH.get(reason, "stop") if reason else self._finish
                return [self._usage(event.get("usage"))]
            case "error":
                raise stream_failure(event.get("error") or {})
        return []

    def _block_start(self, index: int, block: dict[str, Any]) -> list[Chunk]:
        match block.get("type"):
            case "tool_use":
                return [ToolCallChunk(index=index, id=as_text(block.get("id")), name=as_text(block.get("name")))]
            case "thinking" | "redacted_thinking":
                self._thinking, self._thoughts = dict(block), []
            case "text" if block.get("text"):
                return [TextChunk(as_text(block["text"]))]
        return []

    def _delta(self, index: int, delta: dict[str, Any]) -> list[Chunk]:
        match delta.get("type"):
            case "text_delta":
                return [TextChunk(as_text(delta.get("text")))]
            case "input_json_delta":
                return [ToolCallChunk(index=index, arguments=as_text(delta.get("partial_json")))]
            case "thinking_delta" if self._thinking is not None:
                piece = as_text(delta.get("thinking"))
                self._thoughts.append(piece)
                return [ReasoningChunk(text=piece)]
            case "signature_delta" if self._thinking is not None:
                self._thinking["signature"] = self._thinking.get("signature", "") + as_text(delta.get("signature"))
        return []

    def _usage(self, reported: Any) -> UsageChunk:
        """Later reports replace the fields they name; input is the sum of its three parts."""
        if isinstance(reported, dict):
            self._input.update({name: as_count(value) for name, value in reported.items() if value is not None})
        get = self._input.get
        read, write = get("cache_read_input_tokens", 0), get("cache_creation_input_tokens", 0)
        total = get("input_tokens", 0) + read + write
        return UsageChunk(Usage(total_input=total, cache_read=read, cache_write=write, output=get("output_tokens", 0)))
