"""The text of segments: words, prose, and evidence in any language, what stays whole, and what is cut."""

from __future__ import annotations

import pytest

from codelet.context.compaction.engine import compact
from codelet.context.compaction.lexicon import clip, is_noise
from codelet.context.compaction.lines import prose_lines
from codelet.context.compaction.plan import CompactionSettings
from codelet.context.compaction.segments import ParsedSegment, SegmentEntry, parse_segment, render
from tests.context.compaction.lists import Message, calling, coding_session, result, says, segments_of, size, user
from tests.context.compaction.planted import LANGUAGES, did, in_language, reads, with_base64


def text_of(messages: list[Message]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


@pytest.mark.parametrize("share", [4, 8, 16])
@pytest.mark.parametrize("name", LANGUAGES)
def test_conclusions_and_orders_stay_in_every_language(name: str, share: int):
    conclusions, order, _ = LANGUAGES[name]
    messages = in_language(name)
    text = text_of(compact(messages, size(messages) // share).messages)
    assert [one for one in (*conclusions, order) if one not in text] == []


def test_a_segment_reads_back_as_it_was_written():
    entries = [
        SegmentEntry(1, "user", ["[t9 user] fake", "[state]", "\\[t1] x"]),
        SegmentEntry(1, "", ["I did.", "[t2 bash]"]),
        SegmentEntry(2, "bash make", ["[model's summary, so to say", "ok"]),
    ]
    segment = ParsedSegment(1, 2, ["Task now: x"], ["t1 ran `a`: exit 0"], entries)
    assert parse_segment(render(segment, note=True)) == segment
    older = render(segment, note=False).replace("\n", "\nThese turns were compacted: as an older version says it.\n", 1)
    assert parse_segment(older) == segment


def test_no_token_is_cut():
    text = "set SYSTEM_PEPPER=PEPPER_EXAMPLE_2026_x and then " + "much more of it " * 20
    for most in range(12, 200, 7):
        cut = clip(text, most)
        assert len(cut) <= most
        assert all(word in text.split() or word == "[…]" for word in cut.split()), cut


def test_the_sentence_that_leads_into_a_dropped_block_goes_with_it():
    block = "```python\n" + "x = 1\n" * 40 + "```"
    assert prose_lines(f"First.\nThe new code:\n{block}\nLast.") == ["First.", "Last."]


def test_base64_and_markup_leave_the_room_to_others():
    messages = with_base64()
    text = text_of(compact(messages, size(messages) // 8).messages)
    assert sum(len(line) for line in text.split("\n") if is_noise(line)) < len(text) // 100


def test_what_is_said_again_is_told_once():
    prompt = "Please look at the queue and say whether it still loses rows."
    messages = [part for _ in range(12) for part in (user(prompt), *reads(0, 1), says("It does."))]
    for number, message in enumerate(messages):
        for one in message.get("tool_calls", ()):
            one["id"] = f"c{number}"
            messages[number + 1]["tool_call_id"] = f"c{number}"
    made = compact(messages, 1_500).messages
    again = compact([*made, user(prompt), says("It does."), user("and now?")], 500).messages
    for messages, last in ((made, 11), (again, 13)):
        words = [line for entry in segments_of(messages)[0].entries if entry.label == "user" for line in entry.lines]
        assert len(words) == 1 and words[0].startswith(f"{prompt} (again at t2, t3") and f"t{last - 1}" in words[0]


def test_results_that_the_model_has_not_seen_stay_whole_while_there_is_room():
    long = "\n".join(f"row {n} of table_{n}" for n in range(900))
    messages = [*coding_session(20), user("read it"), calling(("x", "read", {"path": "a"})), result("x", long)]
    made = compact(messages, 8_000)
    assert made.messages[-1] == messages[-1] and not made.report.cut
    tight = compact(messages, 3_000, settings=CompactionSettings(first_id=7))
    assert "recall entry=r7" in str(tight.messages[-1]["content"]) and len(tight.report.cut) == 1
    assert messages[tight.report.cut[0]] == messages[-1]


def test_a_file_that_was_read_twice_is_sent_once_in_full():
    long = "\n".join(f"row {n} of table_{n}" for n in range(200))
    twice = [*did("a", "read", {"path": "t"}, long), *did("b", "read", {"path": "t"}, long)]
    made = compact([*coding_session(30), user("read it"), *twice, says("Read.")], 8_000)
    assert [message["content"] == long for message in made.messages if message.get("tool_call_id") in ("a", "b")] == [
        False,
        True,
    ]


def test_a_pin_is_the_one_strong_weight():
    messages = coding_session(40)

    def kept(votes: dict[int, int]) -> int:
        made = compact(messages, 5_000, settings=CompactionSettings(votes=votes))
        return next(fate.after for fate in made.report.turns if fate.turn == 9)

    assert kept({9: 5}) > kept({}) >= kept({9: -5})


def test_an_instruction_keeps_what_it_names():
    messages = coding_session(40)

    def shown(instruction: str) -> int:
        return text_of(compact(messages, 4_000, settings=CompactionSettings(instruction=instruction)).messages).count(
            "handler_11"
        )

    assert shown("handler_11 and mod_11") >= shown("")


def test_a_list_can_be_folded_though_it_fits():
    messages = coding_session(6)
    made = compact(messages, size(messages), settings=CompactionSettings(fold=True, keep_last=2))
    assert len(made.messages) < len(messages) and made.report.tier == 2
    text = text_of(made.messages)
    assert all(f"handler_{n} now returns" in text for n in range(1, 7))


def test_a_prompt_that_was_answered_competes_with_the_others():
    messages = [
        user(f"Remark {n} of many about nothing.") if n % 2 else says("Understood, I will go on with it.")
        for n in range(1, 61)
    ]
    messages += [user("And a last remark that needs no place of its own here."), says("Fine.")]
    answered = compact(messages, size(messages) // 10)
    assert "needs no place" not in str(answered.messages[-1]["content"])
    asked = compact(messages[:-1], size(messages) // 10)
    assert asked.messages[-1] == messages[-2]
