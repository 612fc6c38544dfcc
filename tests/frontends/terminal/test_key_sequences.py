"""Terminal input: forms of keys, an early ESC, answers to queries, unmarked pastes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

from codelet.frontends.terminal.key_sequences import FLUSH_SECONDS, KeySequences, Paste

KEYS = {
    "c-j": [
        "\n", "\x1b[13;2u", "\x1b[13;2:1u", "\x1b[27;2;13~", "\x1b[13;5u", "\x1b[27;5;13~", "\x1b[27;6;13~",
        "\x1b[57414;2u",
    ],
    "c-m": ["\r", "\x1bOM", "\x1b[13u", "\x1b[13;1u", "\x1b[57414u", "\x1b[13;129u"],
    "escape c-m": ["\x1b\r", "\x1b[13;3u", "\x1b[27;3;13~"],
    "c-c": ["\x03", "\x1b[99;5u", "\x1b[27;5;99~"],
    "s-tab": ["\x1b[Z", "\x1b[9;2u", "\x1b[27;2;9~"],
    "up": ["\x1b[A", "\x1bOA", "\x1b[57419u"],
    "c-h": ["\x7f", "\x1b[127u", "\x1b[127;2u"],
    "c-i": ["\t", "\x1b[9u"],
    "c-w": ["\x17", "\x1b[119;5u"],
    "escape": ["\x1b", "\x1b[27u"],
}  # fmt: skip

ANSWERS = [
    "\x1b[I", "\x1b[O",  # the window's focus
    "\x1b[?62;22c", "\x1b[>1;10;0c",  # what the terminal is
    "\x1b[12;40R",  # where the cursor is
    "\x1b]10;rgb:ff/ff/ff\x1b\\", "\x1b]11;rgb:00/00/00\x07", "\x1b]4;1;rgb:0/0/0\x1b\\",  # colours
    "\x1bP>|XTerm(379)\x1b\\", "\x1bP1$r0m\x1b\\",  # its version, a setting
    "\x1b[?2026;2$y", "\x1b[?997;1n", "\x1b[?0u",  # modes
    "\x1b[97;1:3u", "\x1b[57441;1u", "\x1b[97;9u",  # released, Shift alone, with Super
    "\x1b[<0;10;5M", "\x1b[M !!", "\x1b_Gi=1;OK\x1b\\", "\x1b[8;24;80t",  # the mouse, images, the size
]  # fmt: skip


class Line:
    """Terminal input with its own clock; returns names of keys, and pastes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answers: list[str] = []
        self._presses: list[KeyPress] = []
        self._parser = Vt100Parser(self._presses.append)
        self.sequences = KeySequences(self.answers.append, lambda: self.now)

    def send(self, data: str, wait: float = 1.5) -> list[str]:
        """Send, then wait."""
        found = list(self._read(data))
        if wait >= FLUSH_SECONDS:
            self.now += FLUSH_SECONDS
            self._parser.feed(self.sequences.flush())
            self._parser.flush()
            found += self._taken()
        self.now += max(wait - FLUSH_SECONDS, 0.0)
        return found

    def _read(self, data: str) -> Iterator[str]:
        for part in self.sequences.feed(data):
            if isinstance(part, Paste):
                yield part
            else:
                self._parser.feed(part)
                yield from self._taken()

    def _taken(self) -> list[str]:
        taken = [str(getattr(press.key, "value", press.key)) for press in self._presses]
        self._presses.clear()
        return taken


def test_every_form_of_a_key_means_the_same() -> None:
    wrong = [(keys, data) for keys, forms in KEYS.items() for data in forms if Line().send(data) != keys.split()]
    assert wrong == []


@pytest.mark.parametrize(
    ("data", "text"), [("\x1b[97u", "a"), ("\x1b[97;2u", "A"), ("\x1bOp", "0"), ("\x1b[57404u", "5")]
)
def test_letters_may_come_as_sequences(data: str, text: str) -> None:
    assert Line().send(data) == [text]


@pytest.mark.parametrize("data", ANSWERS)
def test_what_no_one_typed_types_nothing(data: str) -> None:
    line = Line()
    assert line.send(f"a{data}z") == ["a", "z"]
    for at in range(2, len(data)):  # also when it comes in two pieces, late
        assert line.send(data[:at], 0.5) == []
        assert line.send(data[at:] + "z") == ["z"]


@pytest.mark.parametrize(
    "wait", [0.001, 0.01, 0.029, 0.03, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.29, 0.3, 0.5, 0.8, 0.99]
)
@pytest.mark.parametrize(("rest", "meaning"), [("[A", "up"), ("OB", "down"), ("[Z", "s-tab")])
def test_the_rest_of_a_key_may_come_late(rest: str, meaning: str, wait: float) -> None:
    line = Line()
    early = line.send("\x1b", wait)
    assert line.send(rest) == [meaning]
    assert line.sequences.rejoined == bool(early)


def test_brackets_that_are_typed_stay() -> None:
    line = Line()
    assert line.send("\x1b", 1.2) == ["escape"]
    assert line.send("[A") == ["[", "A"]
    assert line.send("\x1b", 0.2) == ["escape"]
    assert line.send("x", 0.2) == ["x"]
    assert line.send("[A") == ["[", "A"]


def test_a_sequence_that_comes_byte_by_byte() -> None:
    line = Line()
    assert [line.send(each, 0.06) for each in "\x1b[A"] == [["escape"], [], ["up"]]


def test_answers_are_handed_on() -> None:
    line = Line()
    assert line.send("1\x1b]11;rgb:00/00/", 0.1) + line.send("20\x072") == ["1", "2"]
    assert line.answers == ["\x1b]11;rgb:00/00/20\x07"]


def test_lines_that_come_at_once_are_one_paste() -> None:
    assert Line().send("first\rsecond\rthird") == ["first\rsecond\rthird"]
    line = Line()
    assert line.send("first\rsecond\rthi", 0.01) + line.send("rd\r") == [
        "first\rsecond\rthi",
        "rd\r",
    ]
    assert line.send("go\r") == ["g", "o", "c-m"]


def test_a_marked_paste_is_taken_as_it_is() -> None:
    line = Line()
    text = "a\x1b[13;2u\rb\x1b]11;x\x07"
    data = f"\x1b[200~{text}\x1b[201~z"
    assert line.send(data) == [text, "z"]
    assert line.send(data, 0.01)[0] == text and line.send("\r") == ["c-m"]
    for at in range(2, len(data) - 1):
        assert line.send(data[:at], 0.1) + line.send(data[at:]) == [text, "z"]
