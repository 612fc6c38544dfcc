"""How a summary shares its room: the user's words, the ledger, the narrative, facts, and lines to the last token."""

from __future__ import annotations

import pytest

from codelet.context.compaction import CompactionSettings, IrreducibleContext, compact
from codelet.context.compaction.segments import FROM_USER, NOTE, REQUESTS
from codelet.context.tokens import estimate_message
from tests.context.compaction.lists import Message, calling, coding_session, result, says, segments_of, size, user


def shown(messages: list[Message]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


def long_talk(count: int = 60) -> list[Message]:
    """Prompts of about 300 characters, each answered by lines with names of their own."""
    found: list[Message] = []
    for n in range(count):
        rows = "\n".join(f"Part {n} row {m}: name_{n}_{m} is set in src/p{n}.py." for m in range(8))
        found += [user(f"Request {n}: {f'please see to detail_{n} and more; ' * 8}"), says(rows)]
    return found


@pytest.mark.parametrize("target", range(900, 6_000, 850))
def test_a_summary_fills_its_target_by_any_measure(target: int):
    messages = long_talk()

    def wider(message: Message) -> int:
        return len(str(message.get("content"))) // 3 + 9

    made = compact(messages, target)
    assert 0.99 * target <= size(made.messages) <= target
    other = compact(messages, target, estimate=wider)
    assert 0.95 * target <= sum(map(wider, other.messages)) <= target


def test_the_note_on_what_a_segment_is_stands_once_and_only_where_there_is_room():
    messages = coding_session(40)
    large = compact(messages, 6_000, pinned=[60])
    texts = [str(message["content"]) for message in large.messages]
    assert large.report.segments > 1 and sum(NOTE in text for text in texts) == 1
    assert NOTE in next(text for text in texts if text.startswith("<compacted"))
    assert NOTE not in shown(compact(messages, 900).messages)


@pytest.mark.parametrize("target", [900, 2_000, 5_000])
def test_a_long_narrative_is_told_from_its_beginning_and_leaves_room_for_the_rest(target: int):
    narrative = [f"Then part {n} of it was looked into, at some length, and mended." for n in range(2_000)]
    made = compact(coding_session(40), target, narrative=narrative)
    told = [text for segment in segments_of(made.messages) for key, text in segment.ledger if key == "narrative"]
    assert told == narrative[: len(told)] and told
    assert sum(map(len, told)) < 4 * target // 3
    assert size(made.messages) <= target
    assert "handler_40" in shown(made.messages)
    short = compact(coding_session(40), target, narrative=narrative[:3])
    assert all(line in shown(short.messages) for line in narrative[:3])


def test_the_users_words_get_their_share_and_more_of_it_as_the_setting_says():
    messages = [*long_talk(), *coding_session(10)[1:]]

    def words(percent: int) -> int:
        made = compact(messages, 4_000, settings=CompactionSettings(user_percent=percent))
        entries = [entry for segment in segments_of(made.messages) for entry in segment.entries if entry.is_user]
        return sum(len(line) for entry in entries for line in entry.lines)

    found = [words(percent) for percent in (40, 60, 80, 99)]
    assert found == sorted(found) and found[0] < found[-1]
    assert found[0] < 4 * 4_000 * 65 // 100


def test_the_ledger_gets_more_as_the_setting_says():
    edits: list[Message] = [user("Change them all.")]
    for n in range(300):
        edits += [
            calling((f"e{n}", "edit", {"path": f"src/part_{n}.py", "old": "1", "new": "2"})),
            result(f"e{n}", "ok"),
        ]
    messages = [*edits, says("Done."), *coding_session(20)[1:]]

    def ledger(percent: int) -> int:
        made = compact(messages, 5_000, settings=CompactionSettings(ledger_percent=percent))
        return sum(len(text) for segment in segments_of(made.messages) for _, text in segment.ledger)

    found = [ledger(percent) for percent in (2, 4, 8, 16)]
    assert found == sorted(set(found))
    assert found[1] <= 4 * 5_000 * 4 // 100


def test_pictures_that_went_are_named_the_newest_twenty_of_them_once():
    messages: list[Message] = []
    for n in range(30):
        picture = {"name": f"shot_{n // 2}.png", "media_type": "image/png", "width": 9, "height": 9, "data": "QUJD"}
        messages += [{**user(f"See {n}."), "images": [picture]}, says("I see it.")]
    made = compact([*messages, *coding_session(20)[1:]], 3_000)
    [told] = [text for segment in segments_of(made.messages) for key, text in segment.ledger if key == "pictures"]
    names = told.partition(": ")[2].split(", ")
    assert names == [f"shot_{n}.png" for n in range(5, 15)]
    assert "pictures" not in str(
        [segment.ledger for segment in segments_of(compact(coding_session(40), 3_000).messages)]
    )


def test_a_target_that_takes_the_bare_segments_only_has_no_lines_and_a_smaller_one_is_refused():
    """A measure under which every message costs much leaves room for messages, and none for what is in them."""
    messages = [message for n in range(9) for message in (user(f"Request {n}."), says(f"name_{n} is set."))]

    def dear(message: Message) -> int:
        return 1_000 + 100 * len(str(message["content"]))

    for target in range(8_000, 22_000, 500):
        try:
            made = compact(messages, target, estimate=dear)
        except IrreducibleContext as refused:
            assert sum(refused.floor.values()) > target or target < 10_000
            continue
        assert sum(map(dear, made.messages)) == made.report.after <= target


def test_lines_that_stand_in_what_is_kept_are_not_repeated():
    rows = [f"total_{n} = count_rows_{n}(src_{n})" for n in range(80)]
    old = [user("Look."), calling(("a", "read", {"path": "a.py"})), result("a", "\n".join(rows)), says("Read.")]
    other = "\n".join(f"width_{n} = load_width_{n}(dst_{n})" for n in range(80))
    old += [user("And."), calling(("b", "read", {"path": "b.py"})), result("b", other), says("Read.")]
    newest = [user("Now this:"), says("\n".join(rows))]
    made = compact([*old, *coding_session(9, lines=20)[1:], *newest], 3_000)
    segments = "\n".join(str(message["content"]) for message in made.messages if message not in newest)
    assert sum(f"load_width_{n}(" in segments for n in range(80)) > 2 * sum(
        f"count_rows_{n}(" in segments for n in range(80)
    )


def test_the_size_that_is_told_is_the_lists_under_its_own_measure():
    messages = long_talk(30)
    for target in (600, 900, 2_000):
        made = compact(messages, target, estimate=lambda message: 2 * estimate_message(message))
        assert made.report.after == 2 * size(made.messages) <= target


def test_what_was_cut_from_the_users_words_may_stand_among_the_lines():
    asked = [f"Row {n} of the sheet is as it was." for n in range(200)]
    asked[100] = "The port of legacy_gateway_4711 is set in src/gateway/ports.py."
    messages = [user("\n".join(asked)), says("I see."), *coding_session(20)[1:]]
    made = compact(messages, 3_000)
    entries = [entry for segment in segments_of(made.messages) for entry in segment.entries]
    assert all(asked[100] not in "\n".join(entry.lines) for entry in entries if entry.is_user)
    assert any(asked[100] in entry.lines for entry in entries if entry.label == FROM_USER)


def test_one_line_for_each_request_stands_where_the_first_of_them_was_said():
    chat = [message for n in range(80) for message in (user(f"Please look at number {n} now."), says("ok"))]
    made = compact(chat, 500, pinned=[2]).messages
    first, *others = segments_of(made)
    assert made[1] == chat[2] and [entry.label for entry in first.entries if entry.is_words] == [REQUESTS]
    assert not any(entry.is_words for segment in others for entry in segment.entries)
