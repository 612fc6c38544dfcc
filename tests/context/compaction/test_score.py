"""What a turn is worth: how each part of its score grows, where it ends, and which of two turns it puts first."""

from __future__ import annotations

from itertools import pairwise

import pytest

from codelet.context.compaction.history import History
from codelet.context.compaction.identifiers import Lexicon
from codelet.context.compaction.parsing import parse_messages
from codelet.context.compaction.score import WEIGHTS, Score, TurnAnchor, anchored, find_anchors, newest, scores
from tests.context.compaction.lists import Message, calling, result, says, user

PASSED, FAILED = "3 passed\n[exit code 0]", "E   ValueError: x\n1 failed\n[exit code 1]"


def named(*numbers: int) -> str:
    """A sentence with so many names in it."""
    return "look at " + " and ".join(f"alpha_{n}" for n in numbers)


def rated(
    turns: list[list[Message]],
    anchors: tuple[TurnAnchor, ...] = (),
    errors: tuple[int, ...] = (),
    feedback: dict[int, int] | None = None,
) -> dict[int, Score]:
    """The scores of some turns by their numbers, from 1."""
    readings, lexicon = parse_messages([message for turn in turns for message in turn]), Lexicon()
    names: dict[int, set[int]] = {}
    for reading in readings:
        names.setdefault(reading.turn, set()).update(lexicon.read(reading.text))
    return scores(readings, names, lexicon, anchors, errors, feedback)


def talk(*texts: str) -> list[list[Message]]:
    return [[user(text), says("ok")] for text in texts]


def test_a_turn_gains_by_each_name_of_the_prompt_until_there_is_no_more_to_gain():
    others = [named(*range(count)) for count in range(7)]
    fillers = ["go on", "yes", "and then"]
    found = rated(talk(*others, *fillers, named(*range(7))))
    gains = [found[turn].relevance for turn in range(1, 8)]
    steps = [later - sooner for sooner, later in pairwise(gains)]
    assert gains[0] == 0 and gains[-1] == 20 and steps[0] == steps[1] == steps[2] > 0
    assert all(step >= 0 for step in steps)


def test_what_the_newest_turns_are_about_counts_but_less_than_what_is_asked():
    about = named(*range(40))
    found = rated(talk(about, "nothing of that", named(99), about, "go on", "what of alpha_99"))
    assert found[2].relevance == 0 < found[1].relevance < 2 * found[3].relevance


def test_a_name_of_the_prompt_gains_five_and_every_eight_of_the_newest_turns_two_up_to_eight():
    counts = (7, 8, 31, 32, 40)
    names = [named(*range(count)) for count in counts]
    found = rated(talk(named(900), named(900, 901), *names, *["go on"] * 9, named(*range(40)), named(900, 901)))
    assert [found[turn].relevance for turn in range(1, 8)] == [5, 10, 0, 2, 6, 8, 8]


def edits(*files: str) -> list[Message]:
    messages = [user("go on")]
    for file in files:
        messages += [calling((f"e{file}", "edit", {"path": file, "old": "a", "new": "b"})), result(f"e{file}", "ok")]
    return [*messages, says("ok")]


def test_a_turn_gains_by_each_file_that_the_newest_turns_work_on():
    files = [f"f{n}.py" for n in range(5)]
    searched = [user("x"), calling(("s", "grep", {"pattern": "f0.py"})), result("s", "-"), says("ok")]
    found = rated([*(edits(*files[:count]) for count in range(5)), searched, edits(*files), *talk("a", "b")])
    gains = [found[turn].files for turn in range(1, 7)]
    assert gains == [0, gains[1], 2 * gains[1], 3 * gains[1], 15, 0] and gains[3] == 15
    open_error = rated([edits(), edits("a.py"), edits("a.py"), *talk("a", "b")], errors=(1,))
    assert 0 < open_error[1].files < open_error[2].files


def test_later_turns_are_worth_more_and_the_newest_has_all_of_it():
    found = rated(talk(*("go on" for _ in range(10))))
    assert [found[turn].recency for turn in range(1, 11)] == [2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert newest(parse_messages([message for turn in talk(*"abcde") for message in turn])) == [3, 4, 5]


def test_what_the_user_said_of_a_turn_is_bounded_and_takes_nothing_from_what_was_settled_or_is_open():
    said = {1: 99, 2: -99, 3: 2, 4: -3, 5: -3, 6: 0}
    found = rated(talk(*"abcdefg"), (TurnAnchor(4, "decision", "x"),), errors=(5,), feedback=said)
    assert [found[turn].feedback for turn in range(1, 8)] == [5, -5, 2, 0, 0, 0, 0]
    assert rated(talk("a"), (TurnAnchor(1, "decision", "x"),), feedback={1: 3})[1].feedback == 3


def test_of_several_anchors_the_weightiest_counts_and_raises_the_lines_a_little():
    found = rated(talk("a", "b"), (TurnAnchor(1, "decision", "x"), TurnAnchor(1, "error fixed", "y")))
    best = max(TurnAnchor(1, kind, "").weight for kind in ("decision", "error fixed"))
    assert found[1].anchor == best <= 40
    assert found[1].total - found[1].of_lines > found[1].of_lines - rated(talk("a", "b"))[1].of_lines > 0
    assert found[2].anchor == 0
    assert all(TurnAnchor(1, kind, "").weight <= 40 for kind in WEIGHTS)
    assert anchored([TurnAnchor(3, "decision", "x")]) == {3}
    assert Score(1).total == Score(1).of_lines == 0
    low = Score(1, feedback=-5, recency=2)
    assert (low.total, low.of_lines) == (0, 0)
    assert Score(1, 1, 2, 4, 8, 16, 32).total == 63


@pytest.mark.parametrize(
    ("prompt", "turns"),
    [
        ("as in step 2", {2}),
        ("turn #3 and item 1", {1, 3}),
        ("as in step 77", set()),
        ("what of the earlier error", {2, 4}),
        ("stay with the previous decision", {1, 3}),
        ("the first approach", {1, 3}),
        ("that file again", {3}),
        ("an error", set()),
    ],
)
def test_the_prompt_points_at_turns_by_their_number_and_by_what_happened_in_them(prompt: str, turns: set[int]):
    anchors = tuple(TurnAnchor(turn, "decision" if turn in (1, 3) else "task done", "x") for turn in (1, 2, 3, 4))
    found = rated(talk("one", "two", "the file x", "four", "five", prompt), anchors, errors=(2, 4))
    assert {turn for turn, score in found.items() if score.reference} == turns
    assert {score.reference for score in found.values()} <= {0, 10}


def test_of_what_a_word_points_at_the_newest_two_are_meant():
    anchors = tuple(TurnAnchor(turn, "decision", "x") for turn in range(1, 6))
    found = rated(talk(*"abcde", "the earlier plan and the earlier bug"), anchors, errors=(1, 2, 3))
    assert {turn for turn, score in found.items() if score.reference} == {2, 3, 4, 5}


def ran(number: int, line: str, output: str) -> list[Message]:
    return [calling((f"c{number}", "bash", {"command": line})), result(f"c{number}", output)]


def wrote(number: int) -> list[Message]:
    return [calling((f"w{number}", "edit", {"path": "a.py", "old": "a", "new": "b"})), result(f"w{number}", "ok")]


def anchors_of(*turns: list[Message]) -> list[tuple[int, str]]:
    readings = parse_messages([message for turn in turns for message in [user("go on"), *turn]])
    return [(anchor.turn, anchor.kind) for anchor in find_anchors(readings, History(readings).executions)]


def test_a_fault_is_mended_where_what_failed_passes_after_a_change():
    assert anchors_of(ran(1, "pytest", FAILED), [*wrote(1), *ran(2, "pytest", PASSED)]) == [(2, "error fixed")]
    assert anchors_of(ran(1, "pytest", FAILED), ran(2, "pytest", PASSED)) == []
    assert anchors_of(ran(1, "pytest a.py", FAILED), [*wrote(1), *ran(2, "pytest b.py", PASSED)]) == [(2, "task done")]
    twice = [*wrote(1), *ran(2, "pytest", PASSED)], [*wrote(2), *ran(3, "pytest", PASSED)]
    assert anchors_of(ran(1, "pytest", FAILED), *twice) == [(2, "error fixed"), (3, "task done")]
    assert anchors_of(ran(1, "pytest", FAILED), [*wrote(1), *ran(2, "pytest | tail", PASSED)]) == []


def test_builds_and_commits_are_anchors_and_what_comes_to_nothing_is_none():
    assert anchors_of(ran(1, "make", "built\n[exit code 0]")) == [(1, "milestone")]
    assert anchors_of(ran(1, "make", "boom\n[exit code 2]")) == []
    committed = "[main 1a2b3c4] Make it so\n 1 file changed\n[exit code 0]"
    assert anchors_of(ran(1, "git commit -am x", committed)) == [(1, "checkpoint")]
    unsure = "[main 1a2b3c4] Make it so\n 1 file changed"
    assert anchors_of(ran(1, "git commit -am x", unsure)) == [(1, "checkpoint")]
    assert anchors_of(ran(1, "git commit -am x", "nothing to commit")) == []
    assert anchors_of([*wrote(1), *ran(1, "pytest", PASSED), *ran(2, "make", "built\n[exit code 0]")]) == [
        (1, "task done"),
        (1, "milestone"),
    ]


def test_what_the_user_lays_down_is_a_decision_unless_a_program_put_it_in():
    def kinds(text: str) -> list[str]:
        readings = parse_messages([user(text), says("I see.")])
        return [anchor.kind for anchor in find_anchors(readings, [])]

    decided = "We decided that part 3 stays."
    assert kinds(decided) == ["decision"]
    assert kinds(f"<log>{decided}</log>") == []
    assert kinds(decided + " Here is a log." + " and so on" * 80) == []


def test_the_agents_last_words_of_a_turn_tell_what_came_of_it():
    cause = "The root cause is that the lock is taken twice."
    assert anchors_of([says("Looking."), says(cause)]) == [(1, "cause found")]
    assert anchors_of([says(cause), says("   ")]) == [(1, "cause found")]
    assert anchors_of([says(cause), says("Looking on.")]) == []
    asks = [calling(("r", "read", {"path": "a.py"}), text=cause), result("r", "x")]
    assert anchors_of(asks) == [(1, "cause found")], "nobody knows yet how it ends"
    assert anchors_of(asks, [says("Done.")]) == [], "it went on there"
    committed = ran(1, "git commit -am x", "[main 1a2b3c4] x")
    assert anchors_of([*committed, says("Fixed. It is gone now.")]) == [(1, "error fixed"), (1, "checkpoint")]
    assert anchors_of([*wrote(1), says("Fixed. It is gone now.")]) == [(1, "error fixed")]
    assert anchors_of([says("Fixed. It is gone now.")]) == []


def test_what_the_user_says_of_the_turn_before_is_a_vote_unless_more_is_said():
    found = rated(talk("one", "That was it.", "No, that was not it.", "go on"))
    assert [found[turn].feedback for turn in range(1, 5)] == [5, -5, 0, 0]
    for length, vote in ((300, 5), (301, 0)):
        assert rated(talk("one", "That was it. ".ljust(length, "x"), "go on"))[1].feedback == vote
    assert rated(talk("one", "That was it."), feedback={1: -2})[1].feedback == -2, "what the user did counts more"


def test_a_long_text_is_no_decision():
    decided = "We decided that part 3 stays."
    for length, kinds in ((700, ["decision"]), (701, [])):
        readings = parse_messages([user(f"{decided} ".ljust(length, "x")), says("I see.")])
        assert [anchor.kind for anchor in find_anchors(readings, [])] == kinds


def test_what_a_run_showed_is_told_from_what_was_only_said():
    decided = [user("We decided that part 3 stays."), says("I see.")]
    readings = parse_messages([*decided, user("go on"), *wrote(1), *ran(2, "pytest", PASSED), says("Done.")])
    found = find_anchors(readings, History(readings).executions)
    assert [(anchor.turn, anchor.kind, anchor.by_run) for anchor in found] == [
        (1, "decision", False), (2, "task done", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "output", "told"),
    [
        ("pytest -q", "9 passed in 1s", ["pytest -q: 9 passed in 1s"]),
        ("mypy src && pytest -q", "Success: no issues found\n9 passed in 1s", ["pytest -q", "mypy src"]),
        (
            "pytest -q && git commit -m x",
            "9 passed in 1s\n[main 1a2b3c4] x",
            ["pytest -q: 9 passed in 1s", "git commit -m x: [main 1a2b3c4] x"],
        ),
        ("git commit -m x && git push", "[main 1a2b3c4] x", ["git commit -m x: [main 1a2b3c4] x"]),
        ("git merge side", "[main 1a2b3c4] x", ["git merge side"]),
        ("git commit -m x && git commit -m y", "[main 1a2b3c4] x\n[main 2a2b3c4] y", ["git commit -m x"]),
    ],
)
def test_an_anchor_quotes_what_its_run_said_and_not_another_run_of_the_same_line(
    line: str, output: str, told: list[str]
):
    edit = [calling(("e", "edit", {"path": "a.py"})), result("e", "ok")]
    run = [calling(("c", "bash", {"command": line})), result("c", f"{output}\n[exit code 0]")]
    readings = parse_messages([user("go"), *edit, *run])
    assert [anchor.text for anchor in find_anchors(readings, History(readings).executions)] == told


def test_of_a_long_claim_an_anchor_quotes_the_beginning():
    claim = "The cause was the cache: " + "it was never emptied, and so it grew. " * 20
    readings = parse_messages([user("why?"), says(claim)])
    (anchor,) = find_anchors(readings, History(readings).executions)
    assert anchor.kind == "cause found" and anchor.text == claim[:160]
