"""The decoder for answers over Anthropic's Messages. Imported with the first answer."""

from __future__ import annotations

from typing import Any

from codelet.providers.answer import Decoder, as_count, as_text
from codelet.providers.failure import stream_failure
from codelet.providers.protocol import (
    BlockChunk,
    Chunk,
    DroppedChunk,
    FinishChunk,
    FinishReason,
    OpenedChunk,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.usage import Usage

_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "paused",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class MessageDecoder(Decoder):
    """The decoder for Messages; holds the open thinking block and the usage so far."""

    last_events = frozenset({"message_stop"})

    def __init__(self) -> None:
        self._thinking: dict[str, Any] | None = None
        self._thoughts: list[str] = []
        self._input: dict[str, int] = {}

    def decode(self, event: dict[str, Any]) -> list[Chunk]:
        match event.get("type"):
            case "message_start":
                message = event.get("message") or {}
                return [self._usage(message.get("usage")), *_dropped(message)]
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
                finish = [FinishChunk(_FINISH.get(reason, "stop"))] if reason else []
                return [self._usage(event.get("usage")), *_dropped(event), *finish]
            case "error":
                raise stream_failure(event.get("error") or {})
        return []

    def _block_start(self, index: int, block: dict[str, Any]) -> list[Chunk]:
        match block.get("type"):
            case "tool_use":
                call = ToolCallChunk(index=index, id=as_text(block.get("id")), name=as_text(block.get("name")))
                return [BlockChunk("tool_use"), call]
            case "thinking" | "redacted_thinking":
                self._thinking, self._thoughts = dict(block), []
                return [OpenedChunk()]
            case "text":
                return [BlockChunk("text"), *([TextChunk(as_text(block["text"]))] if block.get("text") else ())]
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

    def _usage(self, reported: object) -> UsageChunk:
        """Later reports replace the fields they name; input is the sum of its three parts."""
        if isinstance(reported, dict):
            self._input.update({name: as_count(value) for name, value in reported.items() if value is not None})
            cached = reported.get("cache_creation")
            if isinstance(cached, dict):
                self._input["hour"] = as_count(cached.get("ephemeral_1h_input_tokens"))
        get = self._input.get
        read, write = get("cache_read_input_tokens", 0), get("cache_creation_input_tokens", 0)
        total = get("input_tokens", 0) + read + write
        usage = Usage(total_input=total, cache_read=read, cache_write=write, output=get("output_tokens", 0))
        return UsageChunk(usage.replace(cache_write_hour=min(get("hour", 0), write)))


def _dropped(reported: dict[str, Any]) -> list[Chunk]:
    """The number of thinking blocks that the API left out, from `input_transformations`."""
    entries = reported.get("input_transformations")
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    count = sum(entry.get("type") == "thinking_dropped" for entry in found)
    return [DroppedChunk(count)] if count else []
