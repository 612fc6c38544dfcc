"""Writes a Reply as server-sent events: OpenAI's Chat Completions and Responses, and Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Literal

from tests.support import wire_responses
from tests.support.script import Call, HttpError, Reply, StreamError, Tokens

Wire = Literal["chat", "responses", "messages"]

_ANTHROPIC_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refused": "refusal",
}
_OPENAI_REASONS = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
    "refused": "content_filter",
}
_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def events(reply: Reply, request: dict[str, Any], *, wire: Wire) -> list[bytes]:
    """The reply as SSE events, each with its empty line, in the protocol of the request."""
    model = str(request.get("model", "scripted"))
    if wire == "messages":
        return [_named(reply, data) for data in _anthropic(reply, model)]
    if wire == "responses":
        return [_named(reply, data) for data in wire_responses.responses(reply, request)]
    wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
    lines = [_plain(reply, json.dumps(data)) for data in _openai(reply, model, wants_usage)]
    return [*lines, _plain(reply, "[DONE]")] if reply.delivery.done else lines


def error_event(reply: Reply, error: StreamError, *, wire: Wire) -> bytes:
    """The vendor's error as an event in a stream that had begun."""
    if wire == "responses":
        return _named(reply, wire_responses.error_event(error.message, error.kind))
    if wire == "messages":
        return _named(reply, {"type": "error", "error": {"type": error.kind, "message": error.message}})
    return _plain(reply, json.dumps({"error": {"message": error.message, "type": error.kind, "code": None}}))


def error_body(error: HttpError, *, wire: Wire) -> bytes:
    """The vendor's JSON body for an error status."""
    if error.body is not None:
        return error.body
    if wire == "messages":
        kind = error.kind or _ANTHROPIC_KINDS.get(error.status, "api_error")
        detail = {"type": kind, "message": error.message}
        body: dict[str, Any] = {"type": "error", "error": detail, "request_id": "req_1"}
    else:
        kind = error.kind or ("invalid_request_error" if error.status < 500 else "server_error")
        body = {"error": {"message": error.message, "type": kind, "param": None, "code": None}}
    return json.dumps(body).encode()


def _plain(reply: Reply, data: str) -> bytes:
    end = reply.delivery.line_end
    comment = f": ping{end}{end}" if reply.delivery.comments else ""
    return f"{comment}data: {data}{end}{end}".encode()


def _named(reply: Reply, data: dict[str, Any]) -> bytes:
    end = reply.delivery.line_end
    comment = f": ping{end}{end}" if reply.delivery.comments else ""
    return f"{comment}event: {data['type']}{end}data: {json.dumps(data)}{end}{end}".encode()


def _openai(reply: Reply, model: str, wants_usage: bool) -> Iterator[dict[str, Any]]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in reply.reasoning_pieces:
        yield chunk({reply.reasoning_field: piece})
    for detail in reply.details:
        yield chunk({"reasoning_details": [dict(detail)]})
    for piece in reply.text_pieces:
        yield chunk({"content": piece})
    if reply.refusal:
        half = len(reply.refusal) // 2
        yield chunk({"refusal": reply.refusal[:half]})
        yield chunk({"refusal": reply.refusal[half:]})
    streams = [list(_openai_call(call, number)) for number, call in enumerate(reply.calls)]
    for part in _merge(streams, interleaved=reply.interleaved):
        yield chunk({"tool_calls": [part]})
    last = chunk({}, _OPENAI_REASONS[reply.reason])
    if reply.usage and reply.delivery.usage == "finish":
        last["usage"] = _openai_usage(reply.usage)
    yield last
    if reply.usage and wants_usage and reply.delivery.usage == "own":
        yield {**head, "choices": [], "usage": _openai_usage(reply.usage)}


def _openai_call(call: Call, number: int) -> Iterator[dict[str, Any]]:
    index = number if call.index is None else call.index
    function = {"name": call.name, "arguments": ""}
    yield {"index": index, "id": call.id, "type": "function", "function": function, **call.extra}
    for piece in call.pieces:
        part: dict[str, Any] = {"index": index, "function": {"arguments": piece}}
        yield {**part, "id": call.id} if call.repeat_id else part


def _openai_usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.total_input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.total_input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }


def _anthropic(reply: Reply, model: str) -> Iterator[dict[str, Any]]:
    tokens = reply.usage or Tokens(0, output=0)
    usage = {
        "input_tokens": tokens.total_input - tokens.cache_read - tokens.cache_write,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    if reply.dropped:
        entry = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
        message["input_transformations"] = [entry] * reply.dropped
    yield {"type": "message_start", "message": message}
    yield {"type": "ping"}
    index = 0
    if reply.order:
        streams = list(_anthropic_blocks(reply))
    elif reply.reasoning_pieces:
        parts = [{"type": "thinking_delta", "thinking": piece} for piece in reply.reasoning_pieces]
        parts.append({"type": "signature_delta", "signature": reply.signature})
        yield from _block(index, {"type": "thinking", "thinking": "", "signature": ""}, parts)
        index += 1
    if reply.text_pieces and not reply.order:
        parts = [{"type": "text_delta", "text": piece} for piece in reply.text_pieces]
        yield from _block(index, {"type": "text", "text": ""}, parts)
        index += 1
    if not reply.order:
        streams = [list(_anthropic_call(call, index + number)) for number, call in enumerate(reply.calls)]
    yield from _merge(streams, interleaved=reply.interleaved)
    reason = "refusal" if reply.refusal else _ANTHROPIC_REASONS[reply.reason]
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens.output}}
    yield {"type": "message_stop"}


def _anthropic_blocks(reply: Reply) -> Iterator[list[dict[str, Any]]]:
    """The blocks of an answer in the order that the script wants."""
    texts, calls, signatures = iter(reply.text_pieces), iter(reply.calls), iter(reply.signatures)
    index = 0
    for kind in reply.order:
        if kind == "call":
            block = _anthropic_call(next(calls), index)
        elif kind == "think":
            parts = [{"type": "signature_delta", "signature": next(signatures)}]
            block = _block(index, {"type": "thinking", "thinking": "", "signature": ""}, parts)
        elif (text := next(texts, "")) != "":
            block = _block(index, {"type": "text", "text": ""}, [{"type": "text_delta", "text": text}])
        else:
            continue
        index += 1
        yield list(block)


def _anthropic_call(call: Call, index: int) -> Iterator[dict[str, Any]]:
    start = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in call.pieces]
    return _block(index, start, deltas)


def _block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _merge(streams: list[list[dict[str, Any]]], *, interleaved: bool) -> Iterator[dict[str, Any]]:
    """The streams one after the other, or in turns."""
    if not interleaved:
        for stream in streams:
            yield from stream
        return
    for row in zip_longest(*streams):
        yield from (part for part in row if part is not None)
