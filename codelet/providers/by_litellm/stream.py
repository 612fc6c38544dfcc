"""litellm's stream as events of Chat Completions, with the server's real finish marker and usage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from codelet.errors import ProviderError
from codelet.providers.answer import NO_MARKER, SILENCE

_NO_STREAMS = ("text/html", "application/json")
_SIGNATURE = "__thought__"
_NO_REASON = (None, "", "FINISH_REASON_UNSPECIFIED")


class StreamEnd(BaseException):
    """The provider's own stream has ended. Not an Exception, so that litellm does not catch it."""


class InterceptedStream:
    """The provider's own stream, where litellm reads it; raises StreamEnd at its end.

    Past the end litellm would rebuild the answer, count unreported tokens and, for Ollama, send another request. After
    the finish marker only usage passes: anything else makes litellm see the end. Silence after the marker is an end
    too.

    `refusal` is the model's refusal, which litellm drops. `whole`: the server's own finish marker came, else None;
    litellm's adapter for Gemini says "stop" with each piece, so the raw objects are inspected. `details` are their
    `reasoning_details`: the adapter for OpenRouter drops pieces with nothing else.
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
            delta = getattr((getattr(chunk, "choices", None) or (None,))[0], "delta", None)
            refusal = getattr(delta, "refusal", None)
            self.refusal += refusal if isinstance(refusal, str) else ""
            usage = chunk.get("usage") if isinstance(chunk, dict) else getattr(chunk, "usage", None)
            if usage is not None or not self._outer.received_finish_reason:
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
        """Intercept litellm's stream, unless it is already, or is not asynchronous."""
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


def _content_type(stream: Any) -> str:
    """The answer's content type; empty if litellm does not report it."""
    headers = (getattr(stream, "_hidden_params", None) or {}).get("additional_headers") or {}
    return str(headers.get("llm_provider-content-type") or "").partition(";")[0]


class StreamReader:
    """Reads one stream's chunks; `begun` after the first piece of the answer.

    `counts_reasoning` is False if litellm estimates reasoning tokens instead of passing them on.
    """

    def __init__(self, stream: Any, *, counts_reasoning: bool) -> None:
        self.begun = False
        self._stream = stream
        self._counts_reasoning = counts_reasoning

    def event(self, chunk: Any) -> dict[str, Any] | None:
        """The event in a chunk, without finish marker and usage; None if it is empty."""
        if not chunk.choices:
            return None
        delta = {name: value for name, value in chunk.choices[0].delta.model_dump().items() if value}
        if getattr(self._stream.completion_stream, "details", None):
            delta.pop("reasoning_details", None)
        for call in delta.get("tool_calls", ()):
            # litellm repeats a signature in the id: other vendors would get it, and refuse the length.
            call["id"] = (call.get("id") or "").partition(_SIGNATURE)[0]
        if not delta.keys() - {"role"}:
            return None
        self.begun = True
        return {"choices": [{"delta": delta}]}

    def end(self) -> Iterator[dict[str, Any]]:
        """The last events; raises ProviderError without a finish marker, unless nothing came at all.

        Usage and marker are the received ones: litellm invents missing ones.
        """
        stream, own = self._stream, self._stream.completion_stream
        reported = [usage for chunk in stream.chunks if (usage := getattr(chunk, "usage", None)) is not None]
        usage = reported[-1].model_dump() if reported else {}
        if not self._counts_reasoning:
            usage.pop("completion_tokens_details", None)
        if details := getattr(own, "details", None):
            yield {"choices": [{"delta": {"reasoning_details": details}}]}
        if usage.get("prompt_tokens") or usage.get("completion_tokens"):
            yield {"usage": {name: value for name, value in usage.items() if name != "total_tokens"}}
        reason = stream.received_finish_reason or stream.intermittent_finish_reason
        whole = getattr(own, "whole", None)
        refusal = getattr(own, "refusal", "")
        empty = not (reason or whole or self.begun or reported or refusal)
        kind = _content_type(stream)
        if not self.begun and kind in _NO_STREAMS and (empty or whole is False or not (reason or whole)):
            # litellm reads nothing from it and says nothing
            raise ProviderError(f"the answer is no event stream but {kind}; check --api-base")
        if not empty and (whole is False or not (reason or whole)):
            raise ProviderError(NO_MARKER, retryable=True)
        yield {"choices": [{"delta": {"refusal": refusal}, "finish_reason": reason or "stop"}]}
