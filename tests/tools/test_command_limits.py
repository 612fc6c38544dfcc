"""What a command may use, what a result says of a limit that it hit, and of a pipeline of which a part failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox
from codelet.system.process.shell_start import failed_parts
from codelet.tools.bash import bash
from codelet.tools.tool import ToolContext
from tests.safety.conftest import call, toolbox

pytestmark = pytest.mark.needs("bash")

FILE_LIMIT = "[a file that a command writes may get 1 MiB large (setting command_file_size)]"
MEMORY_LIMIT = "[a process may have 200 MiB of data (setting command_memory)]"
PROCESS_LIMIT = "[the user may have 7 processes and threads at once (setting command_processes)]"


async def result(folder: Path, command: str, **resources: int) -> str:
    """What the model is told."""
    return (await bash(ToolContext(folder, resources=resources), lambda _: None, command=command)).text


async def test_a_file_that_gets_too_large_ends_the_command_and_it_is_said(tmp_path: Path) -> None:
    text = await result(tmp_path, "echo a; head -c 3000000 /dev/zero > big", file_size=1)
    assert text.splitlines()[0] == "a"
    assert text.splitlines()[-1] == FILE_LIMIT
    assert (tmp_path / "big").stat().st_size == 1 << 20


async def test_memory_that_is_refused_is_said(tmp_path: Path) -> None:
    command = "python3 -c 'len(bytearray(1 << 29))'"
    assert (await result(tmp_path, command, memory=200)).splitlines()[-1] == MEMORY_LIMIT
    assert await result(tmp_path, command) == "[exit code 0]"


async def test_the_limits_hold_for_every_process_of_the_command(tmp_path: Path) -> None:
    text = await result(tmp_path, "ulimit -d -u -f; sh -c 'ulimit -d'", memory=300, processes=4000, file_size=3)
    numbers = [line.split()[-1] for line in text.splitlines()]
    assert numbers == ["307200", "4000", "3072", "307200", "0]"]


async def test_more_processes_than_allowed_are_refused_and_it_is_said(tmp_path: Path) -> None:
    command = "echo 'bash: fork: Resource temporarily unavailable'; exit 254"
    assert (await result(tmp_path, command, processes=7)).splitlines()[-1] == PROCESS_LIMIT
    assert "setting" not in await result(tmp_path, command)


async def test_a_confined_command_is_held_to_them_too(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path, "on")
    if not await sandbox.works():
        pytest.skip("no sandbox works here")
    box = toolbox(
        tmp_path, Policy(tmp_path, "read-only", ["bash(ulimit *)"]), sandbox=sandbox, resources={"file_size": 5}
    )
    status, text = await call(box, "bash", command="ulimit -f | cat; false | true")
    assert status == "done", text
    assert text.splitlines()[0] == "5120"
    assert "1 0 (PIPESTATUS)" in text


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("false | true", "1 0"),
        ("echo a; (exit 3) | cat | true", "3 0 0"),
        ("true | false", None),
        ("false | true; true", None),
        ("true | true", None),
        ("yes | head -1 >/dev/null", None),
        ("set -o pipefail; false | true", None),
        ("trap 'echo own' EXIT; false | true", None),
        ("false || true", None),
    ],
)
async def test_a_failed_part_of_the_last_pipeline_is_told(tmp_path: Path, command: str, said: str | None) -> None:
    text = await result(tmp_path, command)
    line = f"[the parts of the last pipeline ended with {said} (PIPESTATUS)]"
    assert (line in text.splitlines()) if said else "PIPESTATUS" not in text


async def test_nothing_else_of_what_it_prints_changes(tmp_path: Path) -> None:
    text = await result(tmp_path, "env | grep CODELET_START; echo $? $LINENO $# $-\necho $LINENO", memory=100)
    assert text == "1 1 0 hBc\n2\n[exit code 0]"
    broken = await result(tmp_path, "echo )", memory=100)
    assert "line 1: `echo )'" in broken and "eval" not in broken


def test_statuses_are_read_as_bash_writes_them() -> None:
    assert failed_parts("1 0 ") == "1 0"
    assert failed_parts("0 ") is None
    for forged in ("", "1 0", "x 0 ", "1 0 \n", "\x1b[2J 0 ", "1234 0 "):
        assert failed_parts(forged) is None, forged
