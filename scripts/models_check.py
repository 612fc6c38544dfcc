"""Compares the vendors' table with a map of litellm's and lists what is stale. No gate runs it.

Use: python -m scripts.models_check FILE, where FILE is the map of a newer release, unpacked from what
`pip download --no-deps litellm` brings: `litellm/model_prices_and_context_window_backup.json`. Exit code 1 where
something is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from codelet.providers.catalog import table, table_names, vendors
from codelet.providers.choice.names import short_names
from codelet.providers.facts import name_parts

Map = dict[str, dict[str, Any]]
_TALKS = ("chat", "responses")


def main(arguments: list[str]) -> int:
    """Print a line for each stale entry of the table, and what the map says instead."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    listed: Map = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    today = datetime.now(UTC).date().isoformat()
    stale = [*stale_names(listed, today), *stale_prices(listed)]
    print(*stale, f"{len(stale)} stale", sep="\n")
    return 1 if stale else 0


def stale_names(listed: Map, today: str) -> Iterator[str]:
    """Yield a line for each default or short name that the map lacks, that has ended, or that has a successor."""
    named = {vendor.default_model: f"the default of {vendor.prefix}" for vendor in vendors() if vendor.default_model}
    named |= {model: f"the short name {short}" for short, model in short_names().items() if model not in named}
    for model, what in named.items():
        vendor, _, name = model.partition("/")
        newer = table(f'{vendor}.newer."{name}"')
        entry = listed.get(model) or listed.get(name) or listed.get(str(newer.get("like")))
        if entry is None and name != "auto":  # a router of the vendor's own, in no map
            yield f"{what}: {model} is not in the map"
        elif entry is not None and str(entry.get("deprecation_date") or "9999") < today:
            yield f"{what}: {model} has ended on {entry['deprecation_date']}"
        if (successor := _successor(listed, vendor, name)) is not None:
            yield f"{what}: {model} has a successor, {successor}"


def _successor(listed: Map, vendor: str, name: str) -> str | None:
    """The newest model of the same vendor, stem and kind, if it is newer."""
    own = name_parts(name.rpartition("/")[2].lower())
    if own is None:
        return None
    found = {}
    for other, entry in listed.items():
        parts = name_parts(other.rpartition("/")[2].lower())
        if parts is None or entry.get("litellm_provider") != vendor or entry.get("mode") not in _TALKS:
            continue
        if (parts[0], parts[2]) == (own[0], own[2]) and parts[1] > own[1]:
            found.setdefault(parts[1], other)
    return found[max(found)] if found else None


def stale_prices(listed: Map) -> Iterator[str]:
    """Yield a line for each model of a table `newer` whose values in the map have changed."""
    for section in table_names():
        vendor, newer, quoted = section.partition(".newer.")
        name = quoted.strip('"')
        entry = listed.get(name) or listed.get(f"{vendor}/{name}")
        if not newer or entry is None:
            continue
        given = {key: value for key, value in table(section).items() if key != "like"}
        other = [f"{key} = {entry.get(key)}" for key, value in given.items() if entry.get(key) != value]
        if other:
            yield f"[{section}]: the map says {', '.join(other)}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
