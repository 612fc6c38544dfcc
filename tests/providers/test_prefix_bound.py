"""Models whose reasoning is bound to its prefix: whatever happens to the list, no request is refused.

The servers check each signature against the request, as Anthropic does: see `tests/support/vendor_claude.py`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.context import CompactionOptions
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder, restore
from codelet.loop.session import Session
from codelet.providers import open_provider
from codelet.providers.facts import model_facts
from codelet.providers.protocol import Provider
from codelet.safety import Policy
from tests.providers.chunks import options
from tests.support.bodies import without_marks
from tests.support.script import Call, HttpError, Reply
from tests.support.server import ModelServer, Recorded
from tests.support.vendor_openrouter import details_of_calls
from tests.support.vendors import DIALECTS, GREP, READ, Rule

CLAUDE = DIALECTS["anthropic"]
EARLIER = DIALECTS["anthropic, before 5.5"]
WRITE = Call("", "write", {"path": "made.txt", "content": "x\n"})
MakeSession = Callable[..., Session]
FEW = CompactionOptions(keep_last=1)
LOOK = [Reply("Looking.", calls=[READ, GREP]), Reply("Writing.", calls=[WRITE]), Reply("Done.")]


@pytest.fixture
def workspace(repo: Path) -> Path:
    (repo / "notes.txt").write_text("hay\nneedle\nhay\n", encoding="utf-8")
    (repo / "CLAUDE.md").write_text("Be careful.\n", encoding="utf-8")
    return repo


def provider_of(server: ModelServer, model: str = CLAUDE.model) -> Provider:
    return open_provider(model, options(server.base))


@pytest.fixture
async def session_of(workspace: Path) -> AsyncIterator[MakeSession]:
    """Makes sessions in the workspace; they are closed with the test."""
    opened: list[Session] = []

    def made(provider: Provider, **more: Any) -> Session:
        policy = Policy(workspace, yes=True)
        opened.append(Session(provider, workspace=workspace, policy=policy, compaction=FEW, **more))
        return opened[-1]

    yield made
    for session in opened:
        await session.close()


async def turn(session: Session, prompt: str = "look for the needle") -> list[events.Event]:
    """The events of a turn, none of which is a refused request."""
    async with aclosing(session.send(prompt)) as stream:
        seen = [event async for event in stream]
    assert [event.reason for event in seen if isinstance(event, events.Retry)] == []
    return seen


def blocks_of(request: Recorded) -> list[list[str]]:
    """The kinds of blocks of each assistant message."""
    return [[b["type"] for b in m["content"]] for m in request.json["messages"] if m["role"] == "assistant"]


def thoughts(request: Recorded) -> int:
    return sum(kinds.count("thinking") for kinds in blocks_of(request))


def reminders(request: Recorded) -> list[str]:
    """The types of all reminders of a request, in order."""
    return re.findall(r"<system-reminder>\\n<!-- type:(\w+) -->", request.body.decode())


def sent(request: Recorded) -> bytes:
    """A request up to the end of its last message, without cache marks."""
    raw = without_marks(request.body)
    return raw[: raw.rindex(b'],"max_tokens"')].removesuffix(b"]}")


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        ("anthropic/claude-sonnet-5-5", True),
        ("claude-opus-5-5-20260901", True),
        ("anthropic/claude-haiku-5-5", True),
        ("anthropic/claude-fable-5-1", True),
        ("claude-mythos-5-2", True),
        ("anthropic/claude-sonnet-6", True),
        ("openrouter/anthropic/claude-opus-5.5", True),
        ("bedrock/us.anthropic.claude-sonnet-5-5-v1:0", True),
        ("anthropic/claude-saga-7-1", True),
        ("anthropic/claude-opus-latest", True),
        ("anthropic/claude-fable-5", False),
        ("anthropic/claude-opus-5", False),
        ("anthropic/claude-opus-4-8", False),
        ("anthropic/claude-sonnet-4-20250514", False),
        ("anthropic/claude-3-5-sonnet-latest", False),
        ("openai/gpt-6.2-sol", True),
        ("openai/gpt-5.6", False),
        ("gemini/gemini-4-argon", False),
        ("ollama/qwen3", False),
    ],
)
def test_which_models_bind_their_reasoning(model: str, bound: bool):
    assert model_facts(model).prefix_bound is bound


@pytest.mark.parametrize("dialect", [CLAUDE, EARLIER, replace(CLAUDE, model="anthropic/claude-opus-5-5")])
async def test_blocks_go_back_in_their_order(
    dialect: Any, model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    order = ["think", "text", "think", "call", "think", "call"]
    first = Reply(["One.", "Two."], calls=[READ, GREP], order=["think", "text", "text", *order[2:]])
    model_server.script = dialect.script([first, Reply(calls=[GREP], order=["think", "call"]), Reply("Done.")])
    session = session_of(provider_of(model_server, dialect.model))
    await turn(session)
    assert blocks_of(model_server.requests[-1]) == [
        ["thinking", "text", "text", "thinking", "tool_use", "thinking", "tool_use"],
        ["thinking", "tool_use"],
    ]


async def test_what_was_sent_stays_and_a_reminder_is_sent_again_only_when_it_changed(
    model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    model_server.script = CLAUDE.script([*LOOK, *LOOK])
    session = session_of(provider_of(model_server))
    await turn(session)
    (workspace / "CLAUDE.md").write_text("Be quick.\n", encoding="utf-8")
    await turn(session)
    requests = model_server.requests
    for before, after in pairwise(requests):
        assert sent(after).startswith(sent(before))
    counts = [[reminders(each).count(kind) for each in requests] for kind in ("environment", "gitStatus", "claudeMd")]
    assert counts == [[1] * 6, [1, 1, 2, 2, 2, 2], [1, 1, 1, 2, 2, 2]]
    assert [thoughts(each) for each in requests] == [0, 2, 4, 5, 7, 9], "all reasoning goes back"
    rows = {row.kind: row.text for row in session.reminders.rows()}
    assert "Be quick." in rows["claudeMd"] and "Be careful." not in rows["claudeMd"]
    assert "made.txt" in rows["gitStatus"]


async def test_a_reminder_that_is_switched_off_is_withdrawn(
    model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    model_server.script = CLAUDE.script([*LOOK, Reply("Yes."), Reply("Still.")])
    session = session_of(provider_of(model_server))
    await turn(session)
    session.reminders.off.add("gitStatus")
    for _ in range(2):
        await turn(session, "and now?")
    assert reminders(model_server.requests[-1]).count("gitStatus") == 3, "withdrawn once"
    assert all(row.text == "" for row in session.reminders.rows() if row.kind == "gitStatus")


async def compact(session: Session) -> None:
    async with aclosing(session.compact()) as steps:
        kinds = [event.phase async for event in steps if isinstance(event, events.Compaction)]
    assert kinds[-1] == "done"


@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-5-5", "anthropic/claude-opus-5-5", EARLIER.model])
async def test_no_rewrite_makes_a_request_that_is_refused(
    model: str, model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    dialect = replace(EARLIER if model == EARLIER.model else CLAUDE, model=model)
    (workspace / "notes.txt").write_text("hay needle\n" * 400, encoding="utf-8")
    model_server.script = dialect.script([*LOOK * 9, Reply("End.")])
    session = session_of(provider_of(model_server, model))
    for _ in range(3):
        await turn(session)
    await compact(session)
    await turn(session)
    session.rewind(1)
    await turn(session)
    session.compactor.drop(next(n for n, m in enumerate(session.messages) if m["role"] == "tool"))
    await turn(session)
    assert session.compactor.undo() is not None
    (workspace / "CLAUDE.md").write_text("Another text.\n", encoding="utf-8")
    await turn(session)
    session.upkeep.instruct("You are somebody else.")
    await turn(session)
    session.clear()
    await turn(session)
    assert len(model_server.requests) == 27
    if model != EARLIER.model:
        kinds = reminders(model_server.requests[-1])
        assert {"environment", "claudeMd", "gitStatus", "tokenStatus"} <= set(kinds)


async def test_a_compaction_removes_older_reminders_and_sends_each_type_once(
    model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    (workspace / "notes.txt").write_text("hay needle\n" * 400, encoding="utf-8")
    model_server.script = CLAUDE.script([*LOOK * 3, Reply("Yes.", calls=[READ]), Reply("End.")])
    session = session_of(provider_of(model_server))
    await turn(session)
    (workspace / "CLAUDE.md").write_text("Be quick.\n", encoding="utf-8")
    for _ in range(2):
        await turn(session)
    await compact(session)
    await turn(session, "one more")
    after = model_server.requests[-2]
    assert sorted(reminders(after)) == ["claudeMd", "environment", "gitStatus", "tokenStatus"]
    assert "Be quick." in after.body.decode() and "Be careful." not in after.body.decode()
    assert thoughts(after) == 0, "what stands behind the summary was made with another prefix"
    assert thoughts(model_server.requests[-1]) == 2, "what came after the compaction is valid"


async def test_reasoning_of_another_prefix_goes_back_where_the_server_requires_some(
    model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    """After a compaction a gateway refuses calls without their reasoning once, and gets it from then on."""
    (workspace / "notes.txt").write_text("hay needle\n" * 400, encoding="utf-8")
    routed = DIALECTS["openrouter, Claude"]
    strict = replace(routed, rules=(*routed.rules, Rule(details_of_calls)))
    model_server.script = strict.script([*LOOK * 3, *LOOK])
    session = session_of(open_provider(strict.model, options(model_server.openai)))
    for _ in range(3):
        await turn(session)
    await compact(session)
    async with aclosing(session.send("one more")) as stream:
        seen = [event async for event in stream]
    assert len([event for event in seen if isinstance(event, events.Retry)]) == 1
    calls = [m for m in model_server.requests[-1].messages if m.get("tool_calls")]
    assert all(message["reasoning_details"] for message in calls)


async def test_a_session_goes_on_from_its_export_with_its_reasoning(
    model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    model_server.script = CLAUDE.script([*LOOK, Reply("Still there."), Reply("Changed.")])
    session = session_of(provider_of(model_server))
    await turn(session)
    saved = to_json(Recorder().snapshot(session), mask=None)
    again = session_of(provider_of(model_server))
    restore(again, from_json(saved))
    await turn(again, "what was it?")
    assert thoughts(model_server.requests[-1]) == 5
    other = session_of(provider_of(model_server), system_prompt="Another one.")
    restore(other, from_json(saved))
    await turn(other, "what was it?")
    assert thoughts(model_server.requests[-1]) == 0, "it was made with another system prompt"


async def test_switching_to_another_model_and_back_keeps_what_is_valid(
    model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    model_server.script = CLAUDE.script([*LOOK, *LOOK])
    session = session_of(provider_of(model_server))
    await turn(session)
    claude = session.provider
    with ModelServer(DIALECTS["openai"].script([Reply("Hello.", calls=[READ]), Reply("Yes.")])) as elsewhere:
        session.models.switch(open_provider(DIALECTS["openai"].model, options(elsewhere.openai)))
        await turn(session, "you?")
    session.models.switch(claude)
    await turn(session, "and you?")
    assert thoughts(model_server.requests[-1]) == 9


async def test_what_the_server_drops_is_counted(model_server: ModelServer, session_of: MakeSession):
    model_server.script = CLAUDE.script([Reply("One."), Reply("Two.", dropped=3)])
    session = session_of(provider_of(model_server))
    for expected in (0, 3):
        await turn(session)
        assert session.meter.dropped == expected


REFUSAL = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


async def test_a_refusal_is_answered_once_and_remembered(
    model_server: ModelServer, session_of: MakeSession, workspace: Path
):
    steps: list[Reply | HttpError] = [LOOK[0], HttpError(400, REFUSAL), LOOK[1], LOOK[2], Reply("Yes.")]
    model_server.script = replace(CLAUDE, rules=()).script(steps)
    session = session_of(provider_of(model_server))
    async with aclosing(session.send("look")) as stream:
        seen = [event async for event in stream]
    assert len([event for event in seen if isinstance(event, events.Note) and "reasoning" in event.text]) == 1
    assert [thoughts(each) for each in model_server.requests[2:]] == [0, 0]
    saved = from_json(to_json(Recorder().snapshot(session), mask=None))
    assert saved.thinking_dropped is True
    again = session_of(provider_of(model_server))
    restore(again, saved)
    await turn(again, "on")
    assert thoughts(model_server.requests[-1]) == 0
