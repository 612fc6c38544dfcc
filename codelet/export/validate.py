"""Checks a value against the published schema, which is the one description of the format.

The schema is compiled to nested functions once, so that a check costs one call a value. Only the keywords that
`schema.json` uses are known; another one is an error when the schema is compiled, not a check that is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from codelet.export.errors import ExportError

Check = Callable[[Any], None]

MOST_DEPTH = 32
"""Levels of nesting in the parts whose form is free."""

_NOTES = frozenset({"$schema", "$defs", "title", "description"})
_KEYWORDS = {
    "object": {"properties", "required", "additionalProperties", "maxProperties"},
    "array": {"items", "maxItems"},
    "string": {"maxLength"},
    "integer": {"minimum", "maximum"},
    "number": {"minimum", "maximum"},
    "null": set[str](),
    "boolean": set[str](),
}


class WrongValue(Exception):
    """A value that the schema refuses; the path to it is put together on the way out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = ""


@cache
def schema() -> dict[str, Any]:
    """The published JSON Schema (draft 2020-12) of the export."""
    from importlib.resources import files

    loaded: dict[str, Any] = json.loads(files("codelet.export").joinpath("schema.json").read_text(encoding="utf-8"))
    return loaded


def check_document(document: object) -> None:
    """Raises ExportError, in one line that names the place, unless `document` follows the schema."""
    try:
        _document_check()(document)
    except WrongValue as wrong:
        place = wrong.path.removeprefix(".") or "the document"
        raise ExportError(f"{place} {wrong.reason}") from None


@cache
def _document_check() -> Check:
    return compiled(schema())


def compiled(part: Mapping[str, Any]) -> Check:
    """The check of one part of the schema; it raises WrongValue."""
    return _Compiler(schema()).compiled(part)


class _Compiler:
    """Turns a schema into a function; each definition is compiled once, when it is first needed."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[str, Check] = {}

    def compiled(self, part: Mapping[str, Any]) -> Check:
        """The check of one part of the schema."""
        if "$ref" in part:
            return self._definition(part["$ref"].rpartition("/")[2])
        if "oneOf" in part:
            return self._by_tag(part["oneOf"])
        if "const" in part:
            return _one_of([part["const"]])
        if "enum" in part:
            return _one_of(part["enum"])
        kinds = [part["type"]] if isinstance(part["type"], str) else list(part["type"])
        unknown = set(part) - _NOTES - {"type"} - set[str]().union(*(_KEYWORDS[kind] for kind in kinds))
        if unknown:
            raise ValueError(f"the schema has the unknown keyword {min(unknown)!r}")
        check = self._of_kind(kinds[0], part)
        return check if kinds[1:] != ["null"] else _or_none(check)

    def _definition(self, name: str) -> Check:
        if name not in self._known:
            self._known[name] = self.compiled(self._root["$defs"][name])
        return self._known[name]

    def _by_tag(self, branches: list[Mapping[str, Any]]) -> Check:
        """Objects that tell their form by one constant, which is the first property of each branch."""
        tag = next(iter(branches[0]["properties"]))
        forms = {branch["properties"][tag]["const"]: self.compiled(branch) for branch in branches}
        names = ", ".join(forms)

        def check(value: Any) -> None:
            if type(value) is not dict:
                raise WrongValue("must be an object")
            kind = value.get(tag)
            form = forms.get(kind) if type(kind) is str else None
            if form is None:
                raise WrongValue(f"must have a {tag} that is one of {names}")
            form(value)

        return check

    def _of_kind(self, kind: str, part: Mapping[str, Any]) -> Check:
        if kind == "object":
            return self._object(part)
        if kind == "array":
            return _array(self.compiled(part["items"]), part["maxItems"])
        if kind == "boolean":
            return _boolean
        if kind == "string":
            return _text(part["maxLength"])
        return _number((int,) if kind == "integer" else (int, float), part["minimum"], part["maximum"])

    def _object(self, part: Mapping[str, Any]) -> Check:
        properties = {name: self.compiled(sub) for name, sub in part.get("properties", {}).items()}
        required = part.get("required", [])
        more = part.get("additionalProperties", True)
        other: Check | None = check_free if more is True else self.compiled(more) if more else None
        most = part.get("maxProperties", len(properties) if other is None else 100_000)

        def check(value: Any) -> None:
            if type(value) is not dict:
                raise WrongValue("must be an object")
            for name in required:
                if name not in value:
                    raise WrongValue(f"lacks {name!r}")
            name = ""
            try:
                for name, item in value.items():
                    inner = properties.get(name, other)
                    if inner is None:
                        raise WrongValue("is not a known field")
                    inner(item)
            except WrongValue as wrong:
                wrong.path = f".{name[:64]}{wrong.path}"
                raise
            if len(value) > most:
                raise WrongValue(f"must have at most {most} fields")

        return check


def _boolean(value: Any) -> None:
    if type(value) is not bool:
        raise WrongValue("must be true or false")


def _array(item: Check, most: int) -> Check:
    def check(value: Any) -> None:
        if type(value) is not list:
            raise WrongValue("must be a list")
        if len(value) > most:
            raise WrongValue(f"must have at most {most} entries")
        passed = 0
        try:
            for one in value:
                item(one)
                passed += 1
        except WrongValue as wrong:
            wrong.path = f"[{passed}]{wrong.path}"
            raise

    return check


def _text(most: int) -> Check:
    def check(value: Any) -> None:
        if type(value) is not str:
            raise WrongValue("must be a text")
        if len(value) > most:
            raise WrongValue(f"must have at most {most} characters")

    return check


def _number(kinds: tuple[type, ...], least: int, most: int) -> Check:
    name = "a whole number" if kinds == (int,) else "a number"

    def check(value: Any) -> None:
        if type(value) not in kinds:
            raise WrongValue(f"must be {name}")
        if not least <= value <= most:  # false for NaN too
            raise WrongValue(f"must be {name} from {least} to {most}")

    return check


def _one_of(values: list[str]) -> Check:
    names = ", ".join(map(json.dumps, values))

    def check(value: Any) -> None:
        if type(value) is not str or value not in values:
            raise WrongValue(f"must be {names}" if len(values) == 1 else f"must be one of {names}")

    return check


def _or_none(check: Check) -> Check:
    def either(value: Any) -> None:
        if value is not None:
            check(value)

    return either


def check_free(value: Any, depth: int = 1) -> None:
    """A part whose form is free: bounded in depth and numbers all the same."""
    if depth > MOST_DEPTH:
        raise WrongValue(f"is nested deeper than {MOST_DEPTH} levels")
    if type(value) is dict:
        for item in value.values():
            check_free(item, depth + 1)
    elif type(value) is list:
        for item in value:
            check_free(item, depth + 1)
    elif type(value) in (int, float) and not -(2.0**63) <= value <= 2.0**63:
        raise WrongValue("holds a number that is out of range")
