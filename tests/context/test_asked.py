"""Compaction by hand: to a size relative to what is there, with true reasons, and one measure everywhere."""

from __future__ import annotations

import pytest

from codelet import events
from codelet.context.allotment import BESIDE, NothingToCompact, Size, parsed, smaller_size
from codelet.context.compaction.engine import IrreducibleContext
from codelet.loop.session import Session
from tests.context.conftest import Open
from tests.context.scripted import by_hand, compactions, fill, turn

LARGE = 1_000_000


async def compact(session: Session, argument: str = "") -> events.Compaction:
    """The last event of what `/compact` with that argument does."""
    size, wish = parsed(argument)
    return (await by_hand(session, wish, size))[-1]


async def test_far_below_the_budget_a_compaction_by_hand_makes_the_list_smaller(open_session: Open):
    session, provider = open_session(window=LARGE)
    await fill(session, provider, 20)
    newest = [m for m in session.messages if m["role"] == "user"][-3]
    kept = session.messages[session.messages.index(newest) :]
    assert session.size < 35 * session.window.budget.limit // 1_000
    done = await compact(session)
    assert done.phase == "done" and done.after < 0.6 * done.before
    assert done.kept_turns == 3 and session.messages[-len(kept) :] == kept, "the newest turns stay"
    again = await compact(session, "keep value_part3_7")
    assert again.phase in ("done", "stopped") and session.size <= done.after


async def test_sizes_are_met_and_a_wish_may_follow(open_session: Open):
    session, provider = open_session(window=LARGE)
    await fill(session, provider, 20)
    size = session.size
    for argument, wanted in (
        ("30%", 3 * size // 10),
        ("8k", 8_000),
        ("9000", 9_000),
        ("0.0085M mind value_part2_40", 8_500),
    ):
        done = await compact(session, argument)
        assert done.phase == "done" and 0.8 * wanted <= done.after <= wanted, (argument, done)
        assert session.size == done.after
        session.compactor.undo()
    done = await compact(session, "25% keep value_part2_41 and src/part2/mod_5.py")
    assert done.after <= size // 4
    report = session.compactor.report
    assert report is not None and report.turns[2].score.relevance > report.turns[3].score.relevance
    assert "keep value_part2_41" not in str(session.messages), "a wish is no part of the conversation"


@pytest.mark.parametrize(
    ("argument", "size", "wish"),
    [
        ("", None, ""),
        ("20k", Size(tokens=20_000), ""),
        ("1.5k keep x", Size(tokens=1_500), "keep x"),
        ("20,000", Size(tokens=20_000), ""),
        ("30% keep the API decisions", Size(percent=30.0), "keep the API decisions"),
        ("3 rules must stay", None, "3 rules must stay"),
        ("20kg of flour", None, "20kg of flour"),
        ("keep 20k", None, "keep 20k"),
    ],
)
def test_what_is_asked_for_is_read(argument: str, size: Size | None, wish: str):
    assert parsed(argument) == (size, wish)


@pytest.mark.parametrize("argument", ["0%", "100%", "250%", "0k"])
def test_sizes_that_are_none_are_refused(argument: str):
    with pytest.raises(ValueError, match="name a"):
        parsed(argument)


async def test_where_nothing_can_be_taken_out_the_reason_is_true(open_session: Open):
    session, provider = open_session(window=LARGE)
    await fill(session, provider, 3)
    before = list(session.messages)
    stopped = await compact(session)
    assert stopped.phase == "stopped" and session.messages == before
    assert "newest 3 turns" in stopped.note and "`/compact 50%`" in stopped.note
    with pytest.raises(NothingToCompact):
        session.compactor.preview()
    stopped = await compact(session, "200k")
    assert f"{session.size:,}" in stopped.note
    done = await compact(session, "50%")
    assert done.phase == "done" and done.after <= done.before // 2


async def test_a_size_below_the_floor_says_the_floor_and_automatic_compaction_goes_on(open_session: Open):
    session, provider = open_session(window=16_000)
    await fill(session, provider, 4)
    stopped = await compact(session, "1%")
    assert stopped.phase == "stopped" and BESIDE in stopped.note
    seen = await fill(session, provider, 20)
    assert compactions(seen, "done"), "a refusal by hand does not switch it off"


async def test_one_turn_that_is_large_is_made_smaller_inside(open_session: Open):
    session, provider = open_session(window=LARGE)
    await fill(session, provider, 1, lines=900)
    done = await compact(session)
    assert done.phase == "done" and done.after < 0.6 * done.before
    assert done.tier == 3 and done.reduced >= 0


async def test_preview_receipt_why_and_undo_tell_the_same_numbers(open_session: Open):
    session, provider = open_session(window=LARGE)
    await fill(session, provider, 16)
    for size in (None, Size(tokens=7_000), Size(percent=40.0)):
        before = session.size
        seen = session.compactor.preview("mind value_part1_3", size)
        done = (await by_hand(session, "mind value_part1_3", size))[-1]
        undone = session.compactor.undo()
        assert undone is not None
        assert (before, seen.before, done.before, undone.after) == (before,) * 4
        assert (seen.after, done.after, undone.before) == (done.after,) * 3
        assert session.compactor.sizes == (done.before, done.after) and session.size == before


async def test_a_floor_is_never_below_the_size_that_it_refuses(open_session: Open):
    session, _ = open_session(window=128_000)
    await turn(session, "hello")
    with pytest.raises(IrreducibleContext) as caught:
        session.compactor.compacted(session.conversation.snapshot(), "overflow")
    assert sum(caught.value.floor.values()) >= caught.value.target


@pytest.mark.parametrize(
    ("body", "newest", "size"),
    [
        (10_000, 4_000, 4_000 + 6_000 * 35 // 100),
        (4_000, 2_999, 2_999 + 500),
        (4_000, 3_000, None),
        (20_000, 15_000, 15_000 + 5_000 * 35 // 100),
        (20_000, 15_001, 7_000),
        (10_001, 10_001, 10_001 * 35 // 100),
        (10_000, 10_000, None),
        (2_001, 2_001, None),
        (2_000, 2_000, None),
        (0, 0, None),
    ],
)
def test_what_comes_before_the_newest_turns_is_made_smaller_or_else_these_are_where_they_are_long(
    body: int, newest: int, size: int | None
):
    if size is not None:
        assert smaller_size(body, newest, 3) == size
        return
    with pytest.raises(NothingToCompact) as caught:
        smaller_size(body, newest, 3)
    assert not newest or f"{newest:,}" in str(caught.value)
    assert ("`/compact 50%`" in str(caught.value)) is (newest > 2_000)
