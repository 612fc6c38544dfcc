"""The decoder for answers over OpenAI's Responses: chunks, and the items to send back.

Source: OpenAI's API reference for the events of `POST /responses`. Some other servers leave deltas out and send only
whole items, or only the whole answer at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codelet.errors import ProviderError
from codelet.providers.answer import Decoder, as_count, as_counts, as_text
from codelet.providers.failure import stream_failure
from codelet.providers.protocol import (
    BlocksChunk,
    Chunk,
    FinishChunk,
    FinishReason,
    OpenedChunk,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.usage import Usage

_REASONING = ("type", "id", "summary", "content", "encrypted_content")
_INCOMPLETE: dict[object, FinishReason] = {"max_output_tokens": "length", "content_filter": "refused"}


class ResponseDecoder(Decoder):
    """The decoder for Responses; holds how much of each item was given, and the order of its items."""

    last_events = frozenset({"response.completed", "response.incomplete"})
    may_be_empty = False

    def __init__(self) -> None:
        self._given: dict[int, int] = {}  # characters by output index
        self._blocks: list[dict[str, Any]] = []
        self._returnable = True
        self._calls = False

    def decode(self, event: dict[str, Any]) -> list[Chunk]:
        index = event.get("output_index") or 0
        match event.get("type"):
            case "response.output_item.added":
                return self._begun(index, event["item"])
            case "response.output_text.delta":
                return [TextChunk(self._piece(index, event))]
            case "response.refusal.delta":
                return [RefusalChunk(self._piece(index, event))]
            case "response.function_call_arguments.delta":
                return [ToolCallChunk(index=index, arguments=self._piece(index, event))]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ReasoningChunk(self._piece(index, event))]
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return [ReasoningChunk("\n\n")]
            case "response.output_item.done":
                return self._whole(index, event["item"])
            case "response.completed" | "response.incomplete":
                return self._finished(event["response"])
            case "response.failed" | "response.cancelled":
                raise stream_failure(event["response"].get("error") or {"message": "the answer failed"})
            case "error":
                raise stream_failure(event.get("error") or {**event, "type": None})
            case _ if event.get("error"):
                raise stream_failure(event["error"])
        return []

    def _piece(self, index: int, event: dict[str, Any]) -> str:
        piece = as_text(event.get("delta"))
        self._given[index] = self._given.get(index, 0) + len(piece)
        return piece

    def _begun(self, index: int, item: dict[str, Any]) -> list[Chunk]:
        self._given[index] = 0
        if item.get("type") != "function_call":
            return [OpenedChunk()]
        self._calls = True
        return [ToolCallChunk(index=index, id=_call_id(item), name=as_text(item.get("name")))]

    def _whole(self, index: int, item: dict[str, Any]) -> list[Chunk]:
        """The part of a finished item that no delta brought."""
        chunks = [] if index in self._given else self._begun(index, item)
        given = self._given.pop(index)
        text = ""
        match item.get("type"):
            case "message":
                for part in item["content"]:
                    refused = part.get("type") == "refusal"
                    piece = as_text(part.get("refusal" if refused else "text"))
                    text += "" if refused else piece
                    if rest := piece[given:]:
                        chunks.append(RefusalChunk(rest) if refused else TextChunk(rest))
                    given = max(0, given - len(piece))
            case "function_call":
                arguments = as_text(item.get("arguments"))
                if rest := arguments[given:]:
                    chunks.append(ToolCallChunk(index=index, arguments=rest))
            case "reasoning" if not given and (visible := _visible(item)):
                chunks.append(ReasoningChunk(visible))
        self._keep(item, len(text))
        return chunks

    def _keep(self, item: dict[str, Any], length: int) -> None:
        """Remember an item's fields that go back with the message."""
        kind = item.get("type")
        if kind == "reasoning":
            fields = {name: item[name] for name in _REASONING if item.get(name)}
            self._blocks.append({**fields, "summary": item.get("summary") or []})
            # Without storage the server needs the reasoning's own content.
            self._returnable = self._returnable and bool(fields.keys() & {"content", "encrypted_content"})
        elif kind == "message":
            fields = {name: item[name] for name in ("id", "phase", "status") if item.get(name)}
            self._blocks.append({"type": "text", **fields, "length": length})
        elif kind == "function_call":
            fields = {name: item[name] for name in ("id", "status") if item.get(name)}
            self._blocks.append({"type": "tool_use", **fields, "call_id": _call_id(item)})

    def _finished(self, response: dict[str, Any]) -> list[Chunk]:
        """The end of the answer. Raises ProviderError if it is incomplete for an unknown reason."""
        chunks: list[Chunk] = []
        if not self._blocks and not self._given:
            for index, item in enumerate(response.get("output") or ()):
                chunks += self._whole(index, item)
        if self._returnable and any(block["type"] == "reasoning" or "phase" in block for block in self._blocks):
            chunks.append(BlocksChunk(self._blocks))
        if response.get("usage"):
            chunks.append(UsageChunk(_usage(response["usage"])))
        if response.get("status") != "incomplete":
            return [*chunks, FinishChunk("tool_calls" if self._calls else "stop")]
        why = (response.get("incomplete_details") or {}).get("reason")
        if why not in _INCOMPLETE:
            raise ProviderError(f"the provider ended the answer before it was whole: {why or 'no reason given'}")
        return [*chunks, FinishChunk(_INCOMPLETE[why])]


def _call_id(item: dict[str, Any]) -> str:
    """The id that a result refers to; `id` is only the item's."""
    return as_text(item.get("call_id") or item.get("id"))


def _visible(item: dict[str, Any]) -> str:
    """The visible reasoning of an item: its summary, else its text."""
    parts: Sequence[dict[str, Any]] = item.get("summary") or item.get("content") or ()
    return "\n\n".join(as_text(part.get("text")) for part in parts)


def _usage(reported: object) -> Usage:
    """The usage in a Responses `usage` object, whose input tokens include cached ones."""
    reported = as_counts(reported)
    read = as_counts(reported.get("input_tokens_details"))
    written = as_counts(reported.get("output_tokens_details"))
    return Usage(
        total_input=as_count(reported.get("input_tokens")),
        cache_read=as_count(read.get("cached_tokens")),
        cache_write=as_count(read.get("cache_write_tokens")),
        output=as_count(reported.get("output_tokens")),
        reasoning=as_count(written.get("reasoning_tokens")),
    ).consistent
