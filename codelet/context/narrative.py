"""The handoff: a model's summary at the head of a segment, checked line by line.

Here are the instruction, the tries, and the checks. An answer is rejected as a whole if it is empty, larger
than its source, without a heading, or a tool call. Single lines are struck if they name something that never occurred,
have counts of an earlier run, or do not fit. An accepted line may still be untrue.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence

from codelet.context.compaction.observed import counts_in
from codelet.context.tokens import estimate_text

DELAYS = (0.0, 1.0, 2.0)
OPENS_AFTER = 3
HALF_OPEN_AFTER = 5
LARGEST = 3_000
"""The most tokens of an answer, with its thinking."""
# The size of a handoff: in percent of the target of a compaction, and its limits in tokens.
_PERCENT, _LEAST, _MOST = 15, 150, 600
INSTRUCTION = (
    "Write a handoff of the conversation above for the colleague who continues it and sees little else of it, in the "
    "language of the conversation. Use these five headings, each line beginning with its heading and a colon: Task "
    "now; Decided and why; Tried and refuted; Open; Next step. Write one point a line, in complete sentences, as many "
    "lines under a heading as it needs. Under Decided and why, also write each value that later work must know exactly "
    "(a port, a name, a version, a limit) on a separate line, as [what it is] value, such as [port] 8443. Use only "
    "what occurs above, with names, numbers, and quotes exactly as they occurred; call nothing passed or fixed that "
    "was not. No code, no lists of files, no tool calls."
)
_PATH = re.compile(r"(?:[\w.~@-]+/)+[\w.@-]*\w|\b[\w-]{2,}\.[A-Za-z][A-Za-z0-9]{0,4}\b", re.ASCII)
_NAME = re.compile(r"\b(?:[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*)\b", re.ASCII)
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*\d\b", re.ASCII)
_QUOTE = re.compile(
    r"`([^`\n]{3,200})`|\"([^\"\n]{3,200})\"|[“„]([^”“\n]{3,200})[”“]|«([^»\n]{3,200})»|「([^」\n]{3,200})」"
)
# Other forms of what occurred: a call without its arguments, words that a slash joins.
_CALL = re.compile(r"[\w.]*\w\(\)")
_ELLIPSIS = re.compile(r"…|\.\.\.")
_WORD = re.compile(r"[A-Za-z][A-Za-z-]*")
_FOLDER = re.compile(r"([\w.-]+)/(?=[\w.])", re.ASCII)
VALUE = re.compile(r"\[([^\[\]]{1,60})\]\s*(\S.*)")
"""A line with a value, in any language: its name in brackets, then the value as it occurred."""
_MARKS = str.maketrans({"*": None, "`": None, "’": "'", "“": '"', "”": '"'})
_HEADING = re.compile(r"^\W*[^:：\n]{1,80}[:：]", re.MULTILINE)
_LONGEST_LINE = 600
_MOST_LINES = 60

Sleep = Callable[[float], Awaitable[None]]


class NarrativeCheck:
    """Checks an answer line by line against its `source`, the texts that it summarises.

    `struck` are the rejected lines with the reason. `runs` are the endings of each command, in order, to reject counts
    of earlier runs. `room` is in tokens.
    """

    def __init__(
        self, source: Sequence[str], room: int = LARGEST, runs: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self.struck: list[str] = []
        self._joined = "\n".join(source)
        self._flat = " ".join(self._joined.split())
        self._plain = _plain(self._flat)
        self._numbers = {found.replace(",", "") for found in _NUMBER.findall(self._joined)}
        self._words = {word.lower() for word in _WORD.findall(self._joined)}
        self._folders = set(_FOLDER.findall(self._joined))
        self._room = room
        self._source_size = sum(estimate_text(text) for text in source)
        self._runs = runs or {}

    def accepted(self, answer: object) -> tuple[str, ...]:
        """Return the accepted lines; none if the answer is rejected as a whole."""
        self.struck = []
        if not isinstance(answer, str) or not answer.strip() or estimate_text(answer) > self._source_size:
            return ()
        if any(mark in answer for mark in ("<tool_call", '"tool_calls"', "<compacted turns=", "<system-reminder>")):
            return ()
        if not _HEADING.search(answer) and not any(
            name in self._joined for name in _NAME.findall(answer) + _PATH.findall(answer)
        ):
            return ()  # a refusal has no heading and no names
        kept = []
        for raw in answer.splitlines():
            line = " ".join(raw.split()).lstrip("-*•# ").strip()
            if not line:
                continue
            if why := self._error_in(line):
                self.struck.append(f"{line[:160]} ({why})")
            else:
                kept.append(line)
        return self._fitting(kept)

    def _fitting(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the lines that fit, in order; the task and the next step, at both ends, go first."""
        taken: set[int] = set()
        for number in sorted(range(len(lines)), key=lambda place: place not in (0, len(lines) - 1)):
            with_it = [lines[place] for place in sorted({*taken, number})]
            if len(with_it) <= _MOST_LINES and estimate_text("\n".join(with_it)) <= self._room:
                taken.add(number)
            else:
                self.struck.append(f"{lines[number][:160]} (no room for it)")
        return tuple(line for number, line in enumerate(lines) if number in taken)

    def _error_in(self, line: str) -> str:
        """Return why a line is rejected; "" if it is accepted."""
        if len(line) > _LONGEST_LINE:
            return "too long for one point"
        for pattern in (_PATH, _NAME, _NUMBER):
            for found in pattern.findall(line):
                if found not in self._joined and not self._otherwise(found):
                    return f"{found} never occurred"
        for groups in _QUOTE.findall(line):
            if not self._was_said(" ".join("".join(groups).split())):
                return "the quote never occurred"
        if (named := VALUE.fullmatch(line)) and not self._was_said(named[2]):
            return "the value never occurred"
        return self._outdated(line)

    def _otherwise(self, name: str) -> bool:
        """Return whether a name occurred without `./`, a number without commas, or all words that a slash joins."""
        if name.startswith("./"):
            return name[2:] in self._joined
        if name[0].isdigit():
            return name.replace(",", "") in self._numbers
        parts = name.split("/")
        if len(parts) == 1 or not all(map(_WORD.fullmatch, parts)):
            return False
        # `edit/retry` is no path if both words occurred and neither is a folder.
        return self._words.issuperset(part.lower() for part in parts) and self._folders.isdisjoint(parts)

    def _was_said(self, quote: str) -> bool:
        """Return whether a quote occurred, ignoring marks, case and ellipses; `name()` counts as a name."""
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

    def _outdated(self, line: str) -> str:
        """Return why a line is outdated: it has counts of an earlier run of a command, and none of its last run."""
        counts = {count.lower() for count in counts_in(line)}
        for command, endings in self._runs.items() if counts else ():
            earlier = {count.lower() for ending in endings[:-1] for count in counts_in(ending)}
            last = {count.lower() for count in counts_in(endings[-1])}
            if counts & earlier and not counts & last:
                return f"{min(counts & earlier)} is from an earlier run of {command[:60]}"
        return ""


def _plain(text: str) -> str:
    """Return a text without the marks of Markdown, in lower case."""
    return text.translate(_MARKS).lower()


class Handoffs:
    """Asks for handoffs. After three failures in a row it pauses for five turns, then tries once.

    `failures` are those so far, `sleep` waits between tries.
    """

    def __init__(self, failures: int = 0, sleep: Sleep = asyncio.sleep) -> None:
        self._failures = failures
        self._paused_at: int | None = None
        self._sleep = sleep

    def allows(self, turn: int) -> bool:
        """Return whether this turn allows a try."""
        return self._paused_at is None or turn >= self._paused_at + HALF_OPEN_AFTER

    async def handoff(self, ask: Callable[[], Awaitable[str]], check: NarrativeCheck, turn: int) -> tuple[str, ...]:
        """Return the accepted lines of a handoff; () if that fails. Without an answer it is tried three times.

        Cancellation ends it; every other failure counts. The time limit of a try is up to `ask`.
        """
        for delay in DELAYS:
            if not self.allows(turn):
                break
            if delay:
                await self._sleep(delay)
            [answer] = await asyncio.gather(ask(), return_exceptions=True)
            if lines := check.accepted(answer):
                self._failures, self._paused_at = 0, None
                return lines
            self._failures += 1
            if self._failures >= OPENS_AFTER:
                self._paused_at = turn
            if isinstance(answer, str):
                break  # it was paid for: do not ask a second time
        return ()


def narrative_room(target: int) -> int:
    """Return the most tokens of a handoff for a target."""
    return min(_MOST, max(_LEAST, target * _PERCENT // 100))
