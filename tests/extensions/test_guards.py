"""What is approved is what runs, whatever guards try at each of their positions; they tighten and never loosen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ToolError
from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.loop.toolbox import Safeguards
from codelet.messages import unpaired
from codelet.prompt import ANSWER_GUARD_BROKE, UNKNOWN_TOOL
from codelet.safety import Policy
from codelet.safety.audit import AuditLog
from codelet.safety.verdict import Answer, Question, Touch, Verdict, VerdictAction
from codelet.tools import all_tools
from codelet.tools.tool import Arguments, Preview, Progress, Tool, ToolContext, ToolOutput, tool
from tests.context.scripted import Answer as Said
from tests.context.scripted import turn, turn_until_error
from tests.extensions.conftest import Open

Before = Callable[[GuardedCall], Verdict | Arguments | None]


async def send(context: ToolContext, progress: Progress, *, to: str, words: list[str] | None = None) -> ToolOutput:
    """Send words to somebody."""
    return ToolOutput(json.dumps({"to": to, "words": words}))


SEND = tool(send, touches=None)


class Asked(Extension, Guard):
    """A guard that does what it is made with, and notes what it saw."""

    def __init__(self, before: Before) -> None:
        self.guards = (self,)
        self.act = before
        self.saw: list[tuple[str, str | None]] = []

    async def before(self, call: GuardedCall) -> Verdict | Arguments | None:
        self.saw.append((json.dumps(call.arguments), call.verdict.action if call.verdict else None))
        return self.act(call)


class Person:
    """Says yes to everything, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question.arguments)
        question.arguments["to"] = "somebody else"
        return Answer(True)


async def sent_by(
    open_session: Open, *guards: Extension, arguments: Any = None, **options: Any
) -> tuple[events.ToolCallStarted, events.ToolResult]:
    session, provider = open_session(*guards, **({"tools": [*all_tools(), SEND]} | options))
    provider.answers.append(Said("ok", [("send", {"to": "a", "words": ["x"]} if arguments is None else arguments)]))
    seen = await turn(session)
    (call,) = (event for event in seen if isinstance(event, events.ToolCallStarted))
    (result,) = (event for event in seen if isinstance(event, events.ToolResult))
    return call, result


async def test_arguments_are_changed_once_before_the_verdict_and_everybody_sees_those_that_run(
    open_session: Open, tmp_path: Path
) -> None:
    person = Person()
    more = Asked(lambda call: {**call.arguments, "words": [*call.arguments["words"], "!"]})
    last = Asked(lambda call: None)
    call, result = await sent_by(open_session, more, last, policy=Policy(tmp_path), ask=person.ask)
    final = {"to": "a", "words": ["x", "!"]}
    assert json.loads(result.text) == final, "its second word on the arguments did not count"
    assert call.arguments == final
    assert [one["words"] for one in person.asked] == [["x", "!"]]
    assert last.saw == [(json.dumps(final), None), (json.dumps(final), "ask")]


async def test_a_verdict_is_about_the_arguments_that_run(open_session: Open) -> None:
    """The one that denies stands before the one that makes the call worth denying."""
    strict = Asked(lambda call: Verdict("deny", "read", "not to b") if call.arguments["to"] == "b" else None)
    _, result = await sent_by(open_session, strict, Asked(lambda call: {"to": "b"}))
    assert result.status == "refused" and result.text.endswith(": not to b")
    lax = Asked(lambda call: Verdict("deny", "read", "not to a") if call.arguments["to"] == "a" else None)
    _, result = await sent_by(open_session, lax, Asked(lambda call: {"to": "b"}))
    assert (result.status, json.loads(result.text)["to"]) == ("done", "b")


async def test_yes_answers_what_a_guard_asks_and_not_what_it_denies(open_session: Open, tmp_path: Path) -> None:
    person = Person()
    for action, yes, status, asked in (
        ("ask", True, "done", 0), ("ask", False, "done", 1), ("deny", True, "refused", 0), ("allow", True, "done", 0)
    ):  # fmt: skip
        person.asked.clear()
        wanted: VerdictAction = action
        guard = Asked(lambda call, wanted=wanted: Verdict(wanted, "execute", "I say so"))
        policy = Policy(tmp_path, yes=yes, allow=["send"])
        _, result = await sent_by(open_session, guard, policy=policy, ask=person.ask)
        assert (result.status, len(person.asked)) == (status, asked), (action, yes)


async def test_what_is_changed_is_checked(open_session: Open) -> None:
    _, result = await sent_by(open_session, Asked(lambda call: {"to": 7}))
    assert result.status == "failed" and result.text.startswith("send: to ")
    assert "not int" in result.text and '{"to": string, "words"?: [string, …]}' in result.text
    _, result = await sent_by(open_session, Asked(lambda call: {"to": "b"}), arguments={"words": "no"})
    assert result.status == "done", "what the model got wrong a guard may put right"


async def test_what_is_changed_is_judged(open_session: Open, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1\n")
    session, provider = open_session(Asked(lambda call: {"path": ".env"}), policy=Policy(tmp_path))
    (tmp_path / "a.txt").write_text("a\n")
    provider.answers.append(Said("ok", [("read", {"path": "a.txt"})]))
    seen = await turn(session)
    assert next(event.status for event in seen if isinstance(event, events.ToolResult)) == "refused"


@pytest.mark.parametrize("place", ["touches", "title", "preview", "check", "run"])
async def test_no_part_of_a_tool_changes_the_arguments_in_place(place: str, open_session: Open, tmp_path: Path) -> None:
    """A foreign tool's part holds on to what it was given, and changes all of it whenever it is asked again."""
    held: list[Arguments] = []
    ended: list[Arguments] = []

    def tamper(at: str, arguments: Arguments) -> Arguments:
        held.extend([arguments] if at == place else [])
        for each in held:
            each["to"] = "mallory"
            each["words"].append("mallory")
        return arguments

    async def run(context: ToolContext, progress: Progress, **arguments: Any) -> ToolOutput:
        told = json.dumps(arguments)
        tamper("run", arguments)
        return ToolOutput(told)

    class Witness(Asked):
        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            ended.append(call.arguments)
            return output

    def checked(arguments: Arguments) -> Arguments:
        made = {"to": arguments["to"], "words": [*arguments["words"]]}
        tamper("check", arguments)
        held.extend([made] if place == "check" else [])  # it keeps what it gives, too
        return made

    def touches(arguments: Arguments) -> tuple[Touch, ...]:
        tamper("touches", arguments)
        return (Touch("write", "a.txt"),)

    def title(arguments: Arguments) -> str:
        return str(tamper("title", arguments)["to"])

    def preview(context: ToolContext, arguments: Arguments) -> Preview:
        return Preview(str(tamper("preview", arguments)["to"]))

    foreign = Tool("send", "Send.", {"type": "object"}, run, touches, title, preview, checked)
    witness, person = Witness(lambda call: None), Person()
    given = {"to": "b", "words": ["x"]}
    options: dict[str, Any] = {"tools": [foreign], "policy": Policy(tmp_path), "ask": person.ask}
    call, result = await sent_by(open_session, witness, arguments=given, **options)
    assert (result.status, json.loads(result.text)) == ("done", given)
    assert (call.arguments, [one["words"] for one in person.asked], ended) == (given, [["x"]], [given])


async def test_no_copy_that_a_guard_keeps_reaches_the_call(open_session: Open) -> None:
    """It holds on to all that it was given and gave, and changes that in place whenever it is asked again."""
    held: list[Arguments] = []

    def tamper(call: GuardedCall) -> Arguments | None:
        for arguments in (*held, call.arguments):
            arguments["to"] = "mallory"
            arguments.setdefault("words", []).append("mallory")
        if call.verdict is not None:
            return None
        held.append({"to": "b", "words": ["x"]})
        return held[0]

    class Late(Asked):
        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            self.act(call)
            return output

        def record(self, kind: str, call: GuardedCall, **facts: object) -> None:
            self.act(call)

    foreign = Tool("send", "Send.", {"type": "object"}, send)
    _, result = await sent_by(open_session, Late(tamper), tools=[foreign])
    assert json.loads(result.text) == {"to": "b", "words": ["x"]}


async def test_a_tool_is_queried_once_for_each_arguments_of_a_call(open_session: Open, tmp_path: Path) -> None:
    """As sent, as a guard rewrote them, and as they were checked; every later reader is given the same facts."""
    queried: list[tuple[str, str]] = []
    seen: list[tuple[tuple[Touch, ...] | None, str]] = []

    def touches(arguments: Arguments) -> tuple[Touch, ...]:
        queried.append(("touches", arguments["to"]))
        return (Touch("run", f"mail {arguments['to']}"),)

    def title(arguments: Arguments) -> str:
        queried.append(("title", arguments["to"]))
        return f"to {arguments['to']}"

    class Reader(Asked):
        async def starting(self, call: GuardedCall) -> None:
            seen.append((call.touches, call.title))

        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            seen.append((call.touches, call.title))
            return output

        def record(self, kind: str, call: GuardedCall, **facts: object) -> None:
            seen.append((call.touches, call.title))

    foreign = SEND.replace(touches=touches, title=title, check=lambda arguments: {**arguments, "to": "checked"})
    rewriting = Reader(lambda call: {"to": "rewritten"} if call.verdict is None else None)
    options: dict[str, Any] = {"tools": [foreign], "policy": Policy(tmp_path), "ask": Person().ask}
    call, result = await sent_by(open_session, rewriting, arguments={"to": "sent"}, **options)
    assert result.status == "done" and call.title == "to rewritten"
    assert queried == [(part, to) for to in ("sent", "rewritten", "checked") for part in ("touches", "title")]
    assert len(seen) == 5 and set(seen) == {((Touch("run", "mail checked"),), "to checked")}


@pytest.mark.parametrize("policy", ["allow", "ask", "deny"])
@pytest.mark.parametrize("wanted", ["allow", "ask", "deny"])
async def test_a_guard_tightens_and_never_loosens(
    open_session: Open, tmp_path: Path, policy: VerdictAction, wanted: VerdictAction
) -> None:
    rules = {policy: ["send"]} if policy != "ask" else {}
    guard = Asked(lambda call: Verdict(wanted, "read", "the guard says so"))
    person = Person()
    _, result = await sent_by(open_session, guard, policy=Policy(tmp_path, **rules), ask=person.ask)
    strictest = max(policy, wanted, key=["allow", "ask", "deny"].index)
    assert result.status == ("refused" if strictest == "deny" else "done")
    assert len(person.asked) == (strictest == "ask")
    assert [verdict for _, verdict in guard.saw] == [None, policy]


async def test_no_rule_and_no_mode_answers_what_a_guard_asks_but_yes_does(open_session: Open, tmp_path: Path) -> None:
    asked: list[Verdict] = []

    async def ask(question: Question) -> Answer:
        asked.append(question.verdict)
        return Answer(True, always=True, mode=True)

    guard = Asked(lambda call: Verdict("ask", "read", "sure?", suggestion="send", lifted_by="auto"))
    for _ in range(2):
        await sent_by(open_session, guard, policy=Policy(tmp_path, "auto", allow=["send"]), ask=ask)
    assert [(one.reason, one.suggestion, one.lifted_by) for one in asked] == [("sure?", None, None)] * 2
    _, result = await sent_by(open_session, guard, policy=Policy(tmp_path, yes=True))
    assert (result.status, len(asked)) == ("done", 2)


async def test_a_guard_that_breaks_refuses_the_call(open_session: Open) -> None:
    def broken(call: GuardedCall) -> None:
        if call.verdict is not None:
            raise RuntimeError("no")

    _, result = await sent_by(open_session, Asked(broken))
    assert (result.status, "RuntimeError: no" in result.text) == ("refused", True)

    def broken_at_once(call: GuardedCall) -> None:
        raise RuntimeError("no")

    _, result = await sent_by(open_session, Asked(broken_at_once))
    assert (result.status, "RuntimeError: no" in result.text) == ("refused", True)


async def test_one_that_raises_at_the_first_look_refuses_too_and_nobody_is_asked(
    open_session: Open, tmp_path: Path
) -> None:
    """As the guard in README does, which does not ask whether the call was judged yet."""

    def no(call: GuardedCall) -> None:
        if call.verdict is None:
            raise ToolError("by hand only")

    person = Person()
    for policy in (Policy(tmp_path), Policy(tmp_path, yes=True), Policy(tmp_path, allow=["send"])):
        log = AuditLog(tmp_path / "audit.jsonl")
        _, result = await sent_by(
            open_session, Asked(no), policy=policy, ask=person.ask, safeguards=Safeguards(audit=log)
        )
        assert (result.status, "by hand only" in result.text) == ("refused", True)
        log.close()
    assert person.asked == []
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    verdicts = [(one["action"], one["reason"]) for one in records if one["kind"] == "verdict"]
    assert verdicts == [("deny", "by hand only")] * 3
    assert not [one for one in records if one["kind"] == "execution"]


async def test_one_that_breaks_behind_a_call_says_that_it_ran(open_session: Open) -> None:
    class Broken(Asked):
        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            raise RuntimeError("no")

    _, result = await sent_by(open_session, Broken(lambda call: None))
    assert result.status == "failed"
    assert result.text == ANSWER_GUARD_BROKE.format(problem="RuntimeError: no")


async def test_guards_on_the_output_see_refusals_and_errors_too_in_their_order(open_session: Open) -> None:
    class Telling(Asked):
        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            name = call.tool.name if call.tool is not None else "none"
            return output.replace(text=f"{output.text} [{name}, ran {call.ran}]")

    class Marking(Asked):
        async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
            return output.replace(text=f"{output.text} second", failed=False)

    guards = Telling(lambda call: None), Marking(lambda call: None)
    _, result = await sent_by(open_session, *guards, policy=Policy(open_session()[0].workspace, deny=["send"]))
    assert result.status == "refused" and "rule send" in result.text
    assert result.text.endswith(" [send, ran False] second")
    _, result = await sent_by(open_session, *guards, tools=())
    assert result.text == f"{UNKNOWN_TOOL.format(name='send', names='')} [none, ran False] second"
    _, result = await sent_by(open_session, *guards)
    assert result.text.endswith("[send, ran True] second")


async def test_a_call_that_becomes_a_writing_one_runs_alone(open_session: Open, tmp_path: Path) -> None:
    """Calls are put together by what they are to do, not by what the model asked for."""
    running: list[str] = []
    together: list[int] = []

    async def work(context: ToolContext, progress: Progress, *, path: str) -> ToolOutput:
        """Work on a path."""
        running.append(path)
        together.append(len(running))
        for _ in range(5):  # whoever may run beside it has its turn
            await asyncio.sleep(0)
        running.remove(path)
        return ToolOutput("done")

    def touches(arguments: Arguments) -> list[Touch]:
        return [Touch("write" if arguments["path"].startswith("w") else "read", arguments["path"])]

    worker = tool(work, touches=touches)
    for before, expected in ((lambda call: None, [1, 2]), (lambda call: {"path": "w"}, [1, 1])):
        session, provider = open_session(Asked(before), tools=[worker])
        provider.answers.append(Said("ok", [("work", {"path": "a"}), ("work", {"path": "b"})]))
        await turn(session)
        assert together == expected
        together.clear()


@pytest.mark.parametrize("where, told", [("before", "before it started"), ("after", "while it ran")])
async def test_an_interrupt_while_a_guard_works_leaves_a_valid_list(open_session: Open, where: str, told: str) -> None:
    begun = asyncio.Event()

    async def hang(*given: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    session, provider = open_session(type("Hanging", (Asked,), {where: hang})(lambda call: None), tools=[SEND])
    provider.answers.append(Said("ok", [("send", {"to": "a"})]))
    running = asyncio.create_task(turn(session))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert unpaired(session.messages) == []
    assert told in str(session.messages[-1]["content"])


async def test_a_guard_that_cannot_take_note_ends_the_turn_in_a_line(open_session: Open) -> None:
    class Notary(Asked):
        def record(self, kind: str, call: GuardedCall, **facts: object) -> None:
            raise OSError("no ink")

    session, provider = open_session(Notary(lambda call: None), tools=[SEND])
    provider.answers.append(Said("ok", [("send", {"to": "a"})]))
    seen, error = await turn_until_error(session, "go")
    assert "Notary" in str(error) and "OSError: no ink" in str(error)
    assert not any(isinstance(event, events.ToolResult) for event in seen)


async def test_a_guard_is_told_right_before_the_call_runs_and_may_keep_it_from_that(open_session: Open) -> None:
    class Starts(Extension, Guard):
        def __init__(self) -> None:
            self.guards = (self,)
            self.started: list[tuple[str, str | None]] = []

        async def starting(self, call: GuardedCall) -> None:
            self.started.append((call.arguments["to"], call.verdict.action if call.verdict else None))
            call.arguments["to"] = "nobody"
            if self.started[-1][0] == "trouble":
                raise ToolError("not now")
            if self.started[-1][0] == "fault":
                raise RuntimeError("broken")

    guard = Starts()
    session, provider = open_session(guard, tools=[SEND], policy=Policy(Path(), deny=["other"], yes=True))
    provider.answers.append(Said("ok", [("send", {"to": to}) for to in ("you", "trouble", "fault")]))
    results = [event for event in await turn(session) if isinstance(event, events.ToolResult)]
    assert [event.status for event in results] == ["done", "failed", "failed"]
    assert '"to": "you"' in results[0].text and results[1].text == "not now" and "RuntimeError" in results[2].text
    assert guard.started == [("you", "allow"), ("trouble", "allow"), ("fault", "allow")]


async def test_what_was_refused_never_starts(open_session: Open, tmp_path: Path) -> None:
    class Starts(Extension, Guard):
        def __init__(self) -> None:
            self.guards = (self,)

        async def starting(self, call: GuardedCall) -> None:
            raise AssertionError("it runs")

    session, provider = open_session(Starts(), tools=[SEND], policy=Policy(tmp_path, deny=["send"]))
    provider.answers.append(Said("ok", [("send", {"to": "you"})]))
    (result,) = (event for event in await turn(session) if isinstance(event, events.ToolResult))
    assert result.status == "refused"
