"""Server-sent events: bytes in, the JSON objects of their `data:` lines out."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from codelet.errors import ProviderError

_LINE_LIMIT = 16 << 20

DONE: dict[str, Any] = {}


async def json_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any], None]:
    """The objects of a stream of server-sent events; `data: [DONE]` becomes `DONE` and ends it.

    Raises ProviderError for what is not JSON: a garbled stream must not pass for a short answer.
    """
    async for data in _data_fields(pieces):
        if data == b"[DONE]":
            yield DONE
            return
        try:
            event = json.loads(data)
        except ValueError:
            shown = data[:80].decode("utf-8", "replace")
            raise ProviderError(f"the answer is garbled: {shown!r} is not a JSON event") from None
        if not isinstance(event, dict):
            raise ProviderError("the answer is garbled: an event is not a JSON object")
        yield event


async def _data_fields(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The data of each event: its `data:` lines joined. Comments and other fields are passed over."""
    data: list[bytes] = []
    async for line in _lines(pieces):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
    if data:
        yield b"\n".join(data)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece if rest else piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        if len(rest) > _LINE_LIMIT:
            raise ProviderError("the answer is garbled: a line of more than 16 MiB")
    if rest:
        yield rest.removesuffix(b"\r")
