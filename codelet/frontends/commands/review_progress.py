"""A review's progress, in one line on stderr that is rewritten; nothing if stderr is not a terminal."""

from __future__ import annotations

import os
import sys

from codelet.frontends.terminal.show.numbers import duration, plural, tokens
from codelet.review.review_run import ReviewStep
from codelet.system.text import one_line

_DOING = {"review": "reviewing", "summary": "summing up"}


class ProgressLine:
    """The line; none if `quiet`."""

    def __init__(self, *, quiet: bool) -> None:
        self._wanted = not quiet and sys.stderr is not None and sys.stderr.isatty()
        self._open = False

    def show(self, step: ReviewStep) -> None:
        """Write the line."""
        if not self._wanted:
            return
        parts = [
            f"{_DOING.get(step.phase, step.phase)}: {step.done} of {step.total}",
            plural(step.findings, "finding"),
            *([f"{tokens(step.usage.total)} tokens"] if step.usage.known else []),
            *([f"about {duration(step.left)} left"] if step.left is not None and step.done < step.total else []),
        ]
        self._write(f"\r\x1b[K{one_line(', '.join(parts), _columns() - 1)}")
        self._open = True

    def end(self) -> None:
        """Remove the line: the report follows."""
        if self._open:
            self._open = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._wanted = False  # no one reads it


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
