"""What a command may use, what a result says of a limit that it hit, and of a pipeline of which a part failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox
from codelet.tools.bash import PIPELINE_FAILED, PIPELINE_UNKNOWN, bash
from codelet.tools.tool import ToolContext, ToolOutput
from tests.safety.conftest import call, toolbox

pytestmark = pytest.mark.needs("bash")

FILE_LIMIT = "[a file that a command writes may get 1 MiB large (setting command_file_size)]"
MEMORY_LIMIT = "[a process may have 200 MiB of data (setting command_memory)]"
PROCESS_LIMIT = "[the user may have 7 processes and threads in total (setting command_processes)]"


async def result(folder: Path, command: str, **resources: int) -> str:
    """What the model is told."""
    return (await run(folder, command, **resources)).text


async def run(folder: Path, command: str, *, sandboxed: bool = False, **resources: int) -> ToolOutput:
    """What the tool gives back."""
    context = ToolContext(folder, resources=resources)
    if sandboxed:
        sandbox = Sandbox(folder, "auto")
        if not await sandbox.works():
            pytest.skip("no sandbox works here")
        context = context.replace(wrap_command=sandbox.wrap)
    return await bash(context, lambda _: None, command=command)


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
        tmp_path, Policy(tmp_path, "read-only", ["bash(ulimit -f)"]), sandbox=sandbox, resources={"file_size": 5}
    )
    status, text = await call(box, "bash", command="ulimit -f")
    assert (status, text.splitlines()[0]) == ("done", "5120"), text
    status, text = await call(box, "bash", command="false | true")
    assert status == "done" and PIPELINE_FAILED.format(codes="1 0") in text


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
        ("false || true", None),
    ],
)
async def test_a_failed_part_of_the_last_pipeline_is_told(tmp_path: Path, command: str, said: str | None) -> None:
    output = await run(tmp_path, command)
    assert output.caveat == ("exit " + said.replace(" ", " | ") if said else "")
    assert (PIPELINE_FAILED.format(codes=said) in output.text.splitlines()) if said else "pipeline" not in output.text


FIND = """for F in {3..99}; do case $(readlink /proc/$$/fd/$F) in socket*) break; esac; done
export F
"""
"""Find the descriptor that the shell reports to."""

FORGED = {
    "a builtin": "echo '0 0' >&$F",
    "a descriptor's path": "echo '0 0' >/proc/self/fd/$F",
    "its parent's": "echo '0 0' >/proc/$PPID/fd/$F; echo '0 0' >/proc/$$/fd/$F",
    "a program": 'python3 -c \'import os; os.write(int(os.environ["F"]), b"0 0\\n")\'',
    "a flood": 'python3 -c \'import os; [os.write(int(os.environ["F"]), b"0 0 " * 9999) for _ in "1" * 99]\'',
    "a reader": "(head -c 99 <&$F >/dev/null 2>&1; sleep 1; echo '0 0' >&$F) &",
    "in the background": "(sleep 0.1; echo '0 0' >&$F) &",
    "its own trap": "trap 'echo \"0 0\" >&$F' EXIT",
    "no trap": "trap - EXIT; echo '0 0' >&$F",
    "nowhere to write": 'eval "exec $F>&-"',
    "a prompt's command": "PROMPT_COMMAND='echo \"0 0\" >&$F'",
    "functions": "builtin() { command printf '%s\\n' \"${3%% *} 0 0\"; }; printf() { :; }; unset() { :; }",
    "aliases": "shopt -s expand_aliases; alias printf=: builtin=: unset=: eval=: trap=:",
    "names of variables": "readonly CODELET_PARTS=(0 0)",
    "POSIX mode": "readonly POSIXLY_CORRECT=",
    "what parts words": "IFS=1",
    "what cannot part words": "IFS=1; readonly IFS",
    "a debugger": "trap 'PIPESTATUS=(0 0)' DEBUG",
    "no builtin": "enable -n printf",
}
"""What a command may do to make a failure look like success."""


@pytest.mark.parametrize("sandboxed", [False, True])
@pytest.mark.parametrize("forgery", FORGED.values(), ids=FORGED)
async def test_no_forged_report_hides_a_failed_part(tmp_path: Path, forgery: str, sandboxed: bool) -> None:
    output = await run(tmp_path, f"{FIND}{forgery}\nfalse | tail -1", sandboxed=sandboxed)
    assert output.caveat in ("exit 1 | 0", "exit codes unknown")
    assert not output.failed


async def test_what_a_command_adds_to_the_report_makes_it_unknown(tmp_path: Path) -> None:
    """This also shows that the forgeries find the descriptor."""
    assert (await run(tmp_path, f"{FIND}true | true; echo 0 0 >&$F")).caveat == "exit codes unknown"


@pytest.mark.parametrize(
    ("command", "caveat"),
    [
        ("trap 'echo own' EXIT; false | true", "exit codes unknown"),
        ("true | true; exec true", "exit codes unknown"),
        ("exec true '||'", ""),
        ("trap 'echo own' EXIT; false | false", ""),
    ],
)
async def test_exit_codes_that_are_not_reported_are_unknown(tmp_path: Path, command: str, caveat: str) -> None:
    output = await run(tmp_path, command)
    assert output.caveat == caveat
    assert (PIPELINE_UNKNOWN in output.text) == bool(caveat)


async def test_nothing_else_of_what_it_prints_changes(tmp_path: Path) -> None:
    text = await result(tmp_path, "env | grep CODELET_START; echo $? $LINENO $# $-\necho $LINENO", memory=100)
    assert text == "1 1 0 hBc\n2\n[exit code 0]"
    broken = await result(tmp_path, "echo )", memory=100)
    assert "line 1: `echo )'" in broken and "eval" not in broken
