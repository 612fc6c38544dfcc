"""The vendors in `vendors.toml`. Model names are litellm's.

A new vendor is one table there. The user's settings may add others (`custom_vendors`), which come as `own`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from codelet.providers.quirks import Quirks
from codelet.record import Record

Wire = Literal["openai", "anthropic"]
WIRES = ("chat", "responses")


class Vendor(Record, kw_only=True):
    """A service or a local server. Model names begin with `prefix` and a slash; `name` is for users.

    `vendors.toml` explains the fields.
    """

    prefix: str
    name: str
    base: str
    key_names: tuple[str, ...] = ()
    base_names: tuple[str, ...] = ()
    bearer_names: tuple[str, ...] = ()
    wire: Wire = "openai"
    default_model: str | None = None
    local: bool = False
    responses: bool = False
    plain_name: str = "{}"
    marked: str = ""
    signs: bool = False
    silent_tools: bool = False
    charges: bool = False
    litellm: str = ""
    quirks: Quirks = Quirks()


CUSTOM = Vendor(
    prefix="",
    name="the endpoint",
    base="",
    key_names=("OPENAI_API_KEY",),
    local=True,
    signs=True,
    silent_tools=True,
)
"""Any server at `--api-base`, for a model without a vendor's prefix."""


_FILE = "vendors.toml"


@cache
def _sections(file: str = _FILE) -> Mapping[str, str]:
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    sections = (section.partition("]\n") for section in text.split("\n[")[1:])
    return {name: rows for name, _, rows in sections}


def table_names(file: str = _FILE) -> list[str]:
    """The names of all tables in a file, in order."""
    return list(_sections(file))


@cache
def table(name: str, file: str = _FILE) -> Mapping[str, Any]:
    """One table of `vendors.toml`, or of another `file` next to it; empty if it is missing.

    Only that table is read, each value as JSON: importing a TOML parser would take a fifth of the start.
    """
    rows = [line.partition(" = ") for line in _sections(file).get(name, "").splitlines() if line[:1] not in ("", "#")]
    return {json.loads(key) if key[0] == '"' else key: json.loads(value) for key, _, value in rows}


def vendor_from(prefix: str, fields: Mapping[str, Any], quirks: Mapping[str, Any]) -> Vendor:
    """The vendor in a table."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in fields.items()
        if name in Vendor.fields
    }
    default = f"{prefix}/{fields['model']}" if "model" in fields else None
    return Vendor(prefix=prefix, default_model=default, quirks=Quirks(**quirks), **given)


@cache
def known_vendor(prefix: str) -> Vendor | None:
    """The known vendor whose models' names begin with this prefix, or another spelling of it."""
    if (real := table("also").get(prefix)) is not None:
        return known_vendor(real)
    fields = table(prefix)
    return vendor_from(prefix, fields, table(f"{prefix}.quirks")) if "base" in fields else None


@cache
def vendors() -> tuple[Vendor, ...]:
    """All known vendors, in the order in which a model is chosen."""
    return tuple(vendor for name in table_names() if (vendor := known_vendor(name)) is not None)


def vendor_of(model: str, own: Sequence[Vendor] = ()) -> Vendor | None:
    """The vendor of a model name, the user's `own` included; None if only litellm may know it."""
    prefix, slash, _ = model.partition("/")
    if slash:
        added = next((vendor for vendor in own if vendor.prefix == prefix), None)
        return added or known_vendor(prefix)
    lowered = model.lower()
    return next((known_vendor(name) for start, name in table("bare").items() if re.match(start, lowered)), None)


def holds(fact: str, model: str) -> bool:
    """Return whether a fact holds for a model by its name, at any vendor: a table `named` of the file."""
    name = model.lower()
    known = table(f"named.{fact}").items()
    return any(piece in name and re.search(pattern, name) is not None for piece, pattern in known)


def real_name(model: str) -> str:
    """The model's litellm name, without the API in `openai/chat/NAME` or `xai/responses/NAME`."""
    wire = asked_wire(model)
    return model if wire is None else model.replace(f"/{wire}/", "/", 1)


def asked_wire(model: str) -> str | None:
    """The API in a name, "chat" or "responses", if its vendor has both; else None."""
    vendor, _, rest = model.partition("/")
    wire, slash, _ = rest.partition("/")
    return wire if slash and wire in WIRES and table(vendor).get("responses") else None
