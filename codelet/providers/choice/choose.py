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
    from codelet.providers.asking import exchange
    from codelet.providers.connection import checked_url

    endpoint = endpoint_for(model, api_base, api_key, environment, own)
    key = endpoint.key if endpoint else None
    checked_url(api_base)
    answer = await exchange(api_base, "/models", {"authorization": f"Bearer {key}"} if key else {})
    if answer is None:
        raise ProviderError(f"{without_login(api_base)} does not answer; check the network and --api-base")
    status, body = answer
    if status in (401, 403):
        name = endpoint.key_name if endpoint else OWN_KEY
        text = body.decode("utf-8", "replace")
        raise http_failure(status, {}, text, place=api_base, key_name=name, key=key)
    if not (names := _names_in(body) if status == 200 else None):
        raise UsageError(f"{without_login(api_base)} lists no models: name one with --model")
    # A listed name such as openai/gpt-oss-20b is sent unchanged: only the prefix before it is removed.
    return [f"openai/{name}" if vendor_of(name) else name for name in names]


async def local_servers(environment: Mapping[str, str] = os.environ) -> list[tuple[Vendor, list[str]]]:
    """The local servers that answer, each with its models; variables may move them."""
    from codelet.providers.asking import exchange

    local = [vendor for vendor in vendors() if vendor.local]
    asked = (exchange(base_of(each, environment), "/models", {}, timeout=_PROBE_TIMEOUT, direct=True) for each in local)
    answers = zip(local, await asyncio.gather(*asked), strict=True)
    found = [(vendor, _names_in(answer[1])) for vendor, answer in answers if answer is not None and answer[0] == 200]
    return [(vendor, names) for vendor, names in found if names is not None]


def _names_in(body: bytes) -> list[str] | None:
    """The names in a list of models, those for chats first; None if it is no such list."""
    try:
        names = [str(entry["id"]) for entry in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return sorted(names, key=lambda name: any(word in name.lower() for word in _NOT_FOR_TALK))
