"""Tier 1: what of old results stays, what a read says twice, and how an original is found again."""

from __future__ import annotations

import json
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st

from codelet.context.compaction.archive import Archive
from codelet.context.compaction.parsing import faults, normalise
from codelet.context.compaction.reduction import cut, holds_as_much, old_results, reduction
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
    assert "needle_7" in lines[2] and len(lines[2]) <= 400
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
