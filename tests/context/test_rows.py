"""The parts of /context: rows with turns, anchors and pins, and the four shares, each alone."""

from __future__ import annotations

import pytest

from codelet.context.tokens import CompactionOptions
from codelet.errors import UsageError
from codelet.loop.session import Session
from tests.context.conftest import Open
from tests.context.scripted import Answer, ScriptedProvider, by_hand, compactions, fill, turn


async def test_rows_have_the_turns_that_segments_have_and_name_anchors(open_session: Open):
    session, provider = open_session(window=16_000)
    await fill(session, provider, 20)
    provider.answers.append(Answer("Shall I use SQLite?"))
    await turn(session, "Which one?")
    number = len(session.messages) - 2
    await turn(session, "ja, nimm das")
    session.compactor.pin(number)
    rows = {row.number: row for row in session.context()}
    assert rows[number].turn == 21, "turns that were compacted are counted"
    assert "checkpoint 28" in rows[number].anchor
    assert rows[number].pinned
    assert not rows[number + 1].pinned and rows[number + 1].anchor == ""
    assert [row.source for row in rows.values()].count("compacted turns") >= 1


async def test_shares_add_up_to_the_whole(open_session: Open):
    session, provider = open_session(window=40_000, bare=False)
    await fill(session, provider, 6)
    shares = {share.name: share for share in session.compactor.shares()}
    assert list(shares) == ["core", "context", "history", "working"]
    assert [share.limit for share in shares.values()] == [1_500, 9_000, 4_500, 15_000]
    assert shares["history"].used == 0
    assert 900 < shares["working"].used < 2_000 < shares["context"].used
    session.window.forget()
    assert abs(sum(share.used for share in shares.values()) - session.size) <= len(session.messages)


WINDOW, BUDGET = 32_000, 24_000


def opened(open_session: Open, shares: tuple[int, ...]) -> tuple[Session, ScriptedProvider]:
    return open_session(window=WINDOW, compaction=CompactionOptions(shares=shares))


def used(session: Session) -> dict[str, tuple[int, int]]:
    return {share.name: (share.used, share.limit) for share in session.compactor.shares()}


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
    await by_hand(session, "mind the ports")
    sizes = used(session)
    assert sizes["core"][0] > sizes["core"][1] == BUDGET // 100
    for name in ("context", "history"):
        assert sizes[name][0] <= sizes[name][1], name
