"""Tier 1 in a session: old results are reduced before anything is summarised, and can be had back."""

from __future__ import annotations

import re
from contextlib import aclosing
from itertools import pairwise

from codelet import events
from codelet.context.compaction.archive import text_in
from codelet.context.compaction.reduction import reduction
from codelet.conversation import Parts
from codelet.loop.session import Session
from codelet.messages import unpaired
from tests.context.conftest import Open
from tests.context.scripted import Answer, ScriptedProvider, cancelled_compaction, compactions, fill, turn

WINDOW = 64_000


async def compacted(session: Session, wish: str = "") -> list[events.Compaction]:
    async with aclosing(session.compact(wish)) as stream:
        return compactions([event async for event in stream])


async def until_reduced(session: Session, provider: ScriptedProvider, turns: int = 60) -> events.Compaction:
    """Turns until the first compaction, which has to be a reduction."""
    for number in range(turns):
        provider.answers.extend([Answer("looking", [("look", {"lines": 80, "about": f"part{number}"})]), Answer()])
        done = compactions(await turn(session, f"prompt {number}: never touch port {9000 + number}"), "done")
        if done:
            assert done[0].tier == 1, done
            return done[0]
    raise AssertionError("no compaction")


def reduced_results(session: Session) -> list[int]:
    return [n for n, m in enumerate(session.messages) if m["role"] == "tool" and "recall id=" in m["content"]]


async def test_an_automatic_compaction_reduces_old_results_first(open_session: Open):
    session, provider = open_session(window=WINDOW)
    event = await until_reduced(session, provider)
    budget = session.window.budget
    assert event.reduced == len(reduced_results(session)) > 5
    assert event.segments == 0
    assert event.after <= budget.enough < budget.cost_trigger <= event.before
    assert event.before - event.after >= budget.least_batch
    assert unpaired(session.messages) == []
    results = [n for n, m in enumerate(session.messages) if m["role"] == "tool"]
    assert set(reduced_results(session)) == set(results[: event.reduced]), "oldest first"
    assert len(results) - event.reduced >= 10
    report = session.compactor.report
    assert report is not None and report.tier == 1
    fates = [turn.fate for turn in report.turns]
    assert fates[: event.reduced] == ["reduced"] * event.reduced
    assert set(fates[event.reduced :]) == {"kept"} and report.turns[-1].why == "newest turns"
    assert "cut to head and tail" in report.turns[0].why
    assert event.kept_turns == fates.count("kept")
    assert any("part0" in name for name in event.lost), "the loss check runs"
    for number in range(len(results)):
        assert f"never touch port {9000 + number}" in str(session.messages), "all prompts stand word for word"


async def test_what_was_reduced_can_be_recalled_and_taken_back(open_session: Open):
    session, provider = open_session(window=WINDOW)
    await until_reduced(session, provider)
    number = reduced_results(session)[3]
    key = re.findall(r"recall id=(r\d+)", session.messages[number]["content"])[0]
    provider.answers.append(Answer("hm", [("recall", {"entry": key})]))
    [result] = [e for e in await turn(session, "what was in it?") if isinstance(e, events.ToolResult)]
    assert result.status == "done" and "value_part3_41 = compute_7" in result.text
    assert "value_part3_41 " not in session.messages[number]["content"]
    event = session.compactor.undo()
    assert event is not None and event.phase == "undone"
    assert reduced_results(session) == []
    assert "value_part3_41 " in session.messages[number]["content"]


async def test_what_the_user_drops_leaves_the_archive_too_and_comes_back_with_it(open_session: Open):
    session, provider = open_session(window=WINDOW)
    await until_reduced(session, provider)
    archive = session.compactor.archive
    number = reduced_results(session)[3]
    key = re.findall(r"recall id=(r\d+)", session.messages[number]["content"])[0]
    size, other = archive.bytes, archive.entry("r1")
    session.compactor.drop(number)
    assert archive.entry(key) is None and "compute" not in archive.find("value_part3_41 =")[0]
    assert archive.entry("r1") == other and 0 < archive.bytes < size
    event = session.compactor.undo()
    assert event is not None and event.note == "drop"
    back = archive.entry(key)
    assert back is not None and "value_part3_41 = " in text_in(back) and archive.bytes == size


async def test_what_was_reduced_and_pinned_stays_as_it_is_seen(open_session: Open):
    session, provider = open_session(window=WINDOW)
    await until_reduced(session, provider)
    number = reduced_results(session)[3]
    pinned = session.messages[number]
    session.compactor.pin(number)
    [*_, done] = await compacted(session, "mind the ports")
    assert done.phase == "done" and done.tier > 1
    assert any(message is pinned for message in session.messages)


async def test_what_was_cut_on_its_entry_leaves_the_archive_when_it_is_dropped(open_session: Open):
    session, provider = open_session(window=32_000)
    provider.answers.append(Answer("s", [("look", {"lines": 2_000})]))
    await turn(session, "go")
    assert "recall id=r1" in session.messages[2]["content"]
    assert "value_a_999 = " in session.compactor.archive.find("value_a_999 ")[0]
    session.compactor.drop(2)
    assert not session.compactor.archived


async def test_a_summary_after_a_reduction_reads_the_originals(open_session: Open):
    session, provider = open_session(window=WINDOW)
    await until_reduced(session, provider)
    after = list(session.messages)
    reduced = reduced_results(session)
    from_reduced = session.compactor.tiers.summarised(session.conversation.snapshot())
    session.compactor.undo()
    from_originals = session.compactor.tiers.summarised(session.conversation.snapshot())
    assert len(after) == len(session.messages)
    assert from_reduced.messages == from_originals.messages
    assert from_reduced.report.removed == from_originals.report.removed
    assert from_reduced.report.before < from_originals.report.before
    session.conversation.rewrite(after, "the same again")
    archived = len(session.compactor.archive)
    [_, done] = await compacted(session, "mind the ports")
    assert (done.phase, done.tier > 1) == ("done", True), "an instruction asks for a summary"
    report = session.compactor.report
    assert report is not None and set(reduced) <= set(report.removed)
    entries = session.compactor.archive.entries()
    assert len(entries) == archived + len(report.removed) - len(reduced), "no original is kept twice"


async def test_asked_without_an_instruction_a_reduction_has_to_reach_the_size_of_a_summary(open_session: Open):
    session, provider = open_session(window=WINDOW)
    await until_reduced(session, provider)
    assert session.compactor.preview().report.tier > 1
    session, provider = open_session(window=400_000)
    await fill(session, provider, 60, lines=200)
    target = session.window.budget.target
    assert session.size > target
    preview = session.compactor.preview().report
    assert preview.tier == 1 and {fate.fate for fate in preview.turns} == {"kept", "reduced"}
    [_, done] = await compacted(session)
    assert (done.tier, done.reduced) == (1, len(preview.removed))
    assert done.after <= target < done.before
    assert session.compactor.preview("mind compute_3").report.tier > 1 or session.size <= target


async def test_pinned_results_and_the_newest_turns_are_not_reduced(open_session: Open):
    session, provider = open_session(window=WINDOW)
    for number in range(3):
        provider.answers.extend([Answer("s", [("look", {"lines": 80, "about": f"held{number}"})]), Answer()])
        await turn(session, f"held {number}")
        session.compactor.pin(len(session.messages) - 2)
    pinned = [session.messages[n] for n in session.compactor.pins]
    done = compactions(await fill(session, provider, 60), "done")
    assert 1 in {event.tier for event in done}
    for message in pinned:
        assert any(message is standing for standing in session.messages)
    session, provider = open_session(window=WINDOW)
    provider.answers.extend(Answer("s", [("look", {"lines": 80, "about": f"n{n}"})]) for n in range(60))
    done = compactions(await turn(session, "one long turn"), "done")
    assert done and {event.tier for event in done} == {3}, "what is in the newest turns only the last tier touches"


async def test_a_reduction_that_says_less_than_a_summary_is_not_taken(open_session: Open):
    session, provider = open_session(window=WINDOW)
    await until_reduced(session, provider)
    session.compactor.undo()
    body = list(session.messages)
    tiers = session.compactor.tiers
    assert tiers.compacted(Parts(body=body), "hard").report.tier == 1
    for place, message in enumerate(body):  # every result is one that a few lines tell
        if message["role"] == "tool":
            lines = [f"{n} " + "the same plain words of a log " * 3 for n in range(60)]
            lines[30] = f"the only telling line: value_of_{place} in src/told_{place}.py"
            body[place] = {**message, "content": "\n".join(lines)}
    window = session.window
    enough = window.size(Parts(body=body)) - window.budget.enough
    reduced = reduction(body, window.estimate, keep_turns=3, least=window.budget.least_batch, enough=enough)
    made = tiers.compacted(Parts(body=body), "hard")
    assert reduced is not None and made.report.tier > 1
    assert "value_of_" in str(made.messages[0]) and made.report.after < reduced.report.after


async def test_small_batches_are_not_worth_the_cache(open_session: Open):
    session, provider = open_session(window=16_000)
    done = compactions(await fill(session, provider, 24), "done")
    assert done and 1 not in {event.tier for event in done}
    assert session.window.budget.least_batch == 8_000


async def test_a_reduction_is_a_reported_change_of_the_prefix_with_its_reason(open_session: Open):
    session, provider = open_session(window=WINDOW, bare=False)
    reported, notes = set(), []
    for number in range(45):
        provider.answers.extend([Answer("x", [("look", {"lines": 80, "about": f"p{number}"})]), Answer()])
        async with aclosing(session.send(f"prompt {number}")) as stream:
            async for event in stream:
                if isinstance(event, events.Compaction) and event.phase == "done":
                    assert event.tier == 1
                    reported.add(len(provider.sent))
                elif isinstance(event, events.UsageReport) and event.cache_note:
                    notes.append(event.cache_note)
    assert len(reported) == 1
    for place, (before, now) in enumerate(pairwise(provider.sent), 1):
        goes_on = now.stable[: len(before.stable)] == before.stable and now.tools == before.tools
        assert goes_on == (place not in reported), place
    assert len(notes) == 1 and "changed, as a reduction made old results shorter" in notes[0]


async def test_cancelled_a_reduction_leaves_the_list(open_session: Open):
    session, provider = open_session(window=400_000)
    await fill(session, provider, 60, lines=200)
    before = list(session.messages)

    await cancelled_compaction(session)
    assert all(now is then for now, then in zip(session.messages, before, strict=True))
    assert not session.compactor.archived
    assert [event.tier for event in await compacted(session)] == [0, 1]


async def test_rewind_and_adopt_go_on_with_what_was_reduced(open_session: Open):
    session, provider = open_session(window=WINDOW)
    await until_reduced(session, provider)
    reduced = reduced_results(session)
    await turn(session, "after")
    assert session.rewind() == "after"
    assert reduced_results(session) == reduced
    other, _ = open_session(window=WINDOW)
    other.adopt(session.conversation.sent())
    for entry in session.compactor.archive.entries():
        other.compactor.archive.restore(entry.id, entry.turn, entry.message)
    ours, theirs = (s.compactor.tiers.originals(list(s.messages)) for s in (session, other))
    assert ours == theirs != session.messages
    assert "value_part1_41 " in str(theirs[:8]), "a line that only the archive had"
