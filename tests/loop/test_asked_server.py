"""What a server says of its model: asked beside the first request, once, and kept to; a refusal's window as well."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import LimitReached, ProviderError
from codelet.loop.session import Session
from codelet.providers.facts import DEFAULT_WINDOW
from codelet.providers.protocol import ServerFacts
from codelet.safety import Policy
from tests.context.scripted import ScriptedProvider
from tests.support.script import Call, HttpError, Reply, Tokens
from tests.support.server import ModelServer
from tests.support.sessions import MakeSession, of_type, provider_of, turn, turn_until_error

COUNTED = Tokens(9_000)
READ = Reply(calls=[Call("r", "read", {"path": "app.py"})])
LLAMA: dict[str, Any] = {
    "/v1/models": {"data": [{"id": "scripted", "meta": {"n_ctx": 16384, "n_ctx_train": 131072}}]},
    "/props": {"chat_template_caps": {"supports_tools": False}},
}
LONG = "word " * 6_000


def notes(seen: list[events.Event]) -> list[str]:
    return [note.text for note in of_type(seen, events.Note)]


async def test_what_the_server_says_counts_from_the_second_request_on(
    make_session: MakeSession, model_server: ModelServer
):
    asked_before: list[int] = []
    model_server.on_request = lambda request: asked_before.append(len(model_server.asked))
    model_server.said, model_server.script = LLAMA, [READ, Reply("done"), Reply("again")]
    session = make_session()
    assert (session.window.budget.window, session.models.window_is_guessed) == (DEFAULT_WINDOW, True)
    seen = await turn(session)
    assert asked_before[0] == 0, "the first request did not wait"
    assert (session.window.budget.window, session.models.window_is_guessed) == (16_384, False)
    assert session.window.budget.limit == 16_384 - 4_096
    assert [request.json["max_tokens"] for request in model_server.requests] == [32_000, 4_096]
    assert [event.window for event in of_type(seen, events.UsageReport)] == [DEFAULT_WINDOW, 16_384]
    assert len(notes(seen)) == 1 and all(word in notes(seen)[0] for word in ("openai/scripted", "tools", "--model"))
    assert notes(await turn(session)) == []
    assert sorted(model_server.asked) == ["/props", "/v1/models"], "it is asked once"
    await session.close()


async def test_an_answer_without_steps_tells_it_too(make_session: MakeSession, model_server: ModelServer):
    model_server.said, model_server.script = LLAMA, [Reply("done"), Reply("bare")]
    session = make_session()
    assert len(notes(await turn(session))) == 1
    bare = make_session(tools=())
    assert notes(await turn(bare)) == []
    assert bare.window.budget.window == 16_384


async def test_a_turn_that_meets_a_limit_tells_it_too(make_session: MakeSession, model_server: ModelServer):
    """The only turn of a one-shot whose answer was cut short, say."""
    model_server.said, model_server.script = LLAMA, [Reply("Half a", finish="length")]
    seen: list[events.Event] = []
    with pytest.raises(LimitReached):
        async with aclosing(make_session().send("go")) as stream:
            async for event in stream:
                seen.append(event)
                if isinstance(event, events.Text):
                    await asyncio.wait([task for task in asyncio.all_tasks() if "ask" in str(task.get_coro())])
    assert len(notes(seen)) == 1
    assert isinstance(seen[-1], events.TurnEnd)


async def test_a_long_first_request_waits_for_the_servers_window(make_session: MakeSession, model_server: ModelServer):
    asked_before: list[int] = []
    model_server.on_request = lambda request: asked_before.append(len(model_server.asked))
    model_server.said, model_server.script = LLAMA, [Reply("done")]
    session = make_session()
    await turn(session, LONG)
    assert asked_before == [2]
    assert model_server.requests[0].json["max_tokens"] == 4_096


@pytest.mark.parametrize("prompt", ["go", LONG], ids=["short", "long"])
async def test_a_server_that_does_not_say_anything_is_not_waited_for_long(
    make_session: MakeSession, model_server: ModelServer, prompt: str
):
    model_server.said, model_server.script = {"/v1/models": None}, [READ, READ, Reply("done")]
    session = make_session()
    seen = await turn(session, prompt)
    assert isinstance(seen[-1], events.TurnEnd) and seen[-1].reason == "done"
    assert session.window.budget.window == DEFAULT_WINDOW
    await session.close()


async def test_what_the_user_named_stays(make_session: MakeSession, model_server: ModelServer):
    model_server.said, model_server.script = LLAMA, [Reply("done")]
    session = make_session(window=8_000)
    await turn(session)
    assert session.window.budget.window == 8_000


class Asked(ScriptedProvider):
    """A provider elsewhere that counts how often it is asked."""

    local = False

    def __init__(self, model: str) -> None:
        super().__init__([[]] * 4)
        self.model = model
        self.times = 0

    async def ask(self) -> ServerFacts | None:
        self.times += 1
        return ServerFacts(window=50_000, max_output=2_000)


async def test_who_the_list_of_models_knows_is_not_asked(tmp_path: Path):
    known, unknown = Asked("gpt-4o"), Asked("openai/house-1")
    session = Session(known, workspace=tmp_path, policy=Policy(tmp_path), bare=True)
    window = session.window.budget.window
    session.upkeep.server.begin()
    await session.upkeep.server.settle()
    assert (known.times, session.window.budget.window) == (0, window)
    session.models.switch(unknown)
    session.upkeep.server.begin()
    session.upkeep.server.begin()
    await session.upkeep.server.settle()
    assert (unknown.times, session.window.budget.window) == (1, 50_000)
    assert session.window.budget.reserve == 2_000
    session.models.switch(known)
    assert session.window.budget.window == window
    await session.close()


async def test_what_is_said_of_a_model_that_was_left_meanwhile_does_not_count(tmp_path: Path):
    first, second = Asked("openai/house-1"), Asked("openai/house-2")
    session = Session(first, workspace=tmp_path, policy=Policy(tmp_path), bare=True)
    session.upkeep.server.begin()
    session.models.switch(second)
    await session.upkeep.server.settle()
    assert session.window.budget.window == DEFAULT_WINDOW
    await session.close()


async def test_with_the_session_the_server_is_asked_no_more(tmp_path: Path):
    class Silent(Asked):
        ended = False

        async def ask(self) -> ServerFacts | None:
            try:
                await asyncio.Event().wait()
            finally:
                self.ended = True
            return None

    provider = Silent("openai/house-1")
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path), bare=True)
    session.upkeep.server.begin()
    await asyncio.sleep(0)
    assert not provider.ended
    await session.close()
    assert provider.ended


TOO_LONG = HttpError(400, "This model's maximum context length is 16384 tokens. However, you requested 20000 tokens.")
NO_ROOM = HttpError(
    400,
    "This model's maximum context length is 16384 tokens. However, you requested 33500 tokens (1500 in the messages, "
    "32000 in the completion).",
)
TOLD = "the model's window is 16,384 tokens (reported by its server)"


async def test_a_window_that_a_refusal_names_is_kept_and_told_once(
    make_session: MakeSession, model_server: ModelServer
):
    script = [TOO_LONG, READ, Reply("done"), TOO_LONG, Reply("again")]
    model_server.script = [replace(each, usage=COUNTED) if isinstance(each, Reply) else each for each in script]
    session = make_session()
    seen = await turn(session, LONG)
    assert notes(seen) == [TOLD]
    assert (session.window.budget.window, session.models.window_is_guessed) == (16_384, False)
    assert [event.reason for event in of_type(seen, events.Compaction)][:1] in (["overflow"], ["entry"])
    assert notes(await turn(session)) == []
    assert session.window.budget.window == 16_384


async def test_where_the_room_for_the_answer_did_not_fit_nothing_of_the_prompt_is_cut(
    make_session: MakeSession, model_server: ModelServer
):
    model_server.script = [NO_ROOM, Reply("done")]
    session = make_session(window=200_000)
    seen = await turn(session)
    assert notes(seen) == [TOLD]
    assert of_type(seen, events.Compaction) == []
    assert [request.json["max_tokens"] for request in model_server.requests] == [32_000, 4_096]
    assert isinstance(seen[-1], events.TurnEnd) and seen[-1].steps == 1
    assert session.window.budget.window == 16_384, "also where the user had named a larger one"


async def test_over_anthropics_wire_the_window_is_kept_too(make_session: MakeSession, model_server: ModelServer):
    refusal = HttpError(400, "prompt is too long: 215000 tokens > 100000 maximum")
    model_server.script = [refusal, Reply("done", usage=COUNTED)]
    session = make_session("anthropic")
    assert notes(await turn(session, LONG)) == [TOLD.replace("16,384", "100,000")]
    assert provider_of(model_server, "anthropic").local


async def test_a_first_request_of_more_than_four_thousand_tokens_is_long(
    make_session: MakeSession, model_server: ModelServer
):
    asked_before: list[int] = []
    model_server.on_request = lambda request: asked_before.append(len(model_server.asked))
    model_server.said, model_server.script = LLAMA, [Reply("done")]
    session = make_session()
    room = 4_000 - session.window.size(session.conversation)
    await turn(session, "word " * (room * 4 // 5 + 200))
    assert asked_before == [2]


async def test_what_a_server_does_not_say_of_pictures_stays_as_it_was(tmp_path: Path):
    session = Session(Asked("openai/house-1"), workspace=tmp_path, policy=Policy(tmp_path), bare=True)
    session.meter.facts = session.models.facts.replace(images=True)
    session.upkeep.server.begin()
    await session.upkeep.server.settle()
    assert (session.window.budget.window, session.models.facts.images) == (50_000, True)


async def test_a_server_that_refuses_the_first_request_is_asked(make_session: MakeSession, model_server: ModelServer):
    refusal = HttpError(400, "This model's maximum context length is exceeded. Your prompt is too long.")
    model_server.said, model_server.script = LLAMA, [refusal] * 3
    session = make_session()
    _, error = await turn_until_error(session)
    assert isinstance(error, ProviderError)
    await session.upkeep.server.settle()
    assert "/v1/models" in model_server.asked
