"""The handoff: the head of a summary in a model's words, checked line by line before anything of it is kept.

The model is asked by the caller. Here are the instruction, the circuit breaker, and what makes an answer worthless: it
is empty, larger than its source, without a heading, or a tool call. In any other answer, lines are struck that name
something that never occurred, tell an earlier run's counts, or have no room. That a line stays does not make it true.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from codelet.context.compaction.observed import counts_in
from codelet.context.tokens import estimate_text

if TYPE_CHECKING:
    from codelet.context.compaction import Compacted

DELAYS = (0.0, 1.0, 2.0)
OPENS_AFTER = 3
HALF_OPEN_AFTER = 5
LARGEST = 3_000
"""Tokens that an answer may have, with the reasoning before it."""
# What is kept of it: its share of the target of a compaction, in percent, and its bounds in tokens.
_PERCENT, _LEAST, _MOST = 15, 150, 600
INSTRUCTION = (
    "Write a handoff of the conversation above for the colleague who continues it and sees little else of it, in the "
    "language of the conversation. Use these five headings, each line beginning with its heading and a colon: Task "
    "now; Decided and why; Tried and refuted; Open; Next step. Write one point a line, in complete sentences, as many "
    "lines under a heading as it needs. Under Decided and why, also write each value that later work must know exactly "
    "(a port, a name, a version, a limit) on a line of its own, as [what it is] value, such as [port] 8443. Use only "
    "what stands above, with names, numbers, and quotes exactly as they occurred; call nothing passed or fixed that "
    "was not. No code, no lists of files, no tool calls."
)
_PATH = re.compile(r"(?:[\w.~@-]+/)+[\w.@-]*\w|\b[\w-]{2,}\.[A-Za-z][A-Za-z0-9]{0,4}\b", re.ASCII)
_NAME = re.compile(r"\b(?:[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)\b", re.ASCII)
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*\d\b", re.ASCII)
_QUOTE = re.compile(
    r"`([^`\n]{3,200})`|\"([^\"\n]{3,200})\"|[“„]([^”“\n]{3,200})[”“]|«([^»\n]{3,200})»|「([^」\n]{3,200})」"
)
# What occurs in another form: a call without its arguments, words that a stroke joins.
_CALL = re.compile(r"[\w.]*\w\(\)")
_ELLIPSIS = re.compile(r"…|\.\.\.")
_WORD = re.compile(r"[A-Za-z][A-Za-z-]*")
_FOLDER = re.compile(r"([\w.-]+)/(?=[\w.])", re.ASCII)
VALUE = re.compile(r"\[([^\[\]]{1,60})\]\s*(\S.*)")
"""A line that names a value, whatever the language: what it is in brackets, then the value as it occurred."""
_MARKS = str.maketrans({"*": None, "`": None, "’": "'", "“": '"', "”": '"'})
_HEADING = re.compile(r"^\W*[^:：\n]{1,80}[:：]", re.MULTILINE)
_LONGEST_LINE = 600
_MOST_LINES = 60

Summariser = Callable[[str], Awaitable[str]]
Sleep = Callable[[float], Awaitable[None]]


class Breaker:
    """A circuit breaker: opens after three failures in a row; five turns later one try is allowed."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self._opened_at: int | None = None

    def allows(self, turn: int) -> bool:
        """Return whether a try may be made in this turn."""
        return self._opened_at is None or turn >= self._opened_at + HALF_OPEN_AFTER

    def failed(self, turn: int) -> None:
        """Count a failure."""
        self.failures += 1
        if self.failures >= OPENS_AFTER:
            self._opened_at = turn

    def succeeded(self) -> None:
        """Close the circuit."""
        self.failures, self._opened_at = 0, None


class NarrativeCheck:
    """Checks an answer line by line against its `source`, the texts that it is about; `struck` says what went and why.

    `runs` are the endings of each command that ran, in order: what an earlier one printed is not said of the last.
    `room` is in tokens.
    """

    def __init__(
        self, source: Sequence[str], room: int = LARGEST, runs: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.struck: list[str] = []
        self._joined = "\n".join(source)
        self._flat = " ".join(self._joined.split())
        self._room = room
        self._source_size = sum(estimate_text(text) for text in source)
        self._runs = runs or {}

    def accepted(self, answer: object) -> tuple[str, ...]:
        """The lines that can be kept; none if the answer is worthless as a whole."""
        self.struck = []
        if not isinstance(answer, str) or not answer.strip() or estimate_text(answer) > self._source_size:
            return ()
        if any(mark in answer for mark in ("<tool_call", '"tool_calls"', "<compacted turns=", "<system-reminder>")):
            return ()
        if not _HEADING.search(answer) and not any(
            name in self._joined for name in _NAME.findall(answer) + _PATH.findall(answer)
        ):
            return ()  # a refusal has no heading, and names nothing
        kept = []
        for raw in answer.splitlines():
            line = " ".join(raw.split()).lstrip("-*•# ").strip()
            if not line:
                continue
            if why := self._fault(line):
                self.struck.append(f"{line[:160]} ({why})")
            else:
                kept.append(line)
        return self._fitting(kept)

    def _fitting(self, lines: Sequence[str]) -> tuple[str, ...]:
        """The lines that the room takes, in their order: first of all the task and the next step, at both ends."""
        taken: set[int] = set()
        for number in sorted(range(len(lines)), key=lambda place: place not in (0, len(lines) - 1)):
            with_it = [lines[place] for place in sorted({*taken, number})]
            if len(with_it) <= _MOST_LINES and estimate_text("\n".join(with_it)) <= self._room:
                taken.add(number)
            else:
                self.struck.append(f"{lines[number][:160]} (no room for it)")
        return tuple(line for number, line in enumerate(lines) if number in taken)

    def _fault(self, line: str) -> str:
        """Return why a line cannot be kept; "" if it can."""
        if len(line) > _LONGEST_LINE:
            return "too long for one point"
        for pattern in (_PATH, _NAME, _NUMBER):
            for found in pattern.findall(line):
                if found not in self._joined and not self._otherwise(found):
                    return f"{found} never occurred"
        for groups in _QUOTE.findall(line):
            if not self._was_said(" ".join("".join(groups).split())):
                return "quotes what nobody said"
        if (named := VALUE.fullmatch(line)) and not self._was_said(named[2]):
            return "the value never occurred"
        return self._outdated(line)

    def _otherwise(self, name: str) -> bool:
        """Return whether a name occurred without `./`, a number without commas, or each of the words that a stroke
        joins.
        """
        if name.startswith("./"):
            return name[2:] in self._joined
        if name[0].isdigit():
            return name.replace(",", "") in self._numbers if "," in name else name in self._numbers
        parts = name.split("/")
        if len(parts) == 1 or not all(map(_WORD.fullmatch, parts)):
            return False
        # `edit/retry` is no path if both are words that occurred and neither is a folder.
        return self._words.issuperset(part.lower() for part in parts) and self._folders.isdisjoint(parts)

    def _was_said(self, quote: str) -> bool:
        """Return whether a quote occurred, apart from marks, capitals and an ellipsis; `name()` is a name."""
        if quote in self._flat:
            return True
        if _CALL.fullmatch(quote):
            return quote[:-2] in self._joined
        place = 0
        for part in _ELLIPSIS.split(_plain(quote)):
            if part := part.strip(" .,;:!?"):
                place = self._plain.find(part, place) + len(part)
                if place < len(part):
                    return False
        return place > 0

    @cached_property
    def _plain(self) -> str:
        return _plain(self._flat)

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return frozenset(found.replace(",", "") for found in _NUMBER.findall(self._joined))

    @cached_property
    def _words(self) -> frozenset[str]:
        return frozenset(map(str.lower, _WORD.findall(self._joined)))

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset(_FOLDER.findall(self._joined))

    def _outdated(self, line: str) -> str:
        """Return whether a line tells counts that only an earlier run of a command printed, and none that its last one
        did.
        """
        counts = {count.lower() for count in counts_in(line)}
        for command, endings in self._runs.items() if counts else ():
            earlier = {count.lower() for ending in endings[:-1] for count in counts_in(ending)}
            last = {count.lower() for count in counts_in(endings[-1])}
            if counts & earlier and not counts & last:
                return f"{min(counts & earlier)} is from an earlier run of {command[:60]}"
        return ""


def _plain(text: str) -> str:
    """A text without the marks of Markdown, in small letters."""
    return text.translate(_MARKS).lower()


async def narrate(
    summariser: Summariser,
    prompt: str,
    check: NarrativeCheck,
    breaker: Breaker,
    turn: int,
    *,
    sleep: Sleep,
) -> tuple[str, ...]:
    """Ask for a narrative and check it; () if there is none to be had. Without an answer it is asked for three times.

    `sleep` waits between the tries. Cancelling ends it; every other failure of the summariser counts for the breaker.
    The caller sets the time limit of one try inside `summariser`.
    """
    for delay in DELAYS:
        if not breaker.allows(turn):
            return ()
        if delay:
            await sleep(delay)
        [answer] = await asyncio.gather(summariser(prompt), return_exceptions=True)
        lines = check.accepted(answer)
        if lines:
            breaker.succeeded()
            return lines
        breaker.failed(turn)
        if isinstance(answer, str):
            return ()  # an answer was paid for: no compaction asks for a second one
    return ()


def narrative_room(target: int) -> int:
    """The tokens that a handoff may take of a target."""
    return min(_MOST, max(_LEAST, target * _PERCENT // 100))


def with_struck(made: Compacted, struck: tuple[str, ...], without: str = "") -> Compacted:
    """The same with what was not kept of a handoff; `without` says in the receipt why there is none."""
    notes = (f"{without}: the summary stands without a handoff.",) if without else ()
    report = made.report.replace(warnings=(*made.report.warnings, *notes), struck=struck)
    return made._replace(report=report)
