"""Open files inside the workspace so that nothing swapped in after the check can lead out of it.

A path is resolved once; then every component is opened from its parent's descriptor without following
links. Whoever puts a link in place between the two gets an error, never a file outside.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from codelet.errors import ToolError
from codelet.policy.paths import contained, relative_name, workspace_root

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_contained(
    workspace: Path, path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o666, *, outside: bool = False
) -> int:
    """A descriptor of the regular file at `path` (relative to the workspace, or absolute).

    `outside=True` is for a path outside the workspace that a person approved: the same walk, from the root
    of the file system. Raises ToolError where the path leads out, is no regular file, or changed meanwhile.
    """
    folder, name = open_folder(workspace, path, outside=outside)
    try:
        # Non-blocking, so that a FIFO that took the file's place gives an error and no hang.
        descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder)
    except OSError as error:
        raise _explained(path, error) from None
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ToolError(f"{path}: not a regular file")
    os.set_blocking(descriptor, True)
    return descriptor


def open_folder(workspace: Path, path: Path | str, *, make: bool = False, outside: bool = False) -> tuple[int, str]:
    """A descriptor of the folder that holds `path`, and the file's name in it; `make` creates folders."""
    root = "/" if outside else workspace_root(workspace)
    text = os.fspath(path)
    if "\0" in text:
        raise ToolError("the path holds a NUL character")
    try:
        place = os.path.realpath(text if text.startswith("/") else f"{workspace_root(workspace)}/{text}")
    except OSError as error:
        raise _explained(path, error) from None
    if not contained(place, root) or place == root:
        raise ToolError(f"{relative_name(place, workspace)}: outside the workspace")
    *folders, name = place[len(root) :].strip("/").split("/")
    try:
        descriptor = os.open(root, _FOLDER)
    except OSError as error:
        raise _explained(path, error) from None
    for folder in folders:
        descriptor = _step(descriptor, folder, make, path)
    return descriptor, name


def _step(parent: int, name: str, make: bool, path: Path | str) -> int:
    """The folder `name` in `parent`, which is closed; created where `make` is set and it is not there."""
    try:
        if make:
            try:
                os.mkdir(name, dir_fd=parent)
            except FileExistsError:
                return os.open(name, _FOLDER, dir_fd=parent)
        return os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        raise _explained(path, error) from None
    finally:
        os.close(parent)


def replace_contained(workspace: Path, path: Path | str, content: bytes, *, make: bool = True) -> None:
    """Write the whole file at once: others see the old content or the new one, never a part.

    Mode and ownership of an existing file stay. A failure leaves the old file as it was and no other behind.
    """
    folder, name = open_folder(workspace, path, make=make)
    temporary = f".{name[:200]}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        old = _existing(folder, name, path)
        descriptor = os.open(
            temporary,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
            dir_fd=folder,
        )
        try:
            _fill(descriptor, content, old)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
    except OSError as error:
        raise _explained(path, error) from None
    finally:
        os.close(folder)


def _existing(folder: int, name: str, path: Path | str) -> os.stat_result | None:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        raise ToolError(f"{path}: not a regular file")
    return facts


def _fill(descriptor: int, content: bytes, old: os.stat_result | None) -> None:
    """Write the content to its disk and give the file the old one's owner and mode; closes the descriptor."""
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if old is None:
            os.fchmod(descriptor, 0o666 & ~_umask())
        else:
            if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    """The process's umask, read from the kernel: setting it to read it would race with other threads."""
    try:
        with Path("/proc/self/status").open(encoding="ascii") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except OSError:
        return 0o022
    return 0o022


def _explained(path: Path | str, error: OSError) -> ToolError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return ToolError(f"{path}: a part of it is a link or no folder, or became one just now")
    return ToolError(f"{path}: {error.strerror}")
