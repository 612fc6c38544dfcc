"""One turn, chunk by chunk: what its last event says, what is counted, what is left in the list however it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from codelet import events, prompt
from codelet.context import CompactionOptions
from codelet.context.reminders import Source
from codelet.errors import CodeletError, LimitReached, NoAnswer, ProviderError, UsageError
from codelet.extensions.base import Command, Extension
from codelet.loop.meter import Limits
from codelet.loop.required_answer import RequiredAnswer
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.messages import assistant, reminder_type, user
from codelet.providers.protocol import (
    Chunk,
    FinishChunk,
    NoteChunk,
    RefusalChunk,
    Request,
    RetryChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)
from codelet.safety import Policy
from codelet.safety.secrets import Masker
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool
from codelet.usage import Usage
from tests.context.scripted import Answer, ScriptedProvider, compactions, session_of, turn, turn_until_error

Play = Sequence[Chunk | Exception]
SPENT = UsageChunk(Usage(total_input=100, output=10))
STOP = FinishChunk("stop")
CALL = ToolCallChunk(index=0, id="c", name="look", arguments='{"lines": 1}')


@dataclass(eq=False)
class Played(ScriptedProvider):
    """Plays chunks and errors, one list for each request."""

    plays: list[Play] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        self.requests.append(request)
        for item in self.plays[len(self.requests) - 1]:
            await asyncio.sleep(0)
            if isinstance(item, Exception):
                raise item
            yield item


async def nothing(context: ToolContext, progress: Progress) -> ToolOutput:
    """Do nothing."""
    return ToolOutput("done")


def played(*plays: Play) -> Played:
    return Played(plays=list(plays))


async def test_the_end_says_steps_usage_and_why(tmp_path: Path):
    provider = played([TextChunk("a look"), CALL, SPENT, STOP], [TextChunk("done"), SPENT, STOP])
    session = session_of(provider, tmp_path)
    seen = await turn(session)
    assert seen[-1] == events.TurnEnd("done", 2, Usage(total_input=200, output=20), None, ())
    assert [event.step for event in seen if isinstance(event, events.StepStart)] == [1, 2]
    assert (session.usage, session.conversation.interruption) == (Usage(total_input=200, output=20), None)
    assert seen[0] == events.TurnStart(1, "scripted/small")


async def test_an_answer_that_breaks_off_leaves_its_text_and_what_it_cost(tmp_path: Path):
    failed = ProviderError("the line broke")
    session = session_of(played([TextChunk("half an"), SPENT, failed], [TextChunk("whole"), STOP]), tmp_path)
    seen, error = await turn_until_error(session, "go")
    assert error is failed
    assert seen[-1] == events.TurnEnd("failed", 1, SPENT.usage, "the line broke", ())
    cut = prompt.CUT_TEXT.format(reason="the line broke")
    assert session.messages[-1] == assistant(f"half an\n\n{cut}")
    assert session.conversation.interruption == events.Interrupted(done=(), half_done=(), not_done=())
    assert (session.usage, session.meter.spent) == (SPENT.usage, SPENT.usage)
    await turn(session, None)
    assert [message["content"] for message in session.messages] == ["go", "whole"]


async def test_an_answer_that_breaks_off_before_its_text_leaves_nothing(tmp_path: Path):
    for begun in ([], [TextChunk(" \n")]):
        session = session_of(played([*begun, ProviderError("no")]), tmp_path)
        seen, _ = await turn_until_error(session, "go")
        assert [message["content"] for message in session.messages] == ["go"]
        assert seen[-1] == events.TurnEnd("failed", 1, Usage(), "no", ())


async def test_an_error_that_nobody_expected_leaves_a_valid_list_too(tmp_path: Path):
    session = session_of(played([TextChunk("half an"), ValueError("a defect")]), tmp_path)
    seen: list[events.Event] = []
    with pytest.raises(ValueError, match="a defect"):
        async with aclosing(session.send("go")) as stream:
            async for event in stream:
                seen.append(event)
    assert seen[-1] == events.TurnEnd("failed", 1, Usage(), "a defect", ())
    assert session.messages[-1] == assistant(f"half an\n\n{prompt.CUT_TEXT.format(reason='a defect')}")
    assert session.conversation.interruption is not None


async def test_a_turn_that_is_left_settles_its_text(tmp_path: Path):
    session = session_of(played([TextChunk("half "), TextChunk("an"), TextChunk("swer"), STOP]), tmp_path)
    async with aclosing(session.send("go")) as stream:
        async for event in stream:
            if isinstance(event, events.Text) and event.delta == "an":
                break
    assert session.messages[-1] == assistant(f"half an\n\n{prompt.INTERRUPTED_TEXT}")
    assert session.conversation.interruption is not None


async def test_what_a_provider_says_of_its_failure_holds_no_secret(tmp_path: Path):
    secret = "Zk4x9QweR7tY2uIoP5aS8dF1"
    guards = Safeguards(masker=Masker({"SOME_KEY": secret}))
    session = session_of(played([ProviderError(f"bad key {secret}")]), tmp_path, safeguards=guards)
    seen, error = await turn_until_error(session, "go")
    assert str(error) == "bad key [masked SOME_KEY]"
    assert isinstance(seen[-1], events.TurnEnd)
    assert seen[-1].error == str(error)


@pytest.mark.parametrize(
    ("answer", "kind", "says", "left"),
    [
        ([RefusalChunk("I will not"), STOP], NoAnswer, "the model refused: I will not", None),
        ([TextChunk("as far"), RefusalChunk("no"), STOP], NoAnswer, "content filter refused to answer: no", "as far"),
        ([TextChunk("as far"), FinishChunk("paused")], NoAnswer, "not finished", "as far"),
        ([TextChunk("as far"), FinishChunk("length")], LimitReached, "output limit", "as far"),
    ],
)
async def test_an_answer_that_is_none_is_an_error(
    tmp_path: Path, answer: Play, kind: type[CodeletError], says: str, left: str | None
):
    provider = played(answer)
    session = session_of(provider, tmp_path)
    seen, error = await turn_until_error(session, "go")
    assert type(error) is kind
    assert says in str(error)
    assert len(provider.requests) == 1
    assert session.messages[-1] == assistant(left or prompt.NO_TEXT.format(reason=str(error)))
    assert isinstance(seen[-1], events.TurnEnd)
    assert (seen[-1].reason, seen[-1].steps) == ("limit" if kind is LimitReached else "failed", 1)


async def test_a_long_refusal_is_told_in_one_line(tmp_path: Path):
    session = session_of(played([RefusalChunk("never\n" + "x" * 5_000), STOP]), tmp_path)
    _, error = await turn_until_error(session, "go")
    assert str(error).startswith("the model refused: never")
    assert "\n" not in str(error)
    assert 1_000 < len(str(error)) < 1_100


async def test_an_empty_answer_is_asked_for_once_more_in_each_step(tmp_path: Path):
    provider = played([STOP], [CALL, STOP], [TextChunk(" "), STOP], [TextChunk("done"), STOP])
    seen = await turn(session_of(provider, tmp_path))
    retries = [event for event in seen if isinstance(event, events.Retry)]
    assert [(retry.attempt, retry.attempts, retry.wait) for retry in retries] == [(2, 2, 0.0)] * 2
    assert isinstance(seen[-1], events.TurnEnd)
    assert (seen[-1].reason, seen[-1].steps) == ("done", 2)
    session = session_of(played([FinishChunk("refused")], [FinishChunk("refused")]), tmp_path)
    _, error = await turn_until_error(session, "go")
    assert "refused" in str(error) and "again" in str(error)


async def test_an_answer_that_does_not_meet_its_schema_is_asked_for_anew_once_in_each_turn(tmp_path: Path):
    wrong, right = [TextChunk('"old"'), SPENT, STOP], [TextChunk("5"), SPENT, STOP]
    session = session_of(played(wrong, right, wrong, right, wrong, wrong), tmp_path)
    session.upkeep.required = RequiredAnswer({"type": "integer"}, "here")
    for _ in range(2):
        seen = await turn(session)
        (again,) = [event for event in seen if isinstance(event, events.Retry)]
        assert isinstance(seen[-1], events.TurnEnd) and (seen[-1].reason, seen[-1].steps) == ("done", 2)
        assert "schema" in again.reason and "'old'" in again.reason
    _, error = await turn_until_error(session, "go")
    assert isinstance(error, NoAnswer)


async def test_a_limit_that_the_last_answer_passes_ends_the_turn_as_one(tmp_path: Path):
    for limits, play, steps in (
        (Limits(max_tokens=10), [TextChunk("done"), SPENT, STOP], 1),
        (Limits(max_tokens=11), [TextChunk("done"), SPENT, STOP], None),
        (Limits(max_turns=1), [TextChunk("done"), SPENT, STOP], None),
        (Limits(max_turns=1), [CALL, SPENT, STOP], 1),
    ):
        session = session_of(played(play), tmp_path, limits=limits)
        seen, error = await turn_until_error(session, "go")
        assert isinstance(seen[-1], events.TurnEnd)
        if steps is None:
            assert (error, seen[-1].reason) == (None, "done")
        else:
            assert isinstance(error, LimitReached)
            assert (seen[-1].reason, seen[-1].steps, seen[-1].error) == ("limit", steps, str(error))


async def test_an_overflow_without_compaction_says_so(tmp_path: Path):
    failed = ProviderError("it is too long", status=400, overflow=True)
    session = session_of(played([failed]), tmp_path, compaction=CompactionOptions(automatic=False))
    _, error = await turn_until_error(session, "go")
    assert isinstance(error, ProviderError)
    assert "--compact auto" in str(error) and error.status == 400


async def test_a_step_after_an_overflow_may_overflow_again(tmp_path: Path):
    """The text that came before it is not kept, and the step counts once."""
    failed = ProviderError("it is too long", status=400, overflow=True)
    provider = played(
        [TextChunk("half"), failed], [CALL, SPENT, STOP], [failed], [TextChunk("done"), SPENT, STOP], [failed], [failed]
    )
    session = session_of(provider, tmp_path, window=64_000)
    seen = await turn(session, "please " * 4_000)
    assert isinstance(seen[-1], events.TurnEnd)
    assert (seen[-1].reason, seen[-1].steps) == ("done", 2)
    assert len(provider.requests) == 4
    assert [event.reason for event in compactions(seen, "starting")] == ["overflow", "overflow"]
    assert not any("half" in str(message["content"]) for message in session.messages)
    _, error = await turn_until_error(session, "again")
    assert (error, len(provider.requests)) == (failed, 6)


async def test_what_a_provider_tells_meanwhile_is_shown(tmp_path: Path):
    told = RetryChunk(attempt=2, attempts=3, wait=0.5, reason="busy")
    seen = await turn(session_of(played([told, NoteChunk("by the way"), TextChunk("x"), STOP]), tmp_path))
    assert events.Retry(attempt=2, attempts=3, wait=0.5, reason="busy") in seen
    assert events.Note("by the way") in seen


async def test_what_an_answer_had_used_before_it_was_asked_for_again_is_counted(tmp_path: Path):
    again = RetryChunk(attempt=2, attempts=3, wait=0.0, reason="cut")
    session = session_of(played([TextChunk("ha"), SPENT, again, TextChunk("whole"), SPENT, STOP]), tmp_path)
    seen = await turn(session)
    assert session.usage == SPENT.usage + SPENT.usage
    assert isinstance(seen[-1], events.TurnEnd) and seen[-1].usage == session.usage
    assert [message["content"] for message in session.messages if message["role"] == "assistant"] == ["whole"]


async def test_requests_are_counted_once_they_are_answered_and_so_is_the_wait(tmp_path: Path):
    session = session_of(
        played([CALL, STOP], [TextChunk("half"), ProviderError("no")], [TextChunk("x"), STOP]), tmp_path
    )
    await turn_until_error(session, "go")
    assert session.meter.requests == 1
    waited = session.meter.waited
    assert waited > 0
    await turn(session, None)
    assert session.meter.requests == 2 and session.meter.waited > waited


async def test_without_tools_nothing_is_said_of_recalling_what_was_cut(tmp_path: Path):
    for tools in ((), (tool(nothing),)):
        provider = played([TextChunk("x"), STOP])
        session = Session(provider, workspace=tmp_path, tools=tools, policy=Policy(tmp_path), bare=True, window=16_000)
        await turn(session, "word " * 40_000)
        assert session.entry.cut
        assert ("recall" in list(session.toolbox.tools)) == bool(tools)
        assert ("recall" in str(session.messages[0]["content"])) == bool(tools)
        await session.close()


async def test_a_request_that_is_sent_in_another_form_is_no_failure_of_the_model(tmp_path: Path):
    other_form = [RetryChunk(attempt=2, attempts=2, wait=0.0, reason="another form", other_form=True)] * 3
    standing_by = played([TextChunk("not asked"), STOP])
    session = session_of(played([*other_form, TextChunk("done"), STOP]), tmp_path, fallbacks=[standing_by])
    await turn(session)
    assert (session.messages[-1]["content"], standing_by.requests) == ("done", [])
    assert session.meter.retries == 3


async def test_while_a_turn_runs_nothing_else_changes_the_list(tmp_path: Path):
    session = session_of(played([TextChunk("half "), TextChunk("whole"), STOP]), tmp_path)
    async with aclosing(session.send("go")) as running:
        while not isinstance(await anext(running), events.Text):
            pass
        before = list(session.messages)
        for change in (session.clear, session.rewind):
            with pytest.raises(UsageError, match="turn is running"):
                change()
        for other in (session.send("another"), session.compact()):
            with pytest.raises(UsageError, match="turn is running"):
                await anext(other)
        assert session.messages == before
        left = [event async for event in running]
    assert isinstance(left[-1], events.TurnEnd) and left[-1].reason == "done"


async def test_going_back_asks_first_if_a_pinned_message_would_go(tmp_path: Path):
    session = session_of(played([TextChunk("done"), STOP]), tmp_path)
    await turn(session)
    session.compactor.pin(1)
    before = list(session.messages)
    with pytest.raises(UsageError, match="message 1 is pinned"):
        session.rewind()
    assert session.messages == before and session.rewind(unpin=True) == "go"


async def test_closing_waits_for_a_turn_that_nobody_holds_any_more(tmp_path: Path):
    class Closed(Played):
        settled: bool | None = None

        async def close(self) -> None:
            self.settled = session.conversation.interruption is not None

    provider = Closed(plays=[[TextChunk("half"), TextChunk(" more"), STOP]])
    session = session_of(provider, tmp_path)
    async for event in session.send("go"):
        if isinstance(event, events.Text):
            break
    await session.close()
    assert provider.settled, "the turn is settled before the provider is closed"


class Noticing(Source):
    """A reminder that keeps what it is told of the turn."""

    name = "noticing"

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def begin(self) -> None:
        self.heard.append("begin")

    async def text(self) -> str | None:
        self.heard.append("text")
        return "noticed"

    def sent(self) -> None:
        self.heard.append("sent")

    def changed(self) -> None:
        self.heard.append("changed")

    async def stop(self) -> None:
        self.heard.append("stop")


async def test_a_reminder_hears_of_requests_of_what_changed_and_of_the_end(tmp_path: Path):
    """One of two calls changed something; a step of calls that only read is none of its business."""
    source = Noticing()
    extension = Extension()
    extension.reminders = [source]
    changing = ToolCallChunk(index=1, id="d", name="defect", arguments="{}")
    provider = played([CALL, changing, STOP], [CALL, STOP], [TextChunk("done"), STOP])
    await turn(session_of(provider, tmp_path, extensions=[extension]))
    heard = [word for word in source.heard if word != "text"]
    assert heard == ["begin", "sent", "changed", "sent", "sent", "stop"]


async def test_a_model_that_turns_out_to_check_the_prefix_gets_appended_reminders_from_the_next_step(tmp_path: Path):
    def script(request: Request) -> Answer:
        provider.prefix_bound = True
        return Answer("", [("look", {"lines": 40})] if len(provider.sent) < 3 else [])

    provider = ScriptedProvider(script=script)
    await turn(session_of(provider, tmp_path, bare=False))
    first, *later = provider.sent
    assert [reminder_type(message) for message in first.tail] == ["tokenStatus"]
    for before, after in pairwise(later):
        assert before.tail == after.tail == []
        assert after.stable[: len(before.stable)] == before.stable
    assert "tokenStatus" in map(reminder_type, later[0].stable)


async def test_a_tool_that_an_extension_offers_later_stands_behind_the_others(tmp_path: Path):
    class Late(Extension):
        def offered(self) -> Sequence[Tool]:
            return [tool(nothing)] if provider.requests else []

    provider = played([CALL, STOP], [CALL, STOP], [TextChunk("done"), STOP])
    session = session_of(provider, tmp_path, extensions=[Late()])
    fixed = session.upkeep.fixed_size
    await turn(session)
    first, *later = ([each["function"]["name"] for each in request.tools] for request in provider.requests)
    assert later == [[*first, "nothing"]] * 2
    assert session.window.fixed == session.upkeep.fixed_size > fixed


async def test_a_long_prompt_that_fits_is_sent_whole(tmp_path: Path):
    provider = played([TextChunk("done"), STOP])
    session = session_of(provider, tmp_path, window=64_000)
    long = "word " * 4_000
    await turn(session, long)
    assert provider.requests[0].messages[0]["content"] == long
    assert session.entry.cut == ()


async def test_a_request_beside_the_turn_has_the_same_head_and_nothing_of_the_list(tmp_path: Path):
    provider = played([TextChunk("done"), STOP])
    session = session_of(provider, tmp_path)
    await turn(session)
    asked = [user("sum it up")]
    request = session.upkeep.request(asked, max_output=7)
    assert (request.messages, request.tail, request.max_output, request.schema) == (asked, 0, 7, None)
    assert (request.system, request.tools) == (provider.requests[0].system, provider.requests[0].tools)


async def test_a_command_of_an_extension_shows_no_secret_and_fails_in_one_line(tmp_path: Path):
    secret = "Zk4x9QweR7tY2uIoP5aS8dF1"

    async def say(session: Session, argument: str) -> str:
        match argument:
            case "wrong":
                raise CodeletError("that is wrong")
            case "broken":
                raise RuntimeError(f"no {secret}")
        return f"{argument} of {secret}"

    extension = Extension()
    extension.commands = [Command("say", "say it", say)]
    guards = Safeguards(masker=Masker({"SOME_KEY": secret}))
    session = session_of(played(), tmp_path, extensions=[extension], safeguards=guards)
    assert await session.run_command("say", "  all ") == "all of [masked SOME_KEY]"
    for argument, told in (("wrong", "that is wrong"), ("broken", "/say failed: RuntimeError: no [masked SOME_KEY]")):
        with pytest.raises(CodeletError) as failed:
            await session.run_command("say", argument)
        assert str(failed.value) == told
    with pytest.raises(KeyError):
        await session.run_command("shout")


async def test_a_list_from_elsewhere_is_taken_over_without_what_was_before(tmp_path: Path):
    class Cleared(Extension):
        times = 0

        def clear(self) -> None:
            self.times += 1

    extension = Cleared()
    session = session_of(played([TextChunk("done"), STOP]), tmp_path, extensions=[extension])
    await turn(session, "old")
    session.adopt([user("new"), assistant("done")])
    assert extension.times == 1
    assert [message["content"] for message in session.messages] == ["new", "done"]


async def test_without_a_report_nobody_knows_what_it_cost(tmp_path: Path):
    session = session_of(played([TextChunk("x"), STOP], [TextChunk("y"), SPENT, STOP]), tmp_path)
    assert session.meter.cost == 0.0
    seen = await turn(session)
    assert not any(isinstance(event, events.UsageReport) for event in seen)
    await turn(session)
    assert (session.meter.cost, session.meter.spent_cost) == (None, None)
    assert session.usage == SPENT.usage


async def test_a_session_ends_what_it_opened_once(tmp_path: Path):
    class Counted(Played):
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    class Opened(Extension):
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    provider, extension = Counted(plays=[[TextChunk("half"), STOP]]), Opened()
    session = session_of(provider, tmp_path, extensions=[extension])
    stream = session.send("go")
    async for event in stream:
        if isinstance(event, events.Text):
            break
    for _ in range(2):
        await session.close()
        assert (provider.closed, extension.closed) == (1, 1)
    assert session.conversation.interruption is not None, "the turn that was left in the middle is ended too"


async def test_what_the_user_wrote_meanwhile_goes_in_between_two_steps_and_not_before_the_first(tmp_path: Path):
    provider = played([CALL, SPENT, STOP], [TextChunk("done"), SPENT, STOP])
    session = session_of(provider, tmp_path)
    session.upkeep.steering = lambda: ["and the \udc00 tests"] if provider.requests else ["too early"]
    seen = await turn(session)
    assert events.Steering("and the \udc00 tests") in seen and events.Steering("too early") not in seen
    assert [message["role"] for message in session.messages] == ["user", "assistant", "tool", "user", "assistant"]
    assert session.messages[3]["content"] == "and the \ufffd tests"
