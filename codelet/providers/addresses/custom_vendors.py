"""Vendors that the user's own settings file adds: tables `[vendors.NAME]`, as `vendors.toml` has them.

    [vendors.inhouse]
    base = "https://models.inhouse.example/v1"      # the address, without /chat/completions
    key = "INHOUSE_API_KEY"                         # the variable that holds the key; a local server needs none
    name = "In-house"                               # for people; NAME if it is left out
    wire = "openai"                                 # or "anthropic"
    model = "house-large"                           # the default model
    quirks = {alternating = true}                   # by their names in `quirks.Quirks`

Models are then named `inhouse/…`. Only the user's file may hold such a table: it decides where a key is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_type_hints

from codelet.providers.catalog import Vendor, Wire, vendor_from, vendor_of
from codelet.providers.connection import http_address
from codelet.providers.facts import on_this_machine
from codelet.providers.quirks import Quirks
from codelet.system.text.secret_shapes import is_secret
from codelet.system.text.spelling import did_you_mean

_KEYS = ("base", "key", "name", "wire", "model", "quirks")


def vendors_from(table: object) -> tuple[Vendor, ...]:
    """The vendors in the table `vendors` of a settings file; raises ValueError that begins with the place."""
    return tuple(_vendor(prefix, fields) for prefix, fields in _table(table, "vendors").items())


def _vendor(prefix: str, value: object) -> Vendor:
    place = f"vendors.{prefix}"
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,40}", prefix):
        raise ValueError(f"{place}: the name is made of small letters, digits, '-' and '_'")
    if (known := vendor_of(f"{prefix}/")) is not None:
        raise ValueError(f"{place}: this name is taken by {known.name}; choose another one")
    given = _known(_table(value, place), _KEYS, place)
    base = _text(given.get("base"), f"{place}.base")
    if http_address(base) is None:
        raise ValueError(f"{place}.base must be an http or https address, not {base!r}")
    model = _text(given["model"], f"{place}.model").removeprefix(f"{prefix}/") if "model" in given else None
    fields = {
        "name": _text(given.get("name", prefix), f"{place}.name"),
        "base": base.rstrip("/"),
        "key_names": _key_names(given, place, local=on_this_machine(base)),
        "wire": _one_of(given.get("wire", "openai"), get_args(Wire), f"{place}.wire"),
        "local": on_this_machine(base),
        **({"model": model} if model else {}),
    }
    return vendor_from(prefix, fields, checked_quirks(given.get("quirks", {}), f"{place}.quirks"))


def _key_names(given: Mapping[str, object], place: str, *, local: bool) -> tuple[str, ...]:
    """The variable with the key. Its name has to show what it holds: else commands and exports would be given it."""
    if local and "key" not in given:
        return ()
    name = _text(given.get("key"), f"{place}.key")
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,99}", name) or not is_secret(name, ""):
        example = place.rpartition(".")[2].upper().replace("-", "_")
        raise ValueError(f"{place}.key must name the variable that holds the key, such as {example}_API_KEY")
    return (name,)


def checked_quirks(value: object, place: str) -> dict[str, Any]:
    """Return the quirks in a table; raises ValueError for one that is unknown or of another kind."""
    hints = get_type_hints(Quirks)
    given = _known(_table(value, place), Quirks.fields, place)
    return {name: _KINDS[hints[name]](setting, f"{place}.{name}") for name, setting in given.items()}


def _known(given: Mapping[str, object], known: Iterable[str], place: str) -> Mapping[str, Any]:
    for name in given:
        if name not in known:
            meant, listed = did_you_mean(name, known, "{!r}"), ", ".join(known)
            raise ValueError(f"{place}: {name!r} is unknown{meant or f'; known are {listed}'}")
    return given


def _table(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{place} must be a table")
    return value


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{place} must be a text")
    return value


def _flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{place} must be true or false")
    return value


def _length(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 64:  # a digest has no more letters
        raise ValueError(f"{place} must be a whole number from 1 to 64")
    return value


def _one_of(value: object, names: tuple[Any, ...], place: str) -> Any:
    if value not in names:
        raise ValueError(f"{place} must be one of {', '.join(map(repr, names))}")
    return value


_EFFORTS, _EFFORT_FIELDS, _STRUCTURED = (
    get_type_hints(Quirks)[name] for name in ("effort", "effort_field", "structured")
)
_KINDS: dict[Any, Callable[[object, str], Any]] = {
    bool: _flag,
    str: _text,
    int | None: _length,
    _EFFORTS: lambda value, place: _one_of(value, get_args(_EFFORTS), place),
    _EFFORT_FIELDS: lambda value, place: _one_of(value, get_args(_EFFORT_FIELDS), place),
    _STRUCTURED: lambda value, place: _one_of(value, get_args(_STRUCTURED), place),
}
