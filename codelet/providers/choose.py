"""Which model to use when none is named: by the keys and the local servers that are there."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping

from codelet.errors import UsageError
from codelet.providers.catalog import VENDORS, Vendor

_PROBE_TIMEOUT = 0.4
_PROBE_LIMIT = 1 << 20

NO_MODEL = (
    "no model: set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …), start a local server such as Ollama, "
    "or name one with --model; `codelet demo` runs without"
)


async def choose_model(environment: Mapping[str, str] = os.environ) -> str:
    """The default model of the first vendor with a key, else the first model of a local server.

    Raises UsageError with what to do where there is neither.
    """
    for vendor in VENDORS:
        if vendor.default_model and any(environment.get(name) for name in vendor.key_names):
            return vendor.default_model
    for vendor, models in await local_servers():
        if models:
            return f"{vendor.prefix}/{models[0]}"
    raise UsageError(NO_MODEL)


async def local_servers() -> list[tuple[Vendor, list[str]]]:
    """The local servers that answer, each with the names of its models."""
    local = [vendor for vendor in VENDORS if vendor.local]
    answers = await asyncio.gather(*(_models_of(vendor) for vendor in local))
    return [(vendor, models) for vendor, models in zip(local, answers, strict=True) if models is not None]


async def _models_of(vendor: Vendor) -> list[str] | None:
    """The model names a local server lists at `/v1/models`, or None where nothing answers."""
    address = vendor.base.partition("//")[2]
    place, _, path = address.partition("/")
    host, _, port = place.partition(":")
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                request = f"GET /{path}/models HTTP/1.0\r\nHost: {place}\r\nAccept: application/json\r\n\r\n"
                writer.write(request.encode())
                answer = await reader.read(_PROBE_LIMIT)
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return None
    return _names_in(answer)


def _names_in(answer: bytes) -> list[str] | None:
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200" not in head[:16]:
        return None
    try:
        listed = json.loads(body)["data"]
        return [str(entry["id"]) for entry in listed]
    except (ValueError, KeyError, TypeError):
        return None
