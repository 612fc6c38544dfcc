"""What the user types and pastes: long pastes behind a marker, and while a turn runs the lines that wait.

Only what was typed acts: a line that begins with a pasted `!` or `#` gets a space in front, which makes it a prompt.
The space stays with the line in the queue, in the history and when it comes back to the editor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from codelet.frontends.terminal.show.style import QUIET
from codelet.system.text import one_line

if TYPE_CHECKING:
    from rich.text import Text

_LONG_LINES = 10
_LONG_CHARACTERS = 1_000
_MARKER = re.compile(r"\[pasted #(\d+), [^\]\n]{1,40}\]")
# More would fill the screen, as when a terminal pastes line by line.
_MOST_QUEUED = 3

_SIGNS = ("!", "#")

_LONGEST_STEERING = 20_000
"""Characters of a line that may reach a turn that runs; a longer one is a prompt, which is cut to fit where need be."""


def as_prompt(text: str) -> str:
    """A text as a line that is sent to the model, whatever it begins with."""
    return f" {text}" if text.startswith(_SIGNS) else text


def is_plain_prompt(line: str) -> bool:
    """Return whether a space makes a prompt of a line that would act without it."""
    text = line.strip()
    return line[:1].isspace() and text.startswith(_SIGNS if "\n" not in text else (*_SIGNS, "/"))


class Pastes:
    """The pastes of one session, in memory; `pictures` are those from the clipboard, by the names in the line, `lines`
    the lines that were entered with something pasted.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.pictures: dict[str, bytes] = {}
        self.lines: set[str] = set()

    def holds(self, text: str) -> bool:
        """Return whether a line in this text was pasted, as a whole or in part."""
        return any(line in text for line in self.lines)

    def keep_picture(self, data: bytes) -> str:
        """Keep a picture; gives what stands for it in the line."""
        name = f"clipboard:{len(self.pictures) + 1}"
        self.pictures[name] = data
        return f"@{name}"

    def collapse(self, text: str) -> str:
        """The text with one kind of line end, or, if it is long, a marker for it."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= _LONG_LINES and len(text) <= _LONG_CHARACTERS:
            return text
        self._texts.append(text)
        return _marker(len(self._texts), text)

    def fold(self, text: str) -> str:
        """The text with every long paste that stands in it behind its marker again."""
        for number in sorted(range(len(self._texts)), key=lambda each: len(self._texts[each]), reverse=True):
            text = text.replace(self._texts[number], _marker(number + 1, self._texts[number]))
        return text

    def expand(self, text: str) -> str:
        """The text with every marker replaced by what it stands for."""

        def full(found: re.Match[str]) -> str:
            number = int(found[1])
            return self._texts[number - 1] if 0 < number <= len(self._texts) else found[0]

        return _MARKER.sub(full, text)


def _marker(number: int, text: str) -> str:
    lines = text.rstrip("\n").count("\n") + 1
    size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
    return f"[pasted #{number}, {size}]"


class Draft:
    """The lines that were entered while a turn runs, until someone takes them: nothing typed is ever lost.

    `acts` does at once what a line asks for, where that needs no turn to end, and says whether it did.
    """

    def __init__(self, pastes: Pastes, acts: Callable[[str], bool] = lambda line: False) -> None:
        self.queued: list[str] = []
        self._at_end: list[str] = []
        self._acts = acts
        self._pastes = pastes
        self.leaving = False
        """Whether codelet is to be left when the turn ends by itself."""
        self.left = False
        """Whether it is to be left however the turn ends."""
        self.sent = False
        """Whether the first line that waits was entered behind a stop: it is the next prompt."""
        self.is_over = True
        """Whether the turn was stopped or has ended: the next prompt is about to be read."""

    def enter(self, line: str, *, later: bool = False) -> None:
        """Take a line; `later` keeps it for the turn's end."""
        waits = bool(self.queued)
        if later:
            self._at_end.append(line)
        if later or self.is_over or not self._acts(line):
            self.queued.append(line)
        if self.is_over:
            self.sent = self.sent or not waits

    def leave(self) -> None:
        """Leave when the turn ends, or behind a stop at once, where nothing waits to be sent."""
        if not self.is_over:
            self.leaving = True
        else:
            self.left = not self.queued

    def take_back(self) -> str:
        """Take the last line that waits, to edit it."""
        line = self.queued.pop()
        self._forget(line)
        return line

    def withdraw(self) -> str:
        """Take everything out for the line."""
        everything = "\n".join(self.queued)
        self.queued, self.leaving, self.left, self.sent = [], False, False, False
        self._at_end.clear()
        return everything

    def next_line(self) -> str:
        """Take the first line that waits."""
        line = self.queued.pop(0)
        self.sent = False
        self._forget(line)
        return line

    def for_the_model(self, is_prompt: Callable[[str], bool]) -> list[str]:
        """Take the lines that may reach a turn that runs: prompts that were not kept for its end, up to a command."""
        taken = []
        for line in list(self.queued):
            if line in self._at_end:
                continue
            if not is_prompt(line) or len(self._pastes.expand(line)) > _LONGEST_STEERING:
                break
            taken.append(line)
            self.queued.remove(line)
        return taken

    def rows(self, width: int) -> list[Text]:
        """The rows to show below a running turn; none if nothing waits."""
        from rich.text import Text

        newest = self.queued[-_MOST_QUEUED:]
        rows = []
        for line in newest:
            waits = "after this turn" if line in self._at_end else "queued"
            rows.append(Text("  " + one_line(f"{waits}: {line}", width - 4), QUIET))
        if earlier := len(self.queued) - len(newest):
            rows.insert(0, Text(f"  queued: {earlier:,} more; esc stops the turn and gives all of it back", QUIET))
        if self.leaving:
            rows.append(Text("  leaving when this turn ends; esc stops it and stays", QUIET))
        return rows

    def _forget(self, line: str) -> None:
        if line in self._at_end:
            self._at_end.remove(line)
