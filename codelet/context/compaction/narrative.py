"""The optional narrative: decisions and next steps in a model's words, checked before anything of it is kept.

The model is asked by the caller. Here are the instruction, the circuit breaker, and what makes an answer worthless: it
is empty, larger than its source, a tool call, or names paths that never occurred. Without a narrative compaction works
the same; a model that fails, hangs or lies changes nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence

from codelet.context.tokens.estimate import estimate_text

DELAYS = (0.0, 1.0, 2.0)
OPENS_AFTER = 3
HALF_OPEN_AFTER = 5
LARGEST = 1_024
INSTRUCTION = (
    "Write down, for yourself, what the conversation above decided and what comes next: decisions with their reasons, "
    "approaches given up and why, next steps. At most twelve lines, one point each. No file lists, no code, "
    "no tool calls; name only files that occur above."
)
_PATH = re.compile(
    r"(?:[\w.~@-]+/)+[\w.@-]*\w|\b[\w-]+\.(?:py|ts|tsx|js|jsx|rs|go|java|c|h|cpp|md|json|toml|ya?ml|sh)\b"
)
_LONGEST_LINE = 300
_MOST_LINES = 12

Summariser = Callable[[str], Awaitable[str]]
Sleep = Callable[[float], Awaitable[None]]


class Breaker:
    """A circuit breaker: opens after three failures in a row; five turns later one try is allowed."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self._opened_at: int | None = None

    def allows(self, turn: int) -> bool:
        """Whether a try may be made in this turn."""
        return self._opened_at is None or turn >= self._opened_at + HALF_OPEN_AFTER

    def failed(self, turn: int) -> None:
        """Count a failure."""
        self.failures += 1
        if self.failures >= OPENS_AFTER:
            self._opened_at = turn

    def succeeded(self) -> None:
        """Close the circuit."""
        self.failures, self._opened_at = 0, None


def accepted(answer: object, source: Sequence[str]) -> tuple[str, ...]:
    """The lines of a narrative that can be kept; none if it is worthless as a whole.

    `source` are the texts that it is about. A line that names a path which never occurs in them is left out, and so is
    a line that is too long to be one point.
    """
    if not isinstance(answer, str) or not answer.strip():
        return ()
    size = sum(estimate_text(text) for text in source)
    if estimate_text(answer) > min(LARGEST, size):
        return ()
    if (
        "<tool_call" in answer
        or '"tool_calls"' in answer
        or "<compacted turns=" in answer
        or "<system-reminder>" in answer
    ):
        return ()
    joined = "\n".join(source)
    lines = []
    for raw in answer.splitlines():
        line = raw.strip().lstrip("-*• ").strip()
        if line and len(line) <= _LONGEST_LINE and all(path in joined for path in _PATH.findall(line)):
            lines.append(line)
    return tuple(lines[:_MOST_LINES])


async def narrate(
    summariser: Summariser, prompt: str, source: Sequence[str], breaker: Breaker, turn: int, *, sleep: Sleep
) -> tuple[str, ...]:
    """Ask for a narrative, at most three times, and check it; () if there is none to be had.

    `sleep` waits between the tries. Cancelling ends it; every other failure of the summariser counts for the breaker.
    The caller sets the time limit of one try inside `summariser`.
    """
    for delay in DELAYS:
        if not breaker.allows(turn):
            return ()
        if delay:
            await sleep(delay)
        [answer] = await asyncio.gather(summariser(prompt), return_exceptions=True)
        lines = accepted(answer, source)
        if lines:
            breaker.succeeded()
            return lines
        breaker.failed(turn)
    return ()
