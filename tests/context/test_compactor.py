"""When a session compacts, pins and undo, and the notices."""

from __future__ import annotations

from contextlib import aclosing
from itertools import pairwise

import pytest

from codelet import events
from codelet.context import CompactionOptions
from codelet.errors import ProviderError, UsageError
from codelet.messages import kind_of, unpaired
from tests.context.conftest import Open
from tests.context.scripted import (
    Answer,
    ScriptedProvider,
    by_hand,
    compactions,
    fill,
    text,
    turn,
    turn_until_error,
)


def place_of(session, words: str) -> int:
    return next(n for n, message in enumerate(session.messages) if words in str(message["content"]))


async def test_a_list_that_nears_the_limit_is_compacted_with_a_warning_and_a_receipt(open_session: Open):
    session, provider = open_session(window=16_000)
    seen = await fill(session, provider, 24)
    starting, done = compactions(seen, "starting"), compactions(seen, "done")
    assert len(done) >= 2
    assert len(starting) == len(done)
    budget = session.window.budget
    for event in done:
        assert event.before >= budget.cost_trigger
        assert 10 * event.after <= 6 * budget.limit
    assert all(sent.size <= budget.hard for sent in provider.sent)
    places = [seen.index(event) for event in (starting[0], done[0])]
    assert places == sorted(places)


async def test_a_warm_cache_defers_a_compaction_and_a_long_pause_does_not(open_session: Open):
    now = 0.0
    session, provider = open_session(window=60_000, clock=lambda: now)
    budget = session.window.budget
    for _ in range(40):
        if session.size > budget.cost_trigger:
            break
        provider.answers.append(Answer("word " * 1_200))
        assert compactions(await turn(session, "more words")) == []
    assert budget.cost_trigger < session.size < budget.hard_trigger
    assert session.compactor.due() is None
    now = 299.0
    assert session.compactor.due() is None
    now = 301.0
    assert session.compactor.due() == "cost"


async def test_undo_after_more_turns_keeps_what_came_since(open_session: Open):
    session, provider = open_session(window=24_000)
    await fill(session, provider, 8, lines=80)
    before = list(session.conversation.body)
    assert compactions(await by_hand(session), "done")
    await fill(session, provider, 2)
    since = session.messages[place_of(session, "prompt 0: ") : len(session.messages)]
    event = session.compactor.undo()
    assert event is not None and event.phase == "undone" and event.after > event.before
    body = session.conversation.body
    assert [id(message) for message in body[: len(before)]] == [id(message) for message in before]
    assert since and len(body) == len(before) + 2 * 4
    assert unpaired(session.messages) == []
    assert session.compactor.undo() is None


async def test_a_pinned_message_is_the_same_object_after_many_compactions(open_session: Open):
    session, provider = open_session(window=16_000)
    await fill(session, provider, 2)
    number = place_of(session, "value_part1_0")
    pinned = [session.messages[number - 1], session.messages[number]]
    session.compactor.pin(number)
    seen = await fill(session, provider, 30)
    assert len(compactions(seen, "done")) >= 4
    for message in pinned:
        assert any(message is standing for standing in session.messages)
        assert session.compactor.is_pinned(message)
    session.compactor.unpin(place_of(session, "value_part1_0"))
    await fill(session, provider, 12)
    assert not any(pinned[1] is standing for standing in session.messages)


async def test_a_drop_takes_call_and_results_and_can_be_undone(open_session: Open):
    session, provider = open_session()
    provider.answers.append(Answer("both", [("look", {"lines": 3}), ("broken", {"why": "x"})]))
    await turn(session, "go")
    before = list(session.messages)
    number = place_of(session, "x is not there")
    gone = session.compactor.drop(number)
    assert gone == [number - 2, number - 1, number]
    assert len(session.messages) == len(before) - 3
    assert not len(session.compactor.archive), "what the user dropped the model is not to find again"
    await turn(session, "more")
    assert session.compactor.undo() is not None
    assert session.messages[: len(before) - 1] == before[:-1]


async def test_a_pinned_message_is_never_removed_without_a_word(open_session: Open):
    """Neither by a drop of another message of its step, nor by going back, nor by undoing a compaction."""
    session, provider = open_session(window=24_000)
    await fill(session, provider, 1)
    provider.answers.append(Answer("both", [("look", {"lines": 3}), ("broken", {"why": "x"})]))
    await turn(session, "go")
    result = place_of(session, "x is not there")
    session.compactor.pin(result - 1)
    before = list(session.messages)
    for number in (result - 2, result - 1, result):
        with pytest.raises(UsageError, match=f"/pin off {result - 2}"):
            session.compactor.drop(number)
    with pytest.raises(UsageError, match=f"message {result - 2} is pinned"):
        session.rewind()
    assert session.messages == before and session.compactor.pins == (result - 2, result - 1, result)
    session.compactor.unpin(result)
    assert session.compactor.drop(result) == [result - 2, result - 1, result]
    session.compactor.pin(place_of(session, "go"))
    assert session.rewind(unpin=True) == "go" and session.compactor.pins == ()


async def test_a_pinned_summary_is_not_undone(open_session: Open):
    session, provider = open_session(window=24_000)
    await fill(session, provider, 8, lines=80)
    await by_hand(session)
    number = next(n for n, message in enumerate(session.messages) if kind_of(message) == "segment")
    session.compactor.pin(number)
    with pytest.raises(UsageError, match=f"/pin off {number}"):
        session.compactor.undo()
    session.compactor.unpin(number)
    assert session.compactor.undo() is not None


async def test_the_archive_names_turns_as_segments_do_and_survives_a_rewind(open_session: Open):
    session, provider = open_session(window=24_000)
    await fill(session, provider, 8, lines=80)
    await by_hand(session)
    await turn(session, "after")
    assert "prompt 2:" in session.compactor.archive.by_turn(3)
    assert session.rewind() == "after"
    assert "prompt 2:" in session.compactor.archive.by_turn(3)
    await fill(session, provider, 8, lines=80)
    await by_hand(session)
    assert "value_part0_9" in session.compactor.archive.by_turn(9)
    assert "value_part0_9" in session.compactor.archive.by_turn(1)
    assert session.compactor.report is not None
    session.clear()
    assert not len(session.compactor.archive) and session.compactor.report is None


async def test_memory_tiers_the_model_recalls_what_was_taken_out(open_session: Open):
    session, provider = open_session(window=24_000)
    await fill(session, provider, 8, lines=80)
    assert "recall" not in set(session.toolbox.tools)
    await by_hand(session)
    provider.answers.append(Answer("hm", [("recall", {"pattern": "value_part0_77 "})]))
    seen = await turn(session, "what was it?")
    [result] = [event for event in seen if isinstance(event, events.ToolResult)]
    assert result.status == "done" and "compute_9" in result.text
    assert '"recall"' in provider.sent[-1].tools


async def test_the_size_that_is_aimed_at_is_the_providers_own(open_session: Open):
    session, provider = open_session(ScriptedProvider(percent=200), window=64_000)
    for number in range(2):
        provider.answers.append(Answer("s", [("look", {"lines": 260, "about": f"{part}{number}"}) for part in "ab"]))
    for prompt in ("go", "and one", "and two", "and three", "and four"):
        await turn(session, prompt)
    await by_hand(session)
    await turn(session, "on")
    before, after = (2 * request.size for request in provider.sent[-2:])
    target = 35 * session.window.budget.limit // 100
    assert after < 1.08 * target < before, "and the prompt that came since"


async def test_an_overflow_that_stays_ends_the_turn_after_one_retry(open_session: Open):
    session, provider = open_session(window=64_000)
    await fill(session, provider, 3)
    provider.window = 10
    seen, error = await turn_until_error(session, "go")
    assert isinstance(error, ProviderError)
    assert provider.overflows == 2
    assert unpaired(session.messages) == []
    assert isinstance(seen[-1], events.TurnEnd) and seen[-1].reason == "failed"


async def test_off_means_off(open_session: Open):
    session, provider = open_session(window=16_000, compaction=CompactionOptions(automatic=False))
    seen = await fill(session, provider, 16)
    assert compactions(seen) == []
    assert session.size > session.window.budget.hard
    provider.window = 5_000
    before = len(session.messages)
    seen, error = await turn_until_error(session, "one more")
    assert "--compact auto" in str(error)
    assert compactions(seen) == [] and len(session.messages) == before + 1
    assert compactions(await by_hand(session), "done"), "asked for it still works"


async def test_compact_at_moves_the_limit(open_session: Open):
    session, provider = open_session(window=16_000, compaction=CompactionOptions(at=30))
    seen = await fill(session, provider, 8)
    done = compactions(seen, "done")
    limit = session.window.budget.limit
    assert done and all(30 * limit <= 100 * event.before < 60 * limit for event in done)


async def test_two_compactions_without_effect_stop_and_say_what_stays(open_session: Open):
    session, provider = open_session(window=16_000, compaction=CompactionOptions(at=20))
    for number in range(3):
        await turn(session, f"{number} " + text(55, f"held{number}"))
        session.compactor.pin(place_of(session, f"value_held{number}_1 "))
    provider.answers.extend(Answer("s", [("look", {"lines": 1})]) for _ in range(8))
    seen = await turn(session, "go")
    stopped = compactions(seen, "stopped")
    assert stopped and "core" in stopped[-1].note and "pinned" in stopped[-1].note
    after = seen[seen.index(stopped[-1]) :]
    assert compactions(after, "starting") == []
    assert seen[-1].reason == "done"
    assert compactions(await turn(session, "go on"), "starting"), "a new prompt allows it again"


@pytest.mark.parametrize("shares", [(5, 30, 15, 50), (5, 30, 4, 61), (5, 12, 15, 68), (5, 8, 3, 84)])
async def test_a_compaction_keeps_the_shares_of_history_and_kept_context(open_session: Open, shares: tuple[int, ...]):
    session, provider = open_session(window=32_000, compaction=CompactionOptions(shares=shares))
    for number in range(24):
        provider.answers.extend([Answer("looking", [("look", {"lines": 40, "about": f"part{number}"})]), Answer()])
        await turn(
            session, f"prompt {number}: " + f"never touch src/part{number}/mod.py and port {9000 + number}. " * 6
        )
    await by_hand(session, "mind the ports")
    sizes = {share.name: share for share in session.compactor.shares()}
    for name, percent in zip(("context", "history"), shares[1:3], strict=True):
        assert 0 < sizes[name].used <= sizes[name].limit == 24_000 * percent // 100, name
    assert sum(share.used for share in sizes.values()) == pytest.approx(session.size, abs=len(session.messages))
    report = session.compactor.report
    assert report is not None and report.allocation["words"] > 100
    if shares == (5, 30, 15, 50):
        assert report.after >= 0.95 * report.target, "the target is used"


async def test_what_pins_take_beyond_a_share_is_said(open_session: Open):
    session, provider = open_session(window=32_000)
    await fill(session, provider, 12, lines=60)
    for number, message in enumerate(session.messages):
        if message["role"] == "tool" and number < 20:
            session.compactor.pin(number)
    session.compactor.options = CompactionOptions(shares=(5, 5, 15, 75))
    [*_, done] = await by_hand(session, "mind the ports")
    assert done.phase == "done" and "share of context" in done.note


async def test_the_prefix_changes_only_where_that_is_reported(open_session: Open):
    session, provider = open_session(window=16_000, bare=False)
    reported: set[int] = set()
    for number in range(24):
        provider.answers.extend([Answer("x", [("look", {"lines": 70, "about": f"p{number}"})]), Answer()])
        async with aclosing(session.send(f"prompt {number}")) as stream:
            async for event in stream:
                if isinstance(event, events.Compaction) and event.phase == "done":
                    reported.add(len(provider.sent))
    assert len(reported) >= 2
    for place, (before, now) in enumerate(pairwise(provider.sent), 1):
        goes_on = now.stable[: len(before.stable)] == before.stable and now.tools == before.tools
        assert goes_on == (place not in reported), place


async def test_a_smaller_model_cuts_the_users_budget(open_session: Open):
    session, _ = open_session(window=None, budget=100_000)
    assert session.window.budget.user_limit == 100_000
    session.models.switch(ScriptedProvider(model="openai/gpt-4"))
    assert session.models.facts.known, "litellm's map of models is not there"
    assert session.window.budget.window == 8_192
    assert session.window.budget.user_limit == 8_192
    assert session.window.budget.limit < 8_192
