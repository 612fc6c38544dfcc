"""Known models, for lists and for unknown names. Reads the whole map, which takes a moment."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from codelet.providers.catalog import CUSTOM, Vendor, real_name, vendor_of, vendors
from codelet.providers.choice.choose import listed_models, local_servers
from codelet.providers.choice.names import short_names
from codelet.providers.effort import taken_words
from codelet.providers.endpoint import base_of, key_variable
from codelet.providers.facts import (
    ModelFacts,
    entry_facts,
    facts_of,
    model_facts,
    on_this_machine,
    whole_map,
)
from codelet.providers.protocol import ProviderOptions
from codelet.record import Record
from codelet.system.text import one_line
from codelet.system.text.spelling import nearest

_TALKS = ("chat", "responses")
_DATED = re.compile(r"[-@](?:\d{4}-?\d{2}-?\d{2}|\d{4}|\d{2}-\d{4})$")


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
        return self.ended or _DATED.search(self.name) is not None

    @property
    def price(self) -> str:
        """Dollars for a million tokens in and out, such as `3/15`; "free", or "?" if unknown."""
        prices = self.facts.prices
        if prices is None:
            return "free" if self.facts.free else "?"
        return f"{prices.input * 1_000_000:.3g}/{prices.output * 1_000_000:.3g}"

    @property
    def efforts(self) -> tuple[str, ...] | None:
        return taken_words(self.name, self.facts)


def known_models(environment: Mapping[str, str] = os.environ, own: Sequence[Vendor] = ()) -> list[KnownModel]:
    """The map's chat models with tools of hosted vendors, and those of `own` vendors.

    By vendor; each one's default first, then those with a short name.
    """
    entries, today = _entries(), datetime.now(UTC).date().isoformat()
    short = frozenset(short_names().values())
    found: list[KnownModel] = []
    for vendor in (*vendors(), *own):
        if vendor.local and vendor in vendors():
            continue
        key = key_variable(vendor, None, environment)
        local = on_this_machine(base_of(vendor, environment))
        models = {
            name: (entry_facts(entry), str(entry.get("deprecation_date") or "9999") < today)
            for name, entry in entries.get(vendor.prefix, ())
        }
        if vendor.default_model:
            models.setdefault(vendor.default_model, (model_facts(vendor.default_model), False))
        for name in sorted(models, key=lambda each: (each != vendor.default_model, each not in short)):
            facts, ended = models[name]
            there = facts_of(name, local=True) if local else facts
            found.append(KnownModel(name=name, vendor=vendor, facts=there, key=key, server=vendor.local, ended=ended))
    return found


async def usable_models(own: Sequence[Vendor] = ()) -> list[KnownModel]:
    """The models that can be asked now: of vendors with a key, and of the local servers, which are asked."""
    servers = await local_servers()  # first by itself: reading the map would make their answers come too late
    known = await asyncio.to_thread(known_models, own=own)
    return [*(model for model in known if model.usable and not model.past), *served_models(servers)]


async def models_at(api_base: str, api_key: str | None, model: str, own: Sequence[Vendor] = ()) -> list[KnownModel]:
    """The models that the server at `api_base` lists, with the key of the current `model`.

    Raises UsageError and ProviderError if it lists none.
    """
    names = await listed_models(api_base, api_key, model=model, own=own)

    def known() -> list[KnownModel]:
        local = on_this_machine(api_base)
        each = ((name, vendor_of(name, own) or CUSTOM, facts_of(name, local=local)) for name in names)
        return [KnownModel(name=name, vendor=vendor, facts=facts, server=True) for name, vendor, facts in each]

    return await asyncio.to_thread(known)


async def near_offered(name: str) -> str | None:
    """The local server's model that was probably meant; None if it offers this one.

    A server with one model takes any name.
    """
    vendor = vendor_of(name)
    if vendor is None or not vendor.local:
        return None
    for server, offered in await local_servers():
        names = [f"{vendor.prefix}/{each}" for each in offered]
        if server is vendor and len(names) > 1 and not {name, f"{name}:latest"} & set(names):
            return nearest(name, names)
    return None


def served_models(servers: Iterable[tuple[Vendor, Sequence[str]]]) -> list[KnownModel]:
    """The models that local servers offer."""
    return [
        KnownModel(name=name, vendor=vendor, facts=facts_of(name, local=True), server=True)
        for vendor, models in servers
        for name in (f"{vendor.prefix}/{model}" for model in models)
    ]


def near_model(name: str, own: Sequence[Vendor] = (), aliases: Iterable[str] = ()) -> str | None:
    """The known model, or short name, that was probably meant by an unknown name."""
    name = real_name(name)
    prefix, slash, _ = name.partition("/")
    if not slash:
        names = [*aliases, *short_names(), *(each.rpartition("/")[2] for each in _names(None))]
        return nearest(name, names)
    vendor = vendor_of(name, own)
    if vendor is None:
        near = nearest(prefix, [each.prefix for each in (*vendors(), *own)])
        return None if near is None else f"{near}/{name.partition('/')[2]}"
    return nearest(f"{vendor.prefix}/{name.partition('/')[2]}", _names(vendor))


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
    guessed = f"its window of {facts.window:,} tokens is {whose} (--window N sets it)"
    parts = [guessed] if window is None else []
    parts += [] if local else ["its price is not known"]
    return f"{one_line(name, 80)} is no model that codelet knows: {', and '.join(parts)}{hint}"


def refused_name(name: str, options: ProviderOptions) -> str:
    """The error for a name that cannot be a model's, with a near one."""
    if near := near_model(name, options.vendors):
        return f"unknown model {name!r}; did you mean {near}?"
    vendor, slash, _ = name.partition("/")
    unknown = f"neither codelet nor litellm knows a vendor {vendor!r}; see codelet models --all, or give --api-base"
    return f"unknown model {name!r}; {unknown if slash else 'name it as provider/model, or give --api-base'}"


def _names(vendor: Vendor | None) -> list[str]:
    entries = _entries()
    prefixes = entries if vendor is None else (vendor.prefix,)
    defaults = [each.default_model for each in vendors() if each.default_model and vendor in (None, each)]
    return [*defaults, *(name for prefix in prefixes for name, _ in entries.get(prefix, ()))]


def _entries() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """The map's entries that can be chosen, by vendor, with codelet's names."""
    hosted = {vendor.prefix for vendor in vendors() if not vendor.local}
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, entry in whole_map().items():
        vendor = entry.get("litellm_provider")
        if vendor in hosted and entry.get("mode") in _TALKS and entry.get("supports_function_calling"):
            full = name if name.startswith(f"{vendor}/") else f"{vendor}/{name}"
            if not name.startswith("ft:"):
                found.setdefault(vendor, []).append((full, entry))
    return found
