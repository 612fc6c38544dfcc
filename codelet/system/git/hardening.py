"""The table of options, settings and variables that keep a repository from starting programs or redirecting git; and
the place of a repository: git's folder, the folder that it shares with others, and whether both are its own.

Settings on the command line win over every file and over variables. A danger without such a setting is switched off by
an option of the command or by a variable, or makes the repository one to ask about (`configuration.doubt`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from codelet.record import Record

OPTIONS = ("--no-optional-locks", "--no-pager")
"""The options before the git command."""

SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "safe.bareRepository": "explicit",
    "protocol.ext.allow": "never",
    "log.showSignature": "false",
    "log.diffMerges": "separate",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "diff.submodule": "short",
    "diff.ignoreSubmodules": "all",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "stash.showPatch": "false",
    "blame.ignoreRevsFile": "",
}
"""Each stops one way in which a repository's configuration makes git run, read or print something."""

SETTINGS_FOR_COMMANDS = ("core.fsmonitor", "safe.bareRepository", "protocol.ext.allow")
"""Those that also hold for whatever runs git inside a command that the user approved."""

NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
COMMAND_OPTIONS: dict[str, tuple[str, ...]] = {
    "diff": (*NO_PROGRAMS, "--ignore-submodules=all"),
    "log": NO_PROGRAMS,
    "show": NO_PROGRAMS,
    "status": ("--ignore-submodules=all",),
    "blame": ("--no-textconv",),
    "grep": ("--no-textconv",),
}

ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""A repository can make git fetch what is missing, and name the program for it: nothing here needs a transport."""

_OFF = frozenset(
    ("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_EXEC_PATH")
)
REDIRECTING = frozenset(
    ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
     "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_CONFIG", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE",
     "GIT_REPLACE_REF_BASE", "GIT_ATTR_SOURCE", "GIT_REFERENCE_BACKEND", "GIT_IMPLICIT_WORK_TREE")
)  # fmt: skip
"""Variables that make git read another repository, or other parts of it, than the one that the folder is in."""

_POINTER_CAP = 1 << 16
_CONFIGURATION_CAP = 16 << 20
_HEAD_READ = 255
_DEEPEST_BORROWING = 5
_NOT_READ = frozenset(("hooks", "modules", "lfs", "annex"))
"""Folders in git's that no git command reads which only reads this repository."""
_ENTRY_CAP = 20_000


def overrides_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that replace the user's variables for traces, git's own programs and path patterns."""
    return {
        name: "" if name == "GIT_EXEC_PATH" else "0"
        for name in sorted(environment)
        if name.startswith("GIT_TRACE") or name in _OFF
    }


def without_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for codelet's own calls: git looks at the folder it is started in, and writes no trace."""
    dropped = REDIRECTING | _OFF | {"GIT_EXTERNAL_DIFF"}
    return {
        name: value for name, value in environment.items() if name not in dropped and not name.startswith("GIT_TRACE")
    }


class Repository(Record):
    """The folder with the work tree, git's folder, and the one with its objects and references; links resolved.

    `named` is set if the user's GIT_DIR names it: it is the user's choice that git's folder lies elsewhere.
    """

    folder: str
    git_folder: str
    common: str
    named: bool = False

    @property
    def configurations(self) -> tuple[str, ...]:
        """The files that may hold the repository's configuration."""
        places = dict.fromkeys((self.common, self.git_folder))
        return tuple(f"{place}/{name}" for place in places for name in ("config", "config.worktree"))


def find_repository(folder: str) -> Repository | None:
    """The repository that git finds from `folder` (resolved) upwards, or None."""
    while not os.path.lexists(f"{folder}/.git"):
        if folder == "/":
            return None
        folder = folder.rpartition("/")[0] or "/"
    git_folder = os.path.join(folder, ".git")
    if Path(git_folder).is_file():
        pointer = _line(git_folder).removeprefix("gitdir: ")
        git_folder = os.path.join(folder, pointer)
    return Repository(folder, os.path.realpath(git_folder), _common(git_folder))


def repository_at(folder: str, git_folder: str) -> Repository:
    """The repository with this git folder and the work tree in `folder`, both resolved, as GIT_DIR names it."""
    return Repository(folder, git_folder, _common(git_folder), named=True)


def _common(git_folder: str) -> str:
    """The folder with the objects and references of a git folder."""
    common = _line(f"{git_folder}/commondir")
    return os.path.realpath(os.path.join(git_folder, common) if common else git_folder)


def unreadable(repository: Repository) -> str | None:
    """Return the reason why git would not read this repository or would not finish, or None.

    git passes over a folder that is not a repository to it and searches further up: it may find another repository with
    another configuration.
    """
    for place in (*repository.configurations, f"{repository.git_folder}/commondir"):
        if os.path.lexists(place) and not Path(place).is_file():
            return f"{place} is no regular file"
    if any(_is_longer(place, _CONFIGURATION_CAP) for place in repository.configurations):
        return "the repository's configuration is too large"
    folders = (f"{repository.common}/objects", f"{repository.common}/refs")
    whole = all(os.path.isdir(place) and os.access(place, os.X_OK) for place in folders)
    if not whole or not _is_head(f"{repository.git_folder}/HEAD"):
        named = repository.git_folder if repository.named else f"{repository.folder}/.git"
        return f"{named} is no whole repository: git may take one further up"
    return None


def _is_head(path: str) -> bool:
    """Return whether git takes a file for the HEAD of a repository, read no more generously than git does."""
    if os.path.islink(path):
        return os.readlink(path).startswith("refs/")
    text = _text(path)[:_HEAD_READ]
    if text.startswith("ref:"):
        return text[4:].lstrip(" \t\n\r").startswith("refs/")
    return len(text) >= 40 and all(letter in "0123456789abcdef" for letter in text[:40])


def stray(repository: Repository, root: str, worktree: str | None = None) -> str | None:
    """Return the reason why git would read another repository than the folder's own, or None.

    Everything in the folder or below `root` is its own. A git folder elsewhere must point back: that of a linked
    worktree by its file `gitdir`, that of a submodule by `worktree`, the value of `core.worktree`.
    """
    if why := unreadable(repository):
        return why
    homes: tuple[str, ...] = (repository.folder, root, *((repository.git_folder,) if repository.named else ()))
    if not is_below(repository.git_folder, homes):
        if not _points_back(repository, worktree):
            return f"{repository.folder}/.git leads to {repository.git_folder}, which does not point back"
        homes = (*homes, repository.common)
    elif not is_below(repository.common, homes):
        return f"{repository.git_folder} shares the repository in {repository.common}"
    own = tuple(dict.fromkeys((repository.git_folder, repository.common)))
    for place in own:
        if why := _leads_out(place, own):
            return why
    if _borrows(f"{repository.common}/objects", homes):
        return "the repository borrows objects from another one (objects/info/alternates)"
    return None


def _borrows(objects: str, homes: tuple[str, ...], depth: int = 0) -> bool:
    """Return whether git would read objects from outside of `homes`, also through folders that lend objects in turn.

    A path is taken literally, spaces included. A path that git reads in another way, or a list too long to read, counts
    as outside.
    """
    borrowing = f"{objects}/info/alternates"
    if _is_longer(borrowing, _POINTER_CAP) or depth > _DEEPEST_BORROWING:
        return True
    for line in _text(borrowing).split("\n"):
        if not line or line.startswith("#"):
            continue
        place = os.path.realpath(os.path.join(objects, line))
        if line.startswith('"') or not is_below(place, homes) or _borrows(place, homes, depth + 1):
            return True
    return False


def _leads_out(place: str, own: tuple[str, ...]) -> str | None:
    """Return a link in git's folder that leads out of it, or another entry that is no regular file.

    git would print a line of a link's target, and wait forever for a pipe.
    """
    seen = 0
    stack = [place]
    while stack:
        folder = stack.pop()
        try:
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError:
            continue
        seen += len(found)
        if seen > _ENTRY_CAP:
            return f"{place} holds too many files to look at"
        for entry in found:
            if folder == place and entry.name in _NOT_READ:
                continue
            if entry.is_symlink():
                if not is_below(os.path.realpath(entry.path), own):
                    return f"{entry.path} is a link that leads out of git's folder"
            # Objects are found by their content's number: it is the folders that may be elsewhere.
            elif entry.is_dir():
                if not (folder.endswith("/objects") and len(entry.name) == 2):
                    stack.append(entry.path)
            elif not entry.is_file() and not stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                return f"{entry.path} is no regular file"
    return None


def _points_back(repository: Repository, worktree: str | None) -> bool:
    pointer = _text(f"{repository.git_folder}/gitdir").strip()
    if pointer and os.path.dirname(repository.git_folder) == f"{repository.common}/worktrees":
        back = os.path.join(repository.git_folder, pointer)
        return os.path.basename(back) == ".git" and os.path.realpath(os.path.dirname(back)) == repository.folder
    if worktree is None or repository.common != repository.git_folder:
        return False
    return os.path.realpath(os.path.join(repository.git_folder, worktree)) == repository.folder


def is_below(place: str, homes: tuple[str, ...]) -> bool:
    """Return whether a resolved path is one of these folders or inside one."""
    return any(place == home or place.startswith(home.rstrip("/") + "/") for home in homes)


def _is_longer(path: str, most: int) -> bool:
    """Return whether the file exists and is larger than that many bytes."""
    try:
        return os.stat(path).st_size > most
    except OSError:
        return False


def _line(path: str) -> str:
    """The one line of a small file as git takes it: all but line ends belongs to it, spaces too."""
    return _text(path).rstrip("\r\n")


def _text(path: str) -> str:
    """Return the text of a small file up to a NUL, as git reads it; "" without a file."""
    if not Path(path).is_file():  # does not wait for a pipe
        return ""
    try:
        with Path(path).open("rb") as file:
            return file.read(_POINTER_CAP).partition(b"\0")[0].decode("utf-8", "surrogateescape")
    except OSError:
        return ""
