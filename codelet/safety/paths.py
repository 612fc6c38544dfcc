"""Verdicts on paths: containment, secrets, protected and delicate names."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Literal

from codelet.record import Record
from codelet.safety import sensitive_names
from codelet.safety.verdict import VerdictAction

Access = Literal["read", "list", "write"]

LENGTH_CAP = 4096
DEPTH_CAP = 128
_MAGIC_ROOTS = ("/proc", "/sys", "/dev")


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


def why_unread(path: str, root: str = "") -> str | None:
    """Return why reading the file needs approval, or None. Everything that reads for the model calls this.

    `path` is absolute, and then judged by its place in `root`, or relative to a workspace or the top of a repository.
    The file need not exist.
    """
    if root and path.startswith("/"):
        if not contained(path, root):
            return "is outside the workspace"
        path = _inside(path, root)
    return sensitive_names.secret(path)


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
        if why := sensitive_names.protected(name):
            return PathVerdict("deny", f"{text} {why}", Path(place))
    if not contained(place, root):
        return PathVerdict("deny", f"{text} is outside the workspace", Path(place))
    for name in names:
        if why := sensitive_names.delicate(name) or sensitive_names.secret(name):
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
    magic = next((root for root in _MAGIC_ROOTS if contained(place, root)), None)
    if magic is None or place == "/dev/null":
        return None
    return PathVerdict("deny", f"{magic} is no place for files", Path(place))
