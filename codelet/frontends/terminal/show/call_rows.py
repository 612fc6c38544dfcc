"""The rows of a tool call and of its result."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from codelet.events import ResultStatus, ToolResult
from codelet.frontends.terminal.show.console import truncate, wrap
from codelet.frontends.terminal.show.diff_rows import count_diff, diff_rows, is_diff
from codelet.frontends.terminal.show.numbers import duration, plural
from codelet.frontends.terminal.show.style import BAD, GOOD, MARGIN, QUIET, WARN, Signs
from codelet.messages import Message
from codelet.messages import ToolCall as Call
from codelet.system.text import Cleaner, clean, first_sentence, one_line
from codelet.tools import title_of
from codelet.tools.tool import Tool

_TITLE_CHARACTERS = 400
_LINES_WHEN_DONE = 3
_LINES_WHEN_FAILED = 8
_LINES_SHOWN = 30
_PROGRESS_KEPT = 2_000


@dataclass
class RunningCall:
    """A running call: title, start, and the end of its output as a terminal shows it."""

    title: str
    since: float
    output: str = ""
    _cleaner: Cleaner = field(default_factory=Cleaner)
    _at_begin: bool = False

    def add(self, piece: str) -> None:
        """Add output. A line that is rewritten, such as a progress bar, keeps its last state."""
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


def call_title(name: str, arguments: dict[str, Any] | str, about: str = "") -> str:
    """The call as a user would write it: `read src/app.py:1-40`; `about` is the tool's own title."""
    words = about or (arguments if isinstance(arguments, str) else title_of(name, arguments))
    return one_line(f"{name} {words}".rstrip(), _TITLE_CHARACTERS)


def titles_of(messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, str]:
    """The titles of the calls in the last message with calls, by id."""
    by_name = {tool.name: tool for tool in tools}
    last = next((message for message in reversed(messages) if message.get("tool_calls")), None)
    return {call["id"]: _title_of(call, by_name) for call in last["tool_calls"]} if last else {}


def _title_of(call: Call, tools: Mapping[str, Tool]) -> str:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return call_title(function["name"], function["arguments"])
    tool = tools.get(function["name"])
    return call_title(function["name"], arguments, tool.about(arguments) if tool is not None else "")


_MARKS: dict[ResultStatus, tuple[str, str]] = {
    "done": ("done", GOOD),
    "failed": ("failed", BAD),
    "refused": ("refused", WARN),
    "interrupted": ("stopped", WARN),
}


def result_rows(
    title_text: str, result: ToolResult, width: int, signs: Signs, key: str = "", *, approved: bool = False
) -> list[Text]:
    """The call's row with its outcome, and the part of the result worth seeing; `key` shows the rest."""
    shown = result.display if result.display is not None else result.text
    sign, style = ("caution", WARN) if result.caveat and result.status == "done" else _MARKS[result.status]
    facts = [*_facts(result, shown), *(["approved"] if approved else [])]
    tail = f" {signs.dot} ".join(facts)
    head = Text(f"{getattr(signs, sign)} ", style)
    room = max(width - 2 - (len(tail) + 3 if tail else 0), 20)
    name, _, words = title_text.partition(" ")
    line = Text.assemble((name, "bold"), f" {words}" if words else "")
    row = Text.assemble(head, truncate(line, room, signs.more))
    if tail:
        row.append(f" {signs.dot} {tail}", QUIET)
    return [truncate(row, width, signs.more), *_details(result, shown, width, signs, f" ({key})" if key else "")]


def _facts(result: ToolResult, shown: str) -> list[str]:
    facts: list[str] = []
    caveat = [one_line(result.caveat, 40)] if result.caveat else []
    if result.status == "interrupted":
        return ["stopped"]
    if result.status == "refused":
        return []
    if result.name == "bash":
        code = reported_exit_code(result.text) if result.ended is None else result.ended.code
        if code:
            facts.append(how_it_ended(code))
        else:
            facts += caveat
    elif result.status == "failed":
        facts.append("failed")
    elif is_diff(shown):
        count = count_diff(shown)
        facts.append(
            " ".join(f for f in (count.added and f"+{count.added}", count.removed and f"-{count.removed}") if f)
        )
        facts += caveat
    elif result.counted:
        facts += [_number(result), *caveat]
    if result.seconds >= 0.95 or (result.name == "bash" and result.seconds >= 0.05):
        facts.append(duration(result.seconds))
    return facts


def _number(result: ToolResult) -> str:
    """The number of results, from the result's text: remarks are in brackets, "no …" means none."""
    lines = [line for line in result.text.rstrip("\n").split("\n") if line and line[:1] != "["]
    if len(lines) == 1 and lines[0].startswith("no "):
        return one_line(lines[0], 40)
    return plural(len(lines), one_line(result.counted, 20))


_EXIT_LINE = re.compile(r"(?m)^\[(?:exit code (\d{1,9})|ended by signal (\d{1,9}))\]$")
_PIPELINE_LINE = re.compile(r"(?m)^\[pipeline exit codes: [\d a-z]*\]\Z")


def reported_exit_code(text: str) -> int | None:
    """The exit code at the end of a command's output, negative for a signal; None without one."""
    found = _EXIT_LINE.findall(text[-300:])
    if not found:
        return None
    code, number = found[-1]
    return int(code) if code else -int(number)


def how_it_ended(code: int) -> str:
    """An exit code as text: `exit 2`, `ended by SIGINT`."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:  # one of the real-time signals, which have no names
        return f"ended by signal {-code}"


def _lines(text: str) -> int:
    return len(text.rstrip("\n").split("\n")) if text.strip() else 0


def _details(result: ToolResult, shown: str, width: int, signs: Signs, hint: str) -> list[Text]:
    if result.status == "done" and is_diff(shown):
        return diff_rows(shown, width, signs, hint=hint)
    if result.status == "refused":
        reason = first_sentence(result.text)
        return wrap(Text(" " * MARGIN + one_line(reason, 2_000), QUIET), width)
    if result.status == "interrupted" or (result.status == "done" and result.counted):
        return []
    if result.status == "done" and result.display is not None:
        return _shown_rows(shown, width, signs, hint)
    if result.name == "bash":
        end = _EXIT_LINE.sub("", shown[-300:])
        shown = shown[:-300] + (_PIPELINE_LINE.sub("", end) if result.caveat else end)
    limit = _LINES_WHEN_DONE if result.status == "done" else _LINES_WHEN_FAILED
    return _last_lines(shown, width, signs, limit, hint)


def _shown_rows(shown: str, width: int, signs: Signs, hint: str) -> list[Text]:
    """A tool's display text, from its start."""
    lines = [line for line in clean(shown).split("\n") if line.strip()]
    rows = [row for line in lines[:_LINES_SHOWN] for row in _beside_mark(line, width)]
    hidden = len(lines) - _LINES_SHOWN
    words = f"{' ' * MARGIN}{signs.more} {plural(hidden, 'more line')}{hint}"
    return rows + ([Text(words, QUIET)] if hidden > 0 else [])


def _beside_mark(line: str, width: int) -> list[Text]:
    """A wrapped line; continuation rows are indented below its words, after a list number."""
    hanging = MARGIN + len(line) - len(line.lstrip("0123456789. "))
    first, *rest = wrap(Text(line), max(width - hanging, 10)) or [Text(line)]
    return [Text.assemble(" " * MARGIN, first), *(Text.assemble(" " * hanging, row) for row in rest)]


def _last_lines(text: str, width: int, signs: Signs, limit: int, hint: str) -> list[Text]:
    """The last `limit` lines of an output, and how many are above."""
    end = text[-limit * 2000 :]
    lines = clean(end).rstrip("\n").split("\n")
    places = [place for place, line in enumerate(lines) if line.strip()]
    first = (places[-limit:] or [len(lines)])[0]
    is_all = len(places) <= limit and (len(end) == len(text) or not text[: -len(end)].strip())
    hidden = 0 if is_all else _lines(text) - len(lines) + first
    rows = [Text(f"{' ' * MARGIN}{signs.more} {plural(hidden, 'line')} above{hint}", QUIET)] if hidden > 0 else []
    return rows + [
        truncate(Text(" " * MARGIN + line, QUIET), width, signs.more) for line in lines[first:] if line.strip()
    ]
