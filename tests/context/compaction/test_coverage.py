"""Which lines are chosen: by what they say for their length, each name once, within the room to the character."""

from __future__ import annotations

import pytest

from codelet.context.compaction import compact
from codelet.context.compaction.coverage import FRAME, SMALLEST_ROOM, Candidates, Selection, cover, log2_milli
from tests.context.compaction.lists import coding_session, segments_of


def lines_of(*lines: tuple[str, tuple[int, ...]], sources: list[int] | None = None) -> Candidates:
    count = len(lines)
    texts, names = [text for text, _ in lines], [own for _, own in lines]
    return Candidates(texts, names, [1000] * count, sources or [0] * count, list(range(count)))


def test_the_most_for_its_length_comes_first_and_of_equals_the_newer():
    choice = Selection(lines_of(("a" * 40, (0,)), ("b" * 20, (1,)), ("c" * 20, (2,)), ("d" * 20, ())), [0], [-1])
    assert choice.take(range(4), [100] * 3, 1_000) == [2, 1, 0]
    assert choice.spent == 40 + 20 + 20 + 3


def test_a_name_that_is_shown_counts_for_little():
    """After the line with both names, a fresh third name comes before either of them."""
    lines = lines_of(("a" * 20, (0, 1)), ("b" * 20, (0, 1)), ("c" * 20, (2,)))
    weights = [100, 100, 60]
    assert Selection(lines, [0], [-1]).take(range(3), weights, 1_000) == [1, 2, 0]
    assert weights == [3, 3, 42]


def test_a_name_alone_on_its_line_goes_on_counting():
    weights = [100, 100]
    Selection(lines_of(("a" * 20, (0,))), [0], [-1]).take([0], weights, 1_000)
    assert weights == [70, 100]
    weights = [100, 100]
    Selection(lines_of(("a" * 20, (0,))), [0], [-1]).take([0], weights, 1_000, alone=50)
    assert weights == [50, 100]


def test_a_line_costs_itself_its_end_and_its_sources_heading_once():
    lines = lines_of(("x" * 10, (0,)), ("y" * 10, (1,)), ("z" * 10, (2,)), sources=[0, 0, 1])
    choice = Selection(lines, [30, 7], [-1, -1])
    choice.take(range(3), [100] * 3, 1_000)
    assert choice.spent == 3 * 11 + 30 + 7


def test_a_heading_that_is_a_line_itself_comes_with_the_first_of_its_source():
    lines = lines_of(("def f():", (0,)), ("    return g", (1,)), ("    other = h", (2,)))
    choice = Selection(lines, [99], [0])
    assert choice.take([1], [10, 100, 100], 1_000) == [1, 0]
    assert choice.spent == len("def f():") + len("    return g") + 2
    assert choice.take([2], [10, 100, 100], 1_000) == [2]
    assert Selection(lines, [99], [0]).take([0], [100, 0, 0], 1_000) == [0], "the heading itself needs none"


def test_what_does_not_fit_is_passed_over_for_what_does():
    lines = lines_of(("x" * 60, (0,)), ("y" * 20, (1,)))
    choice = Selection(lines, [0], [-1])
    assert choice.take(range(2), [1_000, 10], 40) == [1]
    exact = Selection(lines, [0], [-1])
    assert exact.take([0], [1_000, 10], 61) == [0] and exact.spent == 61
    assert Selection(lines, [0], [-1]).take([0], [1_000, 10], 60) == []
    assert Selection(lines, [0], [-1]).take([0, 1], [1_000, 10], SMALLEST_ROOM) == []


def test_a_line_that_says_nothing_new_is_not_taken():
    lines = lines_of(("x" * 20, (0,)), ("y" * 20, (1,)))
    assert Selection(lines, [0], [-1]).take(range(2), [0, 5 * (20 + FRAME)], 1_000) == [1]
    choice = Selection(lines, [0], [-1])
    assert choice.put([1, 0, 1], 1_000) == [1, 0] and choice.spent == 42
    assert choice.take([0, 1], [1_000_000, 1_000_000], 1_000) == [], "both are there already"
    dead = lines_of(("x" * 20, (0,)), ("y" * 20, (1,)))
    dead.factor[0] = 0
    assert Selection(dead, [0], [-1]).put([0, 1], 21) == [1]
    assert Selection(dead, [0], [-1]).put([1], 20) == []


def company(extra: int, *, source: int = 0, budget: int = 1_000, second: tuple[int, ...] = (0, 1)) -> list[int]:
    """What is chosen where a name stands alone and a line so many characters longer shows it beside another."""
    lines = lines_of(("x" * 20, (0,)), ("y" * (20 + extra), second), sources=[0, source])
    choice = Selection(lines, [0, 0], [-1, -1])
    mine = choice.take([0], [1_000, 0], 500)
    choice.accompany(mine, [True, True], budget)
    assert choice.spent == sum(len(lines.text[i]) + 1 for i in choice.chosen)
    return choice.chosen


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        (company(60), [1]),
        (company(61), [0]),
        (company(-5), [1]),
        (company(30, budget=30), [1]),
        (company(30, budget=29), [0]),
        (company(10, source=1), [0]),  # of another source, whose heading would cost more
        (company(10, second=(1,)), [0]),
        (company(10, second=(0,)), [0]),  # no company
    ],
)
def test_a_name_alone_gets_company_from_its_source_where_that_is_cheap(found: list[int], chosen: list[int]):
    assert found == chosen


def test_what_stands_elsewhere_in_full_shrinks():
    weights = [100, 50, 10]
    cover(weights, [0, 2], 18)
    assert weights == [18, 50, 1]


def test_the_logarithm_is_right_between_powers_of_two():
    assert [log2_milli(n) for n in (1, 2, 3, 4, 6, 8)] == [0, 1_000, 1_500, 2_000, 2_500, 3_000]


@pytest.mark.parametrize("target", [2_500, 5_000])
def test_the_report_counts_what_the_list_shows(target: int):
    """Per turn: as many lines as its entries in the segments have, headings among them, and none where it was kept."""
    messages = coding_session(30)
    made = compact(messages, target)
    shown: dict[int, int] = {}
    for segment in segments_of(made.messages):
        for entry in segment.entries:
            if not entry.is_words:
                shown[entry.turn] = shown.get(entry.turn, 0) + len(entry.lines) + bool(entry.label)
    told = {fate.turn: fate.lines for fate in made.report.turns if fate.lines}
    assert sum(told.values()) > 10
    assert {turn: abs(told.get(turn, 0) - count) <= 1 for turn, count in shown.items()} == dict.fromkeys(shown, True)
    for fate in made.report.turns:
        assert fate.fate in ("kept", "reduced", "summarised")
        assert (fate.fate == "kept") == (fate.after == fate.before and not fate.lines)
        if fate.fate == "summarised":
            assert fate.why == f"the user's words and {fate.lines} lines" and fate.after < fate.before
    assert sum(fate.messages for fate in made.report.turns) == sum(m["role"] != "system" for m in messages)
    assert sum(fate.before for fate in made.report.turns) <= made.report.before
    assert abs(sum(fate.after for fate in made.report.turns) - made.report.after) < made.report.after // 4
    assert set(made.report.removed) == {i for i, m in enumerate(messages) if not any(m is one for one in made.messages)}


def test_a_name_in_company_stays_where_it_is():
    lines = lines_of(("x" * 20, (0, 1)), ("y" * 15, (0, 2)))
    choice = Selection(lines, [0], [-1])
    choice.accompany(choice.take([0], [1_000, 1_000, 0], 500), [True] * 3, 1_000)
    assert choice.chosen == [0]


def test_a_line_that_shows_a_name_alone_is_not_exchanged_for_another_that_does():
    lines = lines_of(("x" * 20, (0,)), ("y" * 15, (0,)))
    choice = Selection(lines, [0], [-1])
    choice.accompany(choice.take([0], [1_000], 500), [True], 1_000)
    assert choice.chosen == [0]
