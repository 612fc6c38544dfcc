"""The note that a segment is: goal and orders, what was said, the state of files and errors, lines that can be read."""

from __future__ import annotations

import pytest

from codelet.context.compaction import compact
from codelet.context.tokens import estimate_message
from tests.context.compaction.lists import Message, calling, coding_session, result, says, segments_of, user

FILLING = coding_session(12, steps=1)[1:]


def note_of(messages: list[Message]) -> str:
    """What stands for some messages that others follow."""
    together = [*messages, *FILLING]
    made = compact(together, sum(map(estimate_message, together)) // 2).messages
    return "\n".join(str(message["content"]) for message in made if str(message["content"]).startswith("<compacted"))


def ran(number: int, command: str, output: str) -> list[Message]:
    return [calling((f"r{number}", "bash", {"command": command})), result(f"r{number}", output)]


def edited(number: int, old: str, new: str, path: str = "src/limit.py") -> list[Message]:
    return [
        calling((f"e{number}", "edit", {"path": path, "old": old, "new": new})),
        result(f"e{number}", "The file was updated."),
    ]


def test_what_the_user_ordered_stands_at_the_head_and_what_was_pasted_does_not():
    said = "Mend the import of invoices, it loses rows.\nNever touch legacy/.\nfatal: must never happen {1: 2}"
    text = note_of([user(said), says("I will look."), user("I don't think it matters. Is it always so?"), says("No.")])
    assert "\nstanding order: t1 Never touch legacy/." in text
    assert text.count("standing order: ") == 1


def test_a_goal_is_carried_from_note_to_note():
    said = [user("Mend the import of invoices, it loses rows. " + "It began on a Monday. " * 60), *FILLING]
    made = compact(said, 2_000).messages
    for _ in range(3):
        made = compact([*made, *coding_session(12, steps=2)[1:]], 2_000).messages
    told = [text for segment in segments_of(made) for key, text in segment.ledger if key == "goal"]
    assert [text[:40] for text in told] == ["t1 Mend the import of invoices, it loses"]


def test_a_goal_that_an_earlier_segment_quotes_stands_at_the_head_of_the_last_one_too():
    said = "Mend the import of invoices, it loses rows of them."
    messages = [user(said), says("I will look."), *coding_session(24, steps=1, lines=20)[1:]]
    made = compact(messages, 3_000, pinned=[2])
    assert made.report.user_mode == "verbatim"
    goals = [[text for key, text in segment.ledger if key == "goal"] for segment in segments_of(made.messages)]
    assert goals == [[], [f"t1 {said}"]]
    alone = compact(messages, 3_600)
    [segment] = segments_of(alone.messages)
    assert (alone.report.user_mode, segment.entries[0].lines) == ("verbatim", [said])
    assert not any(key == "goal" for key, _ in segment.ledger), "it is the first line below"


@pytest.mark.parametrize(("target", "least", "most"), [(6_000, 2_800, 3_200), (14_000, 5_500, 14_000 * 4 * 15 // 100)])
def test_a_narrative_takes_its_share_of_the_room_or_so_much_at_least(target: int, least: int, most: int):
    lines = [
        f"Done: part {n} of it was finished and src/pkg{n}/mod.py was mended as turn {n} asked." for n in range(160)
    ]
    segments = segments_of(compact(coding_session(60), target, narrative=lines).messages)
    told = [text for segment in segments for key, text in segment.ledger if key == "narrative"]
    assert least < sum(len("narrative: ") + len(text) + 1 for text in told) <= most


def test_of_each_file_the_newest_change_is_told_as_new_lines():
    messages = [user("Go."), *edited(1, "limit = 1", "limit = load_limit(1)")]
    text = note_of([*messages, *edited(2, "limit = load_limit(1)", "limit = load_limit(22)"), says("Done.")])
    assert "change: src/limit.py (t1): limit = load_limit(22)" in text
    assert "load_limit(1)" not in text


def test_a_change_that_a_later_edit_took_out_is_told_no_more():
    kept = [*FILLING, user("Back."), *edited(3, "limit = load_limit(22)", "limit = 5"), says("Done.")]
    messages = [user("Go."), *edited(1, "limit = 1", "limit = load_limit(22)"), says("Done."), *kept]
    made = compact(messages, 3_000).messages
    assert all("change: src/limit.py (t1)" not in str(message["content"]) for message in made)
    assert "change: src/limit.py" in note_of(messages[:4])


def test_a_change_of_a_deleted_file_is_told_no_more():
    messages = [user("Go."), *edited(1, "limit = 1", "limit = load_limit(22)")]
    text = note_of([*messages, *ran(2, "rm src/limit.py", "[exit code 0]"), says("Gone.")])
    assert "deleted: src/limit.py (t1)" in text
    assert "change: " not in text


def test_an_error_says_when_it_was_seen_and_which_run_settled_it():
    failing = "E   KeyError: 'row_7'\n1 failed\n[exit code 1]"
    messages = [user("Run."), *ran(1, "pytest -q", failing), says("Hm."), user("Again."), *ran(2, "pytest -q", failing)]
    text = note_of([*messages, says("Hm.")])
    assert "open error: t1 to t2 E   KeyError: 'row_7' [pytest -q]" in text
    passed = [*messages, says("Hm."), user("Now?"), *ran(3, "pytest -q", "3 passed\n[exit code 0]"), says("Green.")]
    text = note_of(passed)
    assert "open error: " not in text
    assert "settled error: t1 to t2 E   KeyError: 'row_7'; settled by pytest -q (t3)" in text


def test_nobody_is_told_that_a_call_of_a_tool_without_a_name_for_what_it_did_settled_an_error():
    bad, good = "Error: no such row", "All is well."
    messages = [user("Go."), calling(("a", "apply", {})), result("a", bad), calling(("b", "apply", {}))]
    text = note_of([*messages, result("b", good), says("Done.")])
    assert "settled error: " not in text


def test_what_was_said_stands_before_what_was_read():
    reads = [calling(("c", "read", {"path": "src/rows.py"})), result("c", "def load_rows(limit): ...")]
    text = note_of([user("Look."), *reads, says("It fails because the limit is wrong."), user("And?"), says("Mended.")])
    places = [
        text.index(part) for part in ("[t1 user] Look.", "[t1] It fails because", "[t2 user] And?", "def load_rows")
    ]
    assert places == sorted(places)


def test_a_row_of_a_table_stands_below_its_header():
    rows = "\n".join(f"| part_{n}.py | load_part_{n} | {n} ms |" for n in range(60))
    table = f"| file | function | time |\n|---|---|---|\n{rows}"
    text = note_of([user("Measure."), *ran(1, "measure", table), says("Measured.")])
    lines = text.split("\n")
    shown = next(n for n, line in enumerate(lines) if line.startswith("| part_"))
    assert lines[shown - 1] == "| file | function | time |"


@pytest.mark.parametrize("mark", ["\t", "→"])
def test_numbers_that_a_tool_put_before_the_lines_of_a_file_are_left_out(mark: str):
    numbered = "\n".join(f"{n:6}{mark}value_{n} = load_{n}(width_{n})" for n in range(1, 9))
    text = note_of([user("Look."), calling(("c", "read", {"path": "a.py"})), result("c", numbered), says("Seen.")])
    assert "\nvalue_3 = load_3(width_3)\n" in text


def test_a_write_is_named_by_its_answer_where_its_call_names_no_file():
    answer = "The file /src/app/limit.py has been updated successfully."
    text = note_of([user("Go."), calling(("c", "Edit", {})), result("c", answer), says("Done.")])
    assert "changed: /src/app/limit.py (t1)" in text


def test_a_path_that_is_all_there_is_of_the_arguments_is_the_file():
    call = calling(("c", "Read", {"input": "`./src/limit.py`"}))
    text = note_of([user("Look."), call, result("c", "limit = load_limit(22)"), says("Seen.")])
    assert "[t1 Read ./src/limit.py]" in text
