"""Vendors from the user's settings file: tables `[vendors.NAME]`, in the form of `vendors.toml`.

    [vendors.inhouse]
    base = "https://models.inhouse.example/v1"      # the address, without /chat/completions
    key = "INHOUSE_API_KEY"                         # the variable that holds the key; optional for a local server
    name = "In-house"                               # for people; default: NAME
    wire = "openai"                                 # or "anthropic"
    model = "house-large"                           # the default model
    quirks = {alternating = true}                   # fields of `quirks.Quirks`

Model names then begin with `inhouse/`. Only the user's file may hold such a table: it decides where a key is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_type_hints

from codelet.providers.catalog import Vendor, Wire, vendor_from, vendor_of
from codelet.providers.connection import http_address
from codelet.providers.facts import on_this_machine
from codelet.providers.quirks import Quirks
from codelet.system.text.secret_shapes import is_secret
from codelet.system.text.spelling import did_you_mean

_KEYS = ("base", "key", "name", "wire", "model", "quirks")
_LONGEST_ID = 64
"""The number of letters in a digest, from which ids are made."""


def vendors_from(table: object) -> tuple[Vendor, ...]:
    """The vendors in the table `vendors` of a settings file; raises ValueError that begins with the place."""
    return tuple(_vendor(prefix, fields) for prefix, fields in _checked(table, dict, "vendors").items())


def _vendor(prefix: str, value: object) -> Vendor:
    place = f"vendors.{prefix}"
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,40}", prefix):
        raise ValueError(f"{place}: the name is made of small letters, digits, '-' and '_'")
    if (known := vendor_of(f"{prefix}/")) is not None:
        raise ValueError(f"{place}: this name belongs to {known.name}; choose another one")
    given = _known(value, _KEYS, place)
    base = _checked(given.get("base"), str, f"{place}.base")
    if http_address(base) is None:
        raise ValueError(f"{place}.base must be an http or https address, not {base!r}")
    fields = {
        "name": _checked(given.get("name", prefix), str, f"{place}.name"),
        "base": base.rstrip("/"),
        "key_names": _key_names(given, place, local=on_this_machine(base)),
        "wire": _checked(given.get("wire", "openai"), Wire, f"{place}.wire"),
        "local": on_this_machine(base),
    }
    if "model" in given:
        fields["model"] = _checked(given["model"], str, f"{place}.model").removeprefix(f"{prefix}/")
    return vendor_from(prefix, fields, checked_quirks(given.get("quirks", {}), f"{place}.quirks"))


def _key_names(given: Mapping[str, object], place: str, *, local: bool) -> tuple[str, ...]:
    """The variable with the key. Its name must look like a secret's, else commands and exports would get its value."""
    if local and "key" not in given:
        return ()
    name = _checked(given.get("key"), str, f"{place}.key")
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,99}", name) or not is_secret(name, ""):
        example = place.rpartition(".")[2].upper().replace("-", "_")
        raise ValueError(f"{place}.key must name the variable that holds the key, such as {example}_API_KEY")
    return (name,)


def checked_quirks(value: object, place: str) -> dict[str, Any]:
    """Return the quirks in a table; raises ValueError for an unknown name or a wrong type."""
    hints, given = get_type_hints(Quirks), _known(value, Quirks.fields, place)
    return {name: _checked(setting, hints[name], f"{place}.{name}") for name, setting in given.items()}


def _known(value: object, known: Iterable[str], place: str) -> Mapping[str, Any]:
    given: Mapping[str, Any] = _checked(value, dict, place)
    for name in given:
        if name not in known:
            hint, listed = did_you_mean(name, known, "{!r}"), ", ".join(known)
            raise ValueError(f"{place}: {name!r} is unknown{hint or f'; known are {listed}'}")
    return given


def _checked(value: Any, kind: Any, place: str) -> Any:
    """The value, if it is of that type."""
    if kind is dict:
        fits, wanted = isinstance(value, dict), "a table"
    elif kind is bool:
        fits, wanted = isinstance(value, bool), "true or false"
    elif kind is str:
        fits, wanted = isinstance(value, str) and bool(value.strip()), "a text"
    elif kind == int | None:
        fits = type(value) is int and 1 <= value <= _LONGEST_ID
        wanted = f"a whole number from 1 to {_LONGEST_ID}"
    else:
        names = get_args(kind)
        fits, wanted = value in names, f"one of {', '.join(map(repr, names))}"
    if not fits:
        raise ValueError(f"{place} must be {wanted}")
    return value
