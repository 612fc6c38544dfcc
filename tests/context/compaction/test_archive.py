"""Messages that left the list: found by id, turn and pattern, each answer bounded, the oldest lost first."""

from __future__ import annotations

import pytest

from codelet.context.archive import LONGEST_ANSWER, LONGEST_PATTERN, Archive, ShownRange, line_matcher
from tests.context.compaction.lists import calling, user


def test_a_pattern_up_to_the_bound_is_an_expression_and_a_longer_one_its_beginning_as_text():
    longest = "x" * (LONGEST_PATTERN - 2) + ".y"
    assert line_matcher(longest).search("x" * (LONGEST_PATTERN - 2) + "-Y")
    assert not line_matcher(longest + "y").search("x" * (LONGEST_PATTERN - 2) + "-yy")
    assert line_matcher("x" * (LONGEST_PATTERN + 100)).search("x" * LONGEST_PATTERN)
    assert not line_matcher("x" * (LONGEST_PATTERN + 100)).search("x" * (LONGEST_PATTERN - 1))


@pytest.mark.parametrize("pattern", ["(a+)+", "(", r"(a)\1", "a*b*c*d*e", "[", "a{99999999999}"])
def test_what_is_no_safe_expression_is_text(pattern: str):
    assert line_matcher(pattern).search(f"before {pattern.upper()} behind")
    assert not line_matcher(pattern).search("aaa")


def test_a_search_names_entry_turn_and_line_the_newest_message_first():
    archive = Archive()
    archive.put(1, user("one needle\nno\nNEEDLE two"))
    archive.put(2, calling(("c", "bash", {"command": "grep needle"}), text="Let me look."))
    text, ranges = archive.find("needle")
    assert text.split("\n") == [
        'r2 t2 line 2: bash {"command": "grep needle"}',
        "r1 t1 line 1: one needle",
        "r1 t1 line 3: NEEDLE two",
    ]
    assert ranges == [ShownRange("r2", 13, 13 + 31), ShownRange("r1", 0, 10), ShownRange("r1", 14, 24)]
    assert archive.find("needle", "r1", first=2)[0] == "r1 t1 line 3: NEEDLE two"
    assert archive.find("needle", "r1", first=4)[0].startswith("Nothing in r1 from line 4 on matches 'needle'")
    assert archive.find("nowhere")[0].startswith("Nothing in the archive matches 'nowhere'")


def test_a_search_shows_at_most_forty_lines_and_says_where_it_goes_on():
    archive = Archive()
    archive.put(1, user("\n".join(f"hit {number}" for number in range(1, 42))))
    text, ranges = archive.find("hit")
    assert len(ranges) == 40
    *_, shown, more = text.split("\n")
    assert shown.endswith("line 40: hit 40") and "40 lines" in more and "line 41" in more
    archive = Archive()
    archive.put(1, user("\n".join(f"hit {number}" for number in range(1, 41))))
    assert archive.find("hit")[0].endswith("line 40: hit 40")


def test_a_search_is_bounded_in_characters():
    archive = Archive()
    archive.put(1, user("\n".join("hit " + "x" * 346 for _ in range(39))))
    found = archive.find("hit")[0]
    assert LONGEST_ANSWER - 400 < len(found) <= LONGEST_ANSWER + 80 and "[… more than" in found
    few = archive.find("hit", longest=800)
    assert len(few[1]) == 2 and few[0].endswith(" line 3]")
    long = Archive()
    long.put(1, user("hit " + "x" * 600 + " far"))
    assert len(long.find("hit")[0]) == len("r1 t1 line 1: ") + 400
    assert "first 400 characters" in long.find("far")[0]


def test_a_long_search_stops_and_says_where():
    archive = Archive()
    archive.put(1, user("\n".join("x" * 400 for _ in range(12_000))))
    archive.put(2, user("found"))
    text, ranges = archive.find("found|never")
    hit, stop = text.split("\n")
    assert hit == "r2 t2 line 1: found" and "r1 line 10486" in stop and len(ranges) == 1
    assert "lines=10486-" in archive.find("never", "r1")[0]
    assert "Nothing" in archive.find("never", "r1", first=10_486)[0]


def test_what_comes_from_another_archive_keeps_its_id_and_new_ones_follow():
    archive = Archive()
    archive.restore("r7", 3, user("seven"))
    assert archive.next_number == 8 and archive.put(4, user("eight")) == "r8"
    archive.restore("r2", 1, user("two"))
    archive.restore("r7", 9, user("another"))
    archive.restore("summary", 1, user("named otherwise"))
    assert archive.next_number == 9
    assert [(entry.id, entry.turn) for entry in archive.entries()] == [("r7", 3), ("r8", 4), ("r2", 1), ("summary", 1)]


def test_what_a_cut_message_was_cut_from_goes_with_it():
    archive = Archive()
    whole = user("The beginning of a long text. " + "x" * 5_000)
    key = archive.put(1, whole)
    assert archive.take_out(user("Something else, without a marker: r1")) == []
    taken = archive.take_out(user(f"The beginning of a long text. [… recall entry={key} …]"))
    assert [entry.message for entry in taken] == [whole]
    assert (len(archive), archive.bytes) == (0, 0)
