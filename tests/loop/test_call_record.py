"""What each call leaves as a record: real tools, files and commands; nothing is guessed from a text."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.call_record import CallLog, CallRecord, CommandEnd, FileFact
from codelet.errors import ToolError
from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.frontends.printing.json_output import StreamJsonOutput
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer, Question, Touch
from codelet.tools import all_tools
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool
from tests.context.scripted import Answer as Said
from tests.context.scripted import turn, turn_until_error
from tests.extensions.conftest import Open, open_session
from tests.support.waiting import happens

__all__ = ["open_session"]


async def records(opened: Open, *calls: tuple[str, dict[str, Any]], **options: Any) -> list[CallRecord]:
    """The records that one turn with these calls leaves, one call a step."""
    session, provider = opened(**options)
    provider.answers.extend(Said("", [call]) for call in calls)
    await turn(session)
    return list(session.conversation.calls)


async def test_a_record_names_the_files_that_a_tool_really_touched(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.txt").write_text("one\ntwo\n")
    (tmp_path / "blob").write_bytes(bytes(range(256)))
    made = await records(
        open_session,
        ("read", {"path": "src/a.txt"}),
        ("edit", {"path": str(tmp_path / "src/a.txt"), "edits": [{"old": "two", "new": "three"}]}),
        ("write", {"path": "new/b.txt", "content": "x\n"}),
        ("write", {"path": "new/b.txt", "content": "x\n"}),
        ("read", {"path": "src"}),
        ("grep", {"pattern": "three"}),
        ("find", {"pattern": "*.txt", "path": "src"}),
        ("read", {"path": "blob"}),
        ("read", {"path": "absent"}),
        ("edit", {"path": "src/a.txt", "edits": [{"old": "not there", "new": "x"}]}),
    )
    assert [each.files for each in made] == [
        (FileFact("read", "src/a.txt", 2, 8),),
        (FileFact("changed", "src/a.txt", 2, 10),),
        (FileFact("created", "new/b.txt", 1, 2),),
        (FileFact("written", "new/b.txt", 1, 2),),
        (FileFact("listed", "src"),),
        (FileFact("searched", "."),),
        (FileFact("listed", "src"),),
        (),
        (),
        (),
    ]
    assert [each.status for each in made] == ["done"] * 8 + ["failed"] * 2
    assert [each.changes for each in made] == [False, True, True, True, *[False] * 6]
    assert {each.turn for each in made} == {1} and made[0].title == "src/a.txt" and made[0].tool == "read"
    assert all(0 < each.seconds < 60 and not each.commands and each.ended is None for each in made)


async def test_a_path_outside_the_workspace_is_absolute(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "out.txt").write_text("x\n")
    [made] = await records(open_session, ("read", {"path": "../out.txt"}), workspace_at=tmp_path / "work")
    assert made.files == (FileFact("read", str(tmp_path / "out.txt"), 1, 2),)


async def test_a_command_leaves_its_exit_codes_and_no_guess_at_what_it_did(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    made = await records(
        open_session,
        ("bash", {"command": "rm a.txt"}),
        ("bash", {"command": "false | true | cat"}),
        ("bash", {"command": "exit 3"}),
        ("bash", {"command": "kill -9 $$"}),
        ("bash", {"command": "sleep 30", "timeout": 0.2}),
        ("bash", {"command": "trap - EXIT; true | true"}),
    )
    assert not (tmp_path / "a.txt").exists()
    assert [each.files for each in made] == [()] * 6, "a delete by a command is not guessed"
    assert made[0].commands == ("rm a.txt",) and made[0].changes
    assert [each.ended for each in made] == [
        CommandEnd(code=0),
        CommandEnd(code=0, pipeline=(1, 0, 0)),
        CommandEnd(code=3),
        CommandEnd(code=-9),
        CommandEnd(code=None),
        CommandEnd(code=0, pipeline=None),
    ]
    assert [each.status for each in made] == ["done", "done", "failed", "failed", "failed", "done"]


async def test_a_command_records_the_sandbox_around_it(open_session: Open, tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    if (await sandbox.look()).way is None:
        pytest.skip(f"needs a sandbox: {sandbox.found}")
    guarded: dict[str, Any] = {"safeguards": Safeguards(sandbox=sandbox), "policy": Policy(tmp_path, "auto")}
    made = await records(
        open_session,
        ("bash", {"command": "touch made"}),
        ("read", {"path": "made"}),
        **guarded,
    )
    assert [(each.status, each.confined) for each in made] == [("done", "workspace"), ("done", None)]
    approved = Policy(tmp_path, allow=["bash(touch free)"])
    [free] = await records(open_session, ("bash", {"command": "touch free"}), **(guarded | {"policy": approved}))
    assert (free.status, free.confined) == ("done", None)
    command = "awk 'BEGIN {print 1 > \"new\"}'"
    for policy, end in ((Policy(tmp_path), ("failed", "read-only")), (Policy(tmp_path, yes=True), ("done", None))):
        [again] = await records(open_session, ("bash", {"command": command}), **(guarded | {"policy": policy}))
        assert (again.status, again.confined) == end, "after its failure it runs once more if that is allowed"


async def test_a_call_that_never_ran_records_nothing_but_that(open_session: Open, tmp_path: Path) -> None:
    async def no(question: Question) -> Answer:
        return Answer(False, "no")

    made = await records(
        open_session,
        ("bash", {"command": "touch made"}),
        ("write", {"path": "b.txt", "content": "x"}),
        ("bash", {"command": 7}),
        ("nothing", {"path": "b.txt"}),
        policy=Policy(tmp_path, deny=["write"]),
        ask=no,
    )
    assert [each.status for each in made] == ["refused", "refused", "failed", "failed"]
    assert [(each.commands, each.files, each.changes, each.ended) for each in made] == [((), (), False, None)] * 4
    assert list(tmp_path.iterdir()) == []


async def test_an_interrupt_records_what_ran_and_what_did_not(open_session: Open, tmp_path: Path) -> None:
    session, provider = open_session()
    commands = ["echo first", "touch begun; sleep 60", "echo never"]
    calls = [("write", {"path": "a.txt", "content": "x\n"})]
    calls += [("bash", {"command": commands[1]}), ("write", {"path": "c.txt", "content": "x\n"})]
    provider.answers.append(Said("", calls))

    async def follow() -> None:
        async with aclosing(session.send("go")) as stream:
            async for _ in stream:
                pass

    task = asyncio.create_task(follow())
    await happens((tmp_path / "begun").exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    made = list(session.conversation.calls)
    assert [each.status for each in made] == ["done", "interrupted", "not_started"]
    assert made[0].files == (FileFact("created", "a.txt", 1, 2),)
    assert (made[1].commands, made[1].ended, made[1].files) == ((commands[1],), None, ())
    assert (made[2].commands, made[2].seconds, made[2].changes) == ((), 0.0, False)
    receipt = session.conversation.interruption
    assert receipt is not None
    assert [receipt.done, receipt.half_done, receipt.not_done] == [(each.id,) for each in made]


async def test_what_was_done_before_an_interrupt_counts_although_its_answer_did_not_come(
    open_session: Open, tmp_path: Path
) -> None:
    reached = asyncio.Event()

    class Slow(Extension, Guard):
        def __init__(self) -> None:
            self.guards = (self,)

        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            reached.set()
            await asyncio.Event().wait()
            return output

    session, provider = open_session(Slow())
    provider.answers.append(Said("", [("write", {"path": "a.txt", "content": "x\n"})]))
    task = asyncio.create_task(turn_until_error(session, "go"))
    await asyncio.wait_for(reached.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [made] = session.conversation.calls
    assert (made.status, made.files) == ("interrupted", (FileFact("created", "a.txt", 1, 2),))


async def put(context: ToolContext, progress: Progress, *, path: str, how: str = "") -> ToolOutput:
    """Do something to a file."""
    if how == "fails":
        raise ToolError("no")
    if how == "says":
        return ToolOutput("ok", files=[FileFact("deleted", str(context.workspace / path))])
    return ToolOutput("ok", failed=how == "fails in the end")


def touched(kind: Any) -> Tool:
    return tool(put, touches=lambda arguments: (Touch(kind, arguments["path"]),))


async def test_of_another_tool_it_is_what_it_declares_once_it_is_done(open_session: Open, tmp_path: Path) -> None:
    calls = [("put", {"path": "x/../a.txt", "how": how}) for how in ("", "says", "fails", "fails in the end")]
    wrote = await records(open_session, *calls, tools=[touched("write")])
    assert [each.files for each in wrote] == [
        (FileFact("written", "a.txt"),),
        (FileFact("deleted", "x/../a.txt"),),
        (),
        (),
    ]
    [read] = await records(open_session, calls[0], tools=[touched("read")])
    assert read.files == (FileFact("read", "a.txt"),)
    [unknown] = await records(open_session, calls[0], tools=[tool(put, touches=None)])
    assert (unknown.files, unknown.changes) == ((), True), "not known to only read"


async def test_a_record_holds_no_secret(open_session: Open) -> None:
    secret = "k-5b1e7c0d94a8f2b63e"
    masked = Safeguards(masker=Masker({"MY_KEY": secret}))
    made = await records(
        open_session,
        ("bash", {"command": f"echo {secret}"}),
        ("write", {"path": f"{secret}.txt", "content": "x"}),
        safeguards=masked,
    )
    assert secret not in str(made) and made[0].commands and made[1].files


def ids(session: Session) -> list[int]:
    return [each.turn for each in session.conversation.calls]


async def test_records_go_with_the_turns_that_are_taken_back_and_stay_after_a_compaction(
    open_session: Open, tmp_path: Path
) -> None:
    session, provider = open_session()
    for number in range(3):
        provider.answers.extend([Said("", [("write", {"path": f"{number}.txt", "content": "x"})]), Said("done")])
        await turn(session, f"prompt {number}")
    assert ids(session) == [1, 2, 3]
    session.rewind()
    assert ids(session) == [1, 2]
    provider.answers.extend([Said("", [("read", {"path": "0.txt"})]), Said("done")])
    await turn(session, "another")
    assert ids(session) == [1, 2, 4]
    session.conversation.rewrite([])
    assert ids(session) == [1, 2, 4], "what a compaction takes out was done all the same"
    session.rewind(2)
    assert ids(session) == [1]
    session.clear()
    assert ids(session) == []


async def test_a_conversation_from_elsewhere_brings_its_own_records(open_session: Open, tmp_path: Path) -> None:
    session, provider = open_session()
    for number in range(3):
        provider.answers.extend([Said("", [("bash", {"command": f"echo {number}"})]), Said("done")])
        await turn(session, f"prompt {number}")
    other, _ = open_session()
    other.adopt(list(session.messages), calls=list(session.conversation.calls))
    assert ids(other) == [1, 2, 3]
    other.rewind(2)
    assert ids(other) == [1] and ids(session) == [1, 2, 3]
    other.adopt(list(session.messages))
    assert ids(other) == []


async def test_a_call_of_the_users_own_is_none_of_the_conversations(open_session: Open, tmp_path: Path) -> None:
    session, _ = open_session()
    seen = [event async for event in session.run_tool("write", {"path": "a.txt", "content": "x"})]
    assert isinstance(seen[-1], events.ToolResult) and (tmp_path / "a.txt").exists()
    assert len(session.conversation.calls) == 0


def test_a_log_keeps_the_newest_and_goes_back_to_a_place_in_all() -> None:
    log = CallLog()
    for number in range(5_010):
        log.add(CallRecord(id=str(number), tool="read", title="", status="done"))
    assert (len(log), log.count, next(iter(log)).id) == (5_000, 5_010, "10")
    log.go_back(5_005)
    assert (len(log), log.count, [each.id for each in log][-1]) == (4_995, 5_005, "5004")
    log.go_back(3)
    assert (len(log), log.count) == (0, 3)
    log.go_back(7)
    assert log.count == 3


def test_all_tools_are_known_to_these_tests() -> None:
    assert {each.name for each in all_tools()} == {"read", "write", "edit", "bash", "grep", "find"}


async def test_the_event_of_a_result_carries_how_its_command_ended(
    open_session: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    session, provider = open_session()
    calls = [("bash", {"command": "printf '[exit code 3]\\n'; sleep 30", "timeout": 0.3}), ("find", {"pattern": "*"})]
    provider.answers.append(Said("", calls))
    seen = [event for event in await turn(session) if isinstance(event, events.ToolResult)]
    assert [event.ended for event in seen] == [CommandEnd(code=None), None]
    StreamJsonOutput().show(seen[0])
    line = json.loads(capsys.readouterr().out)
    names = {"type", "id", "name", "status", "text", "display", "seconds", "counted", "caveat"}
    assert line.keys() == names, "the lines of stream-json are as they were"
