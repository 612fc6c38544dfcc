"""Writes what a review leaves behind, as exports are written: a file is replaced whole or stays as it was.

Short because `export.stores.file` does the work: the file beside it, the sync, the rename, the lock.
"""

from __future__ import annotations

from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Make `text` the content of the file, whole or not at all; a pipe or a device (`/dev/stdout`) is written to.

    Raises ExportError, which names the file, and OSError.
    """
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
