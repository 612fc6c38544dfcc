"""The tool `write`: whole files, replaced at once or not at all."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from codelet.errors import ToolError
from codelet.tools.files import open_regular
from codelet.tools.planning import make_change, plan_edit, plan_write
from codelet.tools.tool import ToolContext
from tests.support.waiting import until
from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]
ROOT = Path(__file__).resolve().parent.parent.parent


async def test_a_new_file_in_new_folders(workspace: Path, call: Call, context: ToolContext) -> None:
    output = await call("write", path="src/deep/a.py", content="one\ntwo é\n")
    assert (workspace / "src/deep/a.py").read_bytes() == "one\ntwo é\n".encode()
    assert output.text == "created src/deep/a.py: 2 lines"
    assert output.display == "--- src/deep/a.py\n+++ src/deep/a.py\n@@ -0,0 +1,2 @@\n+one\n+two é\n"
    again = await call("write", path="src/deep/a.py", content="one\nTWO\n")
    assert again.text == "replaced src/deep/a.py: 2 lines", "what codelet wrote itself counts as read"
    assert again.display is not None
    assert again.display.endswith("@@ -1,2 +1,2 @@\n one\n-two é\n+TWO\n")


async def test_line_ends_of_both_kinds_become_those_of_the_file(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_bytes(b"x\r\ny\r\n")
    await call("read", path="a.txt")
    await call("write", path="a.txt", content="1\r\n2\n3\r\n")
    assert (workspace / "a.txt").read_bytes() == b"1\r\n2\r\n3\r\n"


async def test_mode_and_umask(workspace: Path, call: Call) -> None:
    mask = os.umask(0o027)
    try:
        await call("write", path="new", content="x")
        (workspace / "tool.sh").write_text("echo\n")
        (workspace / "tool.sh").chmod(0o751)
        await call("read", path="tool.sh")
        await call("write", path="tool.sh", content="echo 2\n")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((workspace / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((workspace / "tool.sh").stat().st_mode) == 0o751


async def test_an_existing_file_must_have_been_read(workspace: Path, call: Call, refused: Refused) -> None:
    path = workspace / "a.txt"
    path.write_text("old\n")
    assert "read it first" in await refused("write", path="a.txt", content="new")
    await call("read", path="a.txt")
    path.write_text("changed by someone else\n")
    assert "changed since" in await refused("write", path="a.txt", content="new")
    assert path.read_text() == "changed by someone else\n"
    await call("read", path="a.txt")
    path.unlink()
    await call("write", path="a.txt", content="new")
    assert path.read_text() == "new"
    assert os.listdir(workspace) == ["a.txt"]


async def test_same_size_and_another_time_is_a_change(workspace: Path, call: Call, refused: Refused) -> None:
    path = workspace / "a.txt"
    path.write_text("old\n")
    await call("read", path="a.txt")
    path.write_text("OLD\n")
    os.utime(path, ns=(1, 1))
    assert "changed since" in await refused("write", path="a.txt", content="new")


async def test_encoding_and_line_ends_are_kept(workspace: Path, call: Call) -> None:
    path = workspace / "a.txt"
    path.write_bytes("eins\r\nzwei\r\n".encode("utf-16"))
    await call("read", path="a.txt")
    output = await call("write", path="a.txt", content="eins\ndrei\n")
    assert path.read_bytes() == "eins\r\ndrei\r\n".encode("utf-16")
    assert [word for word in ("a.txt", "2 lines", "utf-16-le", "CRLF") if word not in output.text] == []


async def test_what_the_encoding_cannot_hold(workspace: Path, call: Call, refused: Refused) -> None:
    path = workspace / "a.txt"
    path.write_bytes("grün\n".encode("latin-1"))
    await call("read", path="a.txt")
    assert "U+2713" in await refused("write", path="a.txt", content="✓\n")
    assert path.read_bytes() == "grün\n".encode("latin-1")
    assert "surrogate" in await refused("write", path="b.txt", content="\udc80")


async def test_a_link_stays_a_link(workspace: Path, call: Call) -> None:
    (workspace / "real.txt").write_text("old")
    (workspace / "link.txt").symlink_to("real.txt")
    await call("read", path="link.txt")
    await call("write", path="link.txt", content="new")
    assert (workspace / "link.txt").is_symlink()
    assert (workspace / "real.txt").read_text() == "new"


async def test_what_is_no_file(workspace: Path, refused: Refused) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "loop").symlink_to("loop")
    (workspace / "file").touch()
    assert "a named pipe" in await refused("write", path="pipe", content="x")
    assert "is a folder" in await refused("write", path=".", content="x")
    assert "in a circle" in await refused("write", path="loop", content="x")
    assert "not a folder" in await refused("write", path="file/x", content="x")
    assert "too long" in await refused("write", path="x" * 300, content="x")
    assert "too long" in await refused("write", path="new/" + "x" * 300, content="x")
    assert "nothing under" in await refused("write", path="/proc/self/comm", content="x")
    assert sorted(os.listdir(workspace)) == ["file", "loop", "pipe"], "folders made for nothing are gone"


async def test_a_large_diff_is_quick_and_bounded(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_text("".join(f"{n % 7}\n" for n in range(100_000)))
    for offset in range(1, 100_000, 2_000):
        await call("read", path="a.txt", offset=offset)
    begin = time.process_time()
    output = await call("write", path="a.txt", content="".join(f"{n % 11}\n" for n in range(100_000)))
    assert time.process_time() - begin < 3
    assert output.display is not None
    assert len(output.display) < 65_000


@pytest.fixture
def size_limit() -> Iterator[None]:
    """No file of this process may be larger than 4 KiB: a write ends as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_file_that_may_not_grow(
    workspace: Path, call: Call, refused: Refused, size_limit: None, request: pytest.FixtureRequest
) -> None:
    (workspace / "a.txt").write_text("old\n")
    await call("read", path="a.txt")
    assert "larger than" in await refused("write", path="a.txt", content="x" * 200_000)
    assert "larger than" in await refused("write", path="new/b.txt", content="x" * 200_000)
    assert (workspace / "a.txt").read_text() == "old\n"
    assert os.listdir(workspace) == ["a.txt"]


FULL_DISK = """
import asyncio, os, sys
from pathlib import Path
from codelet.errors import ToolError
from codelet.tools import all_tools
from codelet.tools.tool import ToolContext

context = ToolContext(Path(sys.argv[1]))
tools = {tool.name: tool for tool in all_tools()}
def call(name, **arguments):
    try:
        return asyncio.run(tools[name].run(context, print, **arguments)).text
    except ToolError as error:
        return f"refused: {error}"
print(call("write", path="a.txt", content="old\\n"))
print(call("write", path="a.txt", content="x" * 200_000))
print(call("edit", path="a.txt", edits=[{"old": "old", "new": "y" * 200_000}]))
print(call("write", path="deep/new.txt", content="x" * 200_000))
print(Path(sys.argv[1], "a.txt").read_text().strip(), sorted(os.listdir(sys.argv[1])))
os.system(f"mount -o remount,ro {sys.argv[1]}")
print(call("write", path="a.txt", content="x"))
print(call("write", path="b.txt", content="x"))
"""


def test_a_full_disk_and_a_read_only_one(workspace: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("needs the program unshare")
    mount = f'mount -t tmpfs -o size=64k tmpfs {workspace} && exec {sys.executable} -c "$PROGRAM" {workspace}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PROGRAM": FULL_DISK}
    done = subprocess.run(
        ["unshare", "-rm", "bash", "-c", mount], env=environment, capture_output=True, text=True, check=False
    )
    if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip(f"needs a user namespace: {done.stderr.strip()}")
    expected = [
        ("created", "a.txt"),
        ("refused: ", "disk is full", "a.txt"),
        ("refused: ", "disk is full", "a.txt"),
        ("refused: ", "disk is full", "deep/new.txt"),
        ("old ['a.txt']",),
        ("refused: ", "a.txt", "read-only"),
        ("refused: ", "b.txt", "read-only"),
    ]
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected), done.stderr
    for line, words in zip(lines, expected, strict=True):
        assert [word for word in words if word not in line] == [], line


def test_killed_at_any_moment_the_file_is_old_or_new(workspace: Path) -> None:
    program = """
import sys
from pathlib import Path
from codelet.tools.files import fingerprint
from codelet.tools.replace import replace
path = Path(sys.argv[1])
print("ready", flush=True)
while True:
    for letter in (b"a", b"b"):
        replace(path, letter * 300_000, "x", fingerprint(path.stat()))
"""
    path = workspace / "x"
    path.write_bytes(b"a" * 300_000)
    for turn in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(0.01 + turn * 0.007)  # clock: a random moment is meant
            child.send_signal(signal.SIGKILL)
        assert path.read_bytes() in (b"a" * 300_000, b"b" * 300_000)


def test_a_writer_that_comes_between_wins(workspace: Path, context: ToolContext) -> None:
    """The file is looked at again right before it is replaced."""
    path = workspace / "a.txt"
    path.write_text("old\n")
    status = path.stat()
    context.seen[path.resolve()] = (status.st_size, status.st_mtime_ns)
    change = plan_write(context, "a.txt", "mine\n")
    path.write_text("theirs!\n")
    with pytest.raises(ToolError, match="changed since"):
        make_change(change, context)
    new = plan_write(context, "b.txt", "mine\n")
    (workspace / "b.txt").write_text("theirs!\n")
    with pytest.raises(ToolError, match="was not read"):
        make_change(new, context)
    assert (path.read_text(), (workspace / "b.txt").read_text()) == ("theirs!\n", "theirs!\n")
    assert sorted(os.listdir(workspace)) == ["a.txt", "b.txt"]


def test_a_writer_that_comes_while_we_write_wins(workspace: Path, context: ToolContext) -> None:
    path = workspace / "a.txt"
    path.write_text("old\n")
    status = path.stat()
    context.seen[path.resolve()] = (status.st_size, status.st_mtime_ns)

    def other() -> None:
        until(lambda: any(name.endswith(".tmp") for name in os.listdir(workspace)), meanwhile=lambda: os.sched_yield())
        path.write_text("theirs!\n")

    change = plan_write(context, "a.txt", "x" * (64 << 20))
    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(ToolError, match="changed since"):
        make_change(change, context)
    thread.join()
    assert path.read_text() == "theirs!\n"
    assert os.listdir(workspace) == ["a.txt"]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_path_that_turns_into_a_link_is_not_followed_and_a_pipe_not_waited_for(workspace: Path, kind: str) -> None:
    """Between the look and the opening another program puts a link, or a pipe, in the file's place."""
    secret, path = workspace / "secret", workspace / "a.txt"
    secret.write_bytes(b"secret")
    path.write_bytes(b"public")
    stop = threading.Event()
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            swaps += 1
            if kind == "link":
                (workspace / "x").symlink_to("secret")
            else:
                os.mkfifo(workspace / "x")
            os.replace(workspace / "x", path)
            (workspace / "y").write_bytes(b"public")
            os.replace(workspace / "y", path)

    thread = threading.Thread(target=swap)
    thread.start()
    seen, looks = set(), 0
    try:
        while looks < 2_000 or swaps < 2_000:
            looks += 1
            with contextlib.suppress(ToolError), open_regular(path, "a.txt") as file:
                seen.add(file.read())
    finally:
        stop.set()
        thread.join()
    assert seen == {b"public"}


async def test_without_permission(unprivileged: ToolContext) -> None:
    folder = unprivileged.workspace
    path = folder / "a.txt"
    path.write_text("old\n")
    path.chmod(0o444)
    status = path.stat()
    unprivileged.seen[path] = (status.st_size, status.st_mtime_ns)
    with pytest.raises(ToolError, match=r"permission denied: a\.txt"):
        make_change(plan_write(unprivileged, "a.txt", "new"), unprivileged)
    with pytest.raises(ToolError, match=r"permission denied: a\.txt"):
        make_change(plan_edit(unprivileged, "a.txt", [{"old": "old", "new": "new"}]), unprivileged)
    (folder / "closed").mkdir(mode=0o500)
    with pytest.raises(ToolError, match="permission denied: closed/new"):
        make_change(plan_write(unprivileged, "closed/new", "x"), unprivileged)
    assert path.read_text() == "old\n"
    assert sorted(os.listdir(folder)) == ["a.txt", "closed"]


@pytest.mark.parametrize("names", [["x"], ["x", "y"]], ids=["replaced", "written in place"])
def test_an_interrupt_inside_leaves_nothing(names: list[str], workspace: Path) -> None:
    """A signal whose handler raises may come at any instruction; the temporary file is removed all the same."""
    from codelet.tools.files import fingerprint
    from codelet.tools.replace import replace

    class Stop(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stop

    path = workspace / "x"
    path.write_bytes(b"a" * 200_000)
    for other in names[1:]:
        os.link(path, workspace / other)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for turn in range(30):
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + turn * 0.0001)
            with contextlib.suppress(Stop):
                while True:
                    replace(path, b"b" * 200_000, "x", fingerprint(path.stat()))
            assert path.read_bytes() in (b"a" * 200_000, b"b" * 200_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sorted(os.listdir(workspace)) == names


def test_a_program_that_runs_is_replaced_and_goes_on(workspace: Path) -> None:
    """It cannot be opened for writing meanwhile, but another file may take its place."""
    from codelet.tools.files import fingerprint
    from codelet.tools.replace import replace

    path = workspace / "program"
    shutil.copy("/bin/cat", path)
    with subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        replace(path, b"#!/bin/sh\n", "program", fingerprint(path.stat()))
        assert path.read_bytes() == b"#!/bin/sh\n"
        assert os.access(path, os.X_OK), "its mode is kept"
        assert running.communicate(b"still here") == (b"still here", None)
