"""The tool `bash`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from codelet.errors import ToolError
from codelet.tools.bash import bash
from codelet.tools.tool import ToolContext
from tests.support.waiting import Neighbour, happens
from tests.tools.conftest import Call

Refused = Callable[..., Awaitable[str]]


async def test_output_and_exit_code(workspace: Path, call: Call) -> None:
    done = await call("bash", command="pwd; echo err >&2; exit 3")
    assert done.text == f"{workspace}\nerr\n[exit code 3]"
    assert done.failed
    done = await call("bash", command="true")
    assert (done.text, done.failed) == ("[exit code 0]", False)
    assert (await call("bash", command="[[ a < b ]] && echo ${BASH_VERSION:+bash}")).text == "bash\n[exit code 0]"


async def test_time_limit(call: Call) -> None:
    with Neighbour() as clock:
        done = await call("bash", command="echo start; sleep 3600", timeout=0.3)
    assert done.text == "start\n[timed out after 0.3 s; it and all its processes were ended]"
    assert done.failed
    assert clock.passed < 3


async def test_a_command_that_ends_well_when_its_time_is_up_has_failed_all_the_same(call: Call) -> None:
    done = await call("bash", command="trap 'exit 0' TERM; echo start; sleep 3600 & wait", timeout=1)
    assert "after 1 s" in done.text
    assert done.failed


async def test_no_time_is_a_tenth_of_a_second(call: Call) -> None:
    for timeout in (0, -1):
        assert "after 0.1 s" in (await call("bash", command="sleep 3600", timeout=timeout)).text


async def test_long_output_keeps_head_and_tail(call: Call) -> None:
    done = await call("bash", command="seq 1 100000; exit 1")
    assert done.text.startswith("1\n2\n")
    assert done.text.endswith("99999\n100000\n[exit code 1]")
    assert done.text.count("\n") == 100_000, "all of it: what enters the list is another matter"
    assert done.most == 30_000
    done = await call("bash", command="seq 1 1000000")
    assert "left out" in done.text
    assert len(done.text) < 4_200_000


async def test_what_it_leaves_in_the_background(call: Call) -> None:
    done = await call("bash", command="sleep 1000 & echo started")
    told = "[it left processes in the background; they were ended. With background=true a command continues]"
    assert done.text == f"started\n[exit code 0]\n{told}"


async def test_signals_and_bytes(call: Call) -> None:
    assert (await call("bash", command="kill -9 $$")).text == "[ended by signal 9]"
    done = await call("bash", command=r"printf 'a\0b\xffc\xed\xa0\x80'")
    assert done.text.startswith("a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c")
    assert "\0" not in done.text


async def test_progress_comes_while_it_runs(context: ToolContext) -> None:
    pieces: list[str] = []
    task = asyncio.create_task(bash(context, pieces.append, command="echo one; sleep 3600"))
    await happens(lambda: pieces)
    assert pieces == ["one\n"]
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_errors(refused: Refused) -> None:
    assert "is empty" in await refused("bash", command="  \n")
    assert "NUL character" in await refused("bash", command="echo \0")
    assert "surrogate" in await refused("bash", command="echo \udfff")
    assert "too long" in await refused("bash", command="echo " + "x" * 200_000)
    assert "type number" in await refused("bash", command="true", timeout="soon")


async def test_the_environment_of_the_context(workspace: Path) -> None:
    context = ToolContext(workspace, environment={"PATH": "/usr/bin:/bin", "ONLY": "this"})
    done = await bash(context, lambda _: None, command="echo $ONLY $HOME")
    assert done.text == "this\n[exit code 0]"


async def test_a_sandbox_can_be_put_around_it(workspace: Path) -> None:
    context = ToolContext(workspace, wrap_command=lambda command, _: ["sh", "-c", f"echo around; {command}"])
    done = await bash(context, lambda _: None, command="echo inside")
    assert done.text == "around\ninside\n[exit code 0]"


@pytest.mark.parametrize("command", ["wait %1 for $(touch made)", "kill %1", "jobs"])
async def test_what_is_for_a_task_never_reaches_a_shell(call: Call, workspace: Path, command: str) -> None:
    """It is judged as nothing but memory; where there are no background tasks it is refused."""
    with pytest.raises(ToolError, match="background"):
        await call("bash", command=command)
    with pytest.raises(ToolError, match="background"):
        await call("bash", command="touch made", background=True)
    assert not (workspace / "made").exists()
