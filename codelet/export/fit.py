"""Makes a value fit the form of the document where it does not: what is written can always be read back.

Numbers that no count can be, texts and lists beyond the bounds, parts that are nested too deep: they come from servers
that report nonsense, and a session is not to be lost for that. A number that cannot be is null where null is
allowed, else the nearest one that can be; what is too long is cut; a part of free form that does not fit is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any, get_args

import msgspec
from msgspec import inspect as forms

from codelet.errors import ExportError
from codelet.export.check import bounds, chosen, fits_number
from codelet.export.document import FIELDS, ID_LENGTH, check_custom


class _Unfit(Exception):
    """Nothing like the value fits."""


Fit = Callable[[Any], Any]
"""Returns the same object if it fits. Raises ExportError where nothing like it does."""


@cache
def field_fit(name: str) -> Fit:
    """For the value of a field of the document."""
    return _fit_of(name, FIELDS[name].type)


@cache
def item_fit(name: str) -> Fit:
    """For each entry of a list of the document."""
    kind = FIELDS[name].type
    while not (arguments := get_args(kind)) or getattr(kind, "__origin__", None) is not list:
        kind = arguments[0]
    return _fit_of(name, arguments[0])


@cache
def most_items(name: str) -> int:
    """How many entries a list of the document may have."""
    form = chosen(forms.type_info(FIELDS[name].type), [])
    assert isinstance(form, forms.ListType) and form.max_length is not None
    return form.max_length


def _fit_of(name: str, kind: Any) -> Fit:
    form = forms.type_info(kind)

    def fit(value: Any) -> Any:
        try:
            msgspec.convert(value, kind, dec_hook=check_custom)
        except msgspec.ValidationError:
            try:
                return _fit(value, form)
            except _Unfit:
                raise ExportError(f"{FIELDS[name].encode_name} holds what no export can") from None
        return value

    return fit


def _fit(value: Any, given: forms.Type) -> Any:
    form = chosen(given, value)
    match form:
        case forms.NoneType():
            return None
        case forms.IntType() | forms.FloatType():
            return _number(value, form, nullable=isinstance(given, forms.UnionType))
        case forms.StrType() if isinstance(value, str) and form.max_length is not None:
            return _text(value, form.max_length)
        case forms.BoolType() if type(value) is bool:
            return value
        case forms.LiteralType() if value in form.values:
            return value
        case forms.ListType() if (
            isinstance(value, list | tuple) and form.max_length is not None
        ):  # the newest of too many
            return [_fit(item, form.item_type) for item in value[-form.max_length :]]
        case forms.DictType() if isinstance(value, dict) and form.max_length is not None:
            # A free part left out would make another thing of the rest, such as of signed reasoning.
            return {name: _fit(value[name], form.value_type) for name in list(value)[: form.max_length]}
        case forms.StructType() | forms.TypedDictType() if isinstance(value, dict):
            return _object(value, form)
        case forms.CustomType():
            try:
                check_custom(form.cls, value)
            except ValueError:
                raise _Unfit from None
            return value
    raise _Unfit


def _object(value: dict[str, Any], form: forms.StructType | forms.TypedDictType) -> dict[str, Any]:
    """The fields that fit; what the form does not name stays."""
    known = {field.encode_name: field.type for field in form.fields}
    fit: dict[str, Any] = {}
    for name, item in value.items():
        try:
            fit[name] = _fit(item, known[name]) if name in known else item
        except _Unfit:
            continue
    if any(field.required and field.encode_name not in fit for field in form.fields):
        raise _Unfit
    return fit


def _text(text: str, most: int) -> str:
    """The text cut; an id or a name ends in a digest of the whole, as another may begin as it does."""
    if len(text) <= most:
        return text
    if most != ID_LENGTH:
        return text[:most]
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"{text[: most - len(digest) - 1]}~{digest}"


def _number(value: Any, form: forms.IntType | forms.FloatType, *, nullable: bool) -> float | None:
    if fits_number(value, form):
        return float(value) if isinstance(value, float) else int(value)
    if nullable:
        return None
    least, most = bounds(form)
    if type(value) not in (int, float) or value != value:
        return least
    number = min(max(value, least), most)
    return int(number) if isinstance(form, forms.IntType) else number
