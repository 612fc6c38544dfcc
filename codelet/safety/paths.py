"""Verdicts on paths: containment, secrets, protected and delicate names."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from codelet.record import Record
from codelet.safety.tables import rows_by_word, word_list
from codelet.safety.verdict import VerdictAction

Access = Literal["read", "list", "write"]

LENGTH_CAP = 4096
DEPTH_CAP = 128

SECRET_FILES = word_list("names", "secret", "files")
COPIES = word_list("names", "secret", "copies")
SECRET_PLACES = word_list("names", "secret", "places")
NOT_SECRET = word_list("names", "secret", "not")
"""Names that the patterns match although they hold no secret."""
SECRET_FOLDERS = word_list("names", "secret", "folders")
DELICATE_FOLDERS = word_list("names", "delicate folders")
DELICATE_FILES = word_list("names", "delicate files")
_RUN_LATER = word_list("names", "run later")
_PROTECTED_FOLDERS = rows_by_word("names", "protected folders")
_PROTECTED_FILES = rows_by_word("names", "protected files")


class PathVerdict(Record):
    """The verdict on a path, with the reason and the resolved place, None for a bad path.

    `sensitive` marks a secret or delicate name: only a rule that spells this very path lifts the question.
    """

    action: VerdictAction
    reason: str
    place: Path | None = None
    sensitive: bool = False


@lru_cache(maxsize=64)
def workspace_root(workspace: Path) -> str:
    """The workspace with every link resolved, fixed at the first call."""
    return os.path.realpath(workspace)


def contained(place: str, root: str) -> bool:
    """Return whether `place` is `root` or below it, compared by component."""
    return place == root or place.startswith(root.rstrip("/") + "/")


def relative_name(place: Path | str, workspace: Path) -> str:
    """The name of a place in rules and reasons: relative inside the workspace, absolute outside."""
    return _inside(str(place), workspace_root(workspace)) or "."


@cache
def _parsed(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...], tuple[str, ...], list[list[str]]]:
    """Whole names, prefixes, suffixes, and the pieces of the other patterns around their `*`.

    A regular expression would take each start 2 ms to compile.
    """
    split = [pattern.split("*") for pattern in patterns]
    names = frozenset(pieces[0] for pieces in split if len(pieces) == 1)
    begins = tuple(pieces[0] for pieces in split if pieces[1:] == [""])
    ends = tuple(pieces[1] for pieces in split if len(pieces) == 2 and not pieces[0])
    return names, begins, ends, [pieces for pieces in split if len(pieces) > 2 or (len(pieces) == 2 and all(pieces))]


def _any(patterns: tuple[str, ...], spelled: Iterable[str]) -> bool:
    names, begins, ends, others = _parsed(patterns)
    return any(
        name in names
        or name.startswith(begins)
        or name.endswith(ends)
        or any(name.startswith(one[0]) and name.endswith(one[-1]) and one[1] in name for one in others)
        for name in spelled
    )


def _components(path: str) -> list[str]:
    # Some file systems fold case: .GIT is .git there.
    return [part.casefold() for part in path.split("/") if part not in ("", ".")]


@lru_cache(maxsize=1 << 13)  # a line of several searches asks for each file of the tree several times
def _secret(path: str) -> str | None:
    """Return why the content of `path` (relative inside the workspace) may be a secret, or None."""
    parts = _components(path)
    if not parts:
        return None
    for folder in parts:
        if folder in SECRET_FOLDERS:
            return f"is in {folder}, a place for secrets"
    if any("/".join(parts[-place.count("/") - 1 :]) == place for place in SECRET_PLACES):
        return "holds a program's credentials"
    original = parts[-1]
    while original.endswith(COPIES):
        original = original.removesuffix(next(copy for copy in COPIES if original.endswith(copy)))
    spelled = (parts[-1], original, original.removeprefix("."))
    if _any(SECRET_FILES, spelled) and not _any(NOT_SECRET, spelled[:2]):
        return "has the name of a file with secrets"
    if ".git" in parts[:-1] and (original == "config" or original.startswith("config.")):
        return "may hold credentials of a remote"
    return None


def protected(path: str) -> str | None:
    """Return why nothing may write at `path`, or None."""
    parts = _components(path)
    for folder in parts:
        # Windows and macOS drop trailing dots and spaces from a name.
        if folder.rstrip(". ") in _PROTECTED_FOLDERS:
            return _PROTECTED_FOLDERS[folder.rstrip(". ")]
    if "/.config/codelet/" in "/" + "/".join(parts) + "/":
        return _PROTECTED_FOLDERS[".codelet"]
    return _PROTECTED_FILES.get(parts[-1].rstrip(". ")) if parts else None


def delicate(path: str) -> str | None:
    """Return why a write at `path` needs approval, or None."""
    parts = _components(path)
    if not parts:
        return None
    if _any(DELICATE_FILES, parts[-1:]):
        return "is run later by CI, an agent or another tool"
    joined = "/" + "/".join(parts) + "/"
    for folder in DELICATE_FOLDERS:
        if f"/{folder}/" in joined:
            return f"is in {folder}, whose files act later"
    return None


def runs_later(name: str) -> bool:
    """Return whether a file of this name runs at the next build, test or start of a project."""
    return _any(_RUN_LATER, [name.casefold()])


def why_unread(path: str, root: str = "") -> str | None:
    """Return why reading the file needs approval, or None. Everything that reads for the model calls this.

    `path` is absolute, and then judged by its place in `root`, or relative to a workspace or the top of a repository.
    The file need not exist.
    """
    if root and path.startswith("/"):
        if not contained(path, root):
            return "is outside the workspace"
        path = _inside(path, root)
    return _secret(path)


def judge_path(
    text: str, access: Access, workspace: Path, cwd: str | None = None, *, shell: bool = False
) -> PathVerdict:
    """Judge one path of a tool or a command by containment and names; modes and rules come later.

    `access` is "read" (content), "list" (names and sizes only) or "write". `shell=True` is for a word of a command,
    whose tilde the shell has already expanded.
    """
    if "\0" in text:
        return PathVerdict("deny", "the path holds a NUL character")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return PathVerdict("deny", "the path is not valid Unicode")
    if len(text) > LENGTH_CAP or text.count("/") > DEPTH_CAP:
        return PathVerdict("deny", "the path is too long")
    root = workspace_root(workspace)
    if text.startswith("~") and not shell:
        text = os.path.expanduser(text)
    joined = text if text.startswith("/") else f"{cwd or root}/{text}"
    if magic := _magic(os.path.normpath(joined)):
        return magic
    facts = None
    try:
        place = os.path.realpath(joined, strict=False)
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.stat(joined)  # fails if the path's links form a loop
        with suppress(FileNotFoundError, NotADirectoryError):
            facts = os.lstat(place)
    except (OSError, ValueError) as error:
        return PathVerdict("deny", f"{text}: {error.strerror if isinstance(error, OSError) else error}")
    if magic := _magic(place):
        return magic
    if facts is not None and not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
        return PathVerdict("deny", f"{text} is no regular file or folder", Path(place))
    if access == "write":
        return _judge_write(text, joined, place, root, facts)
    if not contained(place, root):
        return PathVerdict("ask", f"{text} is outside the workspace", Path(place))
    for name in {os.path.normpath(joined), place} if access == "read" else ():
        if why := why_unread(_inside(name, root)):
            return PathVerdict("ask", f"{text} {why}", Path(place), sensitive=True)
    return PathVerdict("allow", "reads in the workspace", Path(place))


def _judge_write(text: str, joined: str, place: str, root: str, facts: os.stat_result | None) -> PathVerdict:
    # Every name counts: a write through a link at a protected name changes the content at that name.
    folder, _, last = joined.rpartition("/")
    spelled = f"{os.path.realpath(folder or '/')}/{last}"
    names = {_inside(name, root) for name in (os.path.normpath(joined), spelled, place)}
    for name in names:
        if why := protected(name):
            return PathVerdict("deny", f"{text} {why}", Path(place))
    if not contained(place, root):
        return PathVerdict("deny", f"{text} is outside the workspace", Path(place))
    for name in names:
        if why := delicate(name) or _secret(name):
            return PathVerdict("ask", f"{text} {why}", Path(place), sensitive=True)
    from codelet.safety.git_targets import git_targets  # for the first write

    for target, why in git_targets(root).items():
        if contained(place, target) or contained(spelled, target):
            return PathVerdict("ask", f"{text} {why}", Path(place), sensitive=True)
    if facts is not None and stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1:
        return PathVerdict("ask", f"{text} has another name (a hard link), perhaps outside the workspace", Path(place))
    return PathVerdict("allow", "writes in the workspace", Path(place))


def _inside(name: str, root: str) -> str:
    return name[len(root) :].lstrip("/") if contained(name, root) else name


def _magic(place: str) -> PathVerdict | None:
    """A denial for a place in the kernel's own file systems."""
    magic = next((root for root in ("/proc", "/sys", "/dev") if contained(place, root)), None)
    if magic is None or place == "/dev/null":
        return None
    return PathVerdict("deny", f"{magic} is no place for files", Path(place))
