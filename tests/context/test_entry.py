"""The cut of a prompt before it is first sent, and the ranges of a long text."""

from __future__ import annotations

import pytest
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
from codelet.prompt import NOT_IN_MEMORY
from tests.context.conftest import Open
from tests.context.scripted import compactions, turn


@pytest.mark.parametrize("over", [0, 1])
async def test_a_prompt_is_cut_only_where_it_does_not_fit_beside_what_always_stands(open_session: Open, over: int):
    session, provider = open_session(window=16_000)
    window = session.window
    room = window.budget.hard_trigger - 1 - window.beside(session.conversation)
    text = "x" * 4 * (room - 4 + over)
    assert [event.reason for event in compactions(await turn(session, text))] == ["entry"] * over
    sent = str(provider.sent[0].stable[-1]["content"])
    assert (sent == text, session.entry.cut == ()) == (not over, not over)
    if over:
        assert 1.8 * room < len(sent) <= 2 * room, "to half of the room"
        assert session.entry.cut[0].bytes == len(text)


def test_what_is_in_memory_by_its_two_ends_never_passes_for_whole():
    both = f"{'a' * 500}{NOT_IN_MEMORY}{'z' * 300}"
    gap = 500, 500 + len(NOT_IN_MEMORY)
    ends = Input("stdin", Piped(both, 10_000, 90, gap))
    shown = ends.excerpt(5_000)
    head, _, rest = shown.text.partition("\n[… cut here: stdin has 10,000 bytes in 90 lines")
    assert head == "a" * 500 and rest.endswith("…]\n" + "z" * 300)
    ends.sent += [(first, last) for _, first, last in shown.ranges]
    assert (ends.account.read, ends.account.bytes) == (800, 10_000)
    small = Input("stdin", Piped(both, 800, 2, gap))
    small.sent += [(first, last) for _, first, last in small.excerpt(5_000).ranges]
    assert small.account.read == 799, "what was not kept is not known to be nothing"
    assert Input("prompt", Piped("a" * 500, 500, 1)).excerpt(500).text == "a" * 500


async def test_half_a_pair_of_letters_is_no_text(open_session: Open):
    """A terminal and a file may hold one; nobody could write it as JSON."""
    session, _ = open_session()
    await turn(session, "see \ud83d here")
    assert session.messages[0]["content"] == "see \ufffd here"


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
