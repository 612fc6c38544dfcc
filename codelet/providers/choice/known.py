"""The models that can be chosen: the default one, those of servers, and known ones, also for unknown names.

The list of known ones needs the whole map, which takes a moment.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codelet.errors import ProviderError, UsageError
from codelet.providers.catalog import CUSTOM, WIRES, Vendor, real_name, vendor_of, vendors
from codelet.providers.endpoint import OWN_KEY, base_of, endpoint_for, key_variable
from codelet.providers.facts import (
    ModelFacts,
    entry_facts,
    facts_of,
    model_facts,
    on_this_machine,
    whole_map,
)
from codelet.providers.failure import http_failure
from codelet.providers.protocol import Provider, json_value
from codelet.record import Record
from codelet.system.text import one_line
from codelet.system.text.secret_shapes import without_login

if TYPE_CHECKING:
    from codelet.providers.protocol import Chunk, Effort, Request

_PROBE_TIMEOUT = 0.4
_NOT_FOR_TALK = ("embed", "rerank", "whisper", "tts-")

_DATED = r"[-@](?:\d{4}-?\d{2}-?\d{2}|\d{4}|\d{2}-\d{4})$"

NO_MODEL = (
    "no model: set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY, …), start a local server such as Ollama, "
    "or name one with --model; `codelet demo` runs without"
)


class NoModel(Provider):
    """A session's provider without a model, for commands that need no model; `missing` has the reason."""

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

    `own` are the vendors of the user's settings, after the known ones. Raises UsageError with advice if no model is
    found, ProviderError if the address does not answer or requires a key.
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
        names = [str(entry["id"]) for entry in json_value(body)["data"]]
    except (KeyError, TypeError):
        return None
    return sorted(names, key=lambda name: any(word in name.lower() for word in _NOT_FOR_TALK))


class KnownModel(Record, kw_only=True):
    """A model that can be named. `key` is its vendor's variable with a key, None if none is set.

    `server`: a local server offers it. `ended`: its vendor's last day for it has passed.
    """

    name: str
    vendor: Vendor
    facts: ModelFacts
    key: str | None = None
    server: bool = False
    ended: bool = False

    @property
    def default(self) -> bool:
        return self.vendor.default_model == self.name

    @property
    def usable(self) -> bool:
        """Return whether requests can reach it: its key is set, or a server offers it."""
        return self.server or self.key is not None

    @property
    def past(self) -> bool:
        """Return whether it is a dated version, or no longer offered."""
        return self.ended or re.search(_DATED, self.name) is not None

    @property
    def price(self) -> str:
        """Dollars for a million tokens in and out, such as `3/15`; "free", or "?" if unknown."""
        prices = self.facts.prices
        if prices is None:
            return "free" if self.facts.free else "?"
        return f"{prices.input * 1_000_000:.3g}/{prices.output * 1_000_000:.3g}"

    @property
    def efforts(self) -> tuple[str, ...] | None:
        from codelet.providers.effort import taken_words

        return taken_words(self.name, self.facts)


def known_models(environment: Mapping[str, str] = os.environ, own: Sequence[Vendor] = ()) -> list[KnownModel]:
    """The map's chat models with tools of hosted vendors, and those of `own` vendors.

    By vendor; each one's default first, then those with a short name.
    """
    from datetime import UTC, datetime

    from codelet.providers.choice.names import short_names

    today, short = datetime.now(UTC).date().isoformat(), frozenset(short_names().values())
    listed: dict[str, dict[str, dict[str, Any]]] = {}
    for name, entry in whole_map().items():
        if entry.get("mode") in WIRES and entry.get("supports_function_calling") and not name.startswith("ft:"):
            prefix = str(entry.get("litellm_provider"))
            listed.setdefault(prefix, {})[name if name.startswith(f"{prefix}/") else f"{prefix}/{name}"] = entry
    found: list[KnownModel] = []
    for vendor in (*(each for each in vendors() if not each.local), *own):
        key = key_variable(vendor, None, environment)
        local = on_this_machine(base_of(vendor, environment))
        entries, default = {} if vendor in own else listed.get(vendor.prefix, {}), vendor.default_model
        names = dict.fromkeys([default, *entries]) if default else entries
        for name in sorted(names, key=lambda each: (each != default, each not in short)):
            entry = entries.get(name, {})
            facts = entry_facts(entry) if entry else model_facts(name)
            facts = facts.replace(tiers=(), free=True) if local else facts
            ended = str(entry.get("deprecation_date") or "9999") < today
            found.append(KnownModel(name=name, vendor=vendor, facts=facts, key=key, server=vendor.local, ended=ended))
    return found


async def usable_models(own: Sequence[Vendor] = ()) -> list[KnownModel]:
    """The models that can be asked now: of vendors with a key, and of the local servers, which are asked."""
    servers = await local_servers()  # first: reading the map would make their answers come too late
    known = await asyncio.to_thread(known_models, own=own)
    return [*(model for model in known if model.usable and not model.past), *served_models(servers)]


async def models_at(api_base: str, api_key: str | None, model: str, own: Sequence[Vendor] = ()) -> list[KnownModel]:
    """The models that the server at `api_base` lists, with the key of the current `model`.

    Raises UsageError and ProviderError if it lists none.
    """
    names = await listed_models(api_base, api_key, model=model, own=own)
    local = on_this_machine(api_base)
    return await asyncio.to_thread(lambda: [_served(name, vendor_of(name, own) or CUSTOM, local) for name in names])


def served_models(servers: Iterable[tuple[Vendor, Sequence[str]]]) -> list[KnownModel]:
    """The models that local servers offer."""
    return [_served(f"{vendor.prefix}/{model}", vendor, True) for vendor, models in servers for model in models]


def _served(name: str, vendor: Vendor, local: bool) -> KnownModel:
    return KnownModel(name=name, vendor=vendor, facts=facts_of(name, local=local), server=True)


def near_model(name: str, own: Sequence[Vendor] = ()) -> str | None:
    """The known model, or short name, that was probably meant by an unknown name."""
    from codelet.providers.choice.names import short_names
    from codelet.system.text.spelling import nearest

    prefix, slash, rest = real_name(name).partition("/")
    known = known_models({}, own)
    if not slash:
        return nearest(prefix, [*short_names(), *(each.name.rpartition("/")[2] for each in known)])
    if (vendor := vendor_of(name, own)) is None:
        near = nearest(prefix, [each.prefix for each in (*vendors(), *own)])
        return near and f"{near}/{rest}"
    return nearest(f"{vendor.prefix}/{rest}", [each.name for each in known if each.vendor == vendor])


def doubts(name: str, *, local: bool, window: int | None = None, own: Sequence[Vendor] = ()) -> str | None:
    """Return what is uncertain about an unlisted model, and which name is near; None for others.

    On this machine nothing is paid: only the window is a guess, unless the user has set it to `window`.
    """
    facts = model_facts(name)
    if facts.known or (local and window is not None):
        return None
    near = None if local else near_model(name, own)
    hint = f"; did you mean {near}?" if near else ""
    whose = f"that of {facts.like}" if facts.like else "a guess"
    guessed = f"its window of {facts.window:,} tokens is {whose} (--window N sets it)" if window is None else ""
    unknown = ", and ".join(filter(None, [guessed, "" if local else "its price is not known"]))
    return f"{one_line(name, 80)} is no model that codelet knows: {unknown}{hint}"
