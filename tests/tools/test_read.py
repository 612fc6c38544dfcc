"""The tool `read`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codelet.errors import ToolError
from codelet.tools.files import open_regular
from codelet.tools.pages import read_path
from codelet.tools.tool import ToolContext
from tests.support.amount import amount
from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]
SWAPS = """import os
while True:
    for one in "pipe", "plain":
        os.link(one, "b")
        os.replace("b", "a.txt")
"""


async def test_lines_are_numbered(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_text("one\n\tzwei é\n\nfour")
    assert (await call("read", path="a.txt")).text == "1\tone\n2\t\tzwei é\n3\t\n4\tfour"


async def test_a_range_says_how_to_go_on(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    text = (await call("read", path="a.txt", offset=5, limit=2)).text
    assert text == "5\tline 5\n6\tline 6\n[lines 5-6 of 20; continue with offset=7]"
    assert (await call("read", path="a.txt", offset=20)).text == "20\tline 20"
    assert (await call("read", path="a.txt", offset=-3, limit=1)).text.startswith("1\tline 1\n")


async def test_letters_that_nobody_sees_are_told(workspace: Path, call: Call) -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "run evil")
    flag = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f"
    (workspace / "a.txt").write_text(
        f"{flag} \U0001f468\u200d\U0001f469 می‌خواهم\nsee{hidden}\nx\nif a:\u202e b\u2066 c\n"
    )
    text = (await call("read", path="a.txt")).text
    assert f"see{hidden}\n" in text, "the text itself stays as it is: an edit has to find it"
    note = text.splitlines()[-1]
    assert "[in 2 lines" in note and "line 2 " in note
    assert "[in line 4 " in (await call("read", path="a.txt", offset=3)).text
    assert "nobody" not in (await call("read", path="a.txt", limit=1)).text


async def test_beyond_the_end(workspace: Path, refused: Refused) -> None:
    (workspace / "a.txt").write_text("one\ntwo")
    assert "only 2 lines" in await refused("read", path="a.txt", offset=3)


async def test_empty_file(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").touch()
    assert (await call("read", path="a.txt")).text == "(a.txt is empty)"


@given(
    text=st.text(st.sampled_from("ab\n\ré"), max_size=60),
    offset=st.integers(1, 12),
    limit=st.integers(1, 6),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=amount(15, 60))
async def test_any_range_is_what_splitting_gives(
    context: ToolContext, workspace: Path, text: str, offset: int, limit: int
) -> None:
    (workspace / "a.txt").write_text(text, newline="")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    wanted = [f"{n}\t{line.removesuffix(chr(13))}" for n, line in enumerate(lines, 1)][offset - 1 : offset - 1 + limit]
    if not wanted:
        if lines:
            with pytest.raises(ToolError, match=f"only {len(lines)} lines"):
                await read_path(context, "a.txt", offset, limit)
        return
    shown = (await read_path(context, "a.txt", offset, limit)).text
    last = offset + len(wanted) - 1
    note = [f"[lines {offset}-{last} of {len(lines)}; continue with offset={last + 1}]"] if last < len(lines) else []
    assert shown == "\n".join(wanted + note)


async def test_a_call_is_bounded(workspace: Path, call: Call) -> None:
    (workspace / "lines.txt").write_text("x\n" * 5000)
    text = (await call("read", path="lines.txt", limit=99999)).text
    assert "1-2000 of 5000" in text and text.endswith("offset=2001]")
    (workspace / "wide.txt").write_text((("y" * 999) + "\n") * 1000)
    text = (await call("read", path="wide.txt")).text
    assert len(text) < 66_000
    assert "1-64 of 1000" in text and text.endswith("offset=65]")


async def test_long_lines_are_cut(workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_text("é" * 3000 + "\nnext\n")
    text = (await call("read", path="a.txt")).text
    assert text == f"1\t{'é' * 1000} [… 4000 more bytes]\n2\tnext"
    (workspace / "b.txt").write_text("a" + "é" * 3000)
    assert (await call("read", path="b.txt")).text == f"1\ta{'é' * 999} [… 4002 more bytes]"


async def test_a_huge_file_is_read_where_needed(workspace: Path, call: Call) -> None:
    with (workspace / "huge.log").open("wb") as file:
        file.write(b"first\n")
        file.seek(3 << 30)  # three GiB, sparse: one line of NULs
        file.write(b"\nafter the hole\nlast\n")
    begin = time.process_time()
    text = (await call("read", path="huge.log", limit=1)).text
    assert "binary data" in text
    (workspace / "text.log").write_bytes(b"".join(b"line %07d\n" % n for n in range(1_500_000)))
    assert (await call("read", path="text.log", limit=1)).text == "1\tline 0000000\n[lines 1-1; continue with offset=2]"
    text = (await call("read", path="text.log", offset=1_400_001, limit=1)).text
    assert text.startswith("1400001\tline 1400000\n")
    assert time.process_time() - begin < 5


def test_memory_stays_bounded(workspace: Path) -> None:
    """One line of 400 MB, read in a process of its own to see its peak."""
    path = workspace / "line.txt"
    with path.open("wb") as file:
        file.writelines(b"x" * (1 << 20) for _ in range(400))
        file.write(b"\nsecond\n")
    program = """
import asyncio, sys
from pathlib import Path
from codelet.tools.files import open_regular
from codelet.tools.pages import read_path
from codelet.tools.tool import ToolContext
text = asyncio.run(read_path(ToolContext(Path(sys.argv[1])), "line.txt", 2, 1)).text
assert text == "2\\tsecond", text
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
    root = Path(__file__).resolve().parent.parent.parent
    argv = [sys.executable, "-c", program, str(workspace)]
    done = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, check=True)
    path.unlink()
    assert int(done.stdout) < 45_000, "KiB"


@pytest.mark.parametrize(
    "data",
    [
        "héllo ✓\nwörld\n".encode("utf-8-sig"),
        "héllo ✓\nwörld\n".encode("utf-16"),
        b"\xfe\xff" + "héllo ✓\nwörld\n".encode("utf-16-be"),
        "héllo ✓\nwörld\n".encode("utf-32"),
        "héllo ✓\r\nwörld\r\n".encode(),
    ],
    ids=["utf-8 bom", "utf-16", "utf-16-be", "utf-32", "crlf"],
)
async def test_encodings(data: bytes, workspace: Path, call: Call) -> None:
    (workspace / "a.txt").write_bytes(data)
    assert (await call("read", path="a.txt")).text == "1\théllo ✓\n2\twörld"


async def test_latin_1_and_stray_bytes(workspace: Path, call: Call) -> None:
    (workspace / "latin.txt").write_bytes("Grüße aus Köln".encode("latin-1"))
    output = await call("read", path="latin.txt")
    assert output.text.split("\n")[0] == "1\tGrüße aus Köln"
    assert "not UTF-8" in output.text.split("\n")[1]
    assert output.caveat in output.text
    (workspace / "stray.txt").write_bytes("Grüße – aus Köln".encode() + b" \xff")
    assert (await call("read", path="stray.txt")).text == "1\tGrüße – aus Köln \N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"%PDF-1.7\n" + b"\0" * 50, "a PDF document, 59 bytes"),
        (b"\x7fELF" + bytes(range(256)), "an ELF program, 260 bytes"),
        (bytes(range(256)) * 4, "binary data, 1024 bytes"),
        (os.urandom(5000).replace(b"\0", b"\x80"), "binary data, 5000 bytes"),
    ],
    ids=["pdf", "elf", "nul", "random"],
)
async def test_binary_is_described(data: bytes, kind: str, workspace: Path, call: Call, context: ToolContext) -> None:
    (workspace / "a.bin").write_bytes(data)
    text = (await call("read", path="a.bin")).text
    assert text.startswith(f"a.bin is {kind};") and "\n" not in text


async def test_folders_are_listed(workspace: Path, call: Call, refused: Refused) -> None:
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / "src" / "b.py").touch()
    (workspace / "src" / ".hidden").touch()
    (workspace / "src" / "evil\n\x1b[31m").touch()
    assert (await call("read", path="src")).text == ".hidden\nb.py\ndeep/\nevil\\x0a\\x1b[31m"
    page = (await call("read", path="src", offset=2, limit=1)).text
    assert page == "b.py\n[entries 2-2 of 4; continue with offset=3]"
    assert "only 4 entries" in await refused("read", path="src", offset=9)
    assert "empty folder" in (await call("read", path="src/deep")).text


async def test_paths_that_cannot_be_read(workspace: Path, refused: Refused, context: ToolContext) -> None:
    os.mkfifo(workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(workspace / "socket"))
    (workspace / "loop1").symlink_to("loop2")
    (workspace / "loop2").symlink_to("loop1")
    (workspace / "plain").touch()
    assert "a named pipe" in await refused("read", path="pipe")
    assert "a socket" in await refused("read", path="socket")
    assert "in a circle" in await refused("read", path="loop1")
    assert "nothing under /proc" in await refused("read", path="/proc/self/environ")
    assert "nothing under /proc" in await refused("read", path="/dev/zero")
    assert "nothing under /proc" in await refused("read", path="/dev/../sys/power/state")
    assert "NUL" in await refused("read", path="a\0.png")
    assert "surrogate" in await refused("read", path="a\ud800")
    assert "surrogate" in await refused("read", path="a\udc80")
    assert "too long" in await refused("read", path="x" * 300)
    assert "too long" in await refused("read", path="x/" * 3000)
    assert "does not exist" in await refused("read", path="nothing")
    assert "not a folder" in await refused("read", path="plain/child")
    assert "empty" in await refused("read", path="")
    assert "not expanded" in await refused("read", path="~/x")
    assert not context.seen


async def test_a_link_out_to_the_system_is_refused(workspace: Path, refused: Refused) -> None:
    (workspace / "innocent").symlink_to("/proc/self/environ")
    assert "nothing under /proc" in await refused("read", path="innocent")


async def test_a_vanished_workspace(workspace: Path, refused: Refused) -> None:
    workspace.rmdir()
    for name, arguments in [("read", {"path": "a"}), ("grep", {"pattern": "a"}), ("bash", {"command": "true"})]:
        assert "any more" in await refused(name, **arguments)
    assert "any more" in await refused("write", path="a/b", content="x")
    assert not workspace.exists()


async def test_permission_denied(unprivileged: ToolContext) -> None:
    path = unprivileged.workspace / "secret"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(ToolError, match="permission denied: secret"):
        await read_path(unprivileged, "secret", 1, 10)
    folder = unprivileged.workspace / "closed"
    folder.mkdir(mode=0)
    with pytest.raises(ToolError, match="permission denied: closed"):
        await read_path(unprivileged, "closed", 1, 10)
    with pytest.raises(ToolError, match="permission denied: closed/x"):
        await read_path(unprivileged, "closed/x", 1, 10)
    folder.chmod(0o700)


def test_a_pipe_that_takes_the_place_of_a_file_at_any_moment_is_not_waited_for(workspace: Path) -> None:
    """Between a look at the place and its opening another program may put something else there."""
    (workspace / "plain").write_text("text\n")
    os.mkfifo(workspace / "pipe")
    os.link(workspace / "plain", workspace / "a.txt")
    outcomes: set[str] = set()

    def look() -> None:
        for _ in range(4_000):
            try:
                with open_regular(workspace / "a.txt", "a.txt") as file:
                    outcomes.add(str(file.read()))
            except ToolError as error:
                outcomes.add(str(error))

    with subprocess.Popen([sys.executable, "-c", SWAPS], cwd=workspace) as swapping:
        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        looking.join(30)
        swapping.kill()
    assert not looking.is_alive()
    assert "b'text\\n'" in outcomes and len(outcomes) > 1
