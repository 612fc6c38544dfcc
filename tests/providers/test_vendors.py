"""Each vendor of the catalogue as a server that refuses what that vendor refuses: nothing that codelet sends is.

Three steps with tools, then a session that came from another vendor, was exported, was interrupted or was compacted.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.loop.session import Session
from codelet.messages import unpaired
from codelet.providers import open_provider
from codelet.providers.catalog import vendors
from codelet.providers.protocol import Provider
from codelet.safety import Policy
from tests.providers.chunks import options
from tests.support.script import Reply, Stop, Tokens
from tests.support.server import ModelServer
from tests.support.vendors import DIALECTS, GREP, READ, RESPONSES, Dialect

TRANSPORTS = ("native", "litellm")
EACH_WAY = pytest.mark.parametrize(
    ("name", "transport"),
    [(name, way) for name, one in DIALECTS.items() for way in TRANSPORTS if way == "native" or not one.native_only],
)
EACH = pytest.mark.parametrize("name", DIALECTS)
OVER_RESPONSES = (RESPONSES, "xai, Responses")
STEPS = [Reply("Looking.", calls=[READ, GREP]), Reply(calls=[GREP]), Reply("Line 2.")]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("hay\nneedle\nhay\n", encoding="utf-8")
    return tmp_path


def provider_of(dialect: Dialect, server: ModelServer, transport: Any) -> Provider:
    model = dialect.litellm or dialect.model if transport == "litellm" else dialect.model
    return open_provider(model, options(server.openai), transport)


def session_of(provider: Provider, workspace: Path) -> Session:
    return Session(provider, workspace=workspace, policy=Policy(workspace))


async def turn(session: Session, prompt: str = "look for the needle") -> list[events.Event]:
    async with aclosing(session.send(prompt)) as stream:
        return [event async for event in stream]


def refused(server: ModelServer, seen: list[events.Event]) -> list[str]:
    """The vendor's complaints: a refusal that codelet learns from appears as a retry."""
    return [event.reason for event in seen if isinstance(event, events.Retry)]


def test_each_vendor_of_the_catalogue_has_a_server():
    assert {name.partition(",")[0] for name in DIALECTS} - {RESPONSES} == {vendor.prefix for vendor in vendors()}
    for vendor in vendors():
        default = vendor.default_model
        assert default in (None, DIALECTS[vendor.prefix].model, "openrouter/auto")


@EACH_WAY
async def test_three_steps_are_taken_at_the_first_try(
    name: str, transport: str, model_server: ModelServer, workspace: Path
):
    dialect = DIALECTS[name]
    model_server.script = dialect.script(STEPS)
    provider = provider_of(dialect, model_server, transport)
    seen = await turn(session_of(provider, workspace))
    await provider.close()
    assert refused(model_server, seen) == []
    assert len(model_server.requests) == 3
    assert isinstance(seen[-1], events.TurnEnd)
    if dialect.reasoning or dialect.signed:
        returned = all(dialect.mark(step) in model_server.requests[2].body.decode() for step in (1, 2))
        assert returned is (name != "groq"), "what came beside an answer goes back, unless the vendor refuses it"


async def test_openais_own_address_is_asked_over_responses(
    model_server: ModelServer, workspace: Path, monkeypatch: pytest.MonkeyPatch
):
    """The default model as its vendor has it, reached through a proxy that is a scripted OpenAI."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", model_server.base)
    dialect = DIALECTS[RESPONSES]
    model_server.script = dialect.script(STEPS)
    provider = open_provider("openai/gpt-5.6", options("http://api.openai.com/v1"))
    session = session_of(provider, workspace)
    assert refused(model_server, await turn(session)) == []
    await provider.close()
    assert [request.path for request in model_server.requests] == ["http://api.openai.com:80/v1/responses"] * 3
    assert all(dialect.mark(step) in model_server.requests[2].body.decode() for step in (1, 2))
    assert session.meter.spent_cost, "the list price holds"


@EACH_WAY
async def test_a_session_of_another_vendor_goes_on_here(
    name: str, transport: str, model_server: ModelServer, workspace: Path
):
    """There and back: nothing of the one reaches the other, and its own is still there when it comes back."""
    dialect = DIALECTS[name]
    for other in (DIALECTS["anthropic"], DIALECTS["gemini"], DIALECTS["moonshot"]):
        if other.model.partition("/")[0] == dialect.model.partition("/")[0]:
            continue
        with ModelServer(other.script(STEPS)) as elsewhere:
            stranger = provider_of(other, elsewhere, "native")
            session = session_of(stranger, workspace)
            await turn(session)
            model_server.requests.clear()
            model_server.script = dialect.script([*STEPS, Reply("And that was it.")])
            own = provider_of(dialect, model_server, transport)
            session.models.switch(own)
            seen = await turn(session, "again")
            assert refused(model_server, seen) == []
            assert len(model_server.requests) == 3
            assert not any(
                b"secret-of-" + other.model.split("/")[0].encode() in request.body for request in model_server.requests
            )
            elsewhere.script = other.script([Reply("Back.")])
            session.models.switch(stranger)
            seen = await turn(session, "and back")
            assert refused(elsewhere, seen) == []
            last = elsewhere.requests[-1].body.decode()
            assert other.mark(1) in last
            assert "secret-of-" + dialect.model.replace("/", "-") not in last
            await own.close()
            await stranger.close()


@EACH_WAY
async def test_a_session_that_was_exported_goes_on(
    name: str, transport: str, model_server: ModelServer, workspace: Path
):
    dialect = DIALECTS[name]
    model_server.script = dialect.script([*STEPS, Reply("Still there.")])
    first = provider_of(dialect, model_server, transport)
    session = session_of(first, workspace)
    await turn(session)
    saved = to_json(Document(timestamp=1.0, token_count=2, messages=tuple(session.conversation.sent())), mask=None)
    await first.close()
    provider = provider_of(dialect, model_server, transport)
    again = session_of(provider, workspace)
    again.adopt(from_json(saved).messages)
    assert again.messages == session.messages
    seen = await turn(again, "what was it?")
    await provider.close()
    assert refused(model_server, seen) == []
    if dialect.signed or dialect.reasoning not in ("", "reasoning"):
        assert dialect.mark(1) in model_server.requests[-1].body.decode()


@EACH_WAY
async def test_an_interrupted_answer_and_a_stopped_tool_are_taken_back(
    name: str, transport: str, model_server: ModelServer, workspace: Path
):
    """The text that was cut has no reasoning, the calls of the turn before have."""
    dialect = DIALECTS[name]
    over_messages = ("anthropic", "anthropic, before 5.5", "minimax")
    before = 8 if name in over_messages else 12 if name in OVER_RESPONSES else 3 if dialect.reasoning else 2
    stalled = Reply(["It is", " in"], fault=Stop("stall", before))  # the first piece is out by then
    model_server.script = dialect.script([*STEPS[:1], stalled, Reply("It is in line 2."), Reply("Indeed.")])
    provider = provider_of(dialect, model_server, transport)
    session = session_of(provider, workspace)

    async def until_text() -> None:
        async with aclosing(session.send("look")) as stream:
            async for event in stream:
                if isinstance(event, events.Text) and event.delta.startswith("It"):
                    task.cancel()

    task = asyncio.create_task(until_text())
    with suppress(asyncio.CancelledError):
        await task
    assert session.conversation.interruption is not None
    assert unpaired(session.messages) == []
    for prompt in ("go on", "sure?"):
        assert refused(model_server, await turn(session, prompt)) == []
    await provider.close()


@EACH
async def test_a_compacted_session_goes_on(name: str, model_server: ModelServer, workspace: Path):
    dialect = DIALECTS[name]
    (workspace / "notes.txt").write_text("hay needle\n" * 900, encoding="utf-8")
    steps = [replace(step, usage=Tokens(15_500)) for step in STEPS * 6]
    model_server.script = dialect.script(steps)
    provider = provider_of(dialect, model_server, "native")
    session = Session(provider, workspace=workspace, policy=Policy(workspace), window=16_000)
    seen: list[events.Event] = []
    for number in range(6):
        seen += await turn(session, f"look for the needle, time {number}")
    await provider.close()
    assert refused(model_server, seen) == []
    assert [event for event in seen if isinstance(event, events.Compaction) and event.phase == "done"]
