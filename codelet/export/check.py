"""Whether a value has the form of a document, and one line that names the place where it has not.

msgspec checks; what it finds is told in our words, with both bounds of a number and the names that are possible.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
from msgspec import inspect as forms

from codelet.errors import ExportError
from codelet.export.document import FILE_NAMES, VERSION, Document, check_custom, check_free

_DEEPEST = 7
"""Levels from a field of the document to its deepest free value: archive, entry, message, calls, call, `extra`."""
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_LACKING = re.compile(r"Object missing required field `(\w+)`")
_OURS = ("is not a", "is nested", "holds a")
"""How the reasons of `check_custom` begin."""


_KNOWN = frozenset(FILE_NAMES.values())


def check_document(document: object) -> None:
    """Raises ExportError, in one line that names the place, unless `document` has the form of an export.

    What the form does not name is only bounded, wherever it stands.
    """
    try:
        msgspec.convert(document, Document, dec_hook=check_custom)
    except msgspec.ValidationError as error:
        raise ExportError(_told(str(error), document) + _if_newer(document)) from None
    assert isinstance(document, dict)
    for name, value in document.items():
        try:
            check_free(value, 1 if name not in _KNOWN else 2 - _DEEPEST)
        except ValueError as error:
            raise ExportError(f"{name[:64]} {error}") from None


def chosen(form: forms.Type, value: object) -> forms.Type | None:
    """The form that a value is to have where there are several; None where its tag names none of them."""
    while isinstance(form, forms.Metadata):
        form = form.type
    if not isinstance(form, forms.UnionType):
        return form
    if value is None and any(isinstance(one, forms.NoneType) for one in form.types):
        return forms.NoneType()
    several = [one for one in form.types if not isinstance(one, forms.NoneType)]
    if len(several) == 1:
        return several[0]
    for one in several:
        if isinstance(one, forms.StructType) and isinstance(value, dict) and value.get(one.tag_field) == one.tag:
            return one
    return None


def bounds(form: forms.IntType | forms.FloatType) -> tuple[float, float]:
    """The least and the largest number; every number of the document has both."""
    assert form.ge is not None and form.le is not None
    return form.ge, form.le


def fits_number(value: object, form: forms.IntType | forms.FloatType) -> bool:
    """Whether a value is a number within the bounds; a whole number is a number too."""
    least, most = bounds(form)
    if isinstance(value, bool) or not isinstance(value, int if isinstance(form, forms.IntType) else int | float):
        return False
    return least <= value <= most  # false for NaN too


def _if_newer(document: object) -> str:
    version = document.get("version") if isinstance(document, dict) else None
    newer = isinstance(version, str) and version != VERSION
    return f" (it is of version {version}, newer than this codelet reads: update codelet)" if newer else ""


def _told(found: str, document: object) -> str:
    """What msgspec found, in our words: the place, and what must stand there."""
    reason, _, path = found.partition(" - at `$")
    place, value, form = "", document, forms.type_info(Document)
    for name, index in _STEP.findall(path):
        own = chosen(form, value)
        if own is None:  # the name is that of the tag, which names no form
            break
        value, form, step = _entered(value, own, name, index)
        place += step
    place = place.removeprefix(".") or "the document"
    own = chosen(form, value)
    if own is None:
        return f"{place} {_must_be_one_of(form) if isinstance(value, dict) else 'must be an object'}"
    if lacking := _LACKING.match(reason):
        return f"{place} lacks {lacking[1]!r}"
    return f"{place} {reason if reason.startswith(_OURS) else _must_be(own, long='of length' in reason)}"


def _entered(value: Any, form: forms.Type, name: str, index: str) -> tuple[Any, forms.Type, str]:
    """The part of a value that a step of msgspec's path leads to, its form, and the step as a person writes it."""
    if isinstance(form, forms.ListType):
        return value[int(index)], form.item_type, f"[{index}]"
    if isinstance(form, forms.DictType):  # msgspec does not name the key
        inner = form.value_type
        key = next(key for key, item in value.items() if not _fits(item, inner))
        return value[key], inner, f".{key[:64]}"
    assert isinstance(form, forms.StructType | forms.TypedDictType)
    inner = next(field.type for field in form.fields if field.encode_name == name)
    return value[name], inner, f".{name}"


def _fits(value: object, form: forms.Type) -> bool:
    """Whether a value of an object with any names has the form of all of them."""
    if isinstance(form, forms.IntType):
        return fits_number(value, form)
    try:
        check_free(value)
    except ValueError:
        return False
    return True


def _must_be(form: forms.Type, *, long: bool = False) -> str:
    match form:
        case forms.IntType() | forms.FloatType():
            kind = "a whole number" if isinstance(form, forms.IntType) else "a number"
            return f"must be {kind} from {form.ge} to {form.le}"
        case forms.StrType():
            return f"must have at most {form.max_length} characters" if long else "must be a text"
        case forms.ListType():
            return f"must have at most {form.max_length} entries" if long else "must be a list"
        case forms.DictType() if long:
            return f"must have at most {form.max_length} fields"
        case forms.BoolType():
            return "must be true or false"
        case forms.LiteralType():
            names = ", ".join(map(json.dumps, form.values))
            return f"must be {names}" if len(form.values) == 1 else f"must be one of {names}"
    return "must be an object"


def _must_be_one_of(form: forms.Type) -> str:
    several = [one for one in getattr(form, "types", ()) if isinstance(one, forms.StructType)]
    return f"must have a {several[0].tag_field} that is one of {', '.join(str(one.tag) for one in several)}"
