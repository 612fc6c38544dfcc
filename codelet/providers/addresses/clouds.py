"""Clouds: where an account's models are reached, as variables and names tell it, by the tables of `vendors.toml`.

A wire of codelet's own needs a key that fits into a header. Without one litellm is asked, which knows the other
credentials of an account; what it lacks for that is told by `missing`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from codelet.errors import UsageError
from codelet.providers.catalog import table

_PART = re.compile(r"[a-z0-9][a-z0-9:._-]{0,99}")


def place_of(cloud: str, model: str, environment: Mapping[str, str], *, key: bool) -> str | None:
    """The address at which a wire of codelet's own reaches the model; None if none does, or not without a `key`.

    Raises UsageError if a variable that says it is missing or is none.
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
    """Return whether a model is to be asked over Converse at `base`: at the cloud's own runtime, but for the path where
    that speaks OpenAI's. Elsewhere such a name may be a gateway's.
    """
    host, other_path = table(model.partition("/")[0])["converse"]
    try:
        url = urlsplit(base or "")
        return host in (url.hostname or "") and not url.path.startswith(other_path)
    except ValueError:
        return False  # the wire says what is wrong with it


def credentials(prefix: str) -> str | None:
    """The variables with the credentials that litellm wants for a provider; None if nothing is known."""
    return table(prefix).get("credentials")


def missing(prefix: str, said: str) -> str | None:
    """Return what to install where litellm lacks a package for a provider, and says it in its way."""
    words, what = table(prefix).get("package", ("(?!)", ""))
    return f"litellm needs {what}" if re.search(words, said) else None


def _part(otherwise: str, names: Sequence[str], usual: str, environment: Mapping[str, str]) -> str:
    """Return what the first of these variables holds, as an address may: it decides to whom a key is sent."""
    name = next((each for each in names if environment.get(each)), None)
    if name is None and not usual:
        raise UsageError(f"{otherwise}: set {' or '.join(names)}")
    value = environment[name].strip() if name else usual
    if not _PART.fullmatch(value):
        raise UsageError(f"{name} is no name that an address may have: {value!r}")
    return value
