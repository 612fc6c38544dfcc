"""A model's endpoint: address, key, wire, and quirks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from codelet.errors import UsageError
from codelet.providers.catalog import (
    CUSTOM,
    Quirks,
    Vendor,
    asked_wire,
    holds,
    known_vendor,
    real_name,
    table,
    vendor_of,
    vendors,
)
from codelet.providers.connection import http_address
from codelet.providers.facts import model_facts, on_this_machine
from codelet.record import Record
from codelet.system.text.secret_shapes import without_login

OWN_KEY = "CODELET_API_KEY"
"""The variable whose key goes to any server."""


class Endpoint(Record, kw_only=True):
    """The destination of requests. `key_from` is the variable with the key, if there is one."""

    vendor: Vendor
    base: str
    key: str | None
    key_from: str | None = None

    @property
    def name(self) -> str:
        """The vendor's name; the address, if it is not the vendor's own."""
        return self.vendor.name if self.base == self.vendor.base else without_login(self.base)

    @property
    def check(self) -> str:
        """Advice for an unreachable address."""
        own = self.vendor.local and self.base == self.vendor.base
        return f"whether {self.vendor.name} runs, and --api-base" if own else "the network and --api-base"

    @property
    def key_name(self) -> str:
        """The key's variable, or those to set, for error messages."""
        if self.key_from is not None:
            return self.key_from
        names = self.vendor.key_names[:1]
        return names[0] if names and self.base == self.vendor.base else " or ".join((OWN_KEY, *names))

    @property
    def local(self) -> bool:
        return on_this_machine(self.base)

    def model_name(self, model: str) -> str:
        """The server's name for the model: without the vendor's prefix."""
        prefix, _, rest = real_name(model).partition("/")
        if not rest or not (prefix == self.vendor.prefix or known_vendor(prefix)):
            return model
        return rest if "/" in rest else self.vendor.plain_name.format(rest)

    def origin(self, model: str) -> str:
        """The mark of fields that only this server can read: its address, with the maker if it serves several."""
        maker = self.model_name(model).rpartition("/")[0]
        address = without_login(self.base)
        return f"{address}#{maker}" if maker else address


def endpoint_for(
    model: str,
    api_base: str | None,
    api_key: str | None,
    environment: Mapping[str, str] = os.environ,
    own: Sequence[Vendor] = (),
) -> Endpoint | None:
    """The native endpoint for a model, or None. Raises UsageError if a required key is missing.

    With `api_base` every name is native: Anthropic's wire for Anthropic's names, one of OpenAI's for others.
    """
    vendor = vendor_of(model, own)
    if vendor is None and api_base is None:
        return None
    vendor = vendor or CUSTOM
    key_from = key_variable(vendor, api_key, environment)
    key = (api_key or (environment[key_from] if key_from else "")).strip() or None  # files often end in a line end
    if key and not (key.isascii() and key.isprintable()):
        raise UsageError("the API key holds characters that no key has; was it copied whole?")
    base = api_base or base_of(vendor, environment)
    if key is None and not vendor.local and base == vendor.base:
        raise UsageError(f"no key for {vendor.name}: set {vendor.key_names[0]}, or choose another --model")
    return Endpoint(vendor=vendor, base=base.rstrip("/"), key=key, key_from=key_from)


def speaks_responses(model: str, endpoint: Endpoint) -> bool:
    """Return whether requests go over OpenAI's Responses: by name, or at vendors' own addresses."""
    if (asked := asked_wire(model)) is not None:
        return asked == "responses"
    known = (endpoint.vendor,) if endpoint.vendor.prefix else vendors()
    own, host = (_host_of(each.base) for each in known if each.responses), f".{_host_of(endpoint.base)}"
    return any(each and host.endswith(f".{each}") for each in own)


def _host_of(base: str) -> str:
    url = http_address(base)
    return url.hostname or "" if url else ""  # the wire reports a bad address


def quirks_of(model: str, api_base: str | None, own: Sequence[Vendor] = ()) -> Quirks:
    """The quirks known before the first request: the vendor's, and those implied by the model's name.

    A model's quirks follow its name, at any address; a vendor's follow the prefix. litellm's map knows which of
    OpenAI's models reason unless the request says otherwise.
    """
    known, facts, name = vendor_of(model, own), model_facts(model), real_name(model)
    vendor = known or CUSTOM
    quirks, here = vendor.quirks, on_this_machine(api_base or vendor.base)
    service = not (vendor.local and vendor.prefix)  # a local template accepts any
    chats = vendor.silent_tools and asked_wire(model) != "responses"
    marked = quirks.cache_marks or bool(vendor.marked and re.match(vendor.marked, name.lower().partition("/")[2]))
    alternating = quirks.alternating
    if known is None and not api_base:
        alternating = bool(table(f"{model.partition('/')[0]}.quirks").get("alternating"))
    elif not alternating and not marked and vendor.wire == "openai":
        # Local and unknown servers apply the model's own chat template, which may be strict.
        host = _host_of(api_base or vendor.base)
        hosted = (urlsplit(each.base).hostname for each in (*vendors(), *own) if not each.local)
        alternating = here or (bool(host) and host not in hosted)
    return quirks.replace(
        alternating=alternating,
        max_output_option="max_tokens" if api_base and here and not facts.known else quirks.max_output_option,
        effort="none" if chats and facts.tools_without_reasoning else quirks.effort,
        reasoning=quirks.reasoning or (service and not quirks.strict and holds("thinks", name.rpartition("/")[2])),
        signatures=quirks.signatures or (vendor.signs and holds("signed", name)),
        cache_marks=marked,
        summaries=quirks.summaries and facts.reasons,
        images=quirks.images and facts.images is not False,
        prefix_bound=quirks.prefix_bound or facts.prefix_bound,
    )


def key_variable(vendor: Vendor | None, api_key: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The variable of the key: codelet's own if `api_key` is given, else the vendor's; None without a key."""
    if api_key:
        return OWN_KEY
    return next((name for name in (vendor.key_names if vendor else ()) if environment.get(name)), None)


def base_of(vendor: Vendor, environment: Mapping[str, str] = os.environ) -> str:
    """The vendor's address, or the one in a variable."""
    moved = next((environment[name] for name in vendor.base_names if environment.get(name)), None)
    if moved is None:
        return vendor.base
    if not vendor.local:
        return moved
    # It may lack scheme, host, port or path, or be a listening address.
    try:
        url, usual = urlsplit(moved if "//" in moved else f"http://{moved}"), urlsplit(vendor.base)
        port = url.port or (None if "//" in moved else usual.port)
    except ValueError:
        return moved  # the wire reports it
    host = usual.hostname if url.hostname in (None, "0.0.0.0", "::") else url.hostname
    place = f"[{host}]" if ":" in (host or "") else host
    path = url.path.rstrip("/")
    return f"{url.scheme}://{place}{f':{port}' if port else ''}{path if path.endswith('/v1') else path + '/v1'}"
