"""The places that a confined command sees: the system's folders, toolchains, the folders of PATH, and no more of the
home.

Everything else does not exist for it, but for the workspace and its repository. The lists are the table `visible`; the
profile for a Mac is made from them too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from codelet.safety.paths import contained
from codelet.safety.tables import read_table, word_list

TOOLCHAINS = word_list("visible", "home")
"""Places of a home with programs, packages and caches, and settings without keys: none of them holds keys."""
VARIABLES = {
    **dict.fromkeys(word_list("visible", "variables", "."), ("",)),
    **{name: tuple(row.split()) for name, row in read_table("visible")["variables"].items() if name != "."},
}
"""Variables that name a toolchain's folder, and its visible parts."""
GIT_SETTINGS = word_list("visible", "git settings", "files")
_SETTINGS_CAP = 1 << 16


def seen_of_system() -> tuple[str, ...]:
    """The system's folders that are there."""
    return tuple(place for place in word_list("visible", "system") if os.path.exists(place))


def home_in_system(search: str) -> str | None:
    """The home if it is in one of the system's folders, which must not show it. `search` is PATH."""
    home = os.path.realpath(os.path.expanduser("~"))
    inside = any(contained(home, place) and home != place for place in seen_of_system())
    return home if inside and home not in map(os.path.realpath, filter(None, search.split(os.pathsep))) else None


def toolchains(root: str, environment: Mapping[str, str], more: Sequence[str] = ()) -> list[str]:
    """Files and folders outside the system's that commands need: toolchains, programs, and `more` of the user's choice.

    Each is given with and without its links resolved. None holds the home or the workspace `root`.
    """
    named = tuple((name, environment[name]) for name in VARIABLES if environment.get(name, "").startswith("/"))
    return _toolchains(root, environment.get("PATH", ""), named, tuple(more), os.path.expanduser("~"))


@lru_cache(maxsize=1)
def _toolchains(root: str, search: str, named: Sequence[tuple[str, str]], more: Sequence[str], home: str) -> list[str]:
    spelled = [f"{home}/{name}" for name in TOOLCHAINS]
    spelled += [place for name in GIT_SETTINGS if _is_plain(place := f"{home}/{name}")]
    spelled += [f"{place}/{inner}".rstrip("/") for name, place in named for inner in VARIABLES[name]]
    spelled += [sys.prefix, sys.base_prefix, *_of_path(search, home)]
    spelled += [os.path.expanduser(place) for place in more]
    both = {os.path.normpath(each) for place in spelled for each in (place, os.path.realpath(place))}
    holders = (root, home, os.path.realpath(home), "/")
    kept = sorted(
        place
        for place in both
        if os.path.lexists(place) and not contained(place, root) and not any(contained(one, place) for one in holders)
    )
    covered, outermost, inner = home_in_system(search), list(seen_of_system()), list[str]()
    for place in kept:  # each that is in no other one; a hidden home shows those in it again
        around = inner if covered and contained(place, covered) else outermost
        if not any(contained(place, one) for one in around):
            around.append(place)
    return outermost[len(seen_of_system()) :] + inner


def _of_path(search: str, home: str) -> Iterator[str]:
    """The folders of PATH, each with its whole toolchain if it is one."""
    own = {home, *(f"{home}/{name.partition('/')[0]}" for name in TOOLCHAINS if "/" in name)}
    for folder in filter(os.path.isabs, search.split(os.pathsep)):
        yield folder
        for place in {os.path.normpath(folder), os.path.realpath(folder)}:
            prefix, _, name = place.rpartition("/")
            toolchain = name in ("bin", "sbin", ".bin", "Scripts") and prefix not in ("", *own)
            if toolchain and any(os.path.lexists(f"{prefix}/{mark}") for mark in word_list("visible", "toolchain")):
                yield prefix


def _is_plain(settings: str) -> bool:
    """Return whether a user's git settings hold no addresses and no credential programs."""
    marks = word_list("visible", "git settings", "marks")
    with suppress(OSError), open(settings, encoding="utf-8", errors="replace") as file:
        text = file.read(_SETTINGS_CAP + 1).lower()
        return len(text) <= _SETTINGS_CAP and not any(mark in text for mark in marks)
    return False


@lru_cache(maxsize=1)
def private_settings() -> tuple[str, ...]:
    """The files and folders of /etc that this user may read and others may not, mostly keys of the machine."""
    found: list[str] = []
    for top, folders, files in os.walk("/etc"):
        for place in (f"{top}/{name}" for name in (*folders, *files)):
            with suppress(OSError):
                found += [place] if not os.lstat(place).st_mode & 0o004 and os.access(place, os.R_OK) else []
        folders[:] = [name for name in folders if f"{top}/{name}" not in found]
    return tuple(sorted(found))


def holds_home(folder: str) -> bool:
    """Return whether the home is this folder or in it."""
    return contained(os.path.realpath(os.path.expanduser("~")), folder)
