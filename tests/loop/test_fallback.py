"""A model that fails again and again: another one goes on in its place, or nobody is asked for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ProviderError
from codelet.extensions.statistics import Statistics
from codelet.loop.session import Session
from codelet.messages import unpaired
from codelet.providers import open_provider
from codelet.providers.protocol import Deadlines, Provider, ProviderOptions, Retries
from codelet.safety import Policy
from tests.support.official import complaints
from tests.support.script import Call, HttpError, Reply, Stop
from tests.support.server import ModelServer
from tests.support.sessions import of_type, turn, turn_until_error
from tests.support.vendors import DIALECTS, GREP, READ, RESPONSES
from tests.support.waiting import happens

DOWN = HttpError(503, "overloaded")
WRITE = Call("w1", "write", {"path": "made.txt", "content": "made once\n"})


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def other() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


Open = Callable[..., Session]


@pytest.fixture
async def opened(model_server: ModelServer, other: ModelServer, tmp_path: Path, clock: Clock) -> AsyncIterator[Open]:
    """Opens a session on `first` at one server, for which models at the other one stand by."""
    sessions: list[Session] = []
    (tmp_path / "notes.txt").write_text("hay\nneedle\nhay\n", encoding="utf-8")

    def begin(
        first: str = "openai/first", standing_by: tuple[str, ...] = ("openai/second",), attempts: int = 5
    ) -> Session:
        session = Session(
            provider_at(model_server, first, attempts),
            workspace=tmp_path,
            policy=Policy(tmp_path, yes=True),
            fallbacks=[provider_at(other, name) for name in standing_by],
            bare=True,
            clock=clock,
        )
        sessions.append(session)
        return session

    yield begin
    for session in sessions:
        await session.close()


def provider_at(server: ModelServer, name: str, attempts: int = 5) -> Provider:
    quick = Retries(attempts=attempts, first_wait=0.001)
    base = server.anthropic if name.startswith("anthropic/") else server.openai
    return open_provider(name, ProviderOptions(base, "test-key", Deadlines(first_token=20), quick))


def notes(seen: list[events.Event]) -> list[str]:
    return [event.text for event in of_type(seen, events.Note)]


async def test_after_three_failures_the_next_model_goes_on_and_no_call_runs_again(
    opened: Open, model_server: ModelServer, other: ModelServer, tmp_path: Path
):
    model_server.script = [Reply(calls=[WRITE]), DOWN, DOWN, DOWN]
    other.script = [Reply("done")]
    session = opened()
    seen = await turn(session)
    assert len(model_server.requests) == 4, "no fourth attempt"
    assert len(of_type(seen, events.ToolResult)) == 1
    assert (tmp_path / "made.txt").read_text() == "made once\n"
    assert [message["role"] for message in other.requests[0].messages][-2:] == ["assistant", "tool"]
    (note,) = notes(seen)
    assert all(word in note for word in ("openai/first", "3 times", "openai/second"))
    assert all("overloaded" in retry.reason for retry in of_type(seen, events.Retry)), "why was told at each attempt"
    (change,) = session.models.changes
    assert (change.replaced, change.model) == ("openai/first", "openai/second")
    assert session.provider.model == "openai/second"
    assert of_type(seen, events.TurnEnd)[-1].steps == 2


async def test_a_reason_that_an_earlier_turn_told_is_told_again(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    model_server.script = [DOWN, DOWN, DOWN]
    other.script = [Reply("done")]
    session = opened(attempts=2)
    _, error = await turn_until_error(session, "go")
    assert isinstance(error, ProviderError)
    (note,) = notes(await turn(session))
    assert "3 times" in note and "overloaded" in note


async def test_failures_with_an_answer_between_them_are_not_in_a_row(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    model_server.script = [DOWN, DOWN, Reply(calls=[READ]), DOWN, DOWN, Reply("done")]
    session = opened()
    seen = await turn(session)
    assert (notes(seen), other.requests, list(session.models.circuits())) == ([], [], [])
    assert len(model_server.requests) == 6


async def test_a_list_that_was_compacted_for_one_model_is_not_forced_again_for_the_next(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    too_long = HttpError(
        400, "This model's maximum context length is 60000 tokens. However, you requested 70000 tokens."
    )
    model_server.script = [too_long, DOWN, DOWN, DOWN]
    other.script = [Reply("done")]
    seen = await turn(opened(), "word " * 40_000)
    second = seen[seen.index(of_type(seen, events.Note)[1]) :]
    assert of_type(seen, events.Compaction) and not of_type(second, events.Compaction)
    assert len(other.requests) == 1


async def test_a_last_failure_of_another_kind_is_told(opened: Open, model_server: ModelServer, other: ModelServer):
    model_server.script = [DOWN, DOWN, HttpError(500, "the disk is full")]
    other.script = [Reply("done")]
    (note,) = notes(await turn(opened()))
    assert note.startswith("openai/first failed 3 times")
    assert "the disk is full" in note and note.endswith("openai/second")


async def test_the_chosen_model_is_asked_again_with_a_new_turn_after_the_pause(
    opened: Open, model_server: ModelServer, other: ModelServer, clock: Clock
):
    model_server.script = [DOWN, DOWN, DOWN, DOWN, Reply("here again"), Reply("still here")]
    other.script = [Reply("one"), Reply("two"), Reply("three")]
    session = opened()
    await turn(session)
    clock.now += 29
    assert notes(await turn(session)) == []
    assert (len(model_server.requests), len(other.requests)) == (3, 2)
    clock.now += 2
    back, gone = notes(await turn(session))
    assert "openai/first" in back and "openai/second" not in back
    assert "4 times" in gone
    assert (len(model_server.requests), len(other.requests)) == (4, 3), "one probe"
    clock.now += 31
    assert ["openai/first" in note and "openai/second" not in note for note in notes(await turn(session))] == [True]
    assert notes(await turn(session)) == []
    assert (len(model_server.requests), len(other.requests)) == (6, 3)
    assert session.provider.model == "openai/first"


async def test_another_effort_of_who_stands_in_leaves_the_chosen_model_chosen(
    opened: Open, model_server: ModelServer, other: ModelServer, clock: Clock
):
    model_server.script = [DOWN, DOWN, DOWN, Reply("here again")]
    other.script = lambda request: Reply("done")
    session = opened()
    await turn(session)
    before = session.provider
    options = ProviderOptions(other.openai, "test-key", effort="high")
    session.models.change_effort(open_provider("openai/second", options))
    await before.close()
    chosen = session.models.stands_in_for
    assert chosen is not None and chosen.model == "openai/first"
    await turn(session)
    assert other.requests[-1].json["reasoning_effort"] == "high"
    clock.now += 31
    await turn(session)
    assert (session.provider.model, session.models.stands_in_for) == ("openai/first", None)
    assert len(model_server.requests) == 4


async def test_another_effort_of_who_stands_in_leaves_the_others_standing_by(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    model_server.script = [DOWN] * 3
    other.script = [Reply("second"), DOWN, DOWN, DOWN, Reply("third")]
    session = opened(standing_by=("openai/second", "openai/third"))
    await turn(session)
    before = session.provider
    session.models.change_effort(provider_at(other, "openai/second"))
    await before.close()
    await turn(session)
    assert [request.json["model"] for request in other.requests] == ["second"] * 4 + ["third"]


async def test_without_another_model_it_fails_at_once_and_probes_after_the_pause(
    opened: Open, model_server: ModelServer, clock: Clock
):
    model_server.script = [*[DOWN] * 6, Reply("back"), Reply("well")]
    session = opened(standing_by=())
    _, error = await turn_until_error(session)
    assert "overloaded" in str(error)
    assert len(model_server.requests) == 5, "the retries of the request that failed are made"
    seen, error = await turn_until_error(session)
    assert isinstance(error, ProviderError)
    assert str(error).startswith("openai/first failed 5 times") and "30 s" in str(error)
    assert len(model_server.requests) == 5
    assert of_type(seen, events.TurnEnd)[-1].steps == 0
    clock.now += 31
    _, error = await turn_until_error(session)
    assert "overloaded" in str(error)
    assert len(model_server.requests) == 6, "one probe, and no retry of it"
    clock.now += 31
    await turn(session)
    await turn(session)
    assert len(model_server.requests) == 8


async def test_a_probe_that_is_too_long_for_the_window_is_sent_again(
    opened: Open, model_server: ModelServer, clock: Clock
):
    too_long = "maximum context length is 8192 tokens, you requested 9000 (900 in the messages, 8100 in the completion)"
    model_server.script = [*[DOWN] * 5, HttpError(400, too_long), Reply("back")]
    session = opened(standing_by=())
    await turn_until_error(session)
    clock.now += 31
    await turn(session)
    assert session.messages[-1]["content"] == "back"
    assert session.window.budget.window == 8192


async def test_the_user_may_ask_at_once(opened: Open, model_server: ModelServer):
    model_server.script = [*[DOWN] * 5, Reply("back")]
    session = opened(standing_by=())
    await turn_until_error(session)
    before = session.provider
    session.models.switch(provider_at(model_server, "openai/first"))
    await before.close()
    await turn(session)
    assert len(model_server.requests) == 6


async def test_several_stand_by_in_order(opened: Open, model_server: ModelServer, other: ModelServer):
    model_server.script = [DOWN] * 3
    other.script = lambda request: DOWN if request.json["model"] == "second" else Reply("third here")
    session = opened(standing_by=("openai/second", "openai/third"))
    seen = await turn(session)
    assert [request.json["model"] for request in other.requests] == ["second"] * 3 + ["third"]
    assert [change.model for change in session.models.changes] == ["openai/second", "openai/third"]
    assert len(notes(seen)) == 2


@pytest.mark.parametrize("answer", [HttpError(400, "bad"), HttpError(401, "no"), HttpError(404, "no such model")])
async def test_what_is_no_failure_of_the_provider_is_told_and_nobody_stands_in(
    opened: Open, model_server: ModelServer, other: ModelServer, answer: HttpError
):
    model_server.script = [answer] * 5
    session = opened()
    for _ in range(4):
        _, error = await turn_until_error(session)
        assert str(answer.status) in str(error)
    assert other.requests == []
    assert session.models.changes == []


async def test_a_server_that_fails_and_wants_no_other_attempt_is_stood_in_for_all_the_same(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    model_server.script = [HttpError(503, "down", headers={"x-should-retry": "false"})] * 5
    session = opened()
    for _ in range(5):
        if not session.models.changes:
            await turn_until_error(session)
    assert [change.model for change in session.models.changes] == ["openai/second"]
    assert (len(model_server.requests), len(other.requests)) == (3, 1)


async def test_a_limit_of_the_rate_that_a_wait_cures_is_a_failure_like_any_other(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    model_server.script = [HttpError(429, "slow down")] * 2
    session = opened(attempts=1)
    for _ in range(2):
        await turn_until_error(session)
    assert (session.models.changes, other.requests) == ([], [])


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 408, 409, 422, 425, 429, 500, 502, 503, 529])
async def test_which_refusals_without_another_attempt_are_failures_of_the_provider(
    opened: Open, model_server: ModelServer, other: ModelServer, status: int
):
    """What the request, the key or the name is to blame for is told as often as it comes; 402 and 429 count at once."""
    model_server.script = [HttpError(status, "no", headers={"x-should-retry": "false"})] * 3
    session = opened()
    failures = 0
    while len(model_server.requests) < 3 and not session.models.changes:
        await turn_until_error(session)
        failures += 1
    blamed = status in (402, 408, 409, 425, 429) or status >= 500
    assert len(session.models.changes) == len(other.requests) == blamed
    assert failures == (1 if status in (402, 429) else 3)


async def test_a_probe_that_the_user_stops_is_none(opened: Open, model_server: ModelServer, clock: Clock):
    model_server.script = [*[DOWN] * 5, Reply(["never"], fault=Stop("stall", after=None)), Reply("back")]
    session = opened(standing_by=())
    await turn_until_error(session)
    clock.now += 31
    probe = asyncio.ensure_future(turn(session))
    await happens(lambda: len(model_server.requests) == 6)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    await turn(session)
    assert session.messages[-1]["content"] == "back"


@pytest.mark.parametrize(
    "answer", [HttpError(402, "pay"), HttpError(429, "insufficient_quota"), HttpError(429, "wait", retry_after=3_600)]
)
async def test_what_no_waiting_cures_is_not_waited_for(
    opened: Open, model_server: ModelServer, other: ModelServer, answer: HttpError
):
    model_server.script, other.script = [answer], [Reply("ok")]
    seen = await turn(opened())
    assert "failed once" in notes(seen)[0]
    assert len(model_server.requests) == 1


async def test_an_answer_that_broke_off_is_kept_and_not_told_by_another(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    model_server.script = [DOWN, DOWN, Reply(["half", " of it"], fault=Stop("cut", after=3))]
    session = opened()
    _, error = await turn_until_error(session)
    assert error is not None
    assert "half" in str(session.messages[-1]["content"])
    assert other.requests == []
    other.script = [Reply("whole")]
    await turn(session, None)
    assert len(other.requests) == 1, "what follows is asked of the other one"
    assert len(model_server.requests) == 3


async def test_an_answer_that_nobody_has_seen_is_told_by_another_and_what_it_used_is_counted(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    model_server.script = [DOWN, DOWN, Reply(["half", " of it"], fault=Stop("cut", after=4))]
    other.script = [Reply("whole")]
    session = opened("anthropic/first", attempts=3)
    session.upkeep.unseen = True
    seen = await turn(session)
    assert [event.delta for event in of_type(seen, events.Text)] == ["half", "whole"]
    begun = [place for place, event in enumerate(seen) if isinstance(event, events.StepStart)]
    assert seen.index(of_type(seen, events.Text)[0]) < begun[1] < seen.index(of_type(seen, events.Text)[1])
    assert session.messages[-1]["content"] == "whole"
    assert (len(model_server.requests), len(other.requests)) == (3, 1)
    assert session.usage.total_input == of_type(seen, events.TurnEnd)[-1].usage.total_input == 200


async def test_another_model_also_goes_on_where_the_last_attempt_fails(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    model_server.script, other.script = [DOWN] * 3, [Reply("done")]
    seen = await turn(opened(attempts=3))
    assert (len(model_server.requests), len(other.requests)) == (3, 1)
    assert of_type(seen, events.TurnEnd)[-1].steps == 1


async def test_who_stands_by_is_closed_with_the_session_also_where_it_was_asked_otherwise(
    opened: Open, model_server: ModelServer, other: ModelServer
):
    """A change of the effort puts another provider in its place: that one is closed then, and the old one is not."""

    class Counted:
        def __init__(self, provider: Provider) -> None:
            self.provider, self.closed = provider, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self.provider, name)

        async def close(self) -> None:
            self.closed += 1
            await self.provider.close()

    model_server.script, other.script = [DOWN] * 3, [Reply("done")]
    session = opened()
    await turn(session)
    before, quick = session.provider, Counted(provider_at(other, "openai/second"))
    session.models.change_effort(quick)
    await before.close()
    await session.close()
    assert quick.closed == 1


FROM = ("anthropic", RESPONSES, "gemini", "openrouter")


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in FROM for b in DIALECTS if a != b])
async def test_the_list_is_valid_for_whoever_goes_on(
    opened: Open, model_server: ModelServer, other: ModelServer, first: str, second: str
):
    """Amid a turn, behind another vendor's calls: ids, reasoning and signatures are as this one takes them."""
    here, there = DIALECTS[first], DIALECTS[second]
    model_server.script = here.script([Reply("Looking.", calls=[READ, GREP]), *[DOWN] * 3])
    other.script = there.script([Reply(calls=[GREP]), Reply("Line 2.")])
    session = opened(here.model, (there.model,))
    seen = await turn(session, "look for the needle")
    assert len(other.requests) == 2, "both are taken at the first try"
    assert [event.wait for event in of_type(seen, events.Retry) if event.wait == 0.0] == []
    assert len(of_type(seen, events.ToolResult)) == 3
    assert unpaired(session.messages) == []
    for request in other.requests:
        assert here.mark(1).encode() not in request.body, "what only the first can read stays with it"
        if second == RESPONSES:
            assert complaints(request.json) == []


async def test_its_window_and_prices_are_its_own(opened: Open, model_server: ModelServer, other: ModelServer):
    model_server.script, other.script = [DOWN] * 3, [Reply("ok")]
    session = opened("anthropic/claude-sonnet-5-5", ("openai/gpt-4o",))
    assert session.window.budget.window == 1_000_000
    await turn(session)
    assert session.window.budget.window == 128_000
    assert session.models.facts.free


async def test_statistics_tell_how_each_stands(
    opened: Open, model_server: ModelServer, other: ModelServer, tmp_path: Path
):
    model_server.script, other.script = [DOWN] * 3, [Reply("ok")]
    session = opened()
    statistics = Statistics()
    statistics.attach(session)
    await turn(session)
    (command,) = statistics.commands
    shown = await command.run(session, "")
    assert "openai/first by " in shown
    assert all(word in shown for word in ("3 failures", "circuit open", "30 s"))
    assert "openai/second" in shown
    metrics, _ = statistics.parts
    kept: dict[str, Any] = metrics.save()
    assert kept["fallbacks"] == 1
    assert kept["circuits"] == {"openai/first": {"state": "open", "failures": 3}}
    later = Statistics()
    later.attach(opened())
    later.parts[0].restore(kept)
    assert later.parts[0].save() == kept
