"""Typed and pasted input: long pastes are folded into markers, lines entered during a turn wait, a file keeps them.

Only typed text acts: a pasted `!` or `#` at the start gets a leading space, which makes the line a prompt. The space
stays with the line in the queue, the history and the input line.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.history import History

from codelet.errors import UsageError
from codelet.frontends.terminal.show.style import QUIET
from codelet.safety.opener import open_named
from codelet.safety.secrets import mask
from codelet.system.text import one_line

if TYPE_CHECKING:
    from rich.text import Text

_LONG_LINES = 10
_LONG_CHARACTERS = 1_000
_COMPARED = 12
"""Characters that tell a pasted line or file name from a typed one."""
_MARKER = re.compile(r"\[pasted #\d+, [^\]\n]{1,40}\]")
_MOST_QUEUED = 3
"""More would fill the screen, for example when a terminal pastes line by line."""
_SIGNS = ("!", "#")
_LONGEST_STEERING = 20_000
"""Characters of a line that may reach a turn that runs; a longer one is a prompt, which is cut to fit where need be."""
_MOST_READ = 2 << 20
"""Bytes read from the file's end."""
_LONGEST_KEPT = 20_000
"""The longest entry, in characters."""


def as_prompt(text: str) -> str:
    """Return the text as a line that is a prompt, whatever its first character."""
    return f" {text}" if text.startswith(_SIGNS) else text


def is_plain_prompt(line: str) -> bool:
    """Return whether a leading space keeps this line from acting."""
    return line[:1].isspace() and line.strip().startswith((*_SIGNS, "/"))


class Pastes:
    """The pastes of a session. `pictures` maps names in the line to clipboard images."""

    def __init__(self) -> None:
        self.pictures: dict[str, bytes] = {}
        self._texts: dict[str, str] = {}  # by marker
        self._pasted: list[str] = []

    def keep(self, text: str) -> None:
        """Remember a text that no one typed."""
        self._pasted.append(text)

    def begins(self, text: str) -> bool:
        """Return whether the text begins as a part of a paste."""
        begin = text.strip()[:_COMPARED]
        return bool(begin) and any(begin in pasted for pasted in self._pasted)

    def entered(self, line: str) -> str:
        """Return a line for sending and the history: a prompt if it begins with a pasted sign."""
        text = line.strip()
        signs = _SIGNS if "\n" not in text else (*_SIGNS, "/")
        return f" {line}" if text.startswith(signs) and self.begins(line) else line

    def keep_picture(self, data: bytes) -> str:
        """Keep an image; return its name in the line."""
        name = f"clipboard:{len(self.pictures) + 1}"
        self.pictures[name] = data
        return f"@{name}"

    def collapse(self, text: str) -> str:
        """Return the text with normalized line ends, or a marker if it is long."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.keep(text)
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= _LONG_LINES and len(text) <= _LONG_CHARACTERS:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        marker = f"[pasted #{len(self._texts) + 1}, {size}]"
        self._texts[marker] = text
        return marker

    def fold(self, text: str) -> str:
        """Replace long pastes by their markers."""
        for marker, pasted in sorted(self._texts.items(), key=lambda each: len(each[1]), reverse=True):
            text = text.replace(pasted, marker)
        return text

    def expand(self, text: str) -> str:
        """Replace markers by their pastes."""
        return _MARKER.sub(lambda found: self._texts.get(found[0], found[0]), text)


class Draft:
    """Lines entered during a turn, until the model or the next prompt takes them; nothing typed is lost.

    `acts` runs a line's command immediately, if it may run during a turn, and returns whether it did.
    """

    def __init__(self, pastes: Pastes, acts: Callable[[str], bool] = lambda line: False) -> None:
        self.queued: list[tuple[str, bool]] = []
        """Lines, and whether they wait for the turn's end."""
        self.pastes, self._acts = pastes, acts
        self.leaving = False
        """Leave when the turn ends without a stop."""
        self.left = False
        """Leave however the turn ends."""
        self.sent = False
        """The first waiting line was entered after a stop: it is the next prompt."""
        self.is_over = True
        """The turn was stopped or has ended."""
        self.is_cut = False
        """It was stopped or failed: what waits goes back to the input line."""

    def enter(self, line: str, *, later: bool = False) -> None:
        """Add a line; `later` keeps it for the turn's end."""
        if self.is_over:
            self.sent = self.sent or not self.queued
        if later or self.is_over or not self._acts(line):
            self.queued.append((line, later))

    def leave(self) -> None:
        """Leave when the turn ends, or right after a stop if no line waits."""
        self.leaving = not self.is_over
        self.left = self.is_over and not self.queued

    def withdraw(self) -> str:
        """Remove and return all lines."""
        everything = "\n".join(line for line, _ in self.queued)
        self.queued, self.leaving, self.left, self.sent, self.is_cut = [], False, False, False, False
        return everything

    def next_line(self) -> str:
        """Remove and return the first line."""
        self.sent = False
        return self.queued.pop(0)[0]

    def for_the_model(self, is_prompt: Callable[[str], bool]) -> list[str]:
        """Remove and return the prompts for the running turn, up to the first command."""
        taken = []
        for line, waits in list(self.queued):
            if not waits and (not is_prompt(line) or len(self.pastes.expand(line)) > _LONGEST_STEERING):
                break
            if not waits:
                taken.append(line)
                self.queued.remove((line, False))
        return taken

    def rows(self, width: int) -> list[Text]:
        """Return the rows about waiting lines."""
        from rich.text import Text

        rows = []
        if earlier := len(self.queued[:-_MOST_QUEUED]):
            rows.append(Text(f"  queued: {earlier:,} more; esc stops the turn and gives all of it back", QUIET))
        for line, waits in self.queued[-_MOST_QUEUED:]:
            told = f"{'after this turn' if waits else 'queued'}: {line}"
            rows.append(Text("  " + one_line(told, width - 4), QUIET))
        if self.leaving:
            rows.append(Text("  leaving when this turn ends; esc stops it and stays", QUIET))
        return rows


class HistoryFile(History):
    """A history file that only its owner can read. Several sessions may write to it.

    `whole` expands paste markers. `complain` reports once that saving fails. Keys and tokens are masked. Raises
    UsageError if the file cannot be read and written.
    """

    def __init__(self, path: Path, whole: Callable[[str], str], complain: Callable[[str], None]) -> None:
        super().__init__()
        self._path, self._whole, self._complain = path, whole, complain
        self._earlier = self._read()

    def load_history_strings(self) -> Iterable[str]:
        """Return earlier entries, newest first."""
        return reversed(self._earlier)

    def store_string(self, string: str) -> None:
        """Append an entry. A failure is reported once and ends saving."""
        text = self._whole(string)
        if len(text) > _LONGEST_KEPT:
            return
        line = json.dumps(mask(text, patterns=True), ensure_ascii=False) + "\n"
        try:
            with os.fdopen(self._open(), "ab", buffering=0) as file:
                file.write(line.encode("utf-8", "replace"))  # one write: lines of two sessions do not mix
        except OSError as error:
            complain, self._complain = self._complain, lambda text: None
            complain(f"what you type is not kept: {self._path}: {error.strerror or error}")

    def _open(self) -> int:
        return open_named(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)

    def _read(self) -> list[str]:
        try:
            descriptor = self._open()
        except OSError as error:
            raise UsageError(f"--history {self._path}: {error.strerror or error}") from None
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"--history {self._path}: this is not a file")
            file.seek(max(0, status.st_size - _MOST_READ))
            lines = file.read().split(b"\n")
        entries = [_entry(line) for line in lines[status.st_size > _MOST_READ :] if line]
        if lines and any(lines) and not any(entries):
            raise UsageError(f"--history {self._path}: not one of codelet's history files, so it is not used")
        return [entry for entry in entries if entry]


def _entry(line: bytes) -> str:
    """Return a line's entry; "" for a damaged line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""
