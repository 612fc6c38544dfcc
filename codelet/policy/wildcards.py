"""Expand the wildcards of a command as bash will, so that what they stand for can be judged."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from codelet.policy.arguments import RefusedError
from codelet.policy.paths import contained
from codelet.policy.special import Place
from codelet.policy.words import Word

MATCH_CAP = 300
"""Files that one wildcard may stand for."""

ENTRY_CAP = 20_000
"""Folder entries that are looked at for one wildcard."""


def matches(word: Word, place: Place) -> list[str]:
    """The files that the word's wildcards stand for, sorted; empty where bash leaves the word as it is.

    Raises RefusedError where that is uncertain, outside the workspace, or too many.
    """
    if any(os.environ.get(name) for name in ("BASHOPTS", "SHELLOPTS", "GLOBIGNORE")):
        raise RefusedError(f"{word.raw}: the environment changes what wildcards stand for")
    pattern = word.glob or ""
    bare = re.sub(r"\[([*?\[])\]", "x", pattern)
    if "[" in bare:
        # What a bracket matches depends on the locale: it may stay if nothing matches its widest reading.
        widest = re.sub(r"\[(?![*?\[]\])(?:[^\]/]*\]|.*)", lambda part: "?" if part[0].endswith("]") else "*", pattern)
        if next(_expand(widest, place), None) is not None:
            raise RefusedError(f"{word.raw}: a pattern with brackets")
        return []
    if re.search(r"(?:^|/)\.[*?]", bare):
        raise RefusedError(f"{word.raw} also stands for the folder above")
    fixed = re.split(r"[*?]", bare, maxsplit=1)[0].rpartition("/")[0]
    base = os.path.realpath((fixed or "/") if bare.startswith("/") else f"{place.cwd}/{fixed}")
    if not contained(base, place.root):
        raise RefusedError(f"{word.raw} is outside the workspace")
    found: list[str] = []
    for match in _expand(pattern, place):
        found.append(match)
        if len(found) > MATCH_CAP:
            raise RefusedError(f"{word.raw} stands for more than {MATCH_CAP} files")
    return sorted(found)


def _expand(pattern: str, place: Place) -> Iterator[str]:
    """The paths that match, spelled as bash spells them."""
    parts = pattern.split("/")
    found = [""]
    seen = 0
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        literal = re.sub(r"\[([*?\[])\]", r"\1", part)
        if not re.search(r"[*?]", re.sub(r"\[[*?\[]\]", "", part)):
            found = [head + literal + ("" if last else "/") for head in found]
            continue
        matching = _name_pattern(part)
        step: list[str] = []
        for head in found:
            names = _names(head, place)
            seen += len(names)
            if seen > ENTRY_CAP:
                raise RefusedError(f"{pattern} stands for too many files")
            step += [head + name + ("" if last else "/") for name in names if matching.fullmatch(name)]
        found = step
    for path in found:
        if os.path.lexists(path if path.startswith("/") else f"{place.cwd}/{path}"):
            yield path


def _names(head: str, place: Place) -> list[str]:
    try:
        with os.scandir(head if head.startswith("/") else f"{place.cwd}/{head}") as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


@lru_cache(maxsize=256)
def _name_pattern(part: str) -> re.Pattern[str]:
    """One component as a regular expression; a leading dot must be spelled."""
    pieces = re.findall(r"\[[*?\[]\]|.", part, re.DOTALL)
    wild = {"*": ".*", "?": "."}
    body = "".join(wild.get(piece) or re.escape(piece[1] if len(piece) == 3 else piece) for piece in pieces)
    return re.compile(body if part.startswith(".") else f"(?!\\.){body}", re.DOTALL)
