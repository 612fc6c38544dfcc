"""Keys while a turn runs: what bytes mean, through prompt-toolkit's own parser."""

from __future__ import annotations

import pytest
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from codelet.frontends.terminal.draft import Draft, Pastes
from codelet.frontends.terminal.keys import Key, read_meanings
from codelet.frontends.terminal.show.style import Signs


def meanings(data: str) -> list[Key]:
    """What a terminal's bytes mean when they come in one piece and nothing follows."""
    presses: list[KeyPress] = []
    parser = Vt100Parser(presses.append)
    parser.feed(data)
    parser.flush()
    return read_meanings(presses)


@pytest.mark.parametrize("data", ["\x1b", "\x1b\x1b", "\x1b\x1b\x1b"])
def test_escape_alone_stops(data: str) -> None:
    assert meanings(data) == [Key("escape")]


@pytest.mark.parametrize(
    "data",
    [
        "\x1b[C", "\x1bOD", "\x1b[1;5C", "\x1b[1;3A", "\x1b\x1b[A",  # arrows, with Ctrl, with Alt
        "\x1bb", "\x1bf", "\x1b.", "\x1bOP", "\x1b[15~", "\x1b[3~", "\x1b[H",  # Alt and function keys
        "\x1b[I", "\x1b[O", "\x1b[12;40R", "\x1b[97;5u", "\x1b[<0;10;5M", "\x1b[?1;2c",  # answers, focus, mouse
    ],
)  # fmt: skip
def test_other_sequences_neither_stop_nor_type(data: str) -> None:
    assert meanings(data) == []
    assert meanings(f"a{data}z") == [Key("text", "a"), Key("text", "z")]


def test_keys_that_mean_something() -> None:
    assert meanings("\x03") == [Key("interrupt")]
    assert meanings("\r") == [Key("enter")]
    assert meanings("\n") == [Key("newline")]
    assert meanings("\x1b\r") == [Key("later")]
    assert meanings("\x1b\n") == [Key("newline")]
    assert meanings("\x7f") == [Key("backspace")]
    assert meanings("\x1b[A") == [Key("up")]
    assert meanings("\x1b[B\x1b[Z") == [Key("down"), Key("mode")]
    assert meanings("\x1a") == [Key("suspend")]
    assert meanings("é你") == [Key("text", "é"), Key("text", "你")]
    assert meanings("\x1b[200~a\x1b\r\x03b\x1b[201~") == [Key("paste", "a\x1b\r\x03b")]


def typed(draft: Draft, data: str) -> Draft:
    for key in meanings(data):
        draft.take(key)
    return draft


def test_a_draft_loses_nothing() -> None:
    draft = typed(Draft(Pastes()), "fix it\rand then")
    assert (draft.queued, draft.text) == (["fix it"], "and then")
    assert typed(draft, "\x17more\n\\\r!").text == "and more\n\n!"
    assert draft.withdraw() == "fix it\nand more\n\n!"
    assert draft.withdraw() == ""


def test_up_takes_the_queued_line_back() -> None:
    draft = typed(Draft(Pastes()), "one\rtwo\r\x1b[A")
    assert (draft.queued, draft.text) == (["one"], "two")
    assert typed(draft, "\x15").text == ""


def test_a_draft_fits_its_row() -> None:
    draft = typed(Draft(Pastes()), "first\r" + "x" * 300 + "\n" + "word " * 60 + "你好")
    rows = draft.rows(40, Signs())
    assert rows[0].plain == "  queued: first"
    assert rows[1].plain.startswith("› (+1) ")
    assert rows[1].plain.endswith("word 你好")
    assert all(row.cell_len <= 40 for row in rows)


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
