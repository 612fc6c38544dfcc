"""The calls of a step: those that write no file at once, the rest one by one, results in call order, failures back."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import LimitReached, ToolError
from codelet.extensions.base import Extension, Guard, GuardedCall, Noted
from codelet.prompt import UNKNOWN_TOOL
from codelet.safety import Policy
from codelet.safety.verdict import Answer, Question, Touch
from codelet.tools import all_tools
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool
from tests.support.bodies import messages_of
from tests.support.script import Call, Reply
from tests.support.server import ModelServer
from tests.support.sessions import MakeSession, of_type, turn, turn_until_error

LOG: list[str] = []


async def look(context: ToolContext, progress: Progress, *, name: str, seconds: float = 0.0) -> ToolOutput:
    """Look at something for a while."""
    LOG.append(f"begin {name}")
    await asyncio.sleep(seconds)  # clock: how long the tool takes
    LOG.append(f"end {name}")
    return ToolOutput(f"saw {name}")


async def change(context: ToolContext, progress: Progress, *, name: str, seconds: float = 0.0) -> ToolOutput:
    """Change something for a while."""
    progress(f"changing {name}")
    return await look(context, progress, name=name, seconds=seconds)


async def stumble(context: ToolContext, progress: Progress, *, how: str) -> ToolOutput:
    """Fail."""
    match how:
        case "expected":
            raise ToolError("it is not there")
        case "unexpected":
            raise RuntimeError("nobody thought of this")
        case "cancelled":
            raise asyncio.CancelledError
        case _:
            return ToolOutput("half of it", failed=True)


TOOLS: tuple[Tool, ...] = (tool(look), tool(change, touches=None), tool(stumble))


@pytest.fixture(autouse=True)
def empty_log() -> None:
    LOG.clear()


def looks(*names: str, seconds: float = 0.2) -> list[Call]:
    return [Call(f"look-{name}", "look", {"name": name, "seconds": seconds}) for name in names]


async def test_reading_calls_run_at_once(make_session: MakeSession, model_server: ModelServer):
    model_server.script = [Reply(calls=looks("a", "b", "c")), Reply("done")]
    seen = await turn(make_session(tools=TOOLS))
    assert LOG[:3] == ["begin a", "begin b", "begin c"]
    assert [event.id for event in of_type(seen, events.ToolResult)] == ["look-a", "look-b", "look-c"]


async def linger(context: ToolContext, progress: Progress, *, name: str, background: bool) -> ToolOutput:
    """Look, perhaps in the background."""
    return await look(context, progress, name=name)


async def test_a_call_that_its_tool_wants_alone_is_over_before_the_next_one(
    make_session: MakeSession, model_server: ModelServer
):
    calls = [Call(f"c{name}", "linger", {"name": name, "background": True}) for name in "ab"]
    beside = [Call(f"d{name}", "linger", {"name": name, "background": False}) for name in "cd"]
    model_server.script = [Reply(calls=[*calls, *beside]), Reply("done")]
    await turn(make_session(tools=[tool(linger).replace(alone=lambda arguments: arguments["background"])]))
    assert LOG[:6] == ["begin a", "end a", "begin b", "end b", "begin c", "begin d"]


async def test_real_reads_of_a_step_overlap(make_session: MakeSession, model_server: ModelServer, repo: Path):
    """With the tools of codelet: all calls are announced before the first result is there."""
    calls = [Call("r", "read", {"path": "app.py"}), Call("g", "grep", {"pattern": "hello"}), Call("f", "find", {})]
    model_server.script = [Reply(calls=calls[:2]), Reply("done")]
    kinds = [type(event) for event in await turn(make_session())]
    first_result = kinds.index(events.ToolResult)
    assert kinds[:first_result].count(events.ToolCallStarted) == 2


async def test_results_stand_in_call_order_whoever_is_first(make_session: MakeSession, model_server: ModelServer):
    calls = [Call("slow", "look", {"name": "slow", "seconds": 0.1}), Call("quick", "look", {"name": "quick"})]
    model_server.script = [Reply(calls=calls), Reply("done")]
    session = make_session(tools=TOOLS)
    seen = await turn(session)
    assert LOG == ["begin slow", "begin quick", "end quick", "end slow"]
    assert [event.id for event in of_type(seen, events.ToolResult)] == ["slow", "quick"]
    results = [message for message in session.messages if message["role"] == "tool"]
    assert [message["content"] for message in results] == ["saw slow", "saw quick"]


async def test_changing_calls_run_alone_and_in_order(make_session: MakeSession, model_server: ModelServer):
    calls = [
        *looks("a", "b", seconds=0.02),
        Call("c", "change", {"name": "c", "seconds": 0.02}),
        Call("d", "change", {"name": "d", "seconds": 0.02}),
        *looks("e", seconds=0.02),
    ]
    model_server.script = [Reply(calls=calls), Reply("done")]
    seen = await turn(make_session(tools=TOOLS))
    assert LOG[:2] == ["begin a", "begin b"]
    assert LOG[4:] == ["begin c", "end c", "begin d", "end d", "begin e", "end e"]
    assert [event.delta for event in of_type(seen, events.ToolProgress)] == ["changing c", "changing d"]


def meets(own: str, *others: str, before: str = "") -> Call:
    """A command that ends once the others have begun."""
    awaited = " ".join(f"-e {other}" if at == 0 else f"-a -e {other}" for at, other in enumerate(others))
    command = f"{before}touch {own}; until [ {awaited} ]; do sleep 0.05; done; echo {own} met"
    return Call(own, "bash", {"command": command, "timeout": 60})


async def test_commands_are_asked_about_together_and_run_side_by_side(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(len(asked) != 2, "not this one")

    calls = [meets("one", "three"), Call("two", "bash", {"command": "touch two"}), meets("three", "one")]
    model_server.script = [Reply(calls=[*calls, Call("r", "read", {"path": "app.py"})]), Reply("done")]
    seen = await turn(make_session(policy=Policy(repo), ask=ask))
    assert [question.call_id for question in asked] == ["one", "two", "three"]
    assert [question.following for question in asked] == [2, 1, 0]
    assert {question.where for question in asked} == {str(repo)}
    results = of_type(seen, events.ToolResult)
    told = [("one", "done"), ("two", "refused"), ("three", "done"), ("r", "done")]
    assert [(event.id, event.status) for event in results] == told
    assert "one met" in results[0].text and not (repo / "two").exists()


async def test_what_writes_files_and_what_takes_gits_lock_waits_its_turn(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    commit = "git -c user.name=a -c user.email=a@b commit -qm made && git log --format=%s -1"
    calls = [
        Call("a", "bash", {"command": "sleep 0.2; cat made.txt"}),
        Call("w", "write", {"path": "made.txt", "content": "made\n"}),
        Call("b", "bash", {"command": "cat made.txt"}),
        Call("g", "bash", {"command": "sleep 0.2; git add made.txt"}),
        Call("h", "bash", {"command": commit}),
    ]
    model_server.script = [Reply(calls=calls), Reply("done")]
    results = of_type(await turn(make_session()), events.ToolResult)
    assert [event.status for event in results] == ["failed", "done", "done", "done", "done"]
    assert results[2].text.startswith("made\n") and results[4].text.startswith("made\n")


async def test_other_commands_run_beside_one_of_git(make_session: MakeSession, model_server: ModelServer):
    calls = [meets("one", "two", before="git status -s; "), meets("two", "one")]
    model_server.script = [Reply(calls=calls), Reply("done")]
    results = of_type(await turn(make_session()), events.ToolResult)
    assert [event.status for event in results] == ["done", "done"]


async def test_no_more_than_eight_commands_run_at_once(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    command = "touch running.$$; ls | grep -c running; sleep 0.3; rm running.$$"
    calls = [Call(f"c{number}", "bash", {"command": command}) for number in range(12)]
    model_server.script = [Reply(calls=calls), Reply("done")]
    results = of_type(await turn(make_session()), events.ToolResult)
    assert [event.status for event in results] == ["done"] * 12
    assert 1 < max(int(event.text.split()[0]) for event in results) <= 8


async def test_a_result_is_told_while_a_later_call_still_runs(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    calls = [Call("a", "bash", {"command": "echo first"}), meets("b", "go")]
    model_server.script = [Reply(calls=calls), Reply("done")]
    async with aclosing(make_session().send("go")) as stream:
        async for event in stream:
            if isinstance(event, events.ToolResult) and event.id == "a":
                (repo / "go").touch()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (Call("x", "telepathy", {}), UNKNOWN_TOOL.format(name="telepathy", names="look, change, stumble")),
        (Call("x", "", {}), "no tool ''"),
        (Call("x", "look", "{not json"), "JSON object: {not json"),
        (Call("x", "look", "[1]"), "JSON object"),
        (Call("x", "look", "[" * 100_000), "JSON object"),
        (Call("x", "look", {}), "'name' is missing"),
        (Call("x", "look", {"name": 7}), "string, not int"),
        (Call("x", "look", {"name": "a", "other": 1}), "unknown argument 'other'"),
        (Call("x", "stumble", {"how": "expected"}), "it is not there"),
        (Call("x", "stumble", {"how": "unexpected"}), "stumble failed: RuntimeError: nobody thought of this"),
        (Call("x", "stumble", {"how": "cancelled"}), "stumble failed: CancelledError"),
        (Call("x", "stumble", {"how": "with output"}), "half of it"),
    ],
)
async def test_what_goes_wrong_goes_back_to_the_model(
    make_session: MakeSession, model_server: ModelServer, call: Call, says: str
):
    model_server.script = [Reply(calls=[call, *looks("beside", seconds=0)]), Reply("done")]
    seen = await turn(make_session(tools=TOOLS))
    failed, beside = of_type(seen, events.ToolResult)
    started = of_type(seen, events.ToolCallStarted)
    assert [(event.id, event.name) for event in started] == [("x", call.name), ("look-beside", "look")]
    assert started[0].arguments == call.arguments
    assert failed.status == "failed"
    assert says in failed.text
    assert len(failed.text) < 500
    assert beside.status == "done"
    sent = [message for message in messages_of(model_server.requests[1]) if message["role"] == "tool"]
    assert [message["content"] for message in sent] == [failed.text, "saw beside"]
    for message in model_server.requests[1].json["messages"]:
        for sent_call in message.get("tool_calls", ()):
            assert isinstance(json.loads(sent_call["function"]["arguments"]), dict)


class Witness(Extension, Guard):
    """Notes which calls ran, and what is told of their ends."""

    def __init__(self) -> None:
        self.guards = (self,)
        self.ran: dict[str, bool] = {}
        self.ends: dict[str, tuple[str, float]] = {}
        self.changes: list[str] = []

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        self.ran[call.id] = call.ran
        return output

    def record(self, kind: Noted, call: GuardedCall, **facts: Any) -> None:
        if kind == "execution":
            self.ends[call.id] = facts["status"], facts["seconds"]
        if kind == "change":
            self.changes.append(call.id)


async def test_guards_learn_which_calls_ran_and_how_they_ended(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    witness = Witness()
    calls = [
        Call("done", "look", {"name": "a", "seconds": 0.02}),
        Call("failed", "stumble", {"how": "expected"}),
        Call("half", "stumble", {"how": "with output"}),
        Call("no tool", "telepathy", {}),
        Call("refused", "change", {"name": "b"}),
    ]
    model_server.script = [Reply(calls=calls), Reply("done")]
    begun = time.monotonic()  # clock: a bound on what the calls say they took
    seen = await turn(make_session(tools=TOOLS, policy=Policy(repo, deny=["change"]), extensions=[witness]))
    passed = time.monotonic() - begun  # clock: the same
    assert witness.ran == {"done": True, "failed": True, "half": True, "no tool": False, "refused": False}
    assert {name: status for name, (status, _) in witness.ends.items()} == {
        "done": "done", "failed": "failed", "half": "failed", "no tool": "failed"
    }  # fmt: skip
    results = {event.id: event for event in of_type(seen, events.ToolResult)}
    assert all(0 <= event.seconds <= passed for event in results.values()), "also of those that did not run"
    assert results["done"].seconds >= 0.02
    for name, (_, seconds) in witness.ends.items():
        assert seconds == round(results[name].seconds, 3)


def half_written(arguments: dict[str, Any]) -> list[Touch]:
    return [Touch("read", "notes.txt"), Touch("write", arguments["name"])]


async def test_guards_learn_which_calls_changed_files(make_session: MakeSession, model_server: ModelServer, repo: Path):
    """One that also reads did; one that touches nothing did not."""
    witness = Witness()
    calls = [Call("reads", "look", {"name": "a"}), Call("writes", "change", {"name": "b"})]
    model_server.script = [Reply(calls=calls), Reply("done")]
    tools = (TOOLS[0], tool(change, touches=half_written))
    await turn(make_session(tools=tools, policy=Policy(repo, yes=True), extensions=[witness]))
    assert witness.changes == ["writes"]


async def test_what_a_tool_said_before_it_was_stopped_is_kept_in_part(
    make_session: MakeSession, model_server: ModelServer
):
    """The model is told the newest 2,000 characters."""
    stopped = asyncio.Event()

    async def tell(context: ToolContext, progress: Progress) -> ToolOutput:
        """Tell much, and go on for ever."""
        for number in range(1_000):
            progress(f"{number:04},")
        stopped.set()
        await asyncio.sleep(3_600)  # clock: it is stopped long before
        return ToolOutput("never")

    model_server.script = [Reply(calls=[Call("t", "tell", {}), Call("l", "look", {"name": "a"})])]
    witness = Witness()
    session = make_session(tools=(tool(tell, touches=None), TOOLS[0]), extensions=[witness])
    seen: list[events.Event] = []

    async def follow() -> None:
        async with aclosing(session.send("go")) as stream:
            async for event in stream:
                seen.append(event)

    running = asyncio.create_task(follow())
    await stopped.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    stop, wait = [message["content"] for message in session.messages if message["role"] == "tool"]
    numbers = [f"{number:04}," for number in range(1_000)]
    assert stop.endswith("".join(numbers[-400:]))
    assert numbers[-401] not in stop
    assert "0999" not in wait
    assert session.conversation.interruption == events.Interrupted(done=(), half_done=("t",), not_done=("l",))
    assert {name: status for name, (status, _) in witness.ends.items()} == {"t": "interrupted"}
    assert of_type(seen, events.TurnEnd)[0].reason == "interrupted"
    assert 0 < len(of_type(seen, events.ToolProgress)) <= 200, "what nobody takes is not kept for ever"


@pytest.mark.parametrize(("name", "arguments"), [("look", "{bad"), ("look", {"name": 7}), ("telepathy", {})])
async def test_steps_of_unusable_calls_are_bounded(
    make_session: MakeSession, model_server: ModelServer, name: str, arguments: Any
):
    model_server.script = lambda request: Reply(calls=[Call(f"x{request.number}", name, arguments)])
    session = make_session(tools=TOOLS)
    seen, error = await turn_until_error(session)
    assert isinstance(error, LimitReached)
    assert "5 steps" in str(error)
    assert len(model_server.requests) == 5
    assert seen[-1].reason == "limit"


async def test_a_usable_call_starts_the_count_anew(make_session: MakeSession, model_server: ModelServer):
    def script(request):
        if request.number == 12:
            return Reply("done")
        good = request.number % 4 == 3
        return Reply(calls=[Call(f"x{request.number}", "look", {"name": "a"} if good else "{bad")])

    model_server.script = script
    await turn(make_session(tools=TOOLS))
    assert len(model_server.requests) == 13


async def test_arguments_cut_by_the_output_limit_are_said_to_be_cut(
    make_session: MakeSession, model_server: ModelServer
):
    cut = Reply(calls=[Call("x", "change", '{"name": "a long te')], finish="length")
    model_server.script = [cut, Reply("done")]
    seen = await turn(make_session(tools=TOOLS))
    assert "output limit" in of_type(seen, events.ToolResult)[0].text


async def test_ids_used_twice_over_steps_are_told_apart(make_session: MakeSession, model_server: ModelServer):
    model_server.script = [
        Reply(calls=[Call("call_1", "look", {"name": "a"})]),
        Reply(calls=[Call("call_1", "look", {"name": "b"}), Call("", "look", {"name": "c"})]),
        Reply("done"),
    ]
    seen = await turn(make_session(tools=TOOLS))
    ids = [event.id for event in of_type(seen, events.ToolResult)]
    assert len(set(ids)) == 3
    assert "" not in ids
    assert [event.id for event in of_type(seen, events.ToolCallStarted)] == ids


WRITE = Call("w", "write", {"path": "new.txt", "content": "x\n"})


async def test_without_a_person_a_call_that_needs_one_is_refused_and_listed(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    model_server.script = [Reply(calls=[WRITE, Call("b", "bash", {"command": "touch made"})]), Reply("I may not.")]
    session = make_session(policy=Policy(repo))
    seen = await turn(session)
    assert [event.status for event in of_type(seen, events.ToolResult)] == ["refused", "refused"]
    assert session.toolbox.approvals.refused == ["write new.txt", "bash touch made"]
    assert not (repo / "new.txt").exists()
    assert not (repo / "made").exists()


async def test_a_person_says_yes_no_with_a_reason_and_always(
    make_session: MakeSession, model_server: ModelServer, repo: Path
):
    asked: list[Question] = []
    answers = [Answer(allow=False, reason="not there"), Answer(allow=True), Answer(allow=True, always=True)]

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return answers[len(asked) - 1]

    def script(request):
        if request.number == 4:
            return Reply("done")
        path = f"sub/{request.number}.txt"
        return Reply(calls=[Call(f"w{request.number}", "write", {"path": path, "content": "x\n"})])

    model_server.script = script
    session = make_session(policy=Policy(repo), ask=ask)
    seen = await turn(session)
    results = of_type(seen, events.ToolResult)
    assert [event.status for event in results] == ["refused", "done", "done", "done"]
    assert results[0].text.startswith("refused by the user: not there. ")
    assert [question.call_id for question in asked] == ["w0", "w1", "w2"], "after always nobody is asked"
    assert asked[0].tool == "write"
    assert session.toolbox.approvals.refused == [], "a person's no is no refusal by the policy"
    assert session.policy.rules["allow"] == ["write(sub/**)"]


async def test_questions_come_one_at_a_time(make_session: MakeSession, model_server: ModelServer, repo: Path):
    open_now = 0
    most = 0

    async def ask(question: Question) -> Answer:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.03)  # clock: a person thinks; a second question would come meanwhile
        open_now -= 1
        return Answer(allow=True)

    paths = ["/etc/hostname", "/etc/os-release", "/etc/passwd"]
    model_server.script = [
        Reply(calls=[Call(path, "read", {"path": path}) for path in paths]),
        Reply("done"),
    ]
    seen = await turn(make_session(policy=Policy(repo), ask=ask))
    assert most == 1
    assert len(of_type(seen, events.ToolResult)) == 3


async def test_a_deny_rule_holds_against_yes(make_session: MakeSession, model_server: ModelServer, repo: Path):
    model_server.script = [Reply(calls=[WRITE]), Reply("done")]
    session = make_session(policy=Policy(repo, deny=["write"], yes=True))
    seen = await turn(session)
    assert of_type(seen, events.ToolResult)[0].status == "refused"
    assert session.toolbox.approvals.refused == ["write new.txt"]
    assert not (repo / "new.txt").exists()


async def test_tools_are_the_same_bytes_each_time():
    schemas = [json.dumps([each.schema() for each in all_tools()]) for _ in range(2)]
    assert schemas[0] == schemas[1]
