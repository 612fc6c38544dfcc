"""The rows of a tool call and of its result."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from codelet.events import ResultStatus, ToolResult
from codelet.frontends.terminal.show.console import truncate, wrap_indented
from codelet.frontends.terminal.show.diff_rows import count_diff, diff_rows, is_diff
from codelet.frontends.terminal.show.numbers import duration, plural
from codelet.frontends.terminal.show.style import BAD, GOOD, MARGIN, QUIET, WARN
from codelet.messages import Message
from codelet.messages import ToolCall as Call
from codelet.system.text import clean, first_sentence, one_line
from codelet.tools import title_of
from codelet.tools.tool import Tool

_TITLE_CHARACTERS = 400
_LINES_WHEN_DONE = 3
_LINES_WHEN_FAILED = 8
_LINES_SHOWN = 30
_LONGEST_LINE = 2_000
_PROGRESS_KEPT = 2_000
_END_LINES = re.compile(r"(?m)^\[(?:exit code \d+|ended by signal \d+|pipeline exit codes: [\d a-z]*)\]$")
"""How a command ended, for the model: the row above says it."""


class RunningCall:
    """A running call: title, start, and the end of its output."""

    def __init__(self, title: str, since: float) -> None:
        self.title = title
        self.since = since
        self._output = ""

    def add(self, piece: str) -> None:
        """Add output."""
        self._output = (self._output + piece)[-_PROGRESS_KEPT:]

    def lines(self, most: int) -> list[str]:
        """The last lines of the output. A line that is rewritten, such as a progress bar, has its last state."""
        written = self._output.replace("\r\n", "\n").split("\n")
        lines = [clean(line.rstrip("\r").rpartition("\r")[2]) for line in written]
        return [line for line in lines if line.strip()][-most:]


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
    "done": ("✓", GOOD),
    "failed": ("✗", BAD),
    "refused": ("⊘", WARN),
    "interrupted": ("■", WARN),
}


def result_rows(
    title_text: str, result: ToolResult, width: int, key: str = "", *, approved: bool = False
) -> list[Text]:
    """The call's row with its outcome, and the part of the result worth seeing; `key` shows the rest."""
    sign, style = ("!", WARN) if result.caveat and result.status == "done" else _MARKS[result.status]
    facts = [*_facts(result), *(["approved"] if approved else [])]
    tail = "".join(f" · {fact}" for fact in facts)
    name, space, words = title_text.partition(" ")
    line = truncate(Text.assemble((name, "bold"), space, words), max(width - 2 - len(tail), 20))
    row = Text.assemble((f"{sign} ", style), line, (tail, QUIET))
    return [truncate(row, width), *_details(result, width, f" ({key})" if key else "")]


def _facts(result: ToolResult) -> list[str]:
    """What the row says of a result besides its sign."""
    if result.status in ("interrupted", "refused"):
        return ["stopped"] if result.status == "interrupted" else []
    facts: list[str] = []
    if result.ended is not None and result.ended.code:
        facts.append(how_it_ended(result.ended.code))
    elif result.status == "failed":
        facts += ["failed"] if result.name != "bash" else []
    elif result.display is not None and is_diff(result.display):
        count = count_diff(result.display)
        facts.append(" ".join(f"{sign}{number}" for sign, number in zip("+-", count, strict=True) if number))
    elif result.counted:
        # Remarks are in brackets; "no …" means none.
        lines = [line for line in result.text.rstrip("\n").split("\n") if line and line[:1] != "["]
        is_none = len(lines) == 1 and lines[0].startswith("no ")
        facts.append(one_line(lines[0], 40) if is_none else plural(len(lines), one_line(result.counted, 20)))
    if result.caveat and result.status == "done":
        facts.append(one_line(result.caveat, 40))
    if result.seconds >= 0.95 or (result.name == "bash" and result.seconds >= 0.05):
        facts.append(duration(result.seconds))
    return facts


def how_it_ended(code: int) -> str:
    """An exit code as text: `exit 2`, `ended by SIGINT`."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:  # one of the real-time signals, which have no names
        return f"ended by signal {-code}"


def _details(result: ToolResult, width: int, hint: str) -> list[Text]:
    """The part of a result below its row."""
    shown, is_done = result.text if result.display is None else result.display, result.status == "done"
    if is_done and is_diff(shown):
        return diff_rows(shown, width, hint=hint)
    if result.status == "refused":
        return wrap_indented(Text(one_line(first_sentence(shown), 2_000), QUIET), width, " " * MARGIN)
    if result.status == "interrupted" or (is_done and result.counted):
        return []
    if is_done and result.display is not None:
        return _first_lines(shown, width, hint)
    if result.name == "bash":
        shown = shown[:-300] + _END_LINES.sub("", shown[-300:])
    return _last_lines(shown, width, _LINES_WHEN_DONE if is_done else _LINES_WHEN_FAILED, hint)


def _first_lines(shown: str, width: int, hint: str) -> list[Text]:
    lines = [line for line in clean(shown).split("\n") if line.strip()]
    rows = [row for line in lines[:_LINES_SHOWN] for row in wrap_indented(Text(line), width, " " * MARGIN)]
    hidden = len(lines) - _LINES_SHOWN
    words = f"{' ' * MARGIN}… {plural(hidden, 'more line')}{hint}"
    return rows + ([Text(words, QUIET)] if hidden > 0 else [])


def _last_lines(text: str, width: int, limit: int, hint: str) -> list[Text]:
    """The last `limit` lines of an output that are not blank, and how many are above."""
    lines = clean(text).rstrip().split("\n")
    places = [place for place, line in enumerate(lines) if line.strip()]
    first = places[-limit] if len(places) > limit else 0
    rows = [Text(f"{' ' * MARGIN}… {plural(first, 'line')} above{hint}", QUIET)] if first else []
    shown = [Text(f"{' ' * MARGIN}{line[:_LONGEST_LINE]}", QUIET) for line in lines[first:] if line.strip()]
    return [*rows, *(truncate(line, width) for line in shown)]
