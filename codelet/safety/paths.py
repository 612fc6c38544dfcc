"""Where a path leads, and what may be done there: containment, secrets, protected and delicate names."""

from __future__ import annotations

import os
import stat
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
_HARMLESS_DEVICES = ("/dev/null",)


class PathVerdict(Record):
    """What may be done at a path: the action, the reason, and the resolved place (None if there is none).

    `sensitive` marks a secret or delicate name: only a rule that spells the very path lifts such an ask.
    """

    action: VerdictAction
    reason: str
    place: Path | None = None
    sensitive: bool = False


@lru_cache(maxsize=64)
def workspace_root(workspace: Path) -> str:
    """The workspace with every link resolved; it stays what it was at the first call."""
    return os.path.realpath(workspace)


def contained(place: str, root: str) -> bool:
    """Return whether `place` is `root` or below it, compared by component."""
    return place == root or place.startswith(root.rstrip("/") + "/")


def relative_name(place: Path | str, workspace: Path) -> str:
    """Return how a rule or a reason names a place: relative inside the workspace, absolute outside."""
    root = workspace_root(workspace)
    name = str(place)
    return (name[len(root) :].lstrip("/") or ".") if contained(name, root) else name


def why_unread(path: str, root: str = "") -> str | None:
    """Return why the content of a file is not read without asking, or None: all that reads for the model asks here.

    `path` is absolute, and then judged by where it lies in `root`, or relative to a workspace or the top of a
    repository, as git and archives name files that need not be there.
    """
    if root and path.startswith("/"):
        if not contained(path, root):
            return "is outside the workspace"
        path = _inside(path, root)
    return sensitive_names.secret(path)


def judge_path(
    text: str, access: Access, workspace: Path, cwd: str | None = None, *, shell: bool = False
) -> PathVerdict:
    """Return what containment and names say about one path of a tool or a command.

    `access` is "read" (content), "list" (names and sizes only) or "write". Modes and rules come on top.
    `shell=True` is for a word of a command, whose tilde the shell has already expanded.
    """
    if "\0" in text:
        return PathVerdict("deny", "the path holds a NUL character")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return PathVerdict("deny", "the path is not valid Unicode")
    if len(text) > LENGTH_CAP or text.count("/") > DEPTH_CAP:
        return PathVerdict("deny", "the path is too long")
    root = workspace_root(workspace)
    if text.startswith("~") and not shell:
        text = _home(text)
    joined = text if text.startswith("/") else f"{cwd or root}/{text}"
    magic = _magic(os.path.normpath(joined))
    if magic is not None:
        return magic
    try:
        place = os.path.realpath(joined, strict=False)
        _refuse_loop(joined)
        facts = _facts(place)
    except (OSError, ValueError) as error:
        return PathVerdict("deny", f"{text}: {error.strerror if isinstance(error, OSError) else error}")
    magic = _magic(place)
    if magic is not None:
        return magic
    if facts is not None and not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
        return PathVerdict("deny", f"{text} is no regular file or folder", Path(place))
    if access == "write":
        return _judge_write(text, joined, place, root, facts)
    return _judge_read(text, joined, place, root, access)


def _judge_read(text: str, joined: str, place: str, root: str, access: Access) -> PathVerdict:
    if not contained(place, root):
        return PathVerdict("ask", f"{text} is outside the workspace", Path(place))
    if access == "read":
        for name in {os.path.normpath(joined), place}:
            if why := why_unread(_inside(name, root)):
                return PathVerdict("ask", f"{text} {why}", Path(place), sensitive=True)
    return PathVerdict("allow", "reads in the workspace", Path(place))


def _judge_write(text: str, joined: str, place: str, root: str, facts: os.stat_result | None) -> PathVerdict:
    # Both names count: a write through a link at a protected name changes what that name gives.
    spelled = _spelled(joined)
    for name in {os.path.normpath(joined), spelled, place}:
        why = sensitive_names.protected(_inside(name, root))
        if why:
            return PathVerdict("deny", f"{text} {why}", Path(place))
    if not contained(place, root):
        return PathVerdict("deny", f"{text} is outside the workspace", Path(place))
    for name in {os.path.normpath(joined), spelled, place}:
        why = sensitive_names.delicate(_inside(name, root)) or sensitive_names.secret(_inside(name, root))
        if why:
            return PathVerdict("ask", f"{text} {why}", Path(place), sensitive=True)
    from codelet.safety.git_targets import why_obeyed  # for the first write

    if why := why_obeyed(place, root) or why_obeyed(spelled, root):
        return PathVerdict("ask", f"{text} {why}", Path(place), sensitive=True)
    if facts is not None and stat.S_ISREG(facts.st_mode) and facts.st_nlink > 1:
        return PathVerdict("ask", f"{text} has another name (a hard link), perhaps outside the workspace", Path(place))
    return PathVerdict("allow", "writes in the workspace", Path(place))


def _spelled(joined: str) -> str:
    """The path with its folders resolved and its last component as written."""
    folder, _, name = joined.rpartition("/")
    return f"{os.path.realpath(folder or '/')}/{name}"


def _home(text: str) -> str:
    """The path with its leading `~` or `~user` expanded, or as it is if there is none."""
    try:
        return str(Path(text).expanduser())
    except RuntimeError:
        return text


def _inside(name: str, root: str) -> str:
    return name[len(root) :].lstrip("/") if contained(name, root) else name


def _facts(place: str) -> os.stat_result | None:
    try:
        return os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _refuse_loop(joined: str) -> None:
    """Raise OSError if the path's links go in a circle; a missing file is fine."""
    try:
        Path(joined).stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return


def _magic(place: str) -> PathVerdict | None:
    """A refusal for the kernel's own file systems, whose files are no files."""
    if place in _HARMLESS_DEVICES:
        return None
    for magic in _MAGIC_ROOTS:
        if contained(place, magic):
            return PathVerdict("deny", f"{magic} is no place for files", Path(place))
    return None
