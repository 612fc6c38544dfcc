"""Sorts terminal input before it is parsed: keys, pastes, and answers to queries."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator, Iterator
from typing import TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

FLUSH_SECONDS = 0.03
"""ESC alone is the key after this time."""

REJOIN_SECONDS = 1.0
"""The rest of a sequence may arrive this late: over ssh, in a web terminal, on a serial line."""
_BURST_SECONDS = 0.05
"""A read within this time after a burst of lines belongs to it."""
_LONGEST = 4_096
_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_TOKEN = re.compile(
    r"""
      (?P<csi>\x1b\[(?:\[[A-E]|M[\s\S]{3}|[0-?]*[ -/]*[@-LN-Z\\-~]|[0-?]+[ -/]*M))
    | (?P<ss3>\x1bO[0-9;]*[ A-Za-z])
    | (?P<string>\x1b(?:\]\d|P[0-9>!=$+|]|_G|[\^X])[^\x07\x1b]*(?:\x07|\x1b\\))
    | (?P<begun>\x1b(?:\x1b*|\[(?:M[\s\S]{0,2}|\[)|\[[0-?]*[ -/]*|O[0-9;]*|[P_]|\](?:\d[^\x07\x1b]*\x1b?)?
        |P[0-9>!=$+|][^\x07\x1b]*\x1b?|_G[^\x07\x1b]*\x1b?)\Z)
    | (?P<alt>\x1b)
    | (?P<control>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f])
    | (?P<text>[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+)
    """,
    re.VERBOSE,
)
_REST = re.compile(r"\[[0-?]*[ -/]*[@-~]|O[A-DFHMP-S]|\]\d")
"""The rest of a sequence whose ESC was taken for the key. A bare `O` is not: it opens a line in vi."""
_REST_BEGINS = re.compile(r"\[[0-?]*[ -/]*\Z")
_REST_BEGINS_SECONDS = 0.3

_LINES = re.compile(r"[^\r\n][\r\n]+[^\r\n]")
_CSI_U = re.compile(
    r"\x1b\[(?:27;(?P<mods>\d+);(?P<code>\d+)~|(?P<u>\d+)(?::\d*)*(?:;(?P<umods>\d*)(?::(?P<kind>\d))?)?(?:;[\d:]*)?u)"
)
_KEYPAD = dict(zip("jklmnopqrstuvwxyX", "*+,-./0123456789=", strict=True)) | {"M": "\r", "I": "\t", " ": " "}
_NUMBERED_KEYPAD = dict(zip(range(57_399, 57_416), "0123456789./*-+\r=", strict=True))
_NUMBERED_ARROWS = {57_417: "\x1b[D", 57_418: "\x1b[C", 57_419: "\x1b[A", 57_420: "\x1b[B"}
_SHIFT, _ALT, _CTRL, _OTHERS = 1, 2, 4, 0b111000


class Paste(str):
    """Pasted text."""


class KeySequences:
    """Sorts the input of a terminal. `answered` receives the terminal's answers to queries."""

    def __init__(self, answered: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.answered = answered
        self._clock = clock
        self._held = ""
        self._held_at = self._escape_at = self._burst_at = float("-inf")
        self._pasting: list[str] | None = None
        self.rejoined = False
        """The last data completed a key whose ESC had been taken for the key itself."""

    def feed(self, data: str) -> Iterator[str]:
        """Yield keys as the parser knows them, and pastes. Holds back the start of a sequence."""
        now = self._clock()
        self.rejoined = False
        if now - self._held_at > REJOIN_SECONDS and len(self._held) > 1:
            self._held = ""  # an answer that never ended
        elif not self._held and (
            (now - self._escape_at < REJOIN_SECONDS and _REST.match(data))
            or (now - self._escape_at < _REST_BEGINS_SECONDS and _REST_BEGINS.match(data))
        ):
            self.rejoined, self._held = True, "\x1b"  # a key whose ESC came before
        if data:
            self._escape_at = float("-inf")
        data, self._held = self._held + data, ""
        burst = self._is_burst(data, now)
        while data:
            if self._pasting is None:
                data = yield from self._sorted(data, now, burst=burst)
            else:
                self._pasting.append(data)
                text, ended, data = "".join(self._pasting).partition(_PASTE_END)
                self._pasting = None if ended else [text]
                if ended:
                    yield Paste(text)

    def flush(self) -> str:
        """Return a held-back ESC: nothing followed, so it was the key."""
        if self._held.strip("\x1b"):
            return ""  # a sequence that has begun; its rest is late
        held, self._held = self._held, ""
        if held:
            self._escape_at = self._clock()
        return held

    def _is_burst(self, data: str, now: float) -> bool:
        """Return whether several lines arrived together: an unmarked paste."""
        if self._pasting is not None or _PASTE in data:
            return False
        text = _TOKEN.sub(lambda token: token["text"] or "", data)
        if _LINES.search(text) or (text and now - self._burst_at < _BURST_SECONDS):
            self._burst_at = now
            return True
        return False

    def _sorted(self, data: str, now: float, *, burst: bool) -> Generator[str, None, str]:
        """Yield as `feed` does; return the text after the start of a marked paste."""
        for token in _TOKEN.finditer(data):
            sequence = token[0]
            match token.lastgroup:
                case "csi" if sequence == _PASTE:
                    self._pasting = []
                    return data[token.end() :]
                case "csi":
                    yield _key_of(sequence)
                case "ss3":
                    yield sequence if sequence in ANSI_SEQUENCES else _KEYPAD.get(sequence[-1], "")
                case "string":
                    self.answered(sequence)
                case "begun" if len(sequence) < _LONGEST:
                    self._held, self._held_at = sequence, now
                case "text":
                    text = re.sub(r"[\x80-\x9f]", "", sequence)
                    yield Paste(text) if burst else text
                case "control" | "alt":
                    yield sequence
        return ""


def _key_of(sequence: str) -> str:
    """Return a control sequence as the parser knows it; "" if it is not a key."""
    found = _CSI_U.fullmatch(sequence)
    if found is None:
        return sequence if sequence in ANSI_SEQUENCES else ""
    code, modifiers = int(found["code"] or found["u"]), int(found["mods"] or found["umods"] or 1) - 1
    if found["kind"] == "3" or modifiers & _OTHERS:  # released; or with Super, Hyper, Meta
        return ""
    alt = "\x1b" if modifiers & _ALT else ""
    if code in (13, 57_414):
        return "\n" if modifiers & (_SHIFT | _CTRL) else f"{alt}\r"
    if code == 9:
        return "\x1b[Z" if modifiers & _SHIFT else f"{alt}\t"
    if code in (27, 127, 8):
        return alt + ("\x1b" if code == 27 else "\x7f")
    if code in _NUMBERED_ARROWS or code in _NUMBERED_KEYPAD:
        return _NUMBERED_ARROWS.get(code) or _NUMBERED_KEYPAD[code]
    if code < 32 or 0xD800 <= code < 0xF900 or code > 0x10FFFF:
        return ""
    letter = chr(code)
    if modifiers & _CTRL:
        return alt + chr(ord(letter.upper()) & 0x1F) if "@" <= letter.upper() <= "_" or letter == " " else ""
    return alt + (letter.upper() if modifiers & _SHIFT else letter)


_LOCAL = ("VTE_VERSION", "KITTY_WINDOW_ID", "ALACRITTY_WINDOW_ID", "KONSOLE_VERSION", "XTERM_VERSION", "WT_SESSION",
          "TERM_PROGRAM", "WEZTERM_PANE", "GHOSTTY_RESOURCES_DIR", "WINDOWID")  # fmt: skip
_REMOTE = ("SSH_CONNECTION", "SSH_TTY", "TMUX", "STY", "MOSH_CONNECTION")
_ESCAPE_SECONDS, _LOCAL_ESCAPE_SECONDS = 0.3, 0.035
_MOST_AT_ONCE = 65_536
"""The most characters per read."""


def escape_seconds() -> float:
    """Return how long, in seconds, to wait for the rest of a sequence. A local terminal sends it with its ESC."""
    is_local = any(os.environ.get(name) for name in _LOCAL) and not any(os.environ.get(name) for name in _REMOTE)
    return _LOCAL_ESCAPE_SECONDS if is_local else _ESCAPE_SECONDS


class KeyInput(Vt100Input):
    """The terminal's input.

    `answered` receives answers to codelet's queries; `route` returns the keys for the input line.
    """

    def __init__(self, stdin: TextIO, answered: Callable[[str], None] = lambda answer: None) -> None:
        super().__init__(stdin)
        self.route: Callable[[list[KeyPress]], list[KeyPress]] = lambda presses: presses
        self.sequences = KeySequences(answered)

    def read_keys(self) -> list[KeyPress]:
        """Return the keys pressed since the last call."""
        data = ""
        while len(data) < _MOST_AT_ONCE and (more := self.stdin_reader.read()):
            data += more
        for part in self.sequences.feed(data):
            if isinstance(part, Paste):
                self._buffer.append(KeyPress(Keys.BracketedPaste, part))
            else:
                self.vt100_parser.feed(part)
        return self._taken()

    def flush_keys(self) -> list[KeyPress]:
        """Return ESC, if nothing followed it."""
        self.vt100_parser.feed(self.sequences.flush())
        self.vt100_parser.flush()
        return self._taken()

    def _taken(self) -> list[KeyPress]:
        taken, self._buffer = self._buffer, []
        return self.route(taken)
