"""The native wire for OpenAI's Chat Completions, as many servers speak it.

Sources: OpenAI's API reference for `POST /chat/completions` with `stream: true`; reasoning fields of DeepSeek and vLLM
(`reasoning_content`) and OpenRouter (`reasoning`, `reasoning_details`); OpenRouter's cache marks (`cache_control`) for
Anthropic's and Qwen's models: on the last part of a prompt's or a result's content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import repeat
from operator import contains
from typing import TYPE_CHECKING, Any, Literal

from codelet.errors import ProviderError
from codelet.messages import Message, ToolCall, images_of
from codelet.providers import protocol
from codelet.providers.catalog import SUMMARIES
from codelet.providers.endpoint import Endpoint
from codelet.providers.native import OpenAIWire, address_of, compact_json
from codelet.providers.protocol import as_text, usage_of, value_at
from codelet.usage import ChargedUsage, Usage

if TYPE_CHECKING:
    from codelet.providers.content.picture_forms import ResultPictures

_MARK = {"cache_control": {"type": "ephemeral"}}


class OpenAIChatProvider(OpenAIWire):
    """A model at a server with Chat Completions."""

    path = "/chat/completions"
    _cache_mark = _MARK
    api = "chat"

    def __init__(self, model: str, endpoint: Endpoint, options: protocol.ProviderOptions, *, origin: str = "") -> None:
        super().__init__(model, endpoint, options, origin=origin or f"openai:{endpoint.origin(model)}")
        self.decoder = partial(ChatDecoder, charged=endpoint.vendor.charges)
        self._noted = False
        self._pictures: ResultPictures | None = None

    def body(self, request: protocol.Request) -> bytes:
        head = b'{"model":' + compact_json(self._endpoint.model_name(self.model))
        if request.tools:
            head += b',"tools":' + compact_json(list(request.tools))
        marks = self.quirks.cache_marks and bool(request.system)
        text = [{"type": "text", "text": request.system, **_MARK}] if marks else request.system
        system = compact_json({"role": "system", "content": text})
        options = self.quirks.options(tools=bool(request.tools), max_output=request.max_output)
        if "reasoning_effort" in options and not self._noted:
            self.notes.append(self.quirks.note(self.model, self.effort))
            self._noted = True
        elif "reasoning_effort" not in options:
            options |= self._effort_fields()
        if self.quirks.summaries and self.asked is None:  # with an effort the vendor may refuse it
            options["extra_body"] = SUMMARIES
        options |= self._answer_fields(request)
        listed = self._listed(request, system, head + system, has_mark=marks)
        return b"".join([head, b',"messages":[', listed, b"],", compact_json(options)[1:]])

    def _spread(self, messages: Sequence[Message]) -> Sequence[Message]:
        # The list may be long, so no Python code runs for each message.
        if not self.quirks.images or not any(map(contains, messages, repeat("images"))):
            return messages
        if self._pictures is None:
            from codelet.providers.content.picture_forms import ResultPictures

            self._pictures = ResultPictures(self.refused_images)
        return self._pictures.spread(messages)

    def _items(self, message: Message) -> list[dict[str, Any]]:
        wire: dict[str, Any] = {"role": message["role"], "content": message["content"]}
        own = message.get("origin") == self.origin and not self.quirks.strict
        if "tool_calls" in message:
            wire["tool_calls"] = [self._wire_call(call, own=own) for call in message["tool_calls"]]
        if "tool_call_id" in message:
            wire["tool_call_id"] = self.quirks.call_id(message["tool_call_id"])
        if own:
            wire.update(self._returned_fields(message))
            if "inline_reasoning" in message and not self.quirks.signatures:  # else the signature replaces it
                wire["content"] = f"{message['inline_reasoning']}{message['content'] or ''}"
        wire = self.quirks.completed(wire)
        marks, asks = self.quirks.cache_marks, message["role"] != "assistant"
        shown = images_of(message) if message["role"] == "user" else ()
        pictures = [{"type": "image_url", "image_url": {"url": address_of(each)}} for each in shown]
        if pictures or (marks and asks):
            wire["content"] = [*pictures, {"type": "text", "text": wire["content"] or ""}]
        if marks or (asks and self.quirks.alternating):
            wire["content"] = wire.pop("content") or ""  # last, where it can be marked or continued
        return [wire]

    def _returned_fields(self, message: Message) -> dict[str, Any]:
        """The reasoning fields of an assistant's message, as the server sent them."""
        plain: Mapping[str, Any] = message
        named = ("reasoning_details", "reasoning", "reasoning_content")
        kept = next(({name: plain[name]} for name in named if name in plain), {})
        return {**message.get("extra", {}), **kept}

    def _wire_call(self, call: ToolCall, *, own: bool) -> dict[str, Any]:
        extra = call.get("extra", {}) if own else {}
        given = call["function"]
        function = {"name": given["name"], "arguments": given["arguments"]}  # a file may hold other fields
        return {"id": self.quirks.call_id(call["id"]), "type": call["type"], "function": function, **extra}


_FINISH: dict[str, protocol.FinishReason] = {
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
# All extra fields of a call go back; of a text only these do.
_CALL = ("index", "id", "type", "function")
_KEPT = ("extra_content", "encrypted_content")
_THOUGHT = {"google": {"thought": True}}  # marks a summary, which does not go back
_MOST_DOLLARS = 1_000_000
_BROKEN_OFF = ("error", "abort", "insufficient_system_resource", "network_error")

# Gemini's own reasons: after a kind ("function_call_filter: MALFORMED_FUNCTION_CALL"), or bare behind some gateways.
_FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_")
_UNUSABLE = ("MALFORMED", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "OTHER")


class ChatDecoder(protocol.Decoder):
    """The decoder for Chat Completions. `charged`: the usage says what the request cost."""

    def __init__(self, *, charged: bool = False) -> None:
        self._charged = charged

    def decode(self, event: dict[str, Any]) -> list[protocol.Chunk]:
        if event.get("error"):
            raise protocol.ErrorEvent(event["error"])
        if event.get("object") == "error":
            raise protocol.ErrorEvent(event)
        chunks: list[protocol.Chunk] = []
        if event.get("usage"):
            usage = usage_of(event["usage"])
            chunks.append(protocol.UsageChunk(_with_cost(usage, event["usage"]) if self._charged else usage))
        for choice in (event.get("choices") or ())[:1]:
            chunks.extend(_delta_chunks(choice.get("delta") or {}))
            reason = choice.get("finish_reason")
            if reason in _BROKEN_OFF:
                raise protocol.ErrorEvent({"message": f"it gave the finish reason {reason!r}", "code": reason})
            if reason:
                chunks.append(protocol.FinishChunk(_FINISH.get(reason) or _named_reason(as_text(reason))))
        return chunks


def _named_reason(reason: str) -> protocol.FinishReason:
    """The meaning of a vendor's own finish reason. Raises ProviderError, retryable, if the answer cannot be used."""
    kind, _, own = reason.rpartition(": ")
    if own.startswith(_UNUSABLE):
        raise ProviderError(f"the model's answer could not be used: it gave the finish reason {own!r}", retryable=True)
    if kind == "content_filter" or own.startswith(_FILTERED):
        return "refused"
    return "length" if own == "MAX_TOKENS" else "stop"


def _delta_chunks(delta: dict[str, Any]) -> list[protocol.Chunk]:
    chunks: list[protocol.Chunk] = []
    content = delta.get("content")
    name: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    if not delta.get("reasoning_content") and delta.get("reasoning"):
        name = "reasoning"
    parts = content if isinstance(content, list) else ()  # Mistral's form
    thought = "".join(as_text(part.get("thinking")) for part in parts if part.get("type") == "thinking")
    reasoning = as_text(delta.get(name)) or thought
    details = [dict(detail) for detail in delta.get("reasoning_details") or ()]
    if reasoning or details:
        chunks.append(protocol.ReasoningChunk(text=reasoning, details=details or None, field=name))
    if extra := {field: value for field in _KEPT if (value := delta.get(field)) not in (None, _THOUGHT)}:
        chunks.append(protocol.ExtraChunk(extra))
    if text := as_text(content):
        chunks.append(protocol.TextChunk(text))
    if refusal := as_text(delta.get("refusal")):
        chunks.append(protocol.RefusalChunk(refusal))
    for position, call in enumerate(delta.get("tool_calls") or ()):
        function, index = call.get("function") or {}, call.get("index")
        arguments = function.get("arguments")  # JSON text; some servers send an object
        text = compact_json(arguments).decode() if isinstance(arguments, dict) else as_text(arguments)
        extra = {field: value for field, value in call.items() if field not in _CALL and value is not None}
        chunks.append(
            protocol.ToolCallChunk(
                index=index if isinstance(index, int) else position,
                id=as_text(call.get("id")),
                name=as_text(function.get("name")),
                arguments=text,
                extra=extra or None,
            )
        )
    return chunks


def _with_cost(usage: Usage, reported: object) -> Usage:
    """The usage with OpenRouter's charge in dollars; with the user's own vendor key that vendor's price is added.

    Source: OpenRouter, "Usage Accounting".
    """
    parts = [value_at(reported, "cost")]
    if value_at(reported, "is_byok"):
        parts.append(value_at(reported, "cost_details", "upstream_inference_cost"))
    known = [part for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
    if len(known) < len(parts) or not all(0 <= part < _MOST_DOLLARS for part in known):
        return usage
    return ChargedUsage(**{name: getattr(usage, name) for name in usage.fields}, cost=float(sum(known)))
