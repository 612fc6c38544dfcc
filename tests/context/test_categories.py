"""The four categories of the budget, each alone: none passes its share, and the user sees what cannot fit."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from codelet import events
from codelet.context.tokens.budget import CompactionOptions
from codelet.errors import UsageError
from codelet.loop.session import Session
from tests.context.conftest import Open
from tests.context.scripted import Answer, ScriptedProvider, compactions, fill, turn

WINDOW, BUDGET = 32_000, 24_000


def opened(open_session: Open, shares: tuple[int, ...]) -> tuple[Session, ScriptedProvider]:
    return open_session(window=WINDOW, compaction=CompactionOptions(shares=shares))


def used(session: Session) -> dict[str, tuple[int, int]]:
    return {share.name: (share.used, share.limit) for share in session.compactor.shares()}


async def compacted(session: Session, words: str) -> list[events.Compaction]:
    async with aclosing(session.compact(words)) as stream:
        return compactions([event async for event in stream])


async def test_context_alone_a_pin_beyond_it_is_refused(open_session: Open):
    session, provider = opened(open_session, (5, 4, 35, 56))
    await fill(session, provider, 2, lines=200)
    [result, *_] = [place for place, message in enumerate(session.messages) if message["role"] == "tool"]
    with pytest.raises(UsageError, match="960"):
        session.compactor.pin(result)


async def test_working_alone_a_result_beyond_it_is_cut_and_told(open_session: Open):
    session, provider = opened(open_session, (5, 70, 15, 10))
    provider.answers.extend([Answer("x", [("look", {"lines": 1_000})]), Answer()])
    seen = await turn(session, "look at all of it")
    tokens, limit = used(session)["working"]
    answer = session.window.estimate(session.messages[-1])
    assert tokens - answer <= 1.02 * limit and limit == BUDGET // 10, (
        "by the count of today, it was cut by that of then"
    )
    assert "lines" in str(session.messages[-2]["content"]) and "left out" in str(session.messages[-2]["content"])
    assert compactions(seen, "reduced")


async def test_core_alone_what_it_takes_beyond_its_share_is_seen(open_session: Open):
    session, provider = open_session(window=WINDOW, bare=False, compaction=CompactionOptions(shares=(1, 34, 15, 50)))
    await fill(session, provider, 24, lines=40)
    await compacted(session, "mind the ports")
    sizes = used(session)
    assert sizes["core"][0] > sizes["core"][1] == BUDGET // 100
    for name in ("context", "history"):
        assert sizes[name][0] <= sizes[name][1], name
