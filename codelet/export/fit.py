"""Makes a value fit the published schema where it does not: what is written can always be read back.

Numbers that no count can be, texts and lists beyond the bounds, parts that are nested too deep: they come from servers
that report nonsense, and a session is not to be lost for that. A number that cannot be is null where null is
allowed, else the nearest one that can be; what is too long is cut; a part of free form that does not fit is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from codelet.export.errors import ExportError
from codelet.export.validate import WrongValue, check_free, compiled, schema

_EITHER = "null"
_ID_LENGTH = 512


class _Unfit(Exception):
    """Nothing like the value fits."""


Fit = Callable[[Any], Any]
"""Gives the same object where it fits. Raises ExportError where nothing like it does."""


@cache
def field_fit(name: str) -> Fit:
    """For the value of a field of the document, by its name there."""
    return _fit_of(name, schema()["properties"][name])


@cache
def item_fit(name: str) -> Fit:
    """For each entry of a list of the document."""
    return _fit_of(name, _resolved(schema()["properties"][name])["items"])


@cache
def most_items(name: str) -> int:
    """How many entries a list of the document may have."""
    most: int = _resolved(schema()["properties"][name])["maxItems"]
    return most


def _fit_of(name: str, part: Mapping[str, Any]) -> Fit:
    check = compiled(part)

    def fit(value: Any) -> Any:
        try:
            check(value)
        except WrongValue:
            try:
                return _fit(value, part)
            except _Unfit:
                raise ExportError(f"{name} holds what no export can") from None
        return value

    return fit


def _resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in part:
        part = schema()["$defs"][part["$ref"].rpartition("/")[2]]
    return part


def _fit(value: Any, given: Mapping[str, Any]) -> Any:
    part = _resolved(given)
    if "oneOf" in part:
        return _fit(value, _branch(value, part["oneOf"]))
    if "const" in part or "enum" in part:
        if value not in ([part["const"]] if "const" in part else part["enum"]):
            raise _Unfit
        return value
    kinds = [part["type"]] if isinstance(part["type"], str) else part["type"]
    if value is None and _EITHER in kinds:
        return None
    match kinds[0]:
        case "object":
            return _object(value, part)
        case "array":
            return _array(value, part)
        case "string":
            if not isinstance(value, str):
                raise _Unfit
            return _text(value, part["maxLength"])
    return _number(value, part, kinds)


def _branch(value: Any, branches: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    tag = next(iter(branches[0]["properties"]))
    named = value.get(tag) if isinstance(value, dict) else None
    for branch in branches:
        if branch["properties"][tag]["const"] == named:
            return branch
    raise _Unfit


def _object(value: Any, part: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Unfit
    known, more = part.get("properties", {}), part.get("additionalProperties", True)
    fit: dict[str, Any] = {}
    for name, item in value.items():
        form = known.get(name, more)
        if form is False or len(fit) >= part.get("maxProperties", len(known) or 100_000):
            continue
        if form is True:  # a part of it left out would make another thing of the rest, such as of signed reasoning
            if not _is_free(item):
                raise _Unfit
            fit[name] = item
            continue
        try:
            fit[name] = _fit(item, form)
        except _Unfit:
            continue
    if not fit.keys() >= set(part.get("required", ())):
        raise _Unfit
    return fit


def _array(value: Any, part: Mapping[str, Any]) -> list[Any]:
    """The entries as they fit, the newest where there are too many."""
    if not isinstance(value, list | tuple):
        raise _Unfit
    return [_fit(item, part["items"]) for item in value[-part["maxItems"] :]]


def _text(text: str, most: int) -> str:
    """The text cut; an id or a name ends in a digest of the whole, as another may begin as it does."""
    if len(text) <= most:
        return text
    if most != _ID_LENGTH:
        return text[:most]
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"{text[: most - len(digest) - 1]}~{digest}"


def _number(value: Any, part: Mapping[str, Any], kinds: list[str]) -> int | float | None:
    real = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    within = real and part["minimum"] <= value <= part["maximum"]
    if not within and _EITHER in kinds:
        return None
    if not real:
        return int(part["minimum"])
    number = min(max(value, part["minimum"]), part["maximum"])
    return int(number) if kinds[0] == "integer" else number


def _is_free(value: Any) -> bool:
    try:
        check_free(value)
    except WrongValue:
        return False
    return True
