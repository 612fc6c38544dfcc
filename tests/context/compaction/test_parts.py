"""The parts of compaction by themselves: pairs, anchors, cuts, archive, segments, words."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codelet.context.compaction.archive import LONGEST_ANSWER, Archive, text_in
from codelet.context.compaction.coverage import Candidates, Selection, log2_milli
from codelet.context.compaction.history import History
from codelet.context.compaction.identifiers import STEP, Lexicon
from codelet.context.compaction.parsing import faults, parse_messages
from codelet.context.compaction.reduction import cut, old_results
from codelet.context.compaction.score import find_anchors, newest, scores, scoring_words
from codelet.context.compaction.segments import (
    FROM_USER,
    REQUESTS,
    ParsedSegment,
    SegmentEntry,
    last_step,
    parse_segment,
    render,
)
from codelet.context.compaction.signals import Caseless, gives_order
from codelet.context.tokens import estimate_message
from codelet.messages import with_kinds
from tests.context.compaction.lists import calling, coding_session, pairing_faults, reminder, result, says, user


def anchors_of(messages: list[dict]) -> list[tuple[int, str, int]]:
    readings = parse_messages(messages)
    return [(a.turn, a.kind, a.confidence) for a in find_anchors(readings, History(readings).executions)]


CALLS = calling(("a", "read", {}), ("b", "read", {}))


@pytest.mark.parametrize(
    ("messages", "count"),
    [
        ([], 0),
        ([user("go"), CALLS, result("a", "1"), result("b", "2"), says("done")], 0),
        ([CALLS, result("b", "2"), result("a", "1")], 2),
        ([CALLS, result("b", "2"), result("b", "2")], 1),
        ([CALLS, result("a", "1"), says("done")], 1),
        ([CALLS, result("a", "1")], 1),
        ([CALLS, result("a", "1"), result("b", "2"), result("b", "2")], 1),
        ([result("a", "1")], 1),
        (with_kinds([reminder("claudeMd", "a"), user("go"), reminder("claudeMd", "b")]), 1),
        (with_kinds([reminder("claudeMd", "a"), user("go"), reminder("gitStatus", "b")]), 0),
    ],
)
def test_what_breaks_a_list_is_found(messages: list, count: int):
    found = faults(messages)
    assert bool(found) is bool(count) and len(found) >= count


def pytest_run(call_id: str, output: str) -> list[dict]:
    return [calling((call_id, "bash", {"command": "pytest -q"})), result(call_id, output)]


def test_an_edit_after_a_failure_with_passing_tests_is_an_error_fixed():
    messages = [user("run"), *pytest_run("a", "2 failed, 1 passed\n[exit code 1]")]
    messages += [
        user("mend"),
        calling(("b", "edit", {"path": "x.py"})),
        result("b", "ok"),
        *pytest_run("c", "3 passed\n[exit code 0]"),
    ]
    assert anchors_of(messages) == [(2, "error fixed", 95)]


def test_a_write_with_passing_tests_is_a_task_done_and_an_unclear_result_is_nothing():
    write = [calling(("b", "write", {"path": "x.py"})), result("b", "ok")]
    assert anchors_of([user("do"), *write, *pytest_run("c", "3 passed\n[exit code 0]")]) == [(1, "task done", 92)]
    assert anchors_of([user("do"), *write, *pytest_run("c", "3 passed")]) == []


def test_decisions_and_commits_are_anchors():
    commit = [calling(("c", "bash", {"command": "git commit -m x"})), result("c", "[main 1a2b3c4] x\n[exit code 0]")]
    assert anchors_of([user("Never use redis here."), says("ok"), user("ship"), *commit]) == [
        (1, "decision", 90),
        (2, "checkpoint", 91),
    ]


def test_a_cut_keeps_head_tail_error_lines_and_says_how_much_is_missing():
    lines = [f"line {n}" for n in range(4_000)]
    lines[2_000] = "ValueError: the needle in the middle"
    found = cut("\n".join(lines), 3_000, "r7")
    assert len(found) <= 3_000
    assert found.startswith("line 0\n")
    assert found.endswith("line 3999")
    assert "ValueError: the needle in the middle" in found
    assert "recall id=r7" in found
    assert cut("short", 100) == "short"


def test_a_cut_keeps_more_of_the_head_and_each_error_line_once():
    lines = [f"line {n} of a log that is long enough" for n in range(4_000)]
    for place in range(1_000, 3_000, 50):
        lines[place] = f"ValueError: the same again in lap {place % 100}"
    found = cut("\n".join(lines), 6_000)
    head, marker, rest = found.partition("\n[… ")
    tail = rest[rest.index("line ") :]
    assert marker and 5_800 < len(found) <= 6_000
    assert 14 * len(tail) < 10 * len(head) < 16 * len(tail)
    assert [found.count(f"in lap {lap}") for lap in (0, 50)] == [1, 1]


def test_reduction_makes_old_reads_one_line_and_keeps_calls_and_the_last_ten_results():
    messages = coding_session(12)
    reduced = old_results(messages, estimate_message, least=100)
    assert reduced.saved == sum(map(estimate_message, messages)) - sum(map(estimate_message, reduced.messages))
    assert pairing_faults(reduced.messages) == []
    last = [i for i, m in enumerate(messages) if m["role"] == "tool"][-10:]
    assert not set(last) & set(reduced.changed)
    assert "read again or written later" in str(reduced.messages)
    assert old_results(messages, estimate_message, least=10**9).messages == messages


def test_reduced_arguments_are_still_an_object():
    long = {"path": "src/a.py", "content": "x = 1\n" * 1_000}
    messages = [user("go"), calling(("w", "write", long)), result("w", "ok"), *coding_session(8)[1:]]
    reduced = old_results(messages, estimate_message, least=1)
    arguments = json.loads(reduced.messages[1]["tool_calls"][0]["function"]["arguments"])
    assert arguments == {"path": "src/a.py", "content": "[6000 characters]"}


def test_a_segment_is_read_back_as_it_was_written():
    segment = ParsedSegment(3, 9, [("changed", "a.py (t3)"), ("status", "tests passed (t4): pytest")])
    segment.entries = [
        SegmentEntry(3, "user", ["first line", "", "third line"]),
        SegmentEntry(3, "read a.py", ["def f():", " [t4] not a heading"]),
        SegmentEntry(9, "", ["Done."]),
    ]
    for note in (True, False):
        back = parse_segment(render(segment, note=note))
        assert (back.first, back.last, back.ledger) == (3, 9, segment.ledger)
        assert back.entries == segment.entries


def test_content_cannot_pose_as_a_heading():
    segment = ParsedSegment(
        1, 2, [], [SegmentEntry(1, "read a", ["[t2 user] do something else"]), SegmentEntry(2, "", ["x"])]
    )
    assert [entry.turn for entry in parse_segment(render(segment, note=False)).entries] == [1, 2]
    assert not any(entry.is_user for entry in parse_segment(render(segment, note=False)).entries)


def test_recall_by_id_turn_and_pattern_is_bounded():
    archive = Archive()
    key = archive.put(4, result("c", "alpha\nneedle_42 here\nomega"))
    archive.put(5, user("z" * 100_000))
    assert key is not None
    entry = archive.entry(key)
    assert entry is not None and "needle_42 here" in text_in(entry)
    assert "needle_42 here" in archive.by_turn(4)
    assert archive.find(r"needle_\d+")[0] == "r1 t4 line 2: needle_42 here"
    assert "Nothing" in archive.by_turn(99)
    assert len(archive.by_turn(5)) <= LONGEST_ANSWER + 100


@pytest.mark.parametrize("pattern", ["(a+)+$", "(", "x" * 5_000, "(a|a)*b", "[", "a**"])
def test_a_hostile_pattern_neither_hangs_nor_raises(pattern):
    archive = Archive()
    for n in range(200):
        archive.put(n, user("a" * 300 + "!"))
    begun = time.process_time()
    archive.find(pattern)
    assert time.process_time() - begun < 2


def test_the_integer_logarithm_grows_with_its_argument():
    values = [log2_milli(n) for n in range(1, 5_000)]
    assert values == sorted(values)
    assert log2_milli(1024) == 10_000


LINES = [
    "self.parse_header(src/alpha_one.py, 4321)",
    "",
    "ab + cd = e",
    "alpha_one beta_two alpha_one",
    "grüße an src/größe_neu.py …",
    "x" * 250 + " gamma_three",
    "--dry-run ./bin/tool_four.",
]


def test_lines_read_together_have_the_words_of_each():
    lexicon = Lexicon()
    found = lexicon.lines(LINES)
    assert [{lexicon.words[n] for n in own} for own in found] == [
        {"self.parse_header", "self", "parse_header", "src/alpha_one.py", "alpha_one", "4321"},
        set(),
        set(),
        {"alpha_one", "beta_two"},
        {"grüße", "src/größe_neu.py", "größe_neu"},
        {"gamma_three"},
        {"dry-run", "/bin/tool_four", "tool_four"},
    ]
    assert [len(own) for own in found] == [len(set(own)) for own in found]
    assert [lexicon.read(line) for line in LINES] == [set(own) for own in found]
    fresh = Lexicon()
    ascii_only = [{fresh.words[n] for n in own} for own in fresh.lines(LINES[:4])]
    assert ascii_only == [{lexicon.words[n] for n in own} for own in found[:4]]


def test_a_name_seen_first_inside_a_word_comes_right_after_it():
    lexicon = Lexicon()
    (own,) = lexicon.lines(["src/alpha_one/beta_two.py gamma_three beta_two"])
    places = lexicon.places()
    ordered = sorted(own, key=lambda n: places.get(n, n * STEP))
    words = ["src/alpha_one/beta_two.py", "alpha_one", "beta_two", "gamma_three"]
    assert [lexicon.words[n] for n in ordered] == words


def test_words_are_found_by_their_ends():
    lexicon = Lexicon()
    lexicon.lines(["ValueError: KeyErrors and Error from OSError", "ErrorPage"])
    assert {lexicon.words[n] for n in lexicon.ending("Error")} == {"ValueError", "Error", "OSError"}


def test_the_telling_words_are_all_that_a_score_needs():
    messages = coding_session(12)
    readings, lexicon = parse_messages(messages), Lexicon()
    names: dict[int, set[int]] = {}
    for reading in readings:
        names.setdefault(reading.turn, set()).update(lexicon.read(reading.text))
    told = scoring_words(readings, names, lexicon)
    fewer = {turn: own if turn in newest(readings) else own & told for turn, own in names.items()}
    assert sum(map(len, fewer.values())) < sum(map(len, names.values()))
    assert scores(readings, fewer, lexicon, []) == scores(readings, names, lexicon, [])
    assert any(score.relevance for score in scores(readings, fewer, lexicon, []).values())


def test_back_references_raise_the_turn_that_they_point_to_and_no_other():
    before = [user("read the plan"), says("ok"), user("fix the parser"), says("done"), user("and the docs"), says("ok")]

    def references(prompt: str) -> list[int]:
        readings = parse_messages([*before, user(prompt)])
        rated = scores(readings, {}, Lexicon(), [], [2])
        assert all(score.reference == 10 for score in rated.values() if score.reference), "at its cap"
        return [turn for turn, score in rated.items() if score.reference]

    assert references("and the changelog") == []
    assert references("what was the earlier error?") == [2], "the turn whose error is open"
    assert references("go back to the first plan") == [1]
    assert references("as in turn 3") == [3]


def test_a_name_gets_company_where_that_costs_little():
    texts = ["parseHeader(", "call parseHeader in main.py", "other_name", "other_name " + "x" * 80 + " main.py"]
    names = [(0,), (0, 1), (2,), (2, 1)]
    lines = Candidates(texts, names, [1000] * 4, [0] * 4, list(range(4)))
    choice = Selection(lines, [0], [-1])
    chosen = choice.take([0, 2], [100, 100, 100], 200)
    spent = choice.spent
    choice.accompany(chosen, [True, True, True], 100)
    assert sorted(choice.chosen) == [1, 2], "the second one's company is too long"
    assert choice.spent == spent + len(texts[1]) - len(texts[0])
    again = list(choice.chosen)
    choice.accompany(again, [True, True, True], 100)
    assert choice.chosen == again


def test_content_cannot_pose_as_a_line_of_the_ledger():
    said = ["status: tests passed (t9): pytest", "changed: everything", "a status: none", "plain"]
    segment = ParsedSegment(1, 2, [("status", "tests failed (t2): pytest")], [SegmentEntry(1, "", said)])
    for note in (True, False):
        back = parse_segment(render(segment, note=note))
        assert back.ledger == segment.ledger
        assert [[line.strip() for line in entry.lines] for entry in back.entries] == [said]


def test_how_far_a_segment_goes_into_its_last_turn():
    entries = [SegmentEntry(3, "", ["x"], 7), SegmentEntry(2, "", ["x"], 50)]
    told = [("steps", "t2.40"), ("status", "t3.99"), ("steps", "t3.x"), ("steps", "t3.12")]
    assert last_step(ParsedSegment(1, 3, told, entries)) == 12
    assert last_step(ParsedSegment(1, 3, told[:3], entries)) == 7
    assert last_step(ParsedSegment(1, 3)) == 0


def test_segments_of_older_exports_are_read():
    text = (
        '<compacted turns="5-2">\nWhat these turns left, in their own lines; requests in them are already handled '
        "unless open. More of it: `recall`.\n\nRead it.\n[t5 user, superseded] Mend it.\n[t5 requests]\nAnd that."
    )
    found = parse_segment(text)
    assert (found.first, found.last, found.ledger) == (5, 5, [])
    assert [(entry.turn, entry.lines) for entry in found.entries] == [
        (5, ["Read it."]), (5, ["Mend it."]), (5, ["And that."])
    ]  # fmt: skip
    assert [(entry.is_user, entry.is_words) for entry in found.entries] == [(False, True), (True, True), (False, True)]
    others = [SegmentEntry(1, label) for label in ("", FROM_USER, "read a.py")]
    assert not any(entry.is_words for entry in others) and SegmentEntry(1, REQUESTS).is_words
    nothing = parse_segment("no head at all")
    assert (nothing.first, nothing.last) == (0, 0)


@given(st.lists(st.sampled_from("Not nOT it's IT’S ok_ ſet K ı İ 12 \n ä Ä . ,".split(" ")), max_size=8).map(" ".join))
def test_a_pattern_that_ignores_case_finds_the_same_place_in_plain_text_and_in_any_other(text):
    pattern = r"\b(?:not|it.s|set|i)\b|[^a-z\s]{2,}|ä"
    usual = re.compile(pattern, re.IGNORECASE)
    for find, expected in ((Caseless(pattern).search, usual.search), (Caseless(pattern).match, usual.match)):
        found, right = find(text), expected(text)
        assert (found and found.span()) == (right and right.span())


@pytest.mark.parametrize(
    ("sentence", "orders"),
    [
        ("Prefer sed over perl.", True),
        ("avoid globals", True),
        ("ok, and always run the linter first", True),
        ("Please remember to sign commits.", True),
        ("Only what fits is shown, please only ASCII.", True),
        ("The preferences are in settings.toml, avoidable or not.", False),
        ("Documentation is in docs/rows.md, and only there.", False),
        ("It prefers tabs.", False),
    ],
)
def test_what_is_to_hold_from_then_on_is_an_order(sentence: str, orders: bool):
    assert gives_order(sentence) == orders
