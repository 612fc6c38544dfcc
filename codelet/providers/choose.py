"""Which model to use when none is named: by the address, the keys and the local servers that are there."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping

from codelet.errors import ProviderError, UsageError
from codelet.providers.catalog import VENDORS, Vendor, base_of, endpoint_for, vendor_of

_PROBE_TIMEOUT = 0.4
_ASK_TIMEOUT = 5.0
_PROBE_LIMIT = 1 << 20
_NOT_FOR_TALK = ("embed", "rerank", "whisper", "tts-")

NO_MODEL = (
    "no model: set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …), start a local server such as Ollama, "
    "or name one with --model; `codelet demo` runs without"
)


async def choose_model(
    api_base: str | None = None, api_key: str | None = None, environment: Mapping[str, str] = os.environ
) -> str:
    """The first model that `api_base` lists, else the default of the first vendor with a key, else a local server's.

    Raises UsageError with what to do where there is none.
    """
    if api_base is not None:
        endpoint = endpoint_for("", api_base, api_key, environment)
        models = await _models_of(api_base, endpoint.key if endpoint else None, _ASK_TIMEOUT)
        if not models:
            raise UsageError(f"{api_base} lists no models: name one with --model")
        # A listed name such as openai/gpt-oss-20b goes out as it is: only what stands before it is taken off.
        return f"openai/{models[0]}" if vendor_of(models[0]) else models[0]
    for vendor in VENDORS:
        if vendor.default_model and any(environment.get(name) for name in vendor.key_names):
            return vendor.default_model
    for vendor, models in await local_servers(environment):
        if models:
            return f"{vendor.prefix}/{models[0]}"
    raise UsageError(NO_MODEL)


async def local_servers(environment: Mapping[str, str] = os.environ) -> list[tuple[Vendor, list[str]]]:
    """The local servers that answer, each with the names of its models; the variables that move them count."""
    local = [vendor for vendor in VENDORS if vendor.local]
    bases = [base_of(vendor, environment) for vendor in local]
    answers = await asyncio.gather(*(_models_of(base, None, _PROBE_TIMEOUT) for base in bases))
    return [(vendor, models) for vendor, models in zip(local, answers, strict=True) if models is not None]


async def _models_of(base: str, key: str | None, timeout: float) -> list[str] | None:
    """The names that a server lists at `/models` below its base, or None where nothing answers in time.

    Models that are not for talking come last.
    """
    from codelet.providers.connection import checked_url, open_direct

    try:
        url = checked_url(base)
        async with asyncio.timeout(timeout):
            connection = await open_direct(url)
            try:
                lines = [f"GET {url.path.rstrip('/')}/models HTTP/1.0", f"Host: {url.netloc.rpartition('@')[2]}"]
                lines += ["Accept: application/json", *([f"Authorization: Bearer {key}"] if key else []), "", ""]
                connection.writer.write("\r\n".join(lines).encode())
                names = await _names_from(connection.reader)
            finally:
                connection.close()
    except (OSError, TimeoutError, UsageError, ProviderError):
        return None
    return sorted(names, key=lambda name: any(word in name.lower() for word in _NOT_FOR_TALK)) if names else names


async def _names_from(reader: asyncio.StreamReader) -> list[str] | None:
    """Read until the listing is whole: head and body may come apart, and the server may keep the connection open."""
    answer = b""
    while len(answer) < _PROBE_LIMIT and (data := await reader.read(_PROBE_LIMIT)):
        answer += data
        if (names := _names_in(answer)) is not None:
            return names
    return None


def _names_in(answer: bytes) -> list[str] | None:
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200" not in head[:16]:
        return None
    try:
        listed = json.loads(body)["data"]
        return [str(entry["id"]) for entry in listed]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
