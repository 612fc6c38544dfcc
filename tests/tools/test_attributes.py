"""What a file has besides its bytes: access lists, extended attributes, other names, its owner. Changes keep them."""

from __future__ import annotations

import os
import resource
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from codelet.extensions.file_history.place_state import bring_back, look
from codelet.tools.file_tools import edit, read
from codelet.tools.tool import ToolContext
from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]
ACL = "system.posix_acl_access"
# Version 2, then tag, permissions and id of: owner, user 1234, group, mask, others.
LIST = struct.pack(
    "<I" + "HHI" * 5, 2, 1, 6, 2**32 - 1, 2, 6, 1234, 4, 4, 2**32 - 1, 16, 6, 2**32 - 1, 32, 4, 2**32 - 1
)
KEPT = {"user.note": b"mine", ACL: LIST}


def attributes(path: Path) -> dict[str, bytes]:
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if not name.startswith("security.")}


@pytest.fixture
async def file(workspace: Path, call: Call) -> Path:
    """A file with an access list and an attribute, which was read."""
    path = workspace / "a.txt"
    path.write_bytes(b"one\n")
    try:
        for name, value in KEPT.items():
            os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"the file system has none: {error}")
    await call("read", path="a.txt")
    return path


async def do_edit(call: Call) -> None:
    await call("edit", path="a.txt", edits=[{"old": "one", "new": "two\ntwo"}])


async def do_write(call: Call) -> None:
    await call("write", path="a.txt", content="two\ntwo\n")


CHANGES = pytest.mark.parametrize("change", [do_edit, do_write])
Change = Callable[[Call], Awaitable[None]]


@CHANGES
async def test_a_change_and_its_undo_keep_attributes(change: Change, file: Path, call: Call) -> None:
    before, mode = look(file, 1000), file.stat().st_mode
    await change(call)
    assert (file.read_bytes(), attributes(file), file.stat().st_mode) == (b"two\ntwo\n", KEPT, mode)
    bring_back(file, "a.txt", before, look(file, 1000))
    assert (file.read_bytes(), attributes(file), file.stat().st_mode) == (b"one\n", KEPT, mode)
    file.unlink()
    bring_back(file, "a.txt", before, look(file, 1000))
    assert (file.read_bytes(), attributes(file), file.stat().st_mode) == (b"one\n", KEPT, mode)
    assert os.listdir(file.parent) == ["a.txt"]


async def test_a_list_of_the_folder_is_not_given_to_a_file_that_has_none(workspace: Path, call: Call) -> None:
    path = workspace / "a.txt"
    path.write_bytes(b"one\n")
    try:
        os.setxattr(workspace, "system.posix_acl_default", LIST)
    except OSError as error:
        pytest.skip(f"the file system has none: {error}")
    await call("read", path="a.txt")
    await do_edit(call)
    assert (path.read_bytes(), attributes(path)) == (b"two\ntwo\n", {})


@CHANGES
async def test_a_change_and_its_undo_keep_other_names(change: Change, file: Path, call: Call) -> None:
    other = file.with_name("b.txt")
    os.link(file, other)
    before = look(file, 1000)
    await change(call)
    assert other.read_bytes() == b"two\ntwo\n"
    bring_back(file, "a.txt", before, look(file, 1000))
    assert other.read_bytes() == b"one\n"
    assert file.samefile(other)
    assert attributes(other) == KEPT
    assert sorted(os.listdir(file.parent)) == ["a.txt", "b.txt"]


async def test_a_longer_text_leaves_nothing_of_itself(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_bytes(b"one\n" * 1000)
    os.link(workspace / "a.txt", workspace / "b.txt")
    await call("read", path="a.txt")
    await call("write", path="a.txt", content="short\n")
    assert (workspace / "b.txt").read_bytes() == b"short\n"


async def test_a_write_in_place_that_fails_is_taken_back(file: Path, call: Call, refused: Refused) -> None:
    os.link(file, file.with_name("b.txt"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        text = await refused("edit", path="a.txt", edits=[{"old": "one", "new": "x" * 5000}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "a.txt" in text
    assert file.read_bytes() == file.with_name("b.txt").read_bytes() == b"one\n"
    assert sorted(os.listdir(file.parent)) == ["a.txt", "b.txt"]
    await do_edit(call)  # it was touched only


async def test_a_file_of_someone_else_stays_theirs(unprivileged: ToolContext) -> None:
    """A colleague's file that we may write: a new one in its place would be ours."""
    path = unprivileged.workspace / "a.txt"
    path.write_bytes(b"one\n")
    own = os.geteuid()
    try:
        os.seteuid(0)
        os.chown(path, 1234, 1234)
        path.chmod(0o666)
    except PermissionError:
        pytest.skip("needs root to give a file away")
    finally:
        os.seteuid(own)
    await read(unprivileged, lambda _: None, path="a.txt")
    await edit(unprivileged, lambda _: None, path="a.txt", edits=[{"old": "one", "new": "two"}])
    assert path.read_bytes() == b"two\n"
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1234)
    assert os.listdir(path.parent) == ["a.txt"]
