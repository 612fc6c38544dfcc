"""A call that is at work, with the end of what it has written so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from codelet.system.text import Cleaner

_PROGRESS_KEPT = 2_000


@dataclass
class RunningCall:
    """A tool call at work: its title, when it started, the end of its output as a terminal would show it."""

    title: str
    since: float
    output: str = ""
    _cleaner: Cleaner = field(default_factory=Cleaner)
    _at_begin: bool = False

    def add(self, piece: str) -> None:
        """Take in what came. Of a line that is written again and again, as a progress bar is, the last state stays."""
        first, *others = piece.split("\r")
        self._write(self._cleaner.feed(first))
        for part in others:
            self._at_begin = True
            self._write(self._cleaner.feed(part))

    def _write(self, text: str) -> None:
        if text and self._at_begin:
            self._at_begin = False
            if text[0] != "\n":
                self.output = self.output[: self.output.rfind("\n") + 1]
        self.output = (self.output + text)[-_PROGRESS_KEPT:]
