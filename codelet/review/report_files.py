"""Writes what a review leaves behind, as exports are written: a file is replaced whole or stays as it was.

No folder that is a link in the repository is gone through. Short because `export.stores.file` does the work: the
file beside it, the sync, the rename, the lock.
"""

from __future__ import annotations

import os
from pathlib import Path

from codelet.errors import ExportError
from codelet.system.git.hardening import find_repository


def replace_file(path: Path, text: str) -> None:
    """Make `text` the content of the file, whole or not at all; a pipe or a device (`/dev/stdout`) is written to.

    Raises ExportError, which names the file, and OSError.
    """
    if (link := linked_folder(path)) is not None:
        raise ExportError(f"{path}: not written: {link} is a link; name the folder that it leads to")
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            stream.write(text.encode("utf-8"))
        return
    from codelet.export.stores.file import FileStore

    store = FileStore(path.parent)
    expected = store.revision(path.name)
    lease = store.lock(path.name)
    try:
        store.save(path.name, [text.encode("utf-8")], lease=lease, expected=expected)
    finally:
        lease.release()


def linked_folder(path: Path) -> Path | None:
    """The first folder of the path that is a link below the top of the repository, or below the current folder."""
    here = os.path.realpath(os.getcwd())
    repository = find_repository(here)
    top = Path(here if repository is None else repository.folder)
    for folder in reversed(path.absolute().parents):
        if folder.is_symlink() and folder.parent.resolve().is_relative_to(top):
            return folder
    return None
