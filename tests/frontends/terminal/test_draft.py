"""Lines that wait during a turn, and markers of long pastes."""

from __future__ import annotations

from codelet.frontends.terminal.draft import Draft, Pastes


def test_a_draft_loses_nothing() -> None:
    draft = Draft(Pastes())
    draft.is_over = False
    for line in ("one", "two", "three"):
        draft.enter(line, later=line == "two")
    assert draft.queued.pop() == ("three", False)
    assert draft.for_the_model(lambda line: True) == ["one"]
    draft.enter("x" * 300)
    assert all(row.cell_len <= 40 for row in draft.rows(40))
    assert draft.withdraw() == "two\n" + "x" * 300
    assert (draft.withdraw(), draft.rows(40)) == ("", [])


def test_what_is_entered_behind_a_stop_is_the_next_prompt() -> None:
    draft = Draft(Pastes())
    draft.enter("next")
    assert draft.sent and draft.next_line() == "next" and not draft.sent
    draft.is_over = False
    draft.enter("waits")
    draft.is_over = True
    draft.enter("behind it")
    assert not draft.sent, "what waits before it goes back to the line"
    draft.leave()
    assert not draft.left


def test_long_pastes_collapse_and_come_back_whole() -> None:
    pastes = Pastes()
    long = "\r\n".join(f"line {n}" for n in range(42))
    marker = pastes.collapse(long)
    assert marker == "[pasted #1, 42 lines]"
    assert pastes.collapse("short\r\npaste") == "short\npaste"
    ended = "".join(f"line {n}\n" for n in range(42))
    assert pastes.collapse(ended) == "[pasted #2, 42 lines]", "no line after the last"
    assert pastes.collapse("x" * 5000) == "[pasted #3, 5,000 characters]"
    assert pastes.expand(f"see {marker}: why?") == "see " + long.replace("\r\n", "\n") + ": why?"
    assert pastes.expand("[pasted #9, 3 lines]") == "[pasted #9, 3 lines]"
