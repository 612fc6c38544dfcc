"""What the wildcards of a command stand for: every name that bash may put in their place.

`*` and `?` are read as bash reads them. What a bracket stands for depends on the locale, on quotes inside it
and on the version, so it is read in its widest sense: one letter where its end is beyond doubt, else anything
up to the end of the name. Names that are not ASCII count as letters or as bytes, again by the locale: every
one of them counts as found where the plain beginning of the pattern fits. What is found in a wide sense only is
not certain: whoever judges it must find each name harmless, and the word itself too, which bash leaves as it
is where nothing matches.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import lru_cache

from codelet.safety.paths import contained
from codelet.safety.shell.folders import Location
from codelet.safety.shell.program_arguments import RefusedError
from codelet.safety.shell.syntax import Word

MATCH_CAP = 300
"""Files that one wildcard may stand for."""

ENTRY_CAP = 20_000
"""Folder entries that are looked at for one wildcard."""

_CHANGES_WILDCARDS = ("BASHOPTS", "SHELLOPTS", "GLOBIGNORE")
_SIMPLE_BRACKET = r"\[(?:[!^][^]\\[!^]+|[^]\\[!^][^]\\[]*)\]"
"""A bracket whose end every reading finds at the same place: no quotes, no bracket inside, no `]` in front."""
_PIECE = re.compile(rf"\\.|{_SIMPLE_BRACKET}|.", re.DOTALL)


_WILD = {"*": ".*", "?": "."}


@dataclass(frozen=True)
class Expansion:
    """The words that replace one with wildcards; unless `certain`, bash may produce only some of them."""

    words: tuple[str, ...]
    certain: bool


@dataclass(frozen=True)
class _Component:
    """One component of a pattern: `names` is None where it has no wildcard and is the name `literal`."""

    literal: str
    names: re.Pattern[str] | None = None
    exact: bool = True

    def may_match(self, name: str) -> bool:
        """Whether some reading of the component matches the name."""
        if self.names is None:
            return False
        if name.startswith(".") and not self.literal.startswith("."):
            return False
        return self.names.fullmatch(name) is not None if name.isascii() else name.startswith(self.literal)


def expansion(word: Word, place: Location) -> Expansion:
    """What bash may put in place of a word with wildcards; the word itself where nothing can match.

    Raises RefusedError where that leads out of the workspace, is too much, or depends on the environment.
    """
    if any(os.environ.get(name) for name in _CHANGES_WILDCARDS):
        raise RefusedError(f"{word.raw}: the environment changes what wildcards stand for")
    pattern = word.glob or ""
    if "//" in pattern:
        raise RefusedError(f"{word.raw}: a pattern with two slashes")
    components = [_component(part) for part in pattern.split("/")]
    if any(one.names and (one.may_match(".") or one.may_match("..")) for one in components):
        raise RefusedError(f"{word.raw} may also stand for the folder above")
    found = [path for path in _walk(word.raw, components, place) if _exists(path, place)]
    if len(found) > MATCH_CAP:
        raise RefusedError(f"{word.raw} stands for more than {MATCH_CAP} files")
    if not found:
        return Expansion((word.text,), True)
    made = any(path.rpartition("/")[2] in place.written for path in found)
    if all(one.exact for one in components) and "".join(found).isascii() and not made:
        return Expansion(tuple(sorted(found)), True)
    return Expansion((word.text, *sorted(found)), False)


def _walk(raw: str, components: list[_Component], place: Location) -> list[str]:
    """The paths that the components may match, spelled as bash spells them; the last may not exist."""
    found = [""]
    seen = 0
    for index, component in enumerate(components):
        end = "" if index == len(components) - 1 else "/"
        if component.names is None:
            found = [head + component.literal + end for head in found]
            continue
        step: list[str] = []
        for head in found:
            names = place.written.union(_names(raw, head, place))
            seen += len(names)
            if seen > ENTRY_CAP:
                raise RefusedError(f"{raw} stands for too many files")
            step += [head + name + end for name in names if component.may_match(name)]
        found = step
    return found


def _names(raw: str, head: str, place: Location) -> list[str]:
    """The names in a folder of the workspace; none where it is no folder."""
    folder = head if head.startswith("/") else f"{place.cwd}/{head}"
    if not contained(os.path.realpath(folder), place.root):
        raise RefusedError(f"{raw} is outside the workspace")
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _exists(path: str, place: Location) -> bool:
    made = path.rpartition("/")[2] in place.written
    return made or os.path.lexists(path if path.startswith("/") else f"{place.cwd}/{path}")


@lru_cache(maxsize=256)
def _component(part: str) -> _Component:
    """One component read in its widest sense. `literal` of one with wildcards is its plain beginning."""
    body, literal, wild, exact = "", "", False, True
    for found in _PIECE.finditer(part):
        piece = found[0]
        if piece == "[" and _may_close(part[found.end() :]):
            body, wild, exact = body + ".*", True, False
            break
        if piece in ("*", "?") or len(piece) > 2:
            body, wild = body + (_WILD.get(piece) or _one_letter(piece[1:-1])), True
            exact = exact and piece in _WILD
        else:
            body += re.escape(piece[-1])
            literal += piece[-1] if not wild else ""
    if not wild:
        return _Component(literal)
    # How letters that are not ASCII are counted is the locale's business, in the pattern too.
    plain = re.match(r"[\x00-\x7f]*", literal)
    return _Component(plain[0] if plain else "", re.compile(body, re.DOTALL), exact)


def _one_letter(members: str) -> str:
    """What a bracket with these members matches: one of them, or any letter where it negates or has a range."""
    return f"[{re.escape(members)}]" if members.isascii() and not set("!^-") & set(members) else "."


def _may_close(rest: str) -> bool:
    """Whether the bracket that opens in front of `rest` may end in it; else bash takes it for a letter."""
    members = rest.lstrip("!^") if rest[1:2] == "]" else rest
    return "]" in members[1:]
