"""The nearest value that a form allows, saved for a value that no reader accepts.

The forms themselves say how: a number moves to its bound, a text and a list are cut, any other value is removed with
the smallest object that can do without it. A value without a form is kept whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET, inspect

from codelet.export.document import check_free
from codelet.system.text import valid_unicode

_Fields = inspect.TypedDictType | inspect.StructType
_Number = inspect.IntType | inspect.FloatType
_type_info = cache(inspect.type_info)


def value_that_fits(value: object, form: object) -> object:
    """Return the nearest value of the form as plain JSON, or UNSET."""
    kind = _type_info(form)
    if isinstance(kind, inspect.DictType) and isinstance(kind.value_type, inspect.AnyType):
        if not isinstance(value, Mapping):
            return UNSET
        pairs = ((name, _plain(item)) for name, item in value.items() if isinstance(name, str))
        return {valid_unicode(name): item for name, item in pairs if item is not UNSET}
    return _fitted(value, kind)


def _fitted(value: object, form: inspect.Type) -> object:
    match form:
        case inspect.Metadata():
            return _fitted(value, form.type)
        case inspect.UnionType():
            return _of_several(value, form)
        case inspect.TypedDictType() | inspect.StructType():
            return _fields(value, form) if isinstance(value, Mapping) else UNSET
        case inspect.ListType():
            return _items(value, form) if isinstance(value, list | tuple) else UNSET
        case inspect.DictType():
            return _named(value, form) if isinstance(value, Mapping) else UNSET
        case inspect.IntType() | inspect.FloatType():
            return _number(value, form)
        case inspect.StrType():
            return valid_unicode(value)[: form.max_length] if isinstance(value, str) else UNSET
        case inspect.LiteralType():
            return value if isinstance(value, str) and value in form.values else UNSET
        case inspect.BoolType():
            return value if isinstance(value, bool) else UNSET
        case inspect.AnyType():
            return _plain(value)
        case _:  # None, or a name that may not be there
            return None if value is None and isinstance(form, inspect.NoneType) else UNSET


def _plain(value: object) -> object:
    """Return a value that has no form as JSON has it, UNSET if JSON cannot hold it or no one could read it."""
    try:
        valid = _valid(value)
        check_free(valid)
        told = msgspec.json.decode(msgspec.json.encode(valid))
    except (msgspec.MsgspecError, OverflowError, RecursionError, TypeError, ValueError):
        return UNSET
    return told


def _valid(value: object) -> object:
    """The value with U+FFFD for each half of a surrogate pair."""
    if isinstance(value, str):
        return valid_unicode(value)
    if isinstance(value, Mapping):
        return {_valid(name): _valid(item) for name, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, list | tuple) else value


def _of_several(value: object, form: inspect.UnionType) -> object:
    for kind in form.types:
        if isinstance(kind, inspect.StructType) and isinstance(value, Mapping):
            if value.get(kind.tag_field) != kind.tag:
                continue
            fields = _fields(value, kind)
            if isinstance(fields, dict):
                fields[str(kind.tag_field)] = kind.tag
            return fields
        if (found := _fitted(value, kind)) is not UNSET:
            return found
    return None if any(isinstance(kind, inspect.NoneType) for kind in form.types) else UNSET


def _fields(value: Mapping[str, object], form: _Fields) -> dict[str, object] | msgspec.UnsetType:
    """Return what fits of the named fields; a required text or number is empty or 0. What has no form stays."""
    known = {field.encode_name: field for field in form.fields}
    kept = {name: told for name, item in value.items() if name not in known and (told := _plain(item)) is not UNSET}
    for name, field in known.items():
        found = _fitted(value[name], field.type) if name in value else UNSET
        if found is UNSET and field.required and (found := _nothing(field.type)) is UNSET:
            return UNSET
        if found is not UNSET:
            kept[name] = found
    return kept


def _nothing(form: inspect.Type) -> object:
    """Return what says nothing in a place that must be filled."""
    empty: tuple[Any, ...] = (None, "", 0, False, [], {})
    return next((found for value in empty if (found := _fitted(value, form)) is not UNSET), UNSET)


def _items(value: Iterable[object], form: inspect.ListType) -> object:
    found = [_fitted(item, form.item_type) for item in value]
    if UNSET in found and isinstance(form.item_type, inspect.DictType):
        return UNSET  # a server's own list: it would refuse a part of it
    fitting = [item for item in found if item is not UNSET]
    return fitting[-form.max_length :] if form.max_length else fitting


def _named(value: Mapping[object, object], form: inspect.DictType) -> object:
    if isinstance(form.value_type, inspect.AnyType):
        return _plain(value)
    found = {
        valid_unicode(name): told
        for name, item in value.items()
        if isinstance(name, str) and (told := _fitted(item, form.value_type)) is not UNSET
    }
    return dict(list(found.items())[: form.max_length])


def _number(value: object, form: _Number) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return UNSET
    bounded = min(max(value, value if form.ge is None else form.ge), value if form.le is None else form.le)
    return int(bounded) if isinstance(form, inspect.IntType) else bounded
