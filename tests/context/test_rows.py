"""The parts of /context: rows with turns, anchors and pins, and the shares."""

from __future__ import annotations

from tests.context.conftest import Open
from tests.context.scripted import Answer, fill, turn


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
