"""Writes a Reply as the events of OpenAI's Responses, each with its place in the order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from zlib import crc32

from tests.support.script import Call, Reply, Tokens

_REASONS = {"length": "max_output_tokens", "refused": "content_filter"}


def responses(reply: Reply, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of one answer: reasoning, text or refusal, calls; reasoning is encrypted where that was asked for."""
    for number, event in enumerate(_events(reply, request)):
        yield {**event, "sequence_number": number}


def error_event(message: str, kind: str) -> dict[str, Any]:
    """The event of a stream that breaks off."""
    return {"type": "error", "code": kind, "message": message, "param": None, "sequence_number": 99}


def _events(reply: Reply, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    response: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "in_progress",
        "model": str(request.get("model", "scripted")),
        "error": None,
        "incomplete_details": None,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "store": request.get("store", True),
        "usage": None,
    }
    yield {"type": "response.created", "response": response}
    yield {"type": "response.in_progress", "response": response}
    output: list[dict[str, Any]] = []
    number = crc32(json.dumps(request.get("input")).encode())  # no two answers of a session have items of the same id
    for part in _in_order(reply) if reply.order else [reply]:
        if part.reasoning_pieces:
            yield from _reasoning(part, request, output, number)
        if part.text_pieces or part.refusal:
            yield from _message(part, output, number)
        streams = [_call(call, len(output) + number) for number, call in enumerate(part.calls)]
        output += [item for item, _ in streams]
        yield from _merged([events for _, events in streams], interleaved=part.interleaved)
    whole = {**response, "status": "completed", "output": output, "usage": _usage(reply.usage) if reply.usage else None}
    if why := _REASONS.get(reply.reason):
        details = {"status": "incomplete", "incomplete_details": {"reason": why}}
        yield {"type": "response.incomplete", "response": whole | details}
        return
    yield {"type": "response.completed", "response": whole}


def _in_order(reply: Reply) -> Iterator[Reply]:
    """The answer block by block: each text is an item of its own, with a phase, and so is each piece of reasoning."""
    signatures, texts, calls = iter(reply.signatures), iter(reply.text_pieces), iter(reply.calls)
    for kind in reply.order:
        match kind:
            case "think":
                yield Reply(reasoning="hm", signature=next(signatures))
            case "text":
                yield Reply(next(texts))
            case _:
                yield Reply(calls=[next(calls)])


def _reasoning(
    reply: Reply, request: dict[str, Any], output: list[dict[str, Any]], number: int
) -> Iterator[dict[str, Any]]:
    text = "".join(reply.reasoning_pieces)
    encrypted = reply.signature if "reasoning.encrypted_content" in (request.get("include") or ()) else None
    item: dict[str, Any] = {"id": f"rs_{number}_{len(output)}", "type": "reasoning", "summary": []}
    index = len(output)
    at = {"item_id": item["id"], "output_index": index}
    yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "encrypted_content": None}}
    if text:
        part = {**at, "summary_index": 0}
        empty = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **part, "part": empty}
        for piece in reply.reasoning_pieces:
            yield {"type": "response.reasoning_summary_text.delta", **part, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **part, "text": text}
        item["summary"] = [{**empty, "text": text}]
        yield {"type": "response.reasoning_summary_part.done", **part, "part": item["summary"][0]}
    item["encrypted_content"] = encrypted
    output.append(item)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _message(reply: Reply, output: list[dict[str, Any]], number: int) -> Iterator[dict[str, Any]]:
    index = len(output)
    item: dict[str, Any] = {
        "id": f"msg_{number}_{index}",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
    }
    yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
    parts: list[dict[str, Any]] = []
    half = len(reply.refusal) // 2
    refusal = [reply.refusal[:half], reply.refusal[half:]] if reply.refusal else []
    for kind, field, pieces in (("output_text", "text", reply.text_pieces), ("refusal", "refusal", refusal)):
        if not pieces:
            continue
        at = {"item_id": item["id"], "output_index": index, "content_index": len(parts)}
        more: dict[str, Any] = {"annotations": []} if kind == "output_text" else {}
        odds: dict[str, Any] = {"logprobs": []} if kind == "output_text" else {}
        yield {"type": "response.content_part.added", **at, "part": {"type": kind, field: "", **more}}
        for piece in pieces:
            yield {"type": f"response.{kind}.delta", **at, "delta": piece, **odds}
        yield {"type": f"response.{kind}.done", **at, field: "".join(pieces), **odds}
        parts.append({"type": kind, field: "".join(pieces), **more})
        yield {"type": "response.content_part.done", **at, "part": parts[-1]}
    output.append({**item, "status": "completed", "content": parts})
    yield {"type": "response.output_item.done", "output_index": index, "item": output[-1]}


def _call(call: Call, index: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The finished item of a call, and its events."""
    item = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "name": call.name}
    at = {"item_id": item["id"], "output_index": index}
    begun = {**item, "arguments": "", "status": "in_progress"}
    done = {**item, "arguments": call.json, "status": "completed"}
    events: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": index, "item": begun}]
    for piece in call.pieces:
        events.append({"type": "response.function_call_arguments.delta", **at, "delta": piece})
    end = {"type": "response.function_call_arguments.done", **at, "name": call.name, "arguments": call.json}
    return done, [*events, end, {"type": "response.output_item.done", "output_index": index, "item": done}]


def _merged(streams: list[list[dict[str, Any]]], *, interleaved: bool) -> Iterator[dict[str, Any]]:
    """The streams one after the other, or in turns."""
    if not interleaved:
        for stream in streams:
            yield from stream
        return
    for place in range(max(map(len, streams), default=0)):
        yield from (stream[place] for stream in streams if place < len(stream))


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.total_input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.total_input + tokens.output,
    }
