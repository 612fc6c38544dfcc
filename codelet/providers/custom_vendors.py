"""Vendors from the user's settings file: tables `[vendors.NAME]`, in the form of `vendors.toml`.

Model names then begin with NAME and a slash. Only the user's file may hold such a table: it decides where a key is
sent. `codelet/help/settings.md` has an example.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, Struct

from codelet.providers.catalog import Quirks, Vendor, Wire, vendor_from, vendor_of
from codelet.providers.connection import http_address
from codelet.providers.facts import on_this_machine
from codelet.system.text.secret_shapes import is_secret

_Text = Annotated[str, Meta(pattern=r"\S")]
_Length = Annotated[int, Meta(ge=1, le=64)]
"""The length of an id; a digest, from which ids are made, has 64 letters."""
_TYPES = {str: _Text, int | None: _Length | None}
_Quirks = msgspec.defstruct(
    "_Quirks",
    [(name, _TYPES.get(hint, hint), getattr(Quirks, name)) for name, hint in get_type_hints(Quirks).items()],
    forbid_unknown_fields=True,
    omit_defaults=True,
)


class _Table(Struct, forbid_unknown_fields=True):
    base: _Text
    key: _Text = ""
    name: _Text = ""
    wire: Wire = "openai"
    model: _Text = ""
    quirks: dict[str, Any] = {}


def vendors_from(table: object) -> tuple[Vendor, ...]:
    """The vendors in the table `vendors` of a settings file; raises ValueError that begins with the place."""
    if not isinstance(table, dict):
        raise ValueError("vendors must be a table")
    found = []
    for prefix, value in table.items():
        place = f"vendors.{prefix}"
        if not re.fullmatch(r"[a-z][a-z0-9_-]{0,40}", prefix):
            raise ValueError(f"{place}: the name is made of small letters, digits, '-' and '_'")
        if (known := vendor_of(f"{prefix}/")) is not None:
            raise ValueError(f"{place}: this name belongs to {known.name}; choose another one")
        given: _Table = _checked(value, _Table, place)
        if http_address(given.base) is None:
            raise ValueError(f"{place}.base must be an http or https address, not {given.base!r}")
        local = on_this_machine(given.base)
        # The variable's name must look like a secret's, else commands and exports would get its value.
        named = re.fullmatch(r"[A-Z][A-Z0-9_]{0,99}", given.key) and is_secret(given.key, "")
        if not named and (given.key or not local):
            example = prefix.upper().replace("-", "_")
            raise ValueError(f"{place}.key must name the variable that holds the key, such as {example}_API_KEY")
        fields = {
            "name": given.name or prefix,
            "base": given.base.rstrip("/"),
            "wire": given.wire,
            "local": local,
            "key_names": [given.key] if given.key else [],
            **({"model": given.model.removeprefix(f"{prefix}/")} if given.model else {}),
        }
        found.append(vendor_from(prefix, fields, checked_quirks(given.quirks, f"{place}.quirks")))
    return tuple(found)


def checked_quirks(value: object, place: str) -> dict[str, Any]:
    """Return the quirks in a table; raises ValueError for an unknown name or a wrong type."""
    quirks: dict[str, Any] = msgspec.to_builtins(_checked(value, _Quirks, place))
    return quirks


def _checked(value: object, kind: Any, place: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, field = str(error).partition(" - at `$")
        raise ValueError(f"{place}{field.rstrip('`')}: {problem}") from None
