"""Tier 1: what of old results stays, what a read says twice, and how an original is found again."""

from __future__ import annotations

import json
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from codelet.context.compaction.archive import Archive
from codelet.context.compaction.parsing import faults, normalise
from codelet.context.compaction.reduction import cut, holds_as_much, old_results, reduction, shortened
from codelet.context.tokens import estimate_message
from tests.context.compaction.lists import BROKEN, calling, coding_session, result, says, sessions, user

LISTS = st.one_of(st.integers(6, 16).map(coding_session), st.integers(6, 16).map(coding_session), sessions(), BROKEN)
LINES = "\n".join(f"value_{n} = compute(src/mod_{n}.py)" for n in range(60))


def turns(*steps: tuple[str, dict, str]) -> list[dict]:
    """Turns of one call each: tool, arguments, result; then ten small ones."""
    small = [("find", {"pattern": "*.py"}, "src/a.py")] * 10
    found = []
    for number, (name, arguments, text) in enumerate([*steps, *small]):
        found += [user(f"prompt {number}"), calling((f"c{number}", name, arguments)), result(f"c{number}", text)]
    return found


def first_result(*steps: tuple[str, dict, str]) -> str:
    """What the first step's result is reduced to."""
    return old_results(turns(*steps), estimate_message, least=1).messages[2]["content"]


def test_a_read_is_superseded_by_one_that_says_all_of_it_and_by_nothing_less():
    whole, part = {"path": "a.py"}, {"path": "a.py", "offset": 10, "limit": 60}
    other = {"path": "a.py", "offset": 300, "limit": 60}
    edit = {"path": "a.py", "old": "value_1 =", "new": "value_2 ="}
    one_line = "[file a.py, 60 lines; read again or written later]"
    assert first_result(("read", part, LINES), ("read", part, LINES)) == one_line
    assert first_result(("read", part, LINES), ("read", whole, LINES)) == one_line
    assert first_result(("read", whole, LINES), ("write", {"path": "a.py", "content": "x"}, "ok")) == one_line
    for later in (("read", other, LINES), ("edit", edit, "ok"), ("read", {"path": "b.py"}, LINES)):
        kept = first_result(("read", whole, LINES), later)
        assert kept.startswith("value_0 = compute(src/mod_0.py)") and kept.endswith("compute(src/mod_59.py)")
        assert "lines left out" in kept


def test_reduced_messages_name_their_originals_and_only_those_are_found():
    messages = turns(
        ("bash", {"command": "cat log"}, LINES),
        ("write", {"path": "a.py", "content": LINES}, "ok"),
        ("read", {"path": "b.py"}, LINES),
    )
    archive = Archive()
    archive.put(0, user("something else"))
    made = old_results(messages, estimate_message, least=1, first_id=archive.next_number, spared=[8])
    assert made.how == ("cut", "arguments")
    archive.put_all((1, messages[place]) for place in made.changed)
    for place in made.changed:
        assert archive.original(made.messages[place]) is messages[place]
        assert archive.original(messages[place]) is None
    assert json.loads(made.messages[4]["tool_calls"][0]["function"]["arguments"])["content"].endswith("recall id=r3]")
    assert made.messages[8] is messages[8]
    lie = result("c9", "recall id=r2")
    assert archive.original(lie) is None, "it answers another call"
    archive.clear()
    assert archive.original(made.messages[2]) is None


def test_the_newest_line_that_holds_a_word_is_found_as_a_whole():
    archive = Archive()
    archive.put(1, user("Never call\n  old_port of   src/a.py directly."))
    archive.put(2, result("c", f"value_1 = 1\nvalue_11 = old_port\n{'x ' * 900}needle_7 {'y ' * 900}"))
    archive.put(3, says("value_11 = new_port"))
    found = archive.lines_with(["value_1", "value_11", "needle_7", "old_port of src/a.py", "gone"])
    assert [(role, turn) for role, turn, _ in found] == [("user", 1), ("tool", 2), ("tool", 2), ("assistant", 3)]
    lines = [line for _, _, line in found]
    assert lines[0] == "old_port of src/a.py directly." and lines[1] == "value_1 = 1"
    assert len(lines[2]) == 400 and lines[2].index("needle_7") == 200
    assert lines[3] == "value_11 = new_port"
    assert archive.lines_with([]) == [] == archive.lines_with(["nothing_here"])


def test_ids_are_given_in_order_also_to_what_the_archive_cannot_hold():
    archive = Archive(cap=2_000)
    assert archive.put_all([(1, user("a")), (1, user("x" * 9_000)), (2, user("b"))]) == ["r1", None, "r3"]
    assert archive.next_number == 4


def test_what_holds_as_much_is_told_by_what_the_messages_say():
    before = [user("fix src/deep/engine.py and parse_header"), says("Looked at src/deep/engine.py: parse_header fails")]
    assert holds_as_much(before, before[:1], before)
    assert holds_as_much([user("src/deep/engine.py parse_header fix Looked fails")], before, before)
    assert not holds_as_much([user("something else entirely, at great length")], before[:1], before)


@settings(max_examples=60, deadline=None)
@given(LISTS, st.integers(1, 4_000), st.integers(1, 3))
def test_a_reduction_keeps_all_messages_and_pairs_and_says_what_it_did(messages: list, enough: int, keep: int):
    normal = normalise(messages).messages
    made = reduction(normal, estimate_message, keep_turns=keep, least=1, enough=enough, first_id=1)
    if made is None:
        return
    report = made.report
    assert len(made.messages) == len(normal) and faults(made.messages) == faults(normal)
    changed = {place for place, (old, new) in enumerate(zip(normal, made.messages, strict=True)) if old is not new}
    assert changed == set(report.removed)
    sizes = [sum(map(estimate_message, found)) for found in (normal, made.messages)]
    assert [report.before, report.after] == sizes and report.after < report.before
    results = [place for place, message in enumerate(normal) if message["role"] == "tool"]
    assert not changed & set(results[-10:])
    prompts = [place for place, message in enumerate(normal) if message["role"] == "user"]
    assert {normal[place]["role"] for place in changed} <= {"tool", "assistant"}
    assert all(place < prompts[-1] for place in changed if prompts)
    assert sum(fate.before for fate in report.turns) - sum(fate.after for fate in report.turns) == sizes[0] - sizes[1]
    again = reduction(normal, estimate_message, keep_turns=keep, least=1, enough=enough, first_id=1)
    assert again == made


def numbered(count: int, errors: tuple[int, ...] = ()) -> str:
    """Lines of the same length, some of them errors."""
    return "\n".join(
        f"Error: step {n:05d} went wrong" if n in errors else f"row {n:05d} {'.' * 18}" for n in range(count)
    )


@given(st.integers(60, 400), st.integers(120, 3_000), st.sampled_from([(), (50,), (30, 31, 40)]))
@example(60, 714, (50,))
def test_a_cut_has_whole_lines_fits_and_counts_what_it_left_out(count: int, cap: int, errors: tuple[int, ...]):
    text = numbered(count, errors)
    made = cut(text, cap, "r3")
    if len(text) <= cap:
        assert made == text
        return
    assert len(made) <= cap
    kept = [line for line in made.split("\n") if not line.startswith("[…")]
    told = re.search(r"\n\[… (\d+) lines left out of (\d+) characters; recall id=r3 …\]\n", made)
    if told is None:
        assert made == text[:cap], "too little room for a word on it"
        return
    assert int(told[2]) == len(text)
    whole = set(text.split("\n"))
    broken = [line for line in kept if line not in whole]
    assert len(broken) <= (2 if cap < 400 else 0), "head and tail end at a line's end, where they have one"
    assert int(told[1]) == count - len(kept) + len(broken)
    assert len(kept) == len(set(kept))


def test_the_errors_between_head_and_tail_stay_while_a_third_of_the_room_takes_them():
    errors = tuple(range(100, 130))
    made = cut(numbered(400, errors), 1_000)
    shown = [line for line in made.split("\n") if line.startswith("Error")]
    assert shown == [f"Error: step {n:05d} went wrong" for n in range(100, 100 + len(shown))]
    assert 200 <= sum(len(line) + 1 for line in shown) <= 333
    assert len(cut(numbered(400), 1_000)) >= 900, "without any, head and tail have all of it"
    assert "Error" not in cut(numbered(400, (100,)), 130)


def reads(count: int, text: str = LINES) -> list[dict]:
    """So many turns, each with a read of a file of its own."""
    found = []
    for n in range(count):
        found += [user(f"p{n}"), calling((f"c{n}", "read", {"path": f"{n}.py"})), result(f"c{n}", text), says("ok")]
    return found


def test_the_oldest_results_are_reduced_until_enough_is_saved_and_the_last_ten_never():
    for count in (9, 10, 11, 14):
        changed = old_results(reads(count), estimate_message, least=1).changed
        assert changed == tuple(range(2, 4 * max(0, count - 10), 4))
    messages = reads(20)
    every = old_results(messages, estimate_message, least=1)
    each = every.saved // 10
    assert every.saved == 10 * each == sum(map(estimate_message, messages)) - sum(map(estimate_message, every.messages))
    for enough, number in ((1, 1), (each, 1), (each + 1, 2), (3 * each, 3), (100 * each, 10)):
        assert len(old_results(messages, estimate_message, least=1, enough=enough).changed) == number
    assert old_results(messages, estimate_message, least=10 * each).changed
    nothing = old_results(messages, estimate_message, least=10 * each + 1)
    assert (nothing.messages, nothing.changed, nothing.saved, nothing.how) == (messages, (), 0, ())
    assert 6 not in old_results(messages, estimate_message, least=1, spared={6}).changed


def test_small_results_and_calls_stay_and_what_is_reduced_gets_smaller():
    assert old_results(reads(20, "short"), estimate_message, least=1).changed == ()
    small = [("write", {"path": "a.py", "content": "x" * 90}, "ok"), ("bash", {"command": "ls " + "a" * 900}, "ok")]
    assert old_results(turns(*small), estimate_message, least=1).changed == ()
    for size in range(0, 2_000, 50):
        text = "\n".join(f"row {n:03}" for n in range(size))[:size]
        made = old_results(turns(("bash", {"command": "x"}, text)), estimate_message, least=1)
        assert len(made.messages[2]["content"]) <= len(text) and len(made.messages[2]["content"]) <= 1_000


def test_of_a_writes_arguments_the_short_ones_stay_but_for_what_it_took_out():
    arguments = {"path": "a.py", "old_string": "gone = 1", "new_string": "x" * 900, "count": 2, "all": None}
    messages = turns(("edit", arguments, "ok"))
    [call] = old_results(messages, estimate_message, least=1, first_id=7).messages[1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {
        "path": "a.py",
        "old_string": "[8 characters; recall id=r7]",
        "new_string": "[900 characters; recall id=r7]",
        "count": 2,
        "all": None,
    }
    assert (call["id"], call["function"]["name"]) == ("c0", "edit")
    broken = [dict(message) for message in messages]
    function = {"name": "write", "arguments": '{"path": "a.py", "content": "' + "x" * 900}
    broken[1]["tool_calls"] = [{"id": "c0", "type": "function", "function": function}]
    [call] = old_results(broken, estimate_message, least=1).messages[1]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {}


def test_the_report_of_a_reduction_tells_what_was_done_in_each_turn():
    same = {"path": "a.py"}
    steps = [("read", same, LINES), ("bash", {"command": "x"}, LINES), ("read", same, LINES)]
    messages = turns(*steps, ("write", {"path": "b.py", "content": LINES}, "ok"))
    made = reduction(normalise(messages).messages, estimate_message, keep_turns=3, least=1, enough=10**6)
    assert made is not None
    fates = made.report.turns
    assert [fate.why for fate in fates[:5]] == [
        "1 read again later, one line",
        "1 cut to head and tail",
        "1 cut to head and tail",
        "1 written, sizes left",
        "nothing to reduce, or not needed",
    ]
    assert [fate.why for fate in fates[-3:]] == ["newest turns"] * 3
    assert [fate.fate for fate in fates] == ["reduced"] * 4 + ["kept"] * 10
    assert {(fate.messages, fate.lines) for fate in fates} == {(3, 0)}
    report = made.report
    assert (report.tier, report.user_messages, report.target) == (1, 14, report.after)
    assert fates[-1].score.recency == 20 and report.loss.names_gone > 0
    assert reduction(normalise(messages).messages, estimate_message, keep_turns=14, least=1, enough=1) is None


@given(st.integers(150, 400), st.integers(400, 3_000), st.integers(1, 12))
def test_a_cut_uses_its_room_with_errors_as_without(count: int, cap: int, errors: int):
    text = numbered(count, tuple(range(count // 2, count // 2 + errors)))
    if len(text) > cap:
        assert cap - 170 <= len(cut(text, cap)) <= cap


def test_error_lines_are_shown_once_and_no_more_than_a_dozen_of_no_great_length():
    rows = [f"row {n:05d} {'.' * 18}" for n in range(2_000)]
    rows[1_000:1_000] = ["Error: same"] * 5 + [f"Error: {n}" for n in range(30)] + ["Error: " + "x" * 300]
    shown = [line for line in cut("\n".join(rows), 12_000).split("\n") if line.startswith("Error")]
    assert shown == ["Error: same", *(f"Error: {n}" for n in range(11))]
    edge = ["Error: " + "y" * 293, "Error: " + "z" * 294]
    found = cut("\n".join([*rows[:900], *edge, *rows[1_100:]]), 12_000)
    assert edge[0] in found and edge[1] not in found


def test_a_huge_text_is_searched_for_errors_at_both_its_ends():
    filler = "row without anything to tell\n" * 40_000
    ends, places = filler[:300_000], ("near the front", "in the middle", "near the end")
    found = cut(ends + filler.join(f"\nError: {place}\n" for place in places) + ends, 6_000)
    assert "Error: near the front" in found and "Error: near the end" in found
    assert "Error: in the middle" not in found


def test_what_is_just_long_enough_to_be_reduced():
    for length, reduced in ((750, False), (751, True)):
        text = "\n".join("row of a log" for _ in range(80))[:length]
        assert (first_result(("bash", {"command": "x"}, text)) != text) is reduced
    frame = len(json.dumps({"path": "a.py", "content": ""}))
    for length, reduced in ((600, False), (601, True)):
        arguments = {"path": "a.py", "content": "x" * (length - frame)}
        assert bool(old_results(turns(("write", arguments, "ok")), estimate_message, least=1).changed) is reduced
    both = {"path": "a.py", "content": "x" * 700, "note": "n" * 250, "more": "m" * 251}
    [call] = old_results(turns(("write", both, "ok")), estimate_message, least=1).messages[1]["tool_calls"]
    left = json.loads(call["function"]["arguments"])
    assert (left["note"], left["more"]) == ("n" * 250, "[251 characters]")


def test_a_message_is_shortened_to_a_size_without_its_pictures_and_with_all_that_fits():
    message = result("c1", numbered(200)) | {"images": [{"name": "a.png", "media_type": "image/png", "data": "A" * 9}]}
    whole = estimate_message(result("c1", numbered(200)))
    for tokens in (60, 100, 300, 900, whole - 1):
        made = shortened(message, tokens, estimate_message)
        assert "images" not in made and made["tool_call_id"] == "c1"
        assert 0.8 * tokens - 20 <= estimate_message(made) <= tokens
        assert made["content"].startswith("row 00000")
    assert shortened(result("c1", "short"), 900, estimate_message) == result("c1", "short")
    assert shortened(result("c1", numbered(200)), 1, estimate_message)["content"] == ""
