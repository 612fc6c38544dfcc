"""Observations: all events that were seen, with their turn, and no others."""

from __future__ import annotations

import pytest

from codelet.call_record import CallRecord, CommandEnd, FileFact
from codelet.context.compaction.engine import compact
from codelet.context.compaction.observed import (
    ANCHORS,
    anchors_of,
    command_key,
    observations_in,
    observations_of,
    scores,
    state_lines,
)
from codelet.context.compaction.reading import ReadSession
from tests.context.compaction.lists import calling, coding_session, result, says, segments_of, user
from tests.context.compaction.planted import EVENTS, around, did, ran


@pytest.mark.parametrize("target", [5_000, 7_000])
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_is_told_as_it_was(name: str, target: int):
    middle, words = EVENTS[name]
    segments = segments_of(compact(around(middle), target).messages)
    state = "\n".join(line for segment in segments for line in segment.state)
    assert [each for each in words if (each.removeprefix("not: ") in state) == each.startswith("not: ")] == []


def test_a_record_tells_what_a_call_did_whatever_its_text_says():
    messages = [user("go"), calling(("a", "put", {"at": "x"}), ("b", "run", {"command": "make | tail -1"}))]
    messages += [result("a", "Error: nothing"), result("b", "all good, 3 passed"), says("Done.")]
    wrote = CallRecord(id="a", tool="put", title="", status="done", files=(FileFact("created", "a.py"),))
    ended = CommandEnd(code=0, pipeline=(2, 0))
    run = CallRecord(id="b", tool="run", title="", status="done", commands=("make | tail -1",), ended=ended)
    found = observations_of(ReadSession(messages, {"a": wrote, "b": run}))
    assert [(one.kind, one.what) for one in found] == [("wrote", "a.py"), ("ran", "make | tail -1")]
    assert found[1].ending.startswith("exit 2|0") and not found[1].good
    refused = run.replace(status="refused", ended=None)
    assert not [one for one in observations_of(ReadSession(messages, {"b": refused})) if one.kind == "ran"]


def test_what_an_earlier_compaction_told_is_told_again_until_something_newer_is_known():
    first = compact(around(ran("a", "rspec", "2 examples, 1 failure\n[exit code 1]")), 5_000).messages
    again = compact([*first, says("Hm."), *coding_session(12)[1:]], 5_000).messages
    [segment] = segments_of(again)
    assert any(line.startswith("t1 ran `rspec`: exit 1") for line in segment.state)
    fixed = [*first, *ran("b", "rspec", "2 examples, 0 failures\n[exit code 0]"), *coding_session(12)[1:]]
    [segment] = segments_of(compact(fixed, 5_000).messages)
    [line] = [line for line in segment.state if "rspec" in line]
    assert "exit 0" in line and "before, at t1: exit 1" in line


def test_rows_are_read_back_as_they_were_written():
    rows = [
        "t3 wrote a.py",
        "t7 ran `npm test`: exit 1, 3 failed",
        "t8 committed 1a2b3c4 Add x",
        "t9 step done: Move it",
    ]
    found = observations_in(rows)
    assert [(one.turn, one.kind) for one in found] == [(3, "wrote"), (7, "ran"), (8, "committed"), (9, "step done:")]
    assert found[1].good is False and state_lines(found, set(), 2_000) == rows


@pytest.mark.parametrize(
    ("command", "key"),
    [
        ("cd api && CI=1 make check 2>&1 | tail -5", "cd api && CI=1 make check"),
        ("make check | grep -v ok", "make check"),
        ("make check 2>&1 | grep -E '(a|b)' | head", "make check"),
        ("grep 'a | b' x.py | head", "grep 'a | b' x.py"),
        ('nix-shell --run "a | b"', 'nix-shell --run "a | b"'),
    ],
)
def test_a_command_key_leaves_out_what_shortens_the_output(command: str, key: str):
    assert command_key(command) == key


def test_anchors_come_from_what_was_seen_in_any_language():
    messages = [user("Behebe es."), *ran("a", "rspec", "1 failure\n[exit code 1]")]
    messages += [*did("w", "put", {"path": "a.rb", "content": "x = 1"}, "ok")]
    messages += [*ran("b", "rspec", "0 failures\n[exit code 0]"), says("Soll ich committen?"), user("ja, mach das")]
    messages += [*ran("c", "git commit -am x", "[main 1a2b3c4] Behebe es\n[exit code 0]")]
    messages += [*did("p", "todo", {"items": [{"text": "Eins", "status": "done"}]}, "ok"), says("Fertig.")]
    session = ReadSession(messages)
    anchors = anchors_of(session, observations_of(session))
    kinds = {(anchor.turn, anchor.kind) for anchor in anchors}
    assert {(1, "error fixed"), (1, "last edit"), (1, "checkpoint"), (2, "milestone"), (2, "task done")} <= kinds
    assert all(weight <= 40 and confidence >= 90 for weight, confidence in ANCHORS.values())
    rated = scores(session, anchors, {})
    assert rated[1].anchor == 36 and rated[2].anchor == 32


def test_an_ending_that_nobody_knows_fixes_nothing():
    messages = [
        user("go"),
        *ran("a", "zig build", "error: no x\n[exit code 1]"),
        *ran("b", "zig build | head -3", "ok"),
    ]
    session = ReadSession(messages)
    assert not [one for one in anchors_of(session, observations_of(session)) if one.kind == "error fixed"]


def test_names_of_the_prompt_point_back_to_the_turn_that_had_them_first():
    messages = [user("Look at flush_queue."), says("I did."), user("And else?"), says("No."), user("flush_queue again")]
    session = ReadSession(messages)
    rated = scores(session, [], {})
    assert (rated[1].reference, rated[2].reference) == (10, 0)
