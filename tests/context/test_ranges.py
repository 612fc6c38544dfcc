"""Ranges of a long text: lines, bytes, ends, and what they cover."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from codelet.context.inputs import (
    Input,
    Piped,
    byte_length,
    ends,
    line_at,
    line_count,
    place_of_byte,
    place_of_line,
)

TEXTS = st.text(st.sampled_from("ab \né€😀"), max_size=60)


@given(TEXTS, st.integers(1, 70))
def test_a_line_begins_where_the_lines_before_it_end(text: str, number: int):
    place = place_of_line(text, number)
    lines = text.splitlines(keepends=True) if text else []
    assert place == sum(map(len, lines[: number - 1]))
    assert line_count(text) == len(lines)
    if number <= len(lines):
        assert line_at(text, place) == number


@given(TEXTS, st.integers(0, 250))
def test_bytes_lead_to_the_character_that_they_belong_to(text: str, number: int):
    place = place_of_byte(text, number)
    assert byte_length(text[:place]) <= number
    assert place == len(text) or number < byte_length(text[: place + 1])
    assert byte_length(text) == len(text.encode())


@given(TEXTS, st.integers(0, 80))
def test_both_ends_fit_the_room(text: str, room: int):
    head, tail = ends(text, room)
    assert 0 <= head <= tail <= len(text)
    assert head + len(text) - tail <= max(room, 0) or tail == head == len(text) <= room


@given(TEXTS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8))
@example("ab", [(0, 2)])
@example("ab", [(1, 2)])
@example("ab", [(0, 1), (1, 2)])
def test_what_is_covered_twice_counts_once(text: str, ranges: list[tuple[int, int]]):
    given = Input("prompt", Piped(text, len(text.encode()), 1))
    given.sent += ranges
    places = {place for start, end in ranges for place in range(start, end)}
    known = "".join(character for place, character in enumerate(text) if place in places)
    assert given.account.read == len(known.encode())
