"""The files of a workspace that git runs or includes because its configuration names them: hooks, includes, programs.

git would run a change of theirs at its next command, outside every sandbox. git itself lists its configuration; the
list is cached until a file that it came from changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from codelet.safety.tables import word_list
from codelet.system.git import hardened_argv, look_environment
from codelet.system.git.hardening import find_repository, is_below
from codelet.system.process import StartError
from codelet.system.process.brief import capture_now

_SECONDS, _CAP = 2.0, 1 << 23
_CACHE_SIZE = 8
_RUNS = word_list("git", "settings")
_PIECES = re.compile(r"[\s\"'!;|&()$`<>]+")

_Facts = tuple[tuple[int, int, int] | None, ...]
_cache: dict[str, tuple[_Facts, Mapping[str, str]]] = {}


def git_targets(root: str) -> Mapping[str, str]:
    """The resolved places in a workspace that git's configuration names, each with the reason; none without git."""
    repository = find_repository(root)
    if repository is None:
        return {}
    own = [*repository.configurations, f"{repository.folder}/.git"]
    before = _cache.get(root)
    watched = [*own, *(before[1] if before else ())]
    if before is not None and before[0] == tuple(map(file_facts, watched)):
        return before[1]
    listed = ask_git(repository.folder, "config", "--list", "-z", "--show-origin", "--includes")
    if listed is None:  # no git here, or no answer in time: the next call tries again
        return {}
    found = dict(_named(listed[1], root, repository.folder))
    if len(_cache) >= _CACHE_SIZE:
        _cache.clear()
    _cache[root] = (tuple(map(file_facts, [*own, *found])), found)
    return found


def ask_git(folder: str, *words: str) -> tuple[int, str] | None:
    """Run the hardened git. Returns its exit code and output, None if that is over 8 MiB or takes more than 2 s."""
    where = Path(folder)
    environment = look_environment(where) | {"LC_ALL": "C"}
    try:
        argv = hardened_argv(words[0], words[1:])
        done = capture_now(argv, cwd=where, environment=environment, timeout=_SECONDS, limit=_CAP)
    except StartError:
        return None
    if done.timed_out or done.cut:
        return None
    return done.exit_code, done.stdout.decode("utf-8", "surrogateescape")


def _named(listed: str, root: str, folder: str) -> Iterator[tuple[str, str]]:
    settings = set(hardened_argv("config")[1:])
    fields = listed.split("\0")
    for origin, entry in zip(fields[::2], fields[1::2], strict=False):
        name, _, value = entry.partition("\n")
        if f"{name}={value}" in settings or origin.startswith("command line:"):
            continue
        source = os.path.join(folder, origin.removeprefix("file:").strip('"'))
        for place in (source, *_places(name, value, source, folder)):
            real = os.path.realpath(place)
            if is_below(real, (root,)) and real not in (root, folder) and "/.git/" not in f"{real}/":
                yield real, f"is named by git's configuration ({name}), which obeys it"


def _places(name: str, value: str, source: str, folder: str) -> Iterator[str]:
    """The files that a setting names."""
    lower = name.lower()
    if lower == "core.hookspath":
        yield os.path.join(folder, os.path.expanduser(value))
    elif lower == "include.path" or (lower.startswith("includeif.") and lower.endswith(".path")):
        yield os.path.join(os.path.dirname(source), os.path.expanduser(value))
    elif any(fnmatchcase(lower, pattern) for pattern in _RUNS):
        for piece in (each.rpartition("=")[2] for each in _PIECES.split(value)):
            if "/" in piece or (piece and os.path.lexists(f"{folder}/{piece}")):
                yield os.path.join(folder, os.path.expanduser(piece))


def file_facts(path: str) -> tuple[int, int, int] | None:
    """The file's time, size and inode, which change when it is written or replaced; None without one."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_mtime_ns, found.st_size, found.st_ino
    return None


def holds_password(configuration: str) -> bool:
    """Return whether an address in git's configuration file holds a password or token."""
    with suppress(OSError):
        text = Path(configuration).read_bytes() if Path(configuration).is_file() else b""
        return re.search(rb"://[^\s/@]*:[^\s/@]+@|://[^\s/:@]{20,}@", text) is not None
    return False


_NAMES_PROGRAMS = re.compile(
    rb"fsmonitor|hookspath|sshcommand|pager|editor|textconv|external|\[\s*(?:filter|alias|include|credential)|driver|"
    rb"helper|program|command|\bcmd\b|gitproxy",
    re.IGNORECASE,
)


def names_programs(git_folder: Path) -> bool:
    """Return whether a repository's configuration or hooks run programs."""
    for name in ("config", "config.worktree"):
        with suppress(OSError):
            if _NAMES_PROGRAMS.search((git_folder / name).read_bytes()):
                return True
    with suppress(OSError):
        return any(not name.endswith(".sample") for name in os.listdir(git_folder / "hooks"))
    return False
