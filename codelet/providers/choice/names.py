"""Names of models: short ones, codelet's own and the user's, and which names are accepted.

A name is never an address, and a file may name only what the user could pick. For some providers litellm takes an
address as the name (`oobabooga/https://…`), and it puts names into paths, and an ARN's region into the host, of its
addresses. codelet's own wires send a name in the body only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from urllib.parse import unquote

from codelet.errors import UsageError
from codelet.providers.catalog import Vendor, table, vendor_of, vendors
from codelet.providers.facts import names_entry
from codelet.system.text import one_line

_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")

_ADDRESS = re.compile(r"://|(?:^|/)https?:", re.IGNORECASE)
_REGION = re.compile(r"arn:[^:]*:[^:]*:(?![a-z0-9-]*(?:[:/]|$))", re.IGNORECASE)
_SEGMENT = re.compile(r"[A-Za-z0-9@][A-Za-z0-9._:@+-]*")
_HOST = re.compile(
    r"(?:[^@]*@)?(?:localhost(?::\d+)?|\d+(?:\.\d+){3}(?::\d+)?|[a-z0-9-]+(?:\.[a-z0-9-]+)*:\d{2,5})", re.IGNORECASE
)


@cache
def short_names() -> Mapping[str, str]:
    """Each short name with its model."""
    known = ((each.prefix, table(f"{each.prefix}.short")) for each in vendors())
    return {short: f"{prefix}/{name}" for prefix, names in known for short, name in names.items()}


def full_name(name: str, own: Mapping[str, str], api_base: str | None = None) -> str:
    """The model's full name. With an `api_base` codelet's own short names do not apply: a server may use them."""
    meant = own.get(name, name)
    return meant if api_base is not None or "/" in meant else short_names().get(meant, meant)


def aliases_from(table: object) -> dict[str, str]:
    """The short names in the table `aliases` of a settings file; raises ValueError that begins with the place."""
    if not isinstance(table, dict):
        raise ValueError("aliases must be a table")
    for name, model in table.items():
        if not _SHORT.fullmatch(name):
            raise ValueError(f"aliases.{name}: a short name is made of letters, digits, '.', '_' and '-'")
        if not isinstance(model, str) or not model.strip():
            raise ValueError(f"aliases.{name} must be the name of a model")
    return dict(table)


def check_form(model: str) -> None:
    """Raise UsageError for a name that could be an address in any spelling, or has invalid characters."""
    if model != model.strip() or not model.isprintable():
        short = one_line(model.strip(), 60)
        raise UsageError(f"not a model's name: {short!r} begins or ends with a space, or has control characters")
    plain = model
    for _ in range(3):
        plain = unquote(plain)
    plain = re.sub(r"\s", "", plain.replace("\\", "/"))
    if _ADDRESS.search(plain) or _REGION.search(plain):
        short = one_line(model, 60)
        raise UsageError(f"not a model's name but an address: {short!r}; --api-base URL names a server")


def check_for_litellm(model: str) -> None:
    """Raise UsageError if litellm could turn the name into another address than its provider's."""
    segments = model.split("/")
    if not all(map(_SEGMENT.fullmatch, segments)) or any(map(_HOST.fullmatch, segments[1:])):
        short = one_line(model, 60)
        raise UsageError(f"not a model's name that litellm can be given: {short!r}; --api-base URL names a server")


def refused_from_file(model: str, api_base: str | None, own: Sequence[Vendor] = ()) -> str | None:
    """Return why a name from a file is refused; None if it is accepted.

    It has to belong to a known vendor, to the user's `own`, or to litellm's map; with the user's `api_base` any name is
    accepted. Only the user may name a recording, which is a file.
    """
    if model.startswith("replay:"):
        return f"{one_line(model, 60)} is a recording, which only you can name"
    try:
        check_form(model)
    except UsageError as error:
        return str(error)
    if api_base is not None or vendor_of(model, own) is not None or names_entry(model):
        return None
    return f"{one_line(model, 60)} is no model that codelet lists"
