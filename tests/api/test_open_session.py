"""A session opened from Python: tools, questions, resuming, what is not read or written, and its end."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from codelet import (
    Answer,
    CodeletError,
    Extension,
    Question,
    Result,
    Session,
    Tool,
    UsageError,
    events,
    open_session,
    run,
    tool,
)
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder
from codelet.extensions.base import ExportPart
from codelet.messages import unpaired
from tests.support.program import descendants, processes_with
from tests.support.program import run as run_program
from tests.support.script import Call, HttpError, Reply, Stop
from tests.support.server import ModelServer, Recorded

SLEEP = f"sleep 4712.{os.getpid()}"


@tool
async def count_words(text: str, least: int = 1) -> str:
    """How many words a text has.

    text: what is counted
    """
    return str(sum(len(word) >= least for word in text.split()))


async def events_of(session: Session, prompt: str) -> list[events.Event]:
    async with aclosing(session.send(prompt)) as stream:
        return [event async for event in stream]


def tool_names(request: Recorded) -> list[str]:
    return [each["function"]["name"] for each in request.json["tools"]]


async def test_a_session_with_a_tool_of_the_callers_own(options: dict[str, Any], model_server: ModelServer):
    call = Call("c1", "count_words", {"text": "one two three", "least": 4})
    model_server.script = [Reply(calls=[call]), Reply("One.")]
    async with open_session(**options, extra_tools=[count_words]) as session:
        seen = await events_of(session, "how many long words?")
        assert [event.text for event in seen if isinstance(event, events.ToolResult)] == ["1"]
        assert session.messages[-1]["content"] == "One."
        assert session.usage.output == 20
    assert tool_names(model_server.requests[0])[-1] == "count_words"
    assert model_server.requests[0].header("authorization") == "Bearer test-key"


async def test_nothing_is_printed(
    options: dict[str, Any], model_server: ModelServer, capfd: pytest.CaptureFixture[str]
):
    """Calls that succeed, fail and are refused, a compaction, an error of the server, an end."""
    calls = [Call("c1", "read", {"path": "app.py"}), Call("c2", "bash", {"command": "echo loud; exit 1"})]
    calls += [Call("c3", "bash", {"command": "mkfs /no/such/device"}), Call("c4", "nothing", {})]
    model_server.script = [Reply(calls=calls), Reply("So far."), HttpError(500)]
    async with open_session(**options | {"mode": "auto"}) as session:
        await events_of(session, "go")
        async with aclosing(session.compact()) as steps:
            assert [step async for step in steps]
        with pytest.raises(CodeletError):
            await events_of(session, "on")
    assert capfd.readouterr() == ("", "")


async def test_only_the_tools_that_are_named(options: dict[str, Any], model_server: ModelServer):
    model_server.script = [Reply("ok")]
    async with open_session(**options, tools=["read"], extra_tools=[count_words]) as session:
        await events_of(session, "hello")
    assert tool_names(model_server.requests[0]) == ["read", "count_words"]


async def test_a_person_is_asked_by_what_the_caller_gives(
    options: dict[str, Any], model_server: ModelServer, repo: Path
):
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(allow=len(asked) == 1, reason="once is enough")

    calls = [Call("c1", "bash", {"command": "touch made"}), Call("c2", "bash", {"command": "touch more"})]
    model_server.script = [Reply(calls=calls), Reply("done")]
    async with open_session(**options, ask=ask) as session:
        await events_of(session, "make them")
    assert [question.shown for question in asked] == ["touch made", "touch more"]
    assert (repo / "made").exists() and not (repo / "more").exists()
    assert "once is enough" in str(model_server.requests[1].json["messages"])


async def test_rules_are_those_of_the_command_line(options: dict[str, Any], model_server: ModelServer, repo: Path):
    asked: list[str] = []

    async def ask(question: Question) -> Answer:
        asked.append(question.shown)
        return Answer(allow=True)

    commands = ["touch allowed", "touch denied", "ls ."]
    calls = [Call(f"c{number}", "bash", {"command": command}) for number, command in enumerate(commands)]
    rules = {"allow": ["bash(touch *)"], "deny": ["bash(touch denied)"], "ask_rules": ["bash(ls *)"]}
    model_server.script = [Reply(calls=calls), Reply("done"), Reply(calls=calls[2:]), Reply("done")]
    async with open_session(**options, ask=ask, **rules) as session:
        seen = await events_of(session, "make them")
    results = [event.status for event in seen if isinstance(event, events.ToolResult)]
    assert (results, asked) == (["done", "refused", "done"], ["ls ."])
    assert (repo / "allowed").exists() and not (repo / "denied").exists()
    alone = await run("list them", **options, ask_rules=["bash(ls *)"])
    assert alone.exit == 6, "what a rule asks about nobody answered"


async def test_a_session_goes_on_with_an_export(
    options: dict[str, Any], model_server: ModelServer, repo: Path, home: Path, tmp_path: Path
):
    model_server.script = [Reply("Blue."), Reply("I said blue."), Reply("Blue still.")]
    saved = tmp_path / "work.json"
    arguments = ["--model", "openai/scripted", "--api-base", model_server.openai, "--export", str(saved)]
    done = run_program("-p", "a colour?", *arguments, cwd=repo, home=home, env={"OPENAI_API_KEY": "test-key"})
    assert done.exit == 0, done.err
    before = saved.read_bytes()
    async with open_session(**options, resume=saved) as session:
        assert (session.turns, session.usage.output) == (1, 10)
        await events_of(session, "which?")
    sent = [message["content"] for message in model_server.requests[1].json["messages"]]
    assert [text for text in ("a colour?", "Blue.", "which?") if text not in str(sent)] == []
    result = await run("and now?", **options, resume=str(saved))
    assert (result.text, result.exit) == ("Blue still.", 0)
    assert saved.read_bytes() == before, "it is read, not written"


async def test_what_an_export_left_open_is_continued(
    options: dict[str, Any], model_server: ModelServer, repo: Path, home: Path, tmp_path: Path
):
    model_server.script = [Reply(calls=[Call("c1", "read", {"path": "app.py"})]), Reply("It says hello.")]
    saved = tmp_path / "work.json"
    arguments = ["--model", "openai/scripted", "--api-base", model_server.openai, "--export", str(saved)]
    arguments += ["--max-turns", "1"]
    done = run_program("-p", "what is in it?", *arguments, cwd=repo, home=home, env={"OPENAI_API_KEY": "test-key"})
    assert done.exit == 4, done.err
    result = await run("continue", **options, resume=saved)
    assert (result.text, result.exit) == ("It says hello.", 0)
    assert "continue" not in [message["content"] for message in result.messages]


async def test_two_sessions_at_once_share_nothing(options: dict[str, Any], model_server: ModelServer, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "app.py").write_text("print('the other one')\n")
    read = Call("c1", "read", {"path": "app.py"})
    with ModelServer([Reply(calls=[read]), Reply("two")]) as second:
        model_server.script = [Reply(calls=[read]), Reply("one")]
        theirs = {"api_base": second.openai, "api_key": "other-key", "workspace": other, "mode": "read-only"}
        async with (
            open_session(**options, extra_tools=[count_words], max_turns=7) as one,
            open_session(**(options | theirs), bare=True) as two,
        ):
            await asyncio.gather(events_of(one, "apples"), events_of(two, "pears"))
            assert (one.policy.mode, two.policy.mode) == ("ask", "read-only")
            assert (one.meter.limits.max_turns, two.meter.limits.max_turns) == (7, None)
            assert (one.messages[-1]["content"], two.messages[-1]["content"]) == ("one", "two")
        mine, yours = str(model_server.requests[1].json), str(second.requests[1].json)
        assert "the other one" in yours and "the other one" not in mine
        assert "apples" in mine and "apples" not in yours
        assert "count_words" in mine and "count_words" not in yours
        assert {request.header("authorization") for request in model_server.requests} == {"Bearer test-key"}
        assert {request.header("authorization") for request in second.requests} == {"Bearer other-key"}


@pytest.mark.parametrize("how", ["cancel", "break", "keep", "raise"])
async def test_whatever_ends_a_session_leaves_no_child_and_no_socket(
    options: dict[str, Any], model_server: ModelServer, how: str
):
    model_server.script = [Reply(calls=[Call("c1", "bash", {"command": f"echo begun; {SLEEP}"})])]
    before = set(descendants(os.getpid()))
    begun = asyncio.Event()
    kept: list[Session] = []
    streams: list[AsyncGenerator[events.Event, None]] = []

    async def work() -> None:
        async with open_session(**options, yes=True) as session:
            kept.append(session)
            stream = session.send("sleep")
            if how == "keep":
                streams.append(stream)
            async for event in stream:
                if isinstance(event, events.ToolProgress):
                    begun.set()
                    if how in ("break", "keep"):
                        del stream
                        break
                    if how == "raise":
                        raise KeyError("of the caller's own")

    task = asyncio.create_task(work())
    await asyncio.wait_for(begun.wait(), 20)
    if how == "cancel":
        task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.done()
    assert task.cancelled() == (how == "cancel")
    if how == "raise":
        assert isinstance(task.exception(), KeyError)
    assert unpaired(kept[0].messages) == []
    assert processes_with(SLEEP.split()[1]) == []
    assert set(descendants(os.getpid())) <= before
    assert open_sockets(model_server) == []


async def test_a_cancelled_run_leaves_no_socket(options: dict[str, Any], model_server: ModelServer):
    model_server.script = [Reply("never", fault=Stop("stall", 0))]
    task = asyncio.create_task(run("hello", **options))
    request = await asyncio.to_thread(model_server.wait_for, 1)
    assert request.started.wait(10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(request.gone.wait, 10)
    assert open_sockets(model_server) == []


def open_sockets(server: ModelServer) -> list[str]:
    """The connections of this process to the server, from the client's side."""
    gc.collect()
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[2] for row in rows if row[2].endswith(f":{server.port:04X}") and row[3] == "01"]


async def test_a_key_that_is_given_is_seen_nowhere(
    options: dict[str, Any], model_server: ModelServer, repo: Path, monkeypatch: pytest.MonkeyPatch
):
    keys = {"api_key": "one-k3y-of-the-caller", "later": "another-k3y-set-later"}
    monkeypatch.setenv("LATER_API_KEY", keys["later"])
    (repo / "notes").write_text("\n".join(keys.values()))
    script = [Reply(calls=[Call("c1", "read", {"path": "notes"})]), Reply([*keys["api_key"], " "])]
    model_server.script = [*script, HttpError(400, f"no use for {keys['api_key']}")]
    async with open_session(**(options | {"api_key": keys["api_key"]})) as session:
        seen = str(await events_of(session, "read it"))
        assert "api_key" in seen and "ToolResult" in seen
        with pytest.raises(CodeletError) as caught:
            await events_of(session, "again")
        seen += session.mask(str(caught.value))
        seen += str([message for message in session.messages if message["role"] == "tool"])
    model_server.script = lambda request: HttpError(400, f"no use for {keys}")
    seen += str(await run("hello", **(options | {"api_key": keys["api_key"]})))
    assert [name for name, key in keys.items() if key in seen] == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a name that is nearly a setting": ({"max_turn": 1}, "'max_turn'; did you mean 'max_turns'?"),
    "a name that is no setting": ({"colour": 1}, "unknown setting 'colour'"),
    "a value of the wrong kind": ({"max_turns": 0}, "max_turns: must be"),
    "a mode that is none": ({"mode": "wild"}, "read-only, ask, auto-edit, auto"),
    "a workspace that is none": ({"workspace": "nowhere"}, "nowhere is no folder"),
    "a workspace that is no path": ({"workspace": 5}, "workspace: "),
    "a workspace with a NUL": ({"workspace": "a\0b"}, "workspace: "),
    "no list of tools": ({"extra_tools": 5}, "not int"),
    "no list of extensions": ({"extensions": None}, "not NoneType"),
    "a tool that is none": ({"tools": ["teleport"]}, "unknown tool 'teleport'"),
    "a tool twice": ({"extra_tools": [count_words, count_words]}, "'count_words'"),
    "a function without @tool": ({"extra_tools": [len]}, "extra_tools: len "),
    "an extension's class": ({"extensions": [Extension]}, "extensions: Extension is no Extension"),
    "an export that is not there": ({"resume": "nowhere.json"}, "nowhere.json"),
    "what only a terminal has": ({"history": "typed"}, "history"),
    "a page": ({"export": "work.html"}, "--export"),
    "a folder that is not there": ({"export": "nowhere/work.json"}, "nowhere"),
    "a path that is none": ({"facts": 7}, "path"),
    "a model that is none": ({"model": "nobody/nothing", "api_base": None}, "unknown model 'nobody/nothing'"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_arguments_are_told_by_name(options: dict[str, Any], case: str):
    given, says = WRONG[case]
    for opened in (open_session(**(options | given)), None):
        with pytest.raises(UsageError) as caught:
            if opened is None:
                await run("hello", **(options | given))
            else:
                async with opened:
                    pass
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)


async def test_a_closed_session_takes_no_prompt(options: dict[str, Any]):
    async with open_session(**options) as session:
        pass
    for turn in (session.send("hello"), session.resume()):
        with pytest.raises(UsageError, match="closed"):
            await anext(turn)
    assert not session.messages


async def test_an_empty_prompt_is_wrong(options: dict[str, Any]):
    odd: Any = 5
    with pytest.raises(UsageError, match=r"prompt .* not int"):
        await run(odd, **options)
    with pytest.raises(UsageError, match="empty"):
        await run(" \n", **options)


PROGRAM = """
import asyncio, sys
from codelet import Result, open_session, run, tool

@tool
async def shout(text: str) -> str:
    '''Make a text loud.'''
    return text.upper()

async def main(base, workspace):
    result = await run("hello", model="openai/scripted", api_base=base, workspace=workspace, extra_tools=[shout])
    assert result.exit == 0, result
    async with open_session(model="openai/scripted", api_base=base, workspace=workspace) as session:
        async for event in session.send("hello"):
            pass
        async for event in session.send("and again"):
            break

asyncio.run(main(*sys.argv[1:]), debug=False)  # debugging tells of slow steps too
"""


def test_nothing_is_written_no_settings_are_read_and_no_warning_is_given(
    model_server: ModelServer, repo: Path, home: Path
):
    model_server.script = lambda request: Reply("ok")
    (repo / ".codelet").mkdir()
    (repo / ".codelet/config.toml").write_text('model = "somebody/else"\nnonsense = 1\n')
    (home / ".config/codelet").mkdir(parents=True)
    (home / ".config/codelet/config.toml").write_text("more nonsense")
    before = files_below(repo) | files_below(home)
    done = run_program(
        *("-W", "error", "-X", "dev", "-c", PROGRAM, model_server.openai, str(repo)),
        command=(sys.executable,),
        cwd=repo,
        home=home,
        env={"CODELET_API_KEY": "own-key", "CODELET_MODE": "nonsense", "CODELET_MAX_TURNS": "0"},
    )
    assert (done.exit, done.err) == (0, "")
    assert len(model_server.requests) >= 2
    assert model_server.requests[0].header("authorization") == "Bearer own-key"
    assert files_below(repo) | files_below(home) == before


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_importing_codelet_alone_loads_nothing_else(tmp_path: Path):
    program = "import sys, codelet; print(*sorted(name for name in sys.modules if name.startswith('codelet')))"
    done = run_program("-c", program, command=(sys.executable,), cwd=tmp_path, home=tmp_path)
    assert done.out.split() == ["codelet"]


def test_every_name_is_there_and_no_other():
    import codelet

    assert all(getattr(codelet, name) is not None for name in codelet.__all__)
    assert set(codelet.__all__) <= set(dir(codelet))
    assert (codelet.run, codelet.events.Text, codelet.Tool) == (run, events.Text, Tool)
    assert isinstance(codelet.Result("", 0, None, False, None, None, ()), Result)
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        _ = codelet.walk


async def test_a_second_prompt_is_refused_while_a_turn_runs_which_goes_on(
    options: dict[str, Any], model_server: ModelServer
):
    at_work, may_end = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        at_work.set()
        await may_end.wait()
        return "waited"

    model_server.script = [Reply(calls=[Call("c1", "wait", {})]), Reply("one"), Reply("two")]
    async with open_session(**options, extra_tools=[wait]) as session:

        async def go(prompt: str) -> list[str]:
            async with aclosing(session.send(prompt)) as turn:
                return [event.type async for event in turn]

        first = asyncio.create_task(go("1"))
        await at_work.wait()
        for refused in (session.send("2"), session.resume(), session.compact()):
            with pytest.raises(UsageError):
                await anext(refused)
        for change in (session.rewind, session.clear, partial(session.adopt, [])):
            with pytest.raises(UsageError):
                change()
        may_end.set()
        assert (await first)[-1] == "turn_end"
        said = [message["content"] for message in session.messages if message["role"] in ("user", "tool")]
        assert said[-2:] == ["1", "waited"] and "2" not in said
        assert (await go("2"))[-1] == "turn_end", "and then the next one runs"
        with pytest.raises(UsageError):
            both = [session.send("3"), session.send("4")]
            await anext(both[0])
            await anext(both[1])


async def test_a_turn_that_its_caller_left_is_closed_before_the_next(
    options: dict[str, Any], model_server: ModelServer
):
    model_server.script = lambda request: Reply(["one ", "two ", "three"])
    async with open_session(**options) as session:
        for prompt in ("1", "2"):
            async for event in session.send(prompt):
                if event.type in ("turn_start", "text"):
                    break
        async with aclosing(session.send("3")) as turn:
            assert [event.type async for event in turn][-1] == "turn_end"


@pytest.mark.parametrize("how", ["attach", "restore"])
async def test_what_was_attached_is_closed_if_opening_fails(options: dict[str, Any], tmp_path: Path, how: str):
    done: list[str] = []

    class Sound(Extension):
        def __init__(self, name: str) -> None:
            self.name = name

        def attach(self, session: Any) -> None:
            done.append(f"attached {self.name}")

        async def close(self) -> None:
            done.append(f"closed {self.name}")
            raise RuntimeError("that, too")

    def restore(value: Any) -> None:
        raise ZeroDivisionError

    class Broken(Extension):
        parts = (ExportPart("mine", lambda: 1, restore),)

        def attach(self, session: Any) -> None:
            if how == "attach":
                done.append("attached broken")
                raise ZeroDivisionError

        async def close(self) -> None:
            if "attached broken" in done:
                done.append("closed broken")

    export = tmp_path / "e.json"
    more: dict[str, Any] = {}
    if how == "restore":
        async with open_session(**options, extensions=[Broken()]) as session:
            export.write_bytes(to_json(Recorder().snapshot(session), mask=None))
        more["resume"] = export
    with pytest.raises(ZeroDivisionError):
        async with open_session(**options, extensions=[Sound("a"), Sound("b"), Broken(), Sound("c")], **more):
            pass
    ends = [each for each in done if each.startswith("closed")]
    assert sorted(ends) == [each.replace("attached", "closed") for each in done if each.startswith("attached")]
    assert len(ends) == 3


@pytest.mark.parametrize("which", ["allow", "ask_rules", "deny"])
@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("raed(*.py)", "'read'"),
        ("bsah(git *)", "'bash'"),
        ("shell", "'bash'"),
        ("nosuchtool", "bash, edit"),
        ("server__tool", "bash, edit"),
        ("server__tool(x *)", "bash, edit"),
        ("recal", "'recall'"),
    ],
)
async def test_a_rule_for_an_unknown_tool_is_wrong(options: dict[str, Any], which: str, rule: str, named: str):
    with pytest.raises(UsageError, match=named):
        async with open_session(**options, **{which: [rule]}):
            pass


@pytest.mark.parametrize("rule", ["remember", "search_sessions", "plan", "recall", "bash(ls *)"])
async def test_a_rule_for_a_tool_that_may_come_later_is_right(options: dict[str, Any], rule: str):
    async with open_session(**options, tools=["read"], deny=[rule]):
        pass


async def test_of_the_tools_that_an_extension_may_bring_later_nothing_is_known(options: dict[str, Any]):
    class Later(Extension):
        def offered(self) -> Sequence[Tool]:
            return ()

    async with open_session(**options, extensions=[Later()], deny=["deploy", "server__deploy(x)"]):
        pass
    with pytest.raises(UsageError):
        async with open_session(**options, extensions=[Extension()], deny=["deploy"]):
            pass


@pytest.mark.parametrize("which", ["allow", "ask_rules", "deny"])
async def test_a_rule_that_can_never_match_is_wrong(options: dict[str, Any], which: str):
    async def act() -> str:
        """Act."""
        return "done"

    for each in (count_words, tool(act, touches=None)):
        for rule, wrong in ((f"{each.name}(x *)", True), (each.name, False)):
            try:
                async with open_session(**options, extra_tools=[each], **{which: [rule]}):
                    assert not wrong, rule
            except UsageError as error:
                assert wrong and each.name in str(error), rule
