"""The special places of a sandbox: what a confined command sees, the secrets hidden in it, protected files that
programs outside obey, and those that a command made, which are moved aside.

A command sees the system's folders, toolchains, the folders of PATH, the workspace and its repository, and no more of
the home (the table `visible`). Nothing is deleted or overwritten, and no program obeys the new name.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from codelet.record import Record
from codelet.safety import paths
from codelet.safety.git_targets import ask_git, git_targets, holds_password, names_programs
from codelet.safety.paths import DELICATE_FOLDERS, SECRET_FOLDERS, contained, why_unread
from codelet.safety.tables import read_table, word_list
from codelet.safety.verdict import SandboxKind
from codelet.system.git.hardening import find_repository, stray

_REPOSITORY_FOLDERS = 3_000
SEARCHED_FOLDERS = 20_000
"""The number of a workspace's folders that are searched for secrets; further ones stay readable."""
_HOME_FOLDERS = (".config", ".local", ".m2", ".gradle", ".cargo")
_ENVIRONMENT_MARK = "pyvenv.cfg"
_ANY_DEPTH = 1_000
_ON_THE_WAY = {name[:end] for name in DELICATE_FOLDERS for end, at in enumerate(f"{name}/") if at == "/"}

TOOLCHAINS = word_list("visible", "home")
"""Places of a home with programs, packages and caches, and settings without keys: none of them holds keys."""
VARIABLES = {
    **dict.fromkeys(word_list("visible", "variables", "."), ("",)),
    **{name: tuple(row.split()) for name, row in read_table("visible")["variables"].items() if name != "."},
}
"""Variables that name a toolchain's folder, and its visible parts."""


class Secrets:
    """The files and folders of the home and of a workspace with the names of secrets.

    A folder is listed again only when its time has changed, so a look before each command costs one system call per
    folder.
    """

    def __init__(self, root: str, most: int = SEARCHED_FOLDERS, *, open_home: bool = False) -> None:
        self._root, self._most = root, most
        self._sees_home = open_home or holds_home(root)
        self._known: dict[str, tuple[int, list[str], list[str]]] = {}

    def hidden_from(self, command: str, kind: SandboxKind) -> list[str]:
        """The places that a confined command cannot read: private settings of the machine, secrets of a visible home,
        and, if the command only reads, those of the workspace.

        A line that runs nothing but git sees tracked secrets: git would report a hidden file as changed, and shows no
        content of it. All others do not see git's configuration if an address in it has a password.
        """
        hidden = [*private_settings(), *(self.of_home() if self._sees_home else ())]
        if kind == "workspace":
            return hidden
        inside = self.of_workspace()
        if runs_only_git(command):
            return hidden + (sorted(set(inside) - self._tracked(inside)) if inside else [])
        repository = find_repository(self._root)
        own = () if repository is None else repository.configurations
        return hidden + inside + [place for place in own if holds_password(place)]

    def _tracked(self, places: list[str]) -> set[str]:
        """The tracked ones of these places, or all of them if git does not answer."""
        names = [place[len(self._root) + 1 :] for place in places if contained(place, self._root)]
        asked = ask_git(self._root, "ls-files", "-z", "--", *(f":(literal){name}" for name in names))
        code, listed = asked or (None, "")
        if code != 0:
            return set() if code == 128 else set(places)  # 128: there is no repository
        return {f"{self._root}/{name}" for name in listed.split("\0") if name}

    def of_home(self) -> list[str]:
        """The existing secrets of the home, without folders around the workspace."""
        home = os.path.realpath(os.path.expanduser("~"))
        folders = [f"{home}/{name}" for name in (*SECRET_FOLDERS, ".config/gcloud", ".config/gh")]
        found = [os.path.realpath(folder) for folder in folders if os.path.isdir(folder)]
        for name in ("", *_HOME_FOLDERS):  # settings with keys are up to two levels below `~/.config` and the like
            walked = self._walk(os.path.join(home, name), home, self._most, 1 if name else 0)
            found += [place for _, secrets in walked for place in secrets]
        return sorted({place for place in found if not contained(self._root, place)})

    def of_workspace(self) -> list[str]:
        """The existing secrets of the workspace, without git's own configuration, which git needs."""
        return sorted(place for _, secrets in self._walk(self._root, self._root, self._most) for place in secrets)

    def repositories(self) -> set[str]:
        """The `.git` folders of the workspace, at any depth, in its first 3,000 folders."""
        walked = self._walk(self._root, self._root, _REPOSITORY_FOLDERS)
        return {each for folders, _ in walked for each in folders if each.endswith("/.git")}

    def _walk(
        self, top: str, base: str, most: int, depth: int = _ANY_DEPTH
    ) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """For each folder from `top` on, of `base`: the folders in it, and the files with the names of secrets, links
        followed. The content of `.git` is left out.
        """
        waiting = deque([(top, depth)])
        while waiting and most:
            folder, depth = waiting.popleft()
            most -= 1
            with suppress(OSError):
                changed = os.stat(folder).st_ctime_ns  # a command can set the other times back
                if folder not in self._known or self._known[folder][0] != changed:
                    entries = _entries(folder)
                    inner = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
                    secret = [each for each in entries if why_unread(f"{folder[len(base) :]}/{each.name}") is not None]
                    places = [os.path.realpath(each.path) for each in secret if each not in inner and each.is_file()]
                    self._known[folder] = (changed, [each.path for each in inner], places)
                _, folders, secrets = self._known[folder]
                yield folders, secrets
                waiting.extend((each, depth - 1) for each in folders if depth and not each.endswith("/.git"))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def protected_places(root: Path, more: Iterable[Path] = ()) -> list[str]:
    """The existing files and folders of the workspace that no command may write: those at its top that programs
    outside obey (git, agents, editors, CI), what git's configuration names, codelet's own settings, the Python that
    codelet runs in, environments, and the folders in which programs are looked for; and `more`.

    A linked worktree's own git folder lies elsewhere, unless that is inside the workspace, too.
    """
    places = [str(root / name) for name in DELICATE_FOLDERS]
    entries = ((entry.name, entry.path) for entry in _entries(str(root)))
    places += [path for name, path in entries if _obeyed(name) or os.path.lexists(f"{path}/{_ENVIRONMENT_MARK}")]
    # A program put there would run outside at the next start of codelet or of anything else.
    started = (sys.prefix, sys.base_prefix, *os.environ.get("PATH", "").split(os.pathsep))
    places += [os.path.realpath(place) for place in started if place.startswith("/")]
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    places.append(os.path.realpath(f"{settings}/codelet"))
    places += [os.path.realpath(place) for place in more]
    places += git_targets(os.path.realpath(root))
    # A link's target is protected at its own place.
    real = (place for place in set(places) if os.path.exists(place) and not os.path.islink(place))
    return sorted(place for place in real if place.startswith(f"{root}/"))


def standing(root: Path, protected: Iterable[str]) -> set[tuple[str, str]]:
    """The protected places of the workspace, and the links with names that programs outside obey, each with its target.

    No sandbox prevents a new link, or the replacement of another one.
    """
    names = {entry.name for entry in _entries(str(root)) if _obeyed(entry.name)} | _ON_THE_WAY
    found = {(place, "") for place in protected}
    for place in (f"{root}/{name}" for name in names):
        with suppress(OSError):  # no link
            found.add((place, os.readlink(place)))
    return found


def seen_of_system() -> tuple[str, ...]:
    """The system's folders that are there."""
    return tuple(place for place in word_list("visible", "system") if os.path.exists(place))


def home_in_system(search: str) -> str | None:
    """The home if it is in one of the system's folders, which must not show it. `search` is PATH."""
    home = os.path.realpath(os.path.expanduser("~"))
    inside = any(contained(home, place) and home != place for place in seen_of_system())
    return home if inside and home not in map(os.path.realpath, filter(None, search.split(os.pathsep))) else None


@lru_cache(maxsize=1)
def _toolchains(root: str, search: str, named: Sequence[tuple[str, str]], more: Sequence[str], home: str) -> list[str]:
    """Files and folders outside the system's that commands need, each with and without its links resolved. None holds
    the home or the workspace `root`. `search` is PATH, `named` are variables that name a toolchain's folder.
    """
    spelled = [f"{home}/{name}" for name in TOOLCHAINS]
    settings = word_list("visible", "git settings", "files")
    spelled += [place for name in settings if _is_plain(place := f"{home}/{name}")]
    spelled += [f"{place}/{inner}".rstrip("/") for name, place in named for inner in VARIABLES[name]]
    spelled += [sys.prefix, sys.base_prefix, *map(os.path.expanduser, more)]
    own = {home, *(f"{home}/{name.partition('/')[0]}" for name in TOOLCHAINS if "/" in name)}
    for folder in filter(os.path.isabs, search.split(os.pathsep)):  # with its whole toolchain if it is in one
        spelled.append(folder)
        for place in {os.path.normpath(folder), os.path.realpath(folder)}:
            prefix, _, name = place.rpartition("/")
            toolchain = name in ("bin", "sbin", ".bin", "Scripts") and prefix not in ("", *own)
            if toolchain and any(os.path.lexists(f"{prefix}/{mark}") for mark in word_list("visible", "toolchain")):
                spelled.append(prefix)
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


def _is_plain(settings: str) -> bool:
    """Return whether a user's git settings hold no addresses and no credential programs."""
    text, marks = _text(settings).lower(), word_list("visible", "git settings", "marks")
    return 0 < len(text) <= _CAP and not any(mark.encode() in text for mark in marks)


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


def seen_places(root: str, environment: Mapping[str, str], more: Sequence[str] = ()) -> list[str]:
    """The places that commands see besides the workspace and the system's folders: the repository, unless it holds the
    home, toolchains, programs, and `more` of the user's choice.
    """
    repository = find_repository(root)
    places: list[str] = []
    if repository is not None and (repository.folder == root or not holds_home(repository.folder)):
        places = [repository.folder]
        # A `.git` file may name any folder: only one that points back is the repository's own.
        if contained(repository.common, repository.folder) or not stray(repository, root):
            places += [repository.git_folder, repository.common]
    own = [place for place in dict.fromkeys(places) if place != "/" and os.path.isdir(place)]
    named = tuple((name, environment[name]) for name in VARIABLES if environment.get(name, "").startswith("/"))
    tools = _toolchains(root, environment.get("PATH", ""), named, tuple(more), os.path.expanduser("~"))
    return own + [place for place in tools if place not in own]


def _obeyed(name: str) -> bool:
    return paths.protected(name) is not None or paths.delicate(name) is not None


class MadeFile(Record):
    """A new file, folder or link with such a name, relative to the workspace; `aside` is its new name.

    `stays`: it is a repository or a virtual environment, which commands can only read from now on.
    """

    name: str
    aside: str | None = None
    stays: bool = False


def settle(place: Path, root: Path, *, move: bool) -> MadeFile:
    """Move a new entry of the workspace `root` aside, if `move`.

    Other users' files and the folders of PATH stay. So does a repository, unless it names programs, which git would run
    outside the sandbox. A link is always moved: the repository or environment at its target could still be written.
    """
    name, is_link = str(place.relative_to(root)), place.is_symlink()
    programs = place.name == ".git" and not is_link and names_programs(place)
    stays = not is_link and (place.name == ".git" or os.path.lexists(place / _ENVIRONMENT_MARK))
    if not move or (stays and not programs) or (place.parent != root and name not in DELICATE_FOLDERS and not programs):
        return MadeFile(name, stays=stays)
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", place.name).strip("_")
    targets = (place.with_name(f"aside-{number}-{plain}") for number in itertools.count(1))
    target = next(each for each in targets if not os.path.lexists(each))
    with suppress(OSError):
        if place.lstat().st_uid == os.geteuid() and str(place) not in os.environ.get("PATH", "").split(os.pathsep):
            place.rename(target)
            return MadeFile(name, str(target.relative_to(root)))
    return MadeFile(name)


_CAP = 1 << 15
_MARKS = (b"filter", b"include")
"""Without these words, a repository's configuration can define no filter."""
_READS_INPUT = frozenset(("head", "tail", "wc", "sort", "uniq", "cat", "tac", "nl", "cut", "tr"))
_PLAIN = re.compile(r"[\w ./:=,+@%^~'\"|&;*\n-]+")
_OPTION = re.compile(r"-[a-zA-Z0-9]+|--[a-z-]+|\d+|'.'|-d.")


def find_attributes(root: str) -> tuple[str, bytes] | None:
    """The folder `info` of the repository around a workspace, and the new content of its `attributes`: git then shows
    no content of secret files, and runs no converter or filter of the repository.

    They override every `.gitattributes` of the tree: `git log -p`, `show`, `diff`, `stash show -p` and `log -G` treat
    secret files as binary. None without a folder to mount over, or if its own attributes are too long to be included.
    """
    repository = find_repository(root)
    if repository is None or not os.path.isdir(folder := f"{repository.common}/info") or os.path.islink(folder):
        return None
    if not contained(repository.common, root) and not contained(repository.common, repository.folder):
        return None
    own = _text(f"{folder}/attributes")
    if len(own) > _CAP:
        return None
    with_folder = [name for name in (*paths.SECRET_FILES, *paths.SECRET_PLACES) if "/" in name]
    lines = ["* !diff", *(f"*{ending} -diff" for ending in paths.COPIES)]
    lines += [f"{_any_case(pattern)} -diff" for pattern in paths.SECRET_FILES if "/" not in pattern]
    lines += [f"{_any_case(name)} !diff" for name in paths.NOT_SECRET]  # the exceptions
    lines += [f"**/{_any_case(place)} -diff" for place in with_folder]
    lines += [f"**/{_any_case(name)}/** -diff" for name in SECRET_FOLDERS]
    if any(mark in _text(place).lower() for place in repository.configurations for mark in _MARKS):
        lines.append("* !filter")
    return folder, own + b"\n" + "\n".join(lines).encode() + b"\n"


def _any_case(pattern: str) -> str:
    return re.sub("[a-z]", lambda letter: f"[{letter[0]}{letter[0].upper()}]", pattern)


def _text(path: str) -> bytes:
    with suppress(OSError):
        if os.path.isfile(path):  # a pipe might never begin
            with open(path, "rb") as file:
                return file.read(_CAP + 1)
    return b""


def runs_only_git(command: str) -> bool:
    """Return whether each command of a line is git, or reads nothing but git's output: then it needs the tracked files
    unchanged, and prints none of them. A line with more than plain words does not count.
    """
    if not _PLAIN.fullmatch(command) or re.search(r"(?<!&)&(?!&)", command):
        return False
    for line in re.split(r"&&|\|\||[;\n]", command):
        first, *readers = line.split("|")
        words = first.split()
        moved = words[:1] == ["cd"] and len(words) == 2
        if words and not moved and words[:1] != ["git"]:
            return False
        for reader in readers:
            name, *rest = reader.split() or [""]
            if name not in _READS_INPUT or not all(map(_OPTION.fullmatch, rest)):
                return False
    return True
