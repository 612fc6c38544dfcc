"""Short names for models: codelet's own, and those in the user's settings, which come first.

Small and separate, because settings need it without the rest of this folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from codelet.providers.catalog import table, vendors


@cache
def short_names() -> Mapping[str, str]:
    """Each short name with its model."""
    known = ((each.prefix, table(f"{each.prefix}.short")) for each in vendors())
    return {short: f"{prefix}/{name}" for prefix, names in known for short, name in names.items()}


_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,40}")


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
