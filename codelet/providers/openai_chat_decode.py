"""The decoder for answers over Chat Completions. Imported with the first answer."""

from __future__ import annotations

from typing import Any, Literal

from codelet.errors import ProviderError
from codelet.providers.answer import Decoder, as_count, as_counts, as_text
from codelet.providers.failure import stream_failure
from codelet.providers.native import compact_json
from codelet.providers.protocol import (
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
from codelet.usage import ChargedUsage, Usage

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
# All extra fields of a call go back; of a text only these do.
_CALL = ("index", "id", "type", "function")
_KEPT = ("extra_content", "encrypted_content")
_THOUGHT = {"google": {"thought": True}}  # marks a summary, which does not go back
_TEXT_ONLY = {"role", "content"}
_MOST_DOLLARS = 1_000_000
_BROKEN_OFF = ("error", "abort", "insufficient_system_resource", "network_error")

# Gemini's own reasons: after a kind ("function_call_filter: MALFORMED_FUNCTION_CALL"), or bare behind some gateways.
_FILTERED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "IMAGE_")
_UNUSABLE = ("MALFORMED", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "OTHER")


class ChatDecoder(Decoder):
    """The decoder for Chat Completions. `charged`: the usage says what the request cost."""

    done_finishes = True

    def __init__(self, *, charged: bool = False) -> None:
        self._charged = charged

    def decode(self, event: dict[str, Any]) -> list[Chunk]:
        """The chunks of one event."""
        if event.get("error"):
            raise stream_failure(event["error"])
        if event.get("object") == "error":
            raise stream_failure(event)
        chunks: list[Chunk] = []
        if event.get("usage"):
            usage = usage_of(event["usage"])
            chunks.append(UsageChunk(_with_cost(usage, event["usage"]) if self._charged else usage))
        for choice in (event.get("choices") or ())[:1]:
            chunks.extend(_delta_chunks(choice.get("delta") or {}))
            reason = choice.get("finish_reason")
            if reason in _BROKEN_OFF:
                raise stream_failure({"message": f"it gave the finish reason {reason!r}", "code": reason})
            if reason:
                chunks.append(FinishChunk(_FINISH.get(reason) or _named_reason(as_text(reason))))
        return chunks


def _named_reason(reason: str) -> FinishReason:
    """The meaning of a vendor's own finish reason. Raises ProviderError, retryable, if the answer cannot be used."""
    kind, _, own = reason.rpartition(": ")
    if own.startswith(_UNUSABLE):
        raise ProviderError(f"the model's answer could not be used: it gave the finish reason {own!r}", retryable=True)
    if kind == "content_filter" or own.startswith(_FILTERED):
        return "refused"
    return "length" if own == "MAX_TOKENS" else "stop"


def _delta_chunks(delta: dict[str, Any]) -> list[Chunk]:
    chunks: list[Chunk] = []
    content = delta.get("content")
    if delta.keys() <= _TEXT_ONLY and not isinstance(content, list):  # most events of a long answer
        text = as_text(content)
        return [TextChunk(text)] if text else []
    name: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    if not delta.get("reasoning_content") and delta.get("reasoning"):
        name = "reasoning"
    parts = content if isinstance(content, list) else ()  # Mistral's form
    thought = "".join(as_text(part.get("thinking")) for part in parts if part.get("type") == "thinking")
    reasoning = as_text(delta.get(name)) or thought
    details = [dict(detail) for detail in delta.get("reasoning_details") or ()]
    if reasoning or details:
        chunks.append(ReasoningChunk(text=reasoning, details=details or None, field=name))
    if extra := {field: value for field in _KEPT if (value := delta.get(field)) not in (None, _THOUGHT)}:
        chunks.append(ExtraChunk(extra))
    if text := as_text(delta.get("content")):
        chunks.append(TextChunk(text))
    if refusal := as_text(delta.get("refusal")):
        chunks.append(RefusalChunk(refusal))
    for position, call in enumerate(delta.get("tool_calls") or ()):
        function = call.get("function") or {}
        arguments = function.get("arguments")  # JSON text; some servers send an object
        index = call.get("index")
        chunks.append(
            ToolCallChunk(
                index=index if isinstance(index, int) else position,
                id=as_text(call.get("id")),
                name=as_text(function.get("name")),
                arguments=compact_json(arguments).decode() if isinstance(arguments, dict) else as_text(arguments),
                extra={field: value for field, value in call.items() if field not in _CALL and value is not None}
                or None,
            )
        )
    return chunks


def _with_cost(usage: Usage, reported: object) -> Usage:
    """The usage with OpenRouter's charge, in credits of one dollar.

    With the user's own vendor key that is only OpenRouter's fee: the vendor's price is added. Source: OpenRouter,
    "Usage Accounting".
    """
    reported = as_counts(reported)
    parts = [reported.get("cost")]
    if reported.get("is_byok"):
        parts.append(as_counts(reported.get("cost_details")).get("upstream_inference_cost"))
    known = [part for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
    if len(known) < len(parts) or not all(0 <= part < _MOST_DOLLARS for part in known):
        return usage
    return ChargedUsage(**{name: getattr(usage, name) for name in usage.fields}, cost=float(sum(known)))


def usage_of(reported: object) -> Usage:
    """The usage in a Chat Completions `usage` object, whose prompt tokens include cached ones.

    Gemini and xAI leave reasoning out of `completion_tokens`, though it is charged as output: only their total has it.
    """
    reported = as_counts(reported)
    read = as_counts(reported.get("prompt_tokens_details"))
    written = as_counts(reported.get("completion_tokens_details"))
    cache_write = as_count(read.get("cache_write_tokens") or reported.get("cache_creation_input_tokens"))
    cached_for = as_counts(read.get("cache_creation_token_details"))
    usage = Usage(
        total_input=as_count(reported.get("prompt_tokens")),
        cache_read=as_count(read.get("cached_tokens") or reported.get("prompt_cache_hit_tokens")),
        cache_write=cache_write,
        output=as_count(reported.get("completion_tokens")),
        reasoning=as_count(written.get("reasoning_tokens")),
        cache_write_hour=min(as_count(cached_for.get("ephemeral_1h_input_tokens")), cache_write),
    )
    missing = as_count(reported.get("total_tokens")) - usage.total_input - usage.output
    cached = (usage.cache_read, usage.cache_write, usage.cache_read + usage.cache_write)  # gateways count them twice
    if usage.total_input and missing > 0 and usage.reasoning in (0, missing) and missing not in cached:
        usage = usage.replace(output=usage.output + missing, reasoning=missing)
    return usage.consistent
