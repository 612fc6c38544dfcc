"""What the report of a compaction says is what the lists show: sizes, fates, what was left out, what is gone."""

from __future__ import annotations

from typing import Any

import pytest

from codelet.context.compaction import CompactionReport, CompactionSettings, compact
from codelet.context.compaction.assemble import OldBlock, message_of, segment_lengths, split
from codelet.context.compaction.candidates import LineCollector
from codelet.context.compaction.segments import SegmentEntry, heading
from codelet.context.compaction.summarise import LEDGER_FROM
from codelet.context.tokens import estimate_message
from codelet.messages import kind_of, with_kinds
from tests.context.compaction.lists import (
    Message,
    calling,
    coding_session,
    reminder,
    result,
    says,
    segments_of,
    size,
    user,
)


def shown(messages: list[Message]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


def turn_sizes(messages: list[Message]) -> dict[int, int]:
    """Tokens of each turn; what comes before the first prompt is not counted."""
    found: dict[int, int] = {}
    turn = 0
    for message in messages:
        turn += message["role"] == "user"
        if turn:
            found[turn] = found.get(turn, 0) + estimate_message(message)
    return found


def test_the_fates_of_all_turns_add_up_to_the_lists():
    messages = coding_session(24, steps=2, lines=12)
    made = compact(messages, 3_000)
    fates = made.report.turns
    assert {fate.turn: fate.before for fate in fates} == turn_sizes(messages)
    assert sum(fate.messages for fate in fates) == len(messages) - 1
    assert all(fate.after == fate.before and fate.lines == 0 for fate in fates if fate.fate == "kept")
    assert all(0 < fate.after < fate.before for fate in fates if fate.fate == "summarised")
    # Headings and the first line of a segment belong to no turn.
    assert 0.7 * made.report.after < sum(fate.after for fate in fates) <= made.report.after
    lines = [line for segment in segments_of(made.messages) for entry in segment.entries for line in entry.lines]
    said = sum(fate.lines for fate in fates)
    assert len(lines) - made.report.user_messages <= said <= len(lines) + 3 * len(fates)
    for fate in fates:
        if fate.fate == "summarised":
            assert fate.why == f"the user's words and {fate.lines} lines"


def test_turns_that_stay_in_part_say_so_and_why():
    messages = coding_session(12, steps=2, lines=12)
    starts = [index for index, message in enumerate(messages) if message["role"] == "user"]
    fates = compact(messages, 2_000, pinned=[starts[4]]).report.turns
    assert (fates[4].fate, fates[4].why) == ("reduced", "pinned; the rest summarised")
    rows = "\n".join(f"row {n}" for n in range(3_000))
    long = [*messages, user("Read."), calling(("big", "read", {"path": "a"})), result("big", rows)]
    last = compact(long, 2_000).report.turns[-1]
    assert (last.fate, last.messages) == ("reduced", 3) and last.after < last.before
    assert len(long) - 1 in compact(long, 2_000).report.removed
    huge = compact([*messages, user(rows)], 2_000).report.turns[-1]
    assert (huge.fate, huge.why) == ("reduced", "current prompt")


def test_the_lines_and_the_size_of_a_turn_are_those_in_its_entries():
    causes = "\n".join(f"Part {n} of it is slow because its index_{n} is rebuilt." for n in range(6))
    messages = [
        message for n in range(30) for message in (user(f"Look at part_{n}."), says(causes.replace("Part", f"P{n}")))
    ]
    made = compact(messages, 1_500)
    for fate in made.report.turns:
        entries = [
            entry for segment in segments_of(made.messages) for entry in segment.entries if entry.turn == fate.turn
        ]
        if fate.fate == "summarised":
            assert fate.lines == sum(len(entry.lines) for entry in entries if not entry.is_words)
            characters = sum(len(line) + 1 for entry in entries for line in entry.lines)
            assert characters / 4 - fate.lines - 1 <= fate.after <= characters / 4


def test_messages_that_stay_are_the_callers_own_objects():
    messages = [*coding_session(9, lines=9), reminder("claudeMd", "rules"), user("And now?")]
    own = {id(message) for message in messages}
    for target in (1_500, 10**6):
        made = compact(messages, target).messages
        assert all(id(message) in own for message in made if message in messages)
        assert len([message for message in made if message in messages]) > 3


def test_a_rule_that_a_kept_prompt_states_again_is_not_lost():
    rule = "The importer must keep column_4 of the table."
    old = [user(f"{'this and that. ' * 60}\n{rule}\n{'this and that. ' * 60}"), says("Done.")] * 1
    again = compact([*old, *coding_session(20, lines=9)[1:], user(f"Once more: {rule}")], 400)
    gone = compact([*old, *coding_session(20, lines=9)[1:], user("Once more.")], 400)
    assert rule not in again.report.loss.rules and rule in gone.report.loss.rules


def test_a_list_of_requests_in_one_line_each_is_measured_right():
    messages = [message for n in range(200) for message in (user(f"Set limit_{n} to {n} seconds."), says(f"Set {n}."))]
    for target in (700, 1_000, 1_400):
        made = compact(messages, target, pinned=[100])
        assert made.report.user_mode == "stubs" and made.report.after == size(made.messages) <= target


def test_what_is_removed_are_the_messages_that_do_not_stand_there_as_they_were():
    messages = [*coding_session(9, lines=9), reminder("claudeMd", "old"), reminder("claudeMd", "new"), says("ok")]
    report = compact(messages, 1_500).report
    stays = compact(messages, 1_500).messages
    for index, message in enumerate(messages):
        gone = message not in stays
        assert (index in report.removed) == gone, index


def test_a_list_that_is_only_put_in_order_is_measured_as_it_was_given():
    messages: list[Any] = [user("a"), result("nobody", "x" * 400), says("b"), "no message", user("c")]
    report = compact(messages, 10_000).report
    given = size([message for message in messages if isinstance(message, dict)])
    assert (report.before, report.tier) == (given, 0) and report.after < given


def test_kept_steps_are_the_agents_messages_that_stay():
    messages = coding_session(9, lines=9)
    made = compact(messages, 1_500)
    assert made.report.kept_steps == sum(message["role"] == "assistant" for message in made.messages)


@pytest.mark.parametrize("target", [700, 1_500, 6_000])
def test_the_number_of_segments_and_prompts_is_the_lists(target: int):
    messages = coding_session(20, steps=2, lines=20)
    made = compact(messages, target)
    assert made.report.segments == len(segments_of(made.messages)) > 0
    kept = sum(message["role"] == "user" and kind_of(message) != "segment" for message in with_kinds(made.messages))
    assert made.report.user_messages == 20 - kept
    assert (made.report.before, made.report.after) == (size(messages), size(made.messages))


def test_what_is_gone_is_named_the_most_used_first_and_all_of_it_is_counted():
    rows = "\n".join(f"load_{n}(src/part_{n}.py, {n + 1000})" for n in range(300))
    often = "keep_this_name(src/often.py, 77123)\n" * 30
    messages = [user("Look."), calling(("c", "read", {"path": "x"})), result("c", rows), says(often)]
    made = compact([*messages, *coding_session(4, lines=3)[1:]], 700)
    loss, text = made.report.loss, shown(made.messages)
    for words in (loss.paths, loss.names, loss.numbers):
        assert words and all(word not in text for word in words)
    assert all("/" in word for word in loss.paths) and all(word.isdecimal() for word in loss.numbers)
    assert not any("/" in word for word in loss.names)
    assert loss.names_gone >= len(loss.names) + len(loss.paths)
    first = [int(word.removeprefix("load_")) for word in loss.names if word.startswith("load_")]
    assert first == sorted(first), "of names that were used as often the first one comes first"


def test_a_report_without_a_compaction_names_no_loss():
    report = CompactionReport(0, 10, 5, 5)
    assert (report.loss.decisions_gone, report.loss.names_gone, report.kept_steps, report.segments) == (0, 0, 0, 0)


def test_names_in_arguments_of_kept_calls_are_not_gone():
    """What a kept call names, or puts in, still stands in the list."""
    edit = {"path": "src/needle_path.py", "old_string": "drop_this_name = 1", "new_string": "put_this_name = 2"}
    names = "needle_path and drop_this_name and put_this_name and other_name_gone"
    messages = [user("Look."), says(f"{names}\n" * 3), *coding_session(6, lines=9)[1:]]
    messages += [user("Edit."), calling(("e", "edit", edit)), result("e", "ok"), says("Done.")]
    loss = compact(messages, 420).report.loss
    told = {*loss.names, *loss.paths}
    assert not told & {"needle_path", "put_this_name", "drop_this_name"}


def collected() -> tuple[LineCollector, list[OldBlock]]:
    """Three blocks with kept messages between them, and lines from sources in all of these, the first of turn 0."""
    collector = LineCollector(12)
    blocks = [OldBlock(0, 3, 1, 2), OldBlock(4, 7, 2, 3), OldBlock(9, 12, 4, 5)]
    for place in range(12):
        label = "" if place % 3 else f"read src/f{place // 4}.py"
        source = collector.source((place, 1), place // 3, label, as_line=bool(label) and place % 2 == 0, step=place % 2)
        collector.add(source, "\n".join(f"line_{place}_{n} of it" for n in range(3)), "result")
    blocks[1].ledger = [("changed", "a.py (t1)")]
    blocks[2].said = [((9, 0), SegmentEntry(4, "user", ["[t4] do it"]))]
    collector.read()
    return collector, blocks


@pytest.mark.parametrize("note", [True, False])
def test_the_length_of_a_segment_is_known_before_it_is_written(note: bool):
    collector, blocks = collected()
    every = list(range(len(collector.candidates.text)))
    for chosen in (every, every[::-1], every[::3], every[5:9]):
        known = segment_lengths(blocks, collector, chosen, note=note)
        assert known is not None
        for used in range(len(chosen) + 1):
            parts = split(blocks, collector, chosen[:used])
            made = [
                message_of(block, collector, part, note=note and number == 0)
                for number, (block, part) in enumerate(zip(blocks, parts, strict=True))
            ]
            assert known.of(used) == [len(message["content"]) for message in made if message is not None]


def test_a_line_goes_to_its_own_block_and_what_was_cut_from_a_kept_message_to_the_one_before_it():
    collector, blocks = collected()
    every = list(range(len(collector.candidates.text)))
    places = [
        {collector.sources[collector.candidates.source[index]].place[0] for index in part}
        for part in split(blocks, collector, every)
    ]
    assert places == [{0, 1, 2, 3}, {4, 5, 6, 7, 8}, {9, 10, 11}]
    assert split([], collector, every) == []


@pytest.mark.parametrize("room", [0.5, 1.5, 4.0])
def test_a_ledger_stands_only_where_there_is_room_for_more_than_that(room: float):
    edit = [calling(("e", "edit", {"path": "src/a.py", "old": "1", "new": "2"})), result("e", "ok")]
    messages = [user("Edit."), *edit, says("Done."), *coding_session(14, steps=2, lines=9)[1:]]
    target = int(room * LEDGER_FROM / 4 / 0.6)
    made = compact(messages, target, settings=CompactionSettings(keep_last=1, tail_percent=1, newest_percent=1))
    ledgers = [key for segment in segments_of(made.messages) for key, _ in segment.ledger]
    assert bool(ledgers) == (room > 1)


def test_headings_say_turn_and_step():
    assert (heading(3, "read a"), heading(3, ""), heading(3, "", 7)) == ("[t3 read a]", "[t3]", "[t3.7]")
