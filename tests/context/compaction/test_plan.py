"""What a plan keeps: the newest turns, prompts and segments, by the shares that they may take."""

from __future__ import annotations

import pytest

from codelet.context.compaction import CompactionSettings, IrreducibleContext, compact
from codelet.context.compaction.parsing import normalise, parse_messages
from codelet.context.compaction.plan import (
    ENDING_EACH,
    READ_LEAST,
    READ_TIMES,
    CompactionPlan,
    Transcript,
    make_plan,
    units,
)
from codelet.context.tokens import estimate_message
from tests.context.compaction.lists import Message, calling, reminder, result, says, size, user


def step(number: int, characters: int, path: str = "a.txt") -> list[Message]:
    """A call whose result has so many characters, in lines."""
    text = "\n".join(f"row {n} of {number}" for n in range(characters))[:characters]
    return [calling((f"s{number}", "read", {"path": path})), result(f"s{number}", text)]


def turn(number: int, characters: int = 400) -> list[Message]:
    return [user(f"Request {number}."), *step(number, characters), says(f"Answer {number}.")]


def planned(messages: list[Message], target: int, pinned: tuple[int, ...] = (), **settings: int) -> CompactionPlan:
    messages = normalise(messages).messages
    sizes = [estimate_message(message) for message in messages]
    transcript = Transcript(messages, parse_messages(messages), sizes, estimate_message)
    return make_plan(transcript, target, CompactionSettings(**settings), pinned)


def turns(*characters: int) -> list[Message]:
    return [message for number, each in enumerate(characters, 1) for message in turn(number, each)]


def test_a_unit_is_a_call_with_its_results_or_one_other_message():
    messages = [user("a"), calling(("x", "read", {}), ("y", "read", {})), result("x", "1"), result("y", "2"), says("b")]
    assert [(span.start, span.stop) for span in units(messages)] == [(0, 1), (1, 4), (4, 5)]
    assert [(span.start, span.stop) for span in units(messages[2:])] == [(0, 2), (2, 3)]


def test_the_newest_turns_stay_whole_while_they_take_their_share_and_one_token_less_is_too_little():
    messages = turns(*(400 for _ in range(12)))
    newest = size(messages[-12:])
    target = newest * 5 // 2 + 1
    enough = planned(messages, target, newest_percent=40, tail_percent=0)
    assert (enough.tier, sorted(enough.kept)) == (2, list(range(36, 48)))
    assert set(enough.why.values()) == {"newest turns"}
    tight = planned(messages, target - 3, newest_percent=40, tail_percent=0)
    assert (tight.tier, sorted(tight.kept)) == (3, list(range(44, 48)))
    assert sorted(planned(messages, target, keep_last=1, newest_percent=40, tail_percent=0).kept) == list(range(44, 48))


def test_what_the_newest_turns_leave_of_the_share_goes_to_the_units_before_them():
    messages = turns(*(400 for _ in range(12)))
    target = size(messages[-12:]) * 3
    for percent in (30, 40, 60, 90):
        found = planned(messages, target, tail_percent=percent)
        more = sorted(set(found.kept) - set(range(36, 48)))
        room = found.available * percent // 100 - size(messages[-12:])
        spans = [span for span in units(messages) if span.stop <= 36]
        wanted: list[int] = []
        for span in reversed(spans):
            weight = size(messages[span.start : span.stop])
            if weight > room:
                break
            room -= weight
            wanted = [*range(span.start, span.stop), *wanted]
        assert more == wanted
        assert {found.why[index] for index in more} <= {"newest"}


def test_a_plan_keeps_system_reminders_and_pins_and_takes_them_off_the_room():
    messages = [{"role": "system", "content": "s" * 80}, reminder("claudeMd", "rules"), *turns(*(400,) * 12)]
    found = planned(messages, 900, pinned=(4, 4, 999))
    assert [found.why[index] for index in (0, 1, 3, 4)] == ["system", "reminder", "pinned", "pinned"]
    assert found.available == 900 - size(messages[:2]) - size(messages[3:5])
    assert planned(messages, 900, pinned=(0,)).why[0] == "system"


def test_the_floor_names_what_has_to_stay():
    messages = [{"role": "system", "content": "s" * 80}, reminder("claudeMd", "rules"), *turns(400, 400)]
    fixed = size(messages[:2])
    with pytest.raises(IrreducibleContext) as caught:
        planned(messages, fixed + 60)
    assert caught.value.floor == {"system": size(messages[:1]), "reminder": size(messages[1:2])} | {
        "segment": 24,
        "prompt": 48,
    }
    assert list(caught.value.floor.values()) == sorted(caught.value.floor.values(), reverse=True)
    assert planned(messages, fixed + 72).available == 72
    with pytest.raises(IrreducibleContext) as caught:
        planned(messages, 200, pinned=(2, 3, 7, 8))
    assert caught.value.floor["pinned"] == size([*messages[2:5], *messages[7:9]])
    assert planned(messages[:2], fixed).available == 0, "nothing else is there"


def test_of_a_turn_that_is_too_large_the_prompt_and_its_newest_units_stay():
    long = [user("Do it."), *(message for n in range(50, 70) for message in step(n, 400))]
    found = planned([*turns(400, 400), *long], 2_500)
    kept = sorted(found.kept)
    assert found.tier == 3 and found.why[8] == "current prompt" and kept[0] == 8
    assert kept[1:] == list(range(kept[1], 49)) and len(kept) > 3
    weight = size([*turns(400, 400), *long][kept[1] :])
    room = (found.available - size(long[:1])) * 18 // 100
    assert weight <= max(room, found.available * 18 // 100) < weight + size(long[1:3]) + size(long[:1])
    assert found.warnings == []


def test_a_prompt_over_half_of_the_room_is_cut_and_told():
    whole = user("Why? " + "\n".join(f"frame {n}" for n in range(300)))
    others = turns(*(400,) * 6)
    fits = planned([*others, whole], size([whole]) * 2)
    assert fits.kept[len(others)] == whole and fits.reduced == set() and fits.warnings == []
    found = planned([*others, whole], size([whole]) * 2 - 2)
    assert found.reduced == {len(others)} and "prompt was cut" in found.warnings[0]
    assert size([found.kept[len(others)]]) <= found.available // 2


def test_a_unit_that_is_too_large_is_kept_with_its_results_cut_alike():
    calls = calling(("x", "read", {"path": "a"}), ("y", "read", {"path": "b"}), ("z", "read", {"path": "c"}))
    rows = "\n".join(f"row {n}" for n in range(900))
    messages = [*turns(*(400,) * 6), user("Read."), calls, result("x", rows), result("y", "short"), result("z", rows)]
    found = planned(messages, 1_400)
    assert found.reduced == {26, 28} and found.kept[27] == messages[27] and found.tier == 3
    assert found.kept[25] == calls and "results were cut" in found.warnings[0]
    assert {found.why[index] for index in range(25, 29)} == {"newest, results cut"}
    assert abs(size([found.kept[26]]) - size([found.kept[28]])) <= 8
    assert 25 not in planned(messages, 300).kept, "next to nothing of them would be left"


def test_only_with_fill_is_an_older_unit_kept_in_part():
    messages = [*turns(400), user("Read."), *step(7, 4_000), says("Read."), *turns(*(60,) * 4)]
    assert planned(messages, 1_000, tail_percent=60).reduced == set()
    filled = planned(messages, 1_000, tail_percent=60, fill=True)
    assert filled.reduced == {6} and filled.kept[5] == messages[5]


def test_talk_gets_the_room_where_it_is_most_of_the_list_and_short():
    def is_talk(messages: list[Message], target: int) -> bool:
        return planned(messages, target).talk

    chat = [message for n in range(60) for message in (user(f"Please look at number {n} now."), says("ok"))]
    whole = size(chat)
    assert is_talk(chat, whole // 2)
    assert not is_talk([message for n in range(60) for message in (user("word " * 120), says("ok"))], whole // 2)
    assert not is_talk([*chat, *step(1, 20_000)], whole), "a third of the list is theirs at least"
    assert not is_talk([says("I see. " * 9) for _ in range(60)], 600)
    lines = "\n".join(f"please look at number {n} now" for n in range(60))
    earlier = user(f'<compacted turns="1-60">\n{lines}')
    assert is_talk([earlier, *chat], size([earlier, *chat]) // 3), "in earlier segments it counts, too"
    assert is_talk([earlier, user("Go on."), says("ok")], 300)


def test_while_many_short_requests_are_answered_the_last_one_competes_with_the_others():
    chat = [message for n in range(60) for message in (user(f"Please look at number {n} now."), says("ok"))]
    assert planned(chat, 600).kept == {}
    asked = planned([*chat, user("And now?")], 600)
    assert asked.why == {120: "current prompt"}


def test_an_estimate_of_the_whole_is_met_by_any_plan():
    messages = [*turns(*(300,) * 9), user("Read."), *step(99, 9_000)]
    for target in range(200, 2_000, 150):
        made = compact(messages, target)
        assert size(made.messages) <= target
        assert made.report.after == size(made.messages)


def segment(number: int, *lines: str) -> Message:
    body = "\n".join(lines)
    return user(f'<compacted turns="{number}-{number}">\n[t{number} user] request {number}\n[t{number}]\n{body}')


def kept_segments(messages: list[Message], target: int) -> list[int]:
    return sorted(index for index, why in planned(messages, target).why.items() if why == "segment")


def test_earlier_segments_stay_newest_first_up_to_their_share_and_take_it_off_the_room():
    messages = [*(segment(n, "one line of it") for n in range(1, 7)), *turns(*(400,) * 8)]
    each = size(messages[:1])
    assert kept_segments(messages, 900) == [2, 3, 4, 5], "no more than four"
    for count in (1, 2, 3):
        target = -(-each * count * 100 // 15)
        assert kept_segments(messages, target) == [2, 3, 4, 5][-count:]
        assert kept_segments(messages, target - 8) == [2, 3, 4, 5][-count:][1:]
        assert planned(messages, target).available == target - count * each
    large = [*messages[:4], segment(5, *(f"line {n} of it" for n in range(99))), *messages[5:]]
    assert kept_segments(large, 900) == [5], "what is before a large one goes with it"


def edited(old: str, new: str, answer: str = "edited: 1 replacement") -> list[Message]:
    arguments = {"path": "a.py", "old_string": old, "new_string": new}
    return [calling(("e", "edit", arguments)), result("e", answer), says("Done.")]


@pytest.mark.parametrize(
    ("later", "kept"),
    [
        (edited("total = 1", "total = 2"), [1]),
        (edited("total = 1", "total = 2", "the old text does not occur"), [0, 1]),
        (edited("total = 1\nx = 3", "total = 1\nx = 4"), [0, 1]),
        (edited("other = 1", "other = 2"), [0, 1]),
        (edited("request 1", "request 9"), [0, 1]),
        (edited("total = 1\n\n\n", "a = 1\n"), [1]),
        ([calling(("e", "read", {"path": "a.py", "old_string": "total = 1"})), result("e", "x")], [0, 1]),
    ],
)
def test_a_segment_that_quotes_what_an_edit_removed_is_merged(later: list[Message], kept: list[int]):
    messages = [segment(1, "total = 1", ""), segment(2, "size = 1"), user("Mend it."), *later, *turns(*(400,) * 8)]
    assert kept_segments(messages, 1_500) == kept
    before = [messages[2], *later, *messages[:2], *messages[3 + len(later) :]]
    assert kept_segments(before, 1_500) == [len(later) + 1, len(later) + 2], "what was edited before it was written"


def test_in_little_room_even_a_few_short_requests_are_talk_and_a_call_that_was_made_is_not_forgotten():
    chat = [message for n in range(10) for message in (user(f"Please look at number {n} now."), says("ok"))]
    assert planned(chat, 399).talk and not planned(chat, 400).talk
    many = chat * 6
    assert planned([*many[:40], *step(1, 40), *many[40:]], 600).why == {120: "current prompt"}, "a call was made in it"
    asked = planned([*many, user("And now?"), *step(1, 40)], 600)
    assert sorted(asked.kept)[-2:] == [121, 122] and asked.talk


def test_a_plan_is_no_larger_for_ids_that_no_cut_makes_shorter():
    messages = [user("Read."), calling(("x" * 700, "read", {"path": "a"})), result("x" * 700, "row\n" * 900)]
    found = planned([*turns(*(400,) * 8), *messages], 1_000)
    assert found.reduced == set() and 33 not in found.kept and found.warnings == []


def far_larger(tokens: int) -> list[Message]:
    """Turns with a large result each, that many tokens; every turn says words of its own in all its parts."""
    found: list[Message] = []
    for number in range(tokens // 8_000):
        text = f"seen_{number} = 1\n" + "the same line\n" * 2_270
        found += [user(f"Look at wanted_{number}, please."), calling((f"c{number}", "bash", {"command": "look"}))]
        found += [result(f"c{number}", text), says(f"The cause was found: ended_{number} is read too late.")]
    return found


def test_of_a_far_larger_list_only_a_part_is_read_and_that_is_told() -> None:
    whole = far_larger(READ_LEAST * 3 // 2)
    made = compact(whole, 6_000)
    text = "\n".join(message["content"] or "" for message in made.messages)
    count = len(whole) // 4
    assert all(f"wanted_{number}" in text for number in range(count))
    assert [warning for warning in made.report.warnings if "not read line by line" in warning]
    assert "seen_0 " not in text and f"seen_{count - 1} " in text
    assert "ended_0 " in text, "the last words of a turn that is not read"
    small = compact(far_larger(READ_LEAST // 2), 6_000)
    assert not [warning for warning in small.report.warnings if "line by line" in warning]


def far_larger_plan(target: int, **settings: object) -> tuple[CompactionPlan, Transcript]:
    """The plan of 60 turns of 24,000 tokens each, by a measure that counts each token a hundred times."""

    def measure(message: Message) -> int:
        return 100 * estimate_message(message)

    messages = normalise(turns(*[760] * 60)).messages
    sizes = [measure(message) for message in messages]
    transcript = Transcript(messages, parse_messages(messages), sizes, measure)
    return make_plan(transcript, target, CompactionSettings(**settings), ()), transcript


def test_of_a_far_larger_list_the_newest_half_of_the_room_is_read_and_the_best_turns_before_it() -> None:
    target = 60_000
    blamed, praised = (45, *range(50, 59)), range(30, 37)
    votes = {**dict.fromkeys(blamed, -5), **dict.fromkeys(praised, 5)}
    plan, transcript = far_larger_plan(target, feedback=votes)
    old = [i for i, reading in enumerate(transcript.readings) if i not in plan.kept and reading.kind != "user"]
    weight = {
        turn: sum(transcript.sizes[i] for i in old if transcript.readings[i].turn == turn) for turn in range(1, 61)
    }
    unread = sum(transcript.sizes[i] for i in plan.unread)
    room = READ_TIMES * target
    assert sum(weight.values()) - room - 24_000 < unread <= sum(weight.values()) - room + 24_000
    share = (sum(weight.values()) - room) * 100 // sum(weight.values())
    assert [f"that {share}% of it" in warning for warning in plan.warnings] == [True]
    read = [i for i in old if i not in plan.unread]
    assert {transcript.readings[i].turn for i in read} >= {*range(51, 60), *range(33, 37), 49}
    assert {transcript.readings[i].turn for i in read}.isdisjoint({45, 44, *range(1, 30)}) and plan.unread.isdisjoint(
        plan.kept
    )


def test_of_turns_that_are_not_read_the_best_ones_last_words_are() -> None:
    plan, transcript = far_larger_plan(ENDING_EACH * 1_000)
    unread = {transcript.readings[i].turn for i in plan.unread}
    assert {transcript.readings[i].text for i in plan.endings} == {f"Answer {turn}." for turn in unread}
    few, transcript = far_larger_plan(1_000, feedback={20: 5, 30: -5})
    ended = sorted(transcript.readings[i].turn for i in few.endings)
    assert len(ended) == 1_000 // ENDING_EACH and ended[0] == 20
    assert set(range(ended[1], ended[-1] + 1)) - set(ended) == {30}
    assert ended[-1] == max(transcript.readings[i].turn for i in few.unread)


def test_a_result_is_cut_down_to_two_dozen_tokens_before_it_is_left_out() -> None:
    sizes = []
    for target in range(160, 700, 4):
        plan = planned([user("Read it."), *step(1, 6_000)], target)
        sizes += [estimate_message(plan.kept[index]) for index in plan.reduced if index == 2]
    assert 16 <= min(sizes) <= 26
