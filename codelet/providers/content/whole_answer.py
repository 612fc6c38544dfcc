"""Unrequested forms of an answer: complete instead of streamed, and compressed."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

from codelet.errors import ProviderError

_Object = dict[str, Any]
_AT_ONCE = 1 << 20
_PACKED = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""The supported encodings, with zlib's number for each."""


def events_of(answer: _Object) -> list[_Object] | None:
    """The events that would have streamed this answer, for any of the three APIs; None if it is not an answer."""
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and all(isinstance(each, dict) and "message" in each for each in choices):
        return [{"choices": [{**each, "delta": each["message"]} for each in choices], "usage": answer.get("usage")}]
    if answer.get("object") == "response" and isinstance(answer.get("output"), list):
        kind = "response.incomplete" if answer.get("status") == "incomplete" else "response.completed"
        return [{"type": kind, "response": answer}]
    if answer.get("type") == "message" and isinstance(answer.get("content"), list):
        return _messages(answer)
    return None


def _messages(answer: _Object) -> list[_Object]:
    events: list[_Object] = [{"type": "message_start", "message": {"usage": answer.get("usage")}}]
    for index, block in enumerate(answer["content"]):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if isinstance(block, dict) and block.get("type") == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block.get("input") or {})}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": answer.get("stop_reason")}})
    return [*events, {"type": "message_stop"}]


async def unpacked(pieces: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The decompressed body; raises ProviderError if that fails."""
    form = _PACKED.get(encoding.strip().lower())
    if form is None:
        raise ProviderError(f"the answer is packed as {encoding[:40]!r}, which was not requested; check --api-base")
    reader = zlib.decompressobj(form)
    async for piece in pieces:
        rest = piece
        try:
            while rest:
                yield reader.decompress(rest, _AT_ONCE)
                rest = reader.unconsumed_tail
        except zlib.error as error:
            raise ProviderError(f"the answer is garbled: it is no {encoding[:40]} ({error})") from None
