"""Secrets in what comes in pieces: the events of a turn, and values inside records."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

from codelet import events
from codelet.safety.secrets import MaskedPieces, Masker, masked, without_secrets
from codelet.safety.verdict import Touch, Verdict
from codelet.usage import Usage

SECRET = "Zk4x9QweR7tY2uIoP5aS8dF1"
MASKER = Masker({"SOME_KEY": SECRET})
SHOWN = "[masked SOME_KEY]"
A, B = SECRET[:4], SECRET[4:8]
"""Two pieces that may be the beginning of the secret, too short to be one."""
START = events.StepStart(1)


def shown(*given: events.Event) -> list[list[events.Event]]:
    """The events that are ready after each one, and at the end."""
    pieces = MaskedPieces(MASKER)
    return [*(pieces.take(event) for event in given), pieces.flush()]


def test_a_secret_in_pieces_is_never_shown_and_other_text_at_once() -> None:
    half, rest = SECRET[:11], SECRET[11:]
    assert shown(events.Text(f"it is {half}"), events.Text(f"{rest} in…"), events.Text("deed…")) == [
        [events.Text("it is ")], [events.Text(f"{SHOWN} in…")], [events.Text("deed…")], []
    ]  # fmt: skip
    whole = events.Text("two words…")
    assert shown(whole) == [[whole], []], "what has nothing to hide stays as it came"
    assert shown() == [[]]


def test_text_and_reasoning_end_each_other_and_output_of_calls_goes_on_beside_them() -> None:
    thought, said = events.Reasoning(A), events.Text(A)
    one, two = events.ToolProgress("1", A), events.ToolProgress("2", A)
    assert shown(thought, events.Reasoning(B), said, events.Text(B), thought) == [
        [], [], [events.Reasoning(A + B)], [], [events.Text(A + B)], [events.Reasoning(A)]
    ]  # fmt: skip
    assert shown(one, two, events.ToolProgress("1", "…"), events.ToolProgress("2", B))[2:] == [
        [events.ToolProgress("1", f"{A}…")], [], [events.ToolProgress("2", A + B)]
    ]  # fmt: skip
    assert shown(said, one, events.Text("…")) == [[], [], [one, events.Text(f"{A}…")], []]


def test_any_other_event_ends_all_streams_and_holds_no_secret() -> None:
    said, ran = events.Text(A), events.ToolProgress("1", A)
    note = events.Note(f"it is {SECRET}")
    assert shown(said, ran, START) == [[], [], [said, ran, START], []]
    assert shown(said, note) == [[], [said, events.Note(f"it is {SHOWN}")], []]
    report = events.UsageReport(usage=Usage(), context=1, window=2, budget=2)
    assert shown(said, report)[1] == [said, report]


def test_where_there_is_no_secret_every_event_is_shown_at_once() -> None:
    pieces = MaskedPieces(Masker({}))
    event = events.Text("hal")
    assert pieces.take(event) == [event] and pieces.flush() == []


async def test_a_turn_is_masked_to_its_end_and_closed() -> None:
    closed: list[bool] = []

    async def turn() -> AsyncGenerator[events.Event, None]:
        try:
            yield events.Text(SECRET[:9])
            yield events.Text(SECRET[9:])
            yield START
            yield events.Text("end…")
        finally:
            closed.append(True)

    assert [event async for event in masked(turn(), MASKER)] == [events.Text(SHOWN), START, events.Text("end…")]
    stream = masked(turn(), MASKER)
    await anext(stream)
    await stream.aclose()
    assert closed == [True, True]


def test_every_text_inside_a_value_is_masked_and_what_holds_none_stays_the_same() -> None:
    assert without_secrets({"a": [SECRET, 1, (SECRET, None)], SECRET: True}, MASKER) == {
        "a": [SHOWN, 1, (SHOWN, None)], SHOWN: True
    }  # fmt: skip
    touch = Touch("run", f"echo {SECRET}", unconfined=True)
    assert without_secrets(touch, MASKER) == Touch("run", f"echo {SHOWN}", unconfined=True)
    verdict = Verdict("ask", "execute", f"of {SECRET}", parts=((SECRET, "why"),), place=Path("a"))
    hidden = without_secrets(verdict, MASKER)
    assert (hidden.reason, hidden.parts, hidden.place) == (f"of {SHOWN}", ((SHOWN, "why"),), Path("a"))
    plain = Touch("read", "a")
    assert without_secrets(plain, MASKER) is plain
    assert without_secrets(3, MASKER) == 3
