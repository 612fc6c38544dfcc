"""The native wire for OpenAI's Chat Completions, as many servers speak it.

Source: OpenAI's API reference for `POST /chat/completions` with `stream: true`; reasoning fields as DeepSeek,
vLLM (`reasoning_content`) and OpenRouter (`reasoning`, `reasoning_details`) send them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal

from codelet.errors import ProviderError
from codelet.messages import Message, ToolCall
from codelet.providers.answer import DONE, NO_MARKER, as_count, as_counts, as_text, decoded, until_silent
from codelet.providers.catalog import Endpoint, quirks_of
from codelet.providers.failure import stream_failure
from codelet.providers.native import NativeProvider, PrefixCache, compact_json
from codelet.providers.protocol import (
    Chunk,
    ExtraChunk,
    FinishChunk,
    FinishReason,
    ProviderOptions,
    ReasoningChunk,
    RefusalChunk,
    Request,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.providers.quirks import SEPARATOR, joint_of, returned, stand_in
from codelet.usage import Usage

_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "refused",
    "sensitive": "refused",
    "refusal": "refused",
    "pause_turn": "paused",
}
# Of a call everything that came beside it goes back; beside the text there is also what nobody wants back.
_CALL = ("index", "id", "type", "function")
_KEPT = ("extra_content", "encrypted_content")
_BROKEN_OFF = ("error", "abort", "insufficient_system_resource", "network_error")
_OPEN, _CLOSING = (
    ("user", "tool"),
    b'"}',
)  # where roles alternate, these messages stay open: a text may be joined to them


class OpenAIChatProvider(NativeProvider):
    """A model behind a server that speaks Chat Completions."""

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions) -> None:
        super().__init__(model, endpoint, options, origin=f"openai:{endpoint.origin(model)}")
        self._quirks = quirks_of(model, endpoint.base, options.vendors)
        self._noted = False
        if endpoint.base.count("/") == 2:  # no path: most servers have theirs at /v1, and people forget it
            self._other_base = f"{endpoint.base}/v1"

    def body(self, request: Request) -> bytes:
        """The request's body: what never changes comes first, then the messages, then the options."""
        head = b'{"model":' + compact_json(self._endpoint.model_name(self.model))
        if request.tools:
            head += b',"tools":' + compact_json(list(request.tools))
        system = compact_json({"role": "system", "content": request.system})
        options = self._quirks.options(tools=bool(request.tools), max_output=request.max_output)
        if "reasoning_effort" in options:
            self._note()
        fragments = self._cache.fragments(request.messages)
        closing = self._closing(self._cache.state) + b"]," + compact_json(options)[1:]
        return b"".join([head, b',"messages":[', system, *fragments, closing])

    def _encode(self, message: Message, before: str) -> tuple[bytes, str]:
        """A message's bytes after one of the role `before`; where roles alternate, with what closes that one."""
        role = message["role"]
        if not self._quirks.alternating:
            return b"," + compact_json(self._wire(message)), role
        joint = joint_of(message, before)
        if joint == "joined":
            return compact_json(f"{SEPARATOR}{message['content']}")[1:-1], before
        missing = stand_in(joint)
        start = b"" if missing is None else b"," + compact_json(self._wire(missing))
        wire = self._wire(message)
        if role in _OPEN:
            wire["content"] = wire.pop("content") or ""  # it comes last, so that more can be joined to it
        fragment = self._closing(before) + start + b"," + compact_json(wire)
        return (fragment.removesuffix(_CLOSING) if role in _OPEN else fragment), role

    def _closing(self, role: str) -> bytes:
        """What closes a message of that role, the last one so far."""
        return _CLOSING if self._quirks.alternating and role in _OPEN else b""

    def _wire(self, message: Message) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": message["role"], "content": message["content"]}
        own = message.get("origin") == self.origin and not self._quirks.strict
        if "tool_calls" in message:
            wire["tool_calls"] = [self._wire_call(call, own=own) for call in message["tool_calls"]]
        if "tool_call_id" in message:
            wire["tool_call_id"] = self._quirks.call_id(message["tool_call_id"])
        if own:
            wire.update(returned(message))
        return self._quirks.completed(wire)

    def _wire_call(self, call: ToolCall, *, own: bool) -> dict[str, Any]:
        extra = call.get("extra", {}) if own else {}
        given = call["function"]
        function = {"name": given["name"], "arguments": given["arguments"]}  # a file may hold more beside them
        return {"id": self._quirks.call_id(call["id"]), "type": call["type"], "function": function, **extra}

    def _adapted(self, error: ProviderError) -> bool:
        learnt = self._quirks.learnt(error)
        if learnt is None:
            return False
        self._quirks = learnt
        self._cache = PrefixCache(self._encode)
        return True

    def _note(self) -> None:
        """Tell the user, once, what the requests are like."""
        note = None if self._noted else self._quirks.note(self.model)
        if note is not None:
            self._notes.append(note)
            self._noted = True

    def _path(self) -> str:
        return "/chat/completions"

    def _headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else {}

    def _chunks(self, events: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[Chunk, None]:
        return _chunks(events)


async def _chunks(events: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[Chunk, None]:
    """The chunks of an answer; raises ProviderError where its finish marker is missing.

    An end before anything came is an empty answer.
    """
    finish: FinishReason | None = None
    empty = True

    def finished() -> bool:
        return finish is not None

    async for event in until_silent(events, finished):
        if event is DONE:
            finish = finish or "stop"
            continue
        if event.get("error"):
            raise stream_failure(event["error"])
        if event.get("object") == "error":
            raise stream_failure(event)
        for chunk in decoded(_decode, event):
            if isinstance(chunk, FinishChunk):
                finish = chunk.reason
            else:
                empty = False
                yield chunk
    if finish is None and empty:
        finish = "stop"
    if finish is None:
        raise ProviderError(NO_MARKER, retryable=True)
    yield FinishChunk(finish)


def _decode(event: dict[str, Any]) -> list[Chunk]:
    """The chunks of one event, its finish reason among them."""
    chunks: list[Chunk] = []
    if event.get("usage"):
        chunks.append(UsageChunk(usage_of(event["usage"])))
    for choice in (event.get("choices") or ())[:1]:
        chunks.extend(_delta_chunks(choice.get("delta") or {}))
        reason = choice.get("finish_reason")
        if reason in _BROKEN_OFF:
            raise stream_failure({"message": f"it gave the finish reason {reason!r}", "code": reason})
        if reason:
            chunks.append(FinishChunk(_FINISH.get(reason, "stop")))
    return chunks


def _delta_chunks(delta: dict[str, Any]) -> list[Chunk]:
    chunks: list[Chunk] = []
    name: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    if not delta.get("reasoning_content") and delta.get("reasoning"):
        name = "reasoning"
    reasoning = as_text(delta.get(name))
    details = [dict(detail) for detail in delta.get("reasoning_details") or ()]
    if reasoning or details:
        chunks.append(ReasoningChunk(text=reasoning, details=details or None, field=name))
    if extra := {field: value for field in _KEPT if (value := delta.get(field)) is not None}:
        chunks.append(ExtraChunk(extra))
    if text := as_text(delta.get("content")):
        chunks.append(TextChunk(text))
    if refusal := as_text(delta.get("refusal")):
        chunks.append(RefusalChunk(refusal))
    for position, call in enumerate(delta.get("tool_calls") or ()):
        function = call.get("function") or {}
        index = call.get("index")
        chunks.append(
            ToolCallChunk(
                index=index if isinstance(index, int) else position,
                id=as_text(call.get("id")),
                name=as_text(function.get("name")),
                arguments=_arguments_of(function.get("arguments")),
                extra={field: value for field, value in call.items() if field not in _CALL and value is not None}
                or None,
            )
        )
    return chunks


def _arguments_of(value: Any) -> str:
    """A piece of JSON text; some servers send the whole object instead."""
    return compact_json(value).decode() if isinstance(value, dict) else as_text(value)


def usage_of(reported: Any) -> Usage:
    """Usage from a Chat Completions `usage` object, whose prompt tokens include the cached ones."""
    reported = as_counts(reported)
    read = as_counts(reported.get("prompt_tokens_details"))
    written = as_counts(reported.get("completion_tokens_details"))
    return Usage(
        total_input=as_count(reported.get("prompt_tokens")),
        cache_read=as_count(read.get("cached_tokens") or reported.get("prompt_cache_hit_tokens")),
        cache_write=as_count(read.get("cache_write_tokens") or reported.get("cache_creation_input_tokens")),
        output=as_count(reported.get("completion_tokens")),
        reasoning=as_count(written.get("reasoning_tokens")),
    )
