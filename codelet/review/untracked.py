"""Files that git does not know yet, as additions: what `git diff` leaves out of what is not committed.

Only regular files inside the repository are read, no link is followed, and none whose name says that it holds secrets.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from codelet.errors import UsageError
from codelet.review.diff import FileDiff, Hunk, name_of_bytes, unread_file
from codelet.system.git import run_git

_LARGEST = 1 << 20
_MOST_NAMES = 16 << 20


async def new_files(folder: Path, paths: tuple[str, ...]) -> tuple[FileDiff, ...]:
    """The files below `folder`'s repository that are neither known to git nor ignored, each as an added file.

    Raises UsageError where git cannot list them all.
    """
    listed = await run_git(
        folder, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", "--", *paths, limit=_MOST_NAMES
    )
    top = await run_git(folder, "rev-parse", "--show-toplevel")
    if listed is None or top is None or listed.exit_code or top.exit_code or not listed.complete:
        raise UsageError("git did not list the files that it does not know yet")
    root = top.stdout.removesuffix(b"\n")
    return tuple(_added(root, name) for name in sorted(filter(None, listed.stdout.split(b"\0"))))


def _added(root: bytes, name: bytes) -> FileDiff:
    from codelet.safety.paths import why_unread

    file = FileDiff(path=name_of_bytes(name), state="added")
    if why_unread(file.path):
        return file.replace(unread="its name says that it holds secrets")
    try:
        data = _content(os.path.join(root, name))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return file.replace(unread="it is no regular file")
        return unread_file(file, f"it cannot be read: {error.strerror or error}")
    if data is None:
        return unread_file(file, f"it is larger than {_LARGEST >> 20} MiB")
    if not data:
        return file
    lines = data.removesuffix(b"\n").split(b"\n")
    body = b"\n".join(b"+" + line for line in lines)
    if not data.endswith(b"\n"):
        body += b"\n\\ No newline at end of file"
    hunk = Hunk(new_start=1, new_lines=len(lines), body=body, added=len(lines))
    return file.replace(hunks=(hunk,))


def _content(place: bytes) -> bytes | None:
    """A regular file's bytes; None for one that is too large."""
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.ENXIO, "no regular file")
        return file.read(_LARGEST) if facts.st_size <= _LARGEST else None
