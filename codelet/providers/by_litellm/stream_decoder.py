"""litellm's stream in, chunks out. Tool calls go on in pieces: folding them is `codelet.loop.reply`'s work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from codelet.errors import ProviderError
from codelet.providers.answer import NO_MARKER, SILENCE, as_count
from codelet.providers.content.inline_reasoning import InlineReasoning
from codelet.providers.protocol import (
    BlockChunk,
    Chunk,
    ExtraChunk,
    FinishChunk,
    FinishReason,
    ReasoningChunk,
    RefusalChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.usage import Usage

_FINISH: dict[str, FinishReason] = {
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refused",
    "refusal": "refused",
    "sensitive": "refused",
    "pause_turn": "paused",
}
_NO_STREAMS = ("text/html", "application/json")
_SIGNATURE = "__thought__"
_NO_REASON = (None, "", "FINISH_REASON_UNSPECIFIED")


class StreamEnd(BaseException):
    """The provider's own stream has ended. Not an Exception, so that litellm lets it pass."""


class InterceptedStream:
    """The provider's own stream, in the place where litellm reads it; raises StreamEnd at its end.

    After the end litellm would put the answer together again, count tokens that were not reported, work out
    costs and, for Ollama, send a request that holds up the event loop. StreamEnd arrives here before that. For
    the same reason only usage passes after the finish marker: anything else there makes litellm see the end. Silence
    after the marker is an end too. `refusal` is what the model says instead of an answer, which litellm drops.

    `whole` says whether the provider's own finish marker came, where litellm makes one up, else it is None: its
    adapter for Gemini says "stop" with each piece, so the objects that the server sent are looked at before. `details`
    are the entries of `reasoning_details` in them: its adapter for OpenRouter drops pieces that hold nothing else.
    """

    def __init__(self, outer: Any, own: Any) -> None:
        self.whole: bool | None = None
        self.details: list[dict[str, Any]] = []
        self.refusal = ""
        self._outer = outer
        self._own = own
        if callable(parse := getattr(own, "chunk_parser", None)):
            own.chunk_parser = self._looking(parse)
        self._iterator = aiter(own)

    def __aiter__(self) -> InterceptedStream:
        return self

    async def __anext__(self) -> Any:
        while True:
            over = bool(self._outer.received_finish_reason)
            try:
                async with asyncio.timeout(SILENCE if over else None):
                    chunk = await anext(self._iterator)
            except StopAsyncIteration:
                raise StreamEnd from None
            except TimeoutError:
                if over:
                    raise StreamEnd from None
                raise
            self.refusal += _refusal_in(chunk)
            if not self._outer.received_finish_reason or _usage_in(chunk):
                return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def _looking(self, parse: Callable[..., Any]) -> Callable[..., Any]:
        def looked_at(chunk: Any) -> Any:
            if isinstance(chunk, dict) and isinstance(chunk.get("choices"), list):
                self.details += _details_in(chunk["choices"])
            if isinstance(chunk, dict) and ("candidates" in chunk or "promptFeedback" in chunk):
                blocked = (chunk.get("promptFeedback") or {}).get("blockReason")
                reasons = [candidate.get("finishReason") for candidate in chunk.get("candidates") or ()]
                self.whole = self.whole or bool(blocked) or any(reason not in _NO_REASON for reason in reasons)
            return parse(chunk)

        return looked_at

    @classmethod
    def into(cls, stream: Any) -> None:
        """Put a tap into litellm's stream, unless it has one or reads from something that is not asynchronous."""
        own = stream.completion_stream
        if own is None and (opened := stream.make_call) is not None:  # it opens its own stream when it is first read

            async def tapped(**options: Any) -> Any:
                return cls(stream, await opened(**options))

            stream.make_call = tapped
        elif not isinstance(own, cls) and hasattr(own, "__aiter__"):
            stream.completion_stream = cls(stream, own)


def _details_in(choices: list[Any]) -> list[dict[str, Any]]:
    deltas = [choice.get("delta") for choice in choices if isinstance(choice, dict)]
    found = [delta.get("reasoning_details") for delta in deltas if isinstance(delta, dict)]
    return [dict(detail) for details in found if isinstance(details, list) for detail in details]


def _refusal_in(chunk: Any) -> str:
    delta = getattr((getattr(chunk, "choices", None) or (None,))[0], "delta", None)
    text = getattr(delta, "refusal", None)
    return text if isinstance(text, str) else ""


def _usage_in(chunk: Any) -> bool:
    usage = chunk.get("usage") if isinstance(chunk, dict) else getattr(chunk, "usage", None)
    return usage is not None


def _content_type(stream: Any) -> str:
    """What the server called its answer, empty where litellm does not tell."""
    headers = (getattr(stream, "_hidden_params", None) or {}).get("additional_headers") or {}
    return str(headers.get("llm_provider-content-type") or "").partition(";")[0]


class Decoder:
    """Turns one stream's chunks into ours; holds the open thinking block.

    `counts_reasoning` is False where litellm estimates the reasoning tokens instead of passing them on.
    """

    def __init__(self, *, counts_reasoning: bool) -> None:
        self.begun = False
        self._counts_reasoning = counts_reasoning
        self._thinking = ""
        self._text = InlineReasoning()
        self._in_text = False

    def chunks(self, chunk: Any, stream: Any) -> Iterator[Chunk]:
        """The pieces in one chunk of the stream, without the reasoning details that the tap has."""
        if not chunk.choices:
            return
        delta = chunk.choices[0].delta
        for piece in (*self._reasoning(delta, stream), *_extra(delta), *self._content(delta)):
            self.begun = True
            yield from self._opened(piece)
            yield piece

    def _opened(self, piece: Chunk) -> Iterator[Chunk]:
        """What says that a text or a call begins with this piece."""
        if isinstance(piece, ToolCallChunk):
            if piece.id or piece.name:
                self._in_text = False
                yield BlockChunk("tool_use")
        elif isinstance(piece, TextChunk) != self._in_text:
            self._in_text = not self._in_text
            if self._in_text:
                yield BlockChunk("text")

    def end(self, stream: Any) -> Iterator[Chunk]:
        """Usage and finish marker; raises ProviderError where the marker is missing, unless nothing came at all.

        Both are taken from what litellm received: it makes them up where the server did not send them.
        """
        details = getattr(stream.completion_stream, "details", None)
        if details:
            yield ReasoningChunk(details=details)
        reported = [usage for chunk in stream.chunks if (usage := getattr(chunk, "usage", None)) is not None]
        if reported and (usage := self._usage(reported[-1])).total:
            yield UsageChunk(usage)
        reason = stream.received_finish_reason or stream.intermittent_finish_reason
        whole = getattr(stream.completion_stream, "whole", None)
        refusal = getattr(stream.completion_stream, "refusal", "")
        empty = not (reason or whole or self.begun or reported or refusal)
        if empty and _content_type(stream) in _NO_STREAMS:
            raise self._without_marker(stream)
        if not empty and (whole is False or not (reason or whole)):
            raise self._without_marker(stream)
        if refusal:
            yield RefusalChunk(refusal)
        yield from self._text.flush()
        yield FinishChunk(_FINISH.get(reason, "stop"))

    def _without_marker(self, stream: Any) -> ProviderError:
        """Why no finish marker came: where it is no event stream, litellm reads nothing from it and says nothing."""
        kind = _content_type(stream)
        if not self.begun and kind in _NO_STREAMS:
            return ProviderError(f"the answer is no event stream but {kind}; check --api-base")
        return ProviderError(NO_MARKER, retryable=True)

    def _reasoning(self, delta: Any, stream: Any) -> Iterator[Chunk]:
        text = getattr(delta, "reasoning_content", None) or ""
        tapped = getattr(stream.completion_stream, "details", None)
        details = None if tapped else getattr(delta, "reasoning_details", None)
        if text or details:
            yield ReasoningChunk(text=text, details=details)
        for block in getattr(delta, "thinking_blocks", None) or ():
            if block.get("type") == "redacted_thinking":
                yield ReasoningChunk(block=dict(block))
                continue
            self._thinking += block.get("thinking") or ""
            if block.get("signature"):
                thinking, self._thinking = self._thinking, ""
                whole = {"type": "thinking", "thinking": thinking, "signature": block["signature"]}
                yield ReasoningChunk(block=whole)

    def _content(self, delta: Any) -> Iterator[Chunk]:
        if delta.content:
            yield from self._text.feed(delta.content)
        if delta.tool_calls:
            yield from self._text.flush()
            yield from _calls(delta)

    def _usage(self, reported: Any) -> Usage:
        """Cached tokens are part of `prompt_tokens`, whichever provider reported them."""
        read = getattr(reported, "prompt_tokens_details", None)
        written = getattr(reported, "completion_tokens_details", None)
        kept = getattr(read, "cache_creation_token_details", None)
        cache_write = _count(reported, "cache_creation_input_tokens") or _count(read, "cache_write_tokens")
        return Usage(
            total_input=_count(reported, "prompt_tokens"),
            cache_read=_count(read, "cached_tokens"),
            cache_write=cache_write,
            output=_count(reported, "completion_tokens"),
            reasoning=_count(written, "reasoning_tokens") if self._counts_reasoning else 0,
            cache_write_hour=min(_count(kept, "ephemeral_1h_input_tokens"), cache_write),
        ).consistent


def _count(holder: Any, name: str) -> int:
    return as_count(getattr(holder, name, None))


def _extra(delta: Any) -> Iterator[Chunk]:
    """What goes back with the text, in the places where litellm looks for it: signatures, encrypted reasoning."""
    if items := getattr(delta, "reasoning_items", None):
        yield ExtraChunk({"reasoning_items": [dict(item) for item in items]})
    fields = getattr(delta, "provider_specific_fields", None)
    signatures = fields.get("thought_signatures") if isinstance(fields, dict) else None
    if signatures:
        yield ExtraChunk({"provider_specific_fields": {"thought_signatures": list(signatures)}})


def _calls(delta: Any) -> Iterator[Chunk]:
    for position, call in enumerate(delta.tool_calls or ()):
        index = call.index if isinstance(call.index, int) else position
        # litellm hides a signature of Gemini's in the id as well: other vendors would get it, and refuse the length.
        call_id = (call.id or "").partition(_SIGNATURE)[0]
        extra = {name: value for name, value in (call.model_extra or {}).items() if value is not None}
        yield ToolCallChunk(
            index=index,
            id=call_id,
            name=call.function.name or "",
            arguments=call.function.arguments or "",
            extra=extra or None,
        )
