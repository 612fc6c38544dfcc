"""The default model, from the address, the keys and the local servers."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING

from codelet.errors import ProviderError, UsageError
from codelet.providers.catalog import Vendor, vendor_of, vendors
from codelet.providers.endpoint import OWN_KEY, base_of, endpoint_for, key_variable
from codelet.providers.failure import http_failure
from codelet.providers.protocol import Provider
from codelet.system.text.secret_shapes import without_login

if TYPE_CHECKING:
    from codelet.providers.protocol import Chunk, Effort, Request

_PROBE_TIMEOUT = 0.4
_ASK_TIMEOUT = 5.0
_NOT_FOR_TALK = ("embed", "rerank", "whisper", "tts-")

NO_MODEL = (
    "no model: set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …), start a local server such as Ollama, "
    "or name one with --model; `codelet demo` runs without"
)


class NoModel(Provider):
    """A session's provider without a model, for commands that need none; `missing` says why there is none."""

    model = name = origin = ""
    local = False
    effort: Effort | None = None

    def __init__(self, missing: UsageError) -> None:
        self.missing = missing

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Raise `missing`."""
        raise self.missing


async def choose_model(
    api_base: str | None = None,
    api_key: str | None = None,
    environment: Mapping[str, str] = os.environ,
    own: Sequence[Vendor] = (),
) -> str:
    """The first model at `api_base`, else the default of the first vendor with a key, else a local server's.

    `own` are the vendors of the user's settings, after the known ones. Raises UsageError with advice if there is none,
    ProviderError if the address does not answer or requires a key.
    """
    if api_base is not None:
        return (await listed_models(api_base, api_key, environment))[0]
    for vendor in (*vendors(), *own):
        if vendor.default_model and any(environment.get(name) for name in vendor.key_names):
            return vendor.default_model
    for vendor, models in await local_servers(environment):
        if models:
            return f"{vendor.prefix}/{models[0]}"
    for vendor in (*vendors(), *own):
        if (found := key_variable(vendor, None, environment)) is not None:
            raise UsageError(
                f"no model: {found} is set, so name one of {vendor.name}'s with --model {vendor.prefix}/NAME"
            )
    raise UsageError(NO_MODEL)


async def listed_models(
    api_base: str,
    api_key: str | None,
    environment: Mapping[str, str] = os.environ,
    model: str = "",
    own: Sequence[Vendor] = (),
) -> list[str]:
    """The models that a server lists, at least one, named so that they are asked there; with the key of `model`."""
    from codelet.providers.connection import checked_url

    endpoint = endpoint_for(model, api_base, api_key, environment, own)
    key = endpoint.key if endpoint else None
    checked_url(api_base)
    listing = await _ask(api_base, key, _ASK_TIMEOUT)
    if listing is None:
        raise ProviderError(f"{without_login(api_base)} does not answer; check the network and --api-base")
    status, names, body = listing
    if status in (401, 403):
        name = endpoint.key_name if endpoint else OWN_KEY
        raise http_failure(status, {}, body, place=api_base, key_name=name, key=key)
    if not names:
        raise UsageError(f"{without_login(api_base)} lists no models: name one with --model")
    # A listed name such as openai/gpt-oss-20b is sent unchanged: only the prefix before it is removed.
    return [f"openai/{name}" if vendor_of(name) else name for name in names]


async def local_servers(environment: Mapping[str, str] = os.environ) -> list[tuple[Vendor, list[str]]]:
    """The local servers that answer, each with its models; variables may move them."""
    local = [vendor for vendor in vendors() if vendor.local]
    bases = [base_of(vendor, environment) for vendor in local]
    answers = await asyncio.gather(*(_ask(base, None, _PROBE_TIMEOUT, direct=True) for base in bases))
    found = [(vendor, answer[1]) for vendor, answer in zip(local, answers, strict=True) if answer is not None]
    return [(vendor, names) for vendor, names in found if names is not None]


async def _ask(
    base: str, key: str | None, timeout: float, *, direct: bool = False
) -> tuple[int, list[str] | None, str] | None:
    """Status, model names and body of a server's answer at `/models`; None if none comes. Chat models come first."""
    from codelet.providers.asking import exchange

    headers = {"authorization": f"Bearer {key}"} if key else {}
    answer = await exchange(base, "/models", headers, timeout=timeout, direct=direct)
    if answer is None:
        return None
    status, body = answer
    try:
        names = [str(entry["id"]) for entry in json.loads(body)["data"]] if status == 200 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        names = None
    if names is not None:
        names.sort(key=lambda name: any(word in name.lower() for word in _NOT_FOR_TALK))
    return status, names, body.decode("utf-8", "replace")
