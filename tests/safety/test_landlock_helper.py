"""What the helper of Landlock takes from a command and leaves to it, asked of the kernel."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from codelet.safety.sandbox import landlock_helper
from codelet.safety.sandbox.command_lines import Bounds, landlock_argv
from codelet.system.process import run_child

_PROGRAM = """
import fcntl, json, os, sys
granted, hidden = sys.argv[1:]

def asked(function):
    try:
        function()
    except OSError as error:
        return error.errno
    return 0

null = os.open("/dev/null", os.O_RDWR)
found = {
    "write": lambda: os.write(os.open(granted, os.O_WRONLY), b"new"),
    "read": lambda: os.read(os.open(granted, os.O_RDONLY), 1),
    "cut": lambda: os.truncate(granted, 1),
    "device": lambda: fcntl.ioctl(null, 0x5401, bytes(64)),
    "list": lambda: os.listdir(os.path.dirname(hidden)),
    "read another": lambda: os.open(hidden, os.O_RDONLY),
    "write another": lambda: os.open(hidden, os.O_WRONLY),
    "write what is read": lambda: os.open(os.path.dirname(granted) + "/protected", os.O_WRONLY),
    "make": lambda: os.mkdir(os.path.dirname(granted) + "/made"),
}
found = {name: asked(function) for name, function in found.items()}
with open("/proc/self/status") as status:
    found |= dict(line.split() for line in status if line.startswith(("CapEff", "CapBnd", "NoNewPrivs")))
print(json.dumps(found))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
async def test_a_granted_file_is_a_whole_file_and_all_else_is_closed(tmp_path: Path) -> None:
    """Also where more is granted than may be open at a time."""
    root, hidden = tmp_path / "work", tmp_path / "hidden"
    root.mkdir()
    for path in (hidden, *(root / name for name in ("granted", "protected", *map(str, range(40))))):
        path.write_text("planted\n")
    bounds = Bounds(root=str(root), protected=(str(root / "protected"),), hidden=(str(hidden),), open_home=True)
    words = landlock_argv([sys.executable, "-c", _PROGRAM, str(root / "granted"), str(hidden)], bounds)
    assert words[3] == landlock_helper.__file__
    few = ["/bin/sh", "-c", 'ulimit -n 32; exec "$@"', "sh"]
    done = await run_child([*few, *words], cwd=tmp_path, timeout=60, output_limit=10_000)
    if "the kernel has no Landlock" in done.output:
        pytest.skip("needs Landlock")
    found = json.loads(done.output)
    assert (root / "granted").read_text() == "n"
    assert {name for name, number in found.items() if number == 0} == {"write", "read", "cut", "list"}
    assert found["device"] == errno.ENOTTY, "the device is asked, and is no terminal"
    refused = {name for name, number in found.items() if number == errno.EACCES}
    assert refused == {"read another", "write another", "write what is read", "make"}
    assert (found["NoNewPrivs:"], int(found["CapEff:"], 16)) == ("1", 0)
    assert os.geteuid() or int(found["CapBnd:"], 16) == 0, "root gets none back either"


_USES_TEMPORARY = """
import os, signal, sys, tempfile, time
print(tempfile.mkstemp()[1], flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGUSR1)
if sys.argv[1] == "waits":
    time.sleep(60)
sys.exit(7)
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
async def test_a_command_has_a_temporary_folder_of_its_own_that_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it ends, dies, or is ended; a folder whose helper was killed is removed by the next one."""
    root, temporary = tmp_path / "work", tmp_path / "temporary"
    root.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    bounds = Bounds(root=str(root), kind="read-only", seen=(sys.prefix, sys.base_prefix))
    for way, code, seconds in (("ends", 7, 60.0), ("killed", -signal.SIGUSR1, 60.0), ("waits", None, 6.0)):
        left = temporary / "codelet-command-left"
        left.mkdir()
        words = landlock_argv([sys.executable, "-c", _USES_TEMPORARY, way], bounds)
        done = await run_child(words, cwd=tmp_path, timeout=seconds, output_limit=10_000)
        if "the kernel has no Landlock" in done.output:
            pytest.skip("needs Landlock")
        made = Path(done.output.strip())
        assert made.parent.parent == temporary and made.parent != left, done.output
        assert code is None or done.exit_code == code
        assert list(temporary.iterdir()) == [], way
