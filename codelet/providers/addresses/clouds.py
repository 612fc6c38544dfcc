"""Clouds: an account's address, from variables and model names, by the tables of `vendors.toml`.

codelet's own wires need a key that fits into a header. Otherwise litellm is asked, which knows an account's other
credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from codelet.errors import UsageError
from codelet.providers.catalog import table

_PART = re.compile(r"[a-z0-9][a-z0-9:._-]{0,99}")


def place_of(cloud: str, model: str, environment: Mapping[str, str], *, key: bool) -> str | None:
    """The address for a native wire; None if there is none, or none without a `key`.

    Raises UsageError for a missing or invalid variable.
    """
    rule, name = table(f"{cloud}.account"), table(cloud)["name"]
    if rule["needs_key"] and not key:
        return None
    given = next((environment[each].strip().rstrip("/") for each in rule["addresses"] if environment.get(each)), None)
    if given is None and "host" not in rule:
        raise UsageError(f"no address for {name}: set {rule['addresses'][0]} to {rule['example']}")
    if given is None:
        parts = {
            part: _part(f"no {part} for {name}", variables, usual, environment)
            for part, variables, usual in rule["parts"]
        }
        root = rule["host"].format(**parts).replace("//global-", "//")  # what is everywhere has no region in its host
    else:
        try:
            url = urlsplit(given)
        except ValueError:
            return given  # the wire says what is wrong with it
        path = re.sub(rule["stripped"], "", url.path)
        if path and path == url.path and rule["keeps_paths"]:
            return given  # a gateway's own path
        root = f"{url.scheme}://{url.netloc}{path}"
    return next((root + path for pattern, path in rule["paths"] if re.match(pattern, model)), None)


def speaks_converse(model: str, base: str | None) -> bool:
    """Return whether a model is asked over Converse at `base`: at the cloud's own runtime, except under its path for
    OpenAI's API. Elsewhere the name may be a gateway's.
    """
    host, other_path = table(model.partition("/")[0])["converse"]
    try:
        url = urlsplit(base or "")
        return host in (url.hostname or "") and not url.path.startswith(other_path)
    except ValueError:
        return False  # the wire says what is wrong with it


def credentials(prefix: str) -> str | None:
    """The variables with litellm's credentials for a provider; None if unknown."""
    return table(prefix).get("credentials")


def missing(prefix: str, text: str) -> str | None:
    """Return advice if litellm reports a missing package."""
    words, what = table(prefix).get("package", ("(?!)", ""))
    return f"litellm needs {what}" if re.search(words, text) else None


def _part(otherwise: str, names: Sequence[str], usual: str, environment: Mapping[str, str]) -> str:
    """The value of the first of these variables, checked: it decides who receives a key."""
    name = next((each for each in names if environment.get(each)), None)
    if name is None and not usual:
        raise UsageError(f"{otherwise}: set {' or '.join(names)}")
    value = environment[name].strip() if name else usual
    if not _PART.fullmatch(value):
        raise UsageError(f"{name} is no name that an address may have: {value!r}")
    return value
