"""Normalise a list into the shape that every provider takes, and parse what each message says and does.

The pairing rule: right after an assistant message stand the results of its calls, one for each, in the order of the
calls. A result without a call goes; a call without a result gets one that says so; a late result moves up to its call;
of several results for one call the last that says something counts. Of each type of reminder the newest stays. Calls
in flight (those of the last assistant message, if nothing but results follows it) are left open on request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

from codelet.context.compaction.actions import Action, action_of, with_file_of
from codelet.context.compaction.edits import EditedText, shows_edit, without_removed
from codelet.context.compaction.segments import ParsedSegment, last_step, last_turn, parse_segment
from codelet.context.compaction.signals import EXIT_MARK, is_error_line
from codelet.messages import AnyMessage, calls_of, kind_of, reminder_type, text_of, with_kinds

NO_RESULT = "[interrupted: no result]"
# A turn of more steps than this counts them.
LONG_TURN = 20
# In a JSON object with one of these stands what a command printed.
_OUTPUT_KEYS = re.compile(r'"(?:exit_?code|return_?code|stdout)"', re.IGNORECASE)
# What stands behind a command's output where a tool frames it, and within how many characters the output begins.
_FRAME_END = re.compile(r"(Error|Exit Code|Signal|Background PIDs|Process Group PGID): (.*)")
_FRAME_HEAD, _NONE = 20_000, "(none)"
_TRACEBACK = "Traceback (most recent call last)"
# The name of an error alone in its line.
_NAMES_ERROR = re.compile(r"[\w.:]*(?:Error|Exception|Failure):")
_SPEAKERS = frozenset({"system", "user", "assistant", "developer"})


@dataclass
class Normalised:
    """The list in order, and where each message came from (-1: added here)."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    origin: list[int] = field(default_factory=list)

    def put(self, message: AnyMessage, origin: int) -> None:
        """Append one message."""
        self.messages.append(message if isinstance(message, dict) else dict(message))
        self.origin.append(origin)


def normalise(messages: Sequence[AnyMessage], *, in_flight: bool = False) -> Normalised:
    """Return the same messages (the same objects if nothing had to change) in a list that obeys the pairing rule.

    The kinds of messages from outside are worked out here. `in_flight` leaves the last assistant message's unanswered
    calls open. Entries that are not messages go, and results without a call.
    """
    messages = with_kinds(messages)
    out = Normalised()
    wanted, last_calls = _owners(messages)
    results = _results(messages, wanted)
    newest = _newest_reminders(messages)
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _SPEAKERS:
            continue
        kind = reminder_type(message)
        if kind is not None and newest[kind] != index:
            continue
        _put_with_results(out, message, index, wanted, results, keep_open=in_flight and index == last_calls)
    return out


def _owners(messages: Sequence[AnyMessage]) -> tuple[dict[str, int], int]:
    """Map each call id to the first message that makes it; also return the index of the last message with calls."""
    wanted: dict[str, int] = {}
    last = -1
    for index, message in enumerate(messages):
        if isinstance(message, dict):
            for call in calls_of(message):
                wanted.setdefault(call["id"], index)
                last = index
    return wanted, last


def _results(messages: Sequence[AnyMessage], wanted: dict[str, int]) -> dict[str, tuple[int, AnyMessage]]:
    """Map each call id to its result: the last one after the call that has text, or else the last one."""
    found: dict[str, tuple[int, AnyMessage]] = {}
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") != "tool":
            continue
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or wanted.get(call_id, index) >= index:
            continue
        if call_id not in found or message.get("content"):
            found[call_id] = (index, message)
    return found


def _newest_reminders(messages: Sequence[AnyMessage]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for index, message in enumerate(messages):
        kind = reminder_type(message) if isinstance(message, dict) else None
        if kind is not None:
            newest[kind] = index
    return newest


def _put_with_results(
    out: Normalised,
    message: dict[str, Any],
    index: int,
    wanted: dict[str, int],
    results: dict[str, tuple[int, AnyMessage]],
    *,
    keep_open: bool,
) -> None:
    """Append a message and the results of its calls. Calls that an earlier message made already are left out."""
    own: list[dict[str, Any]] = []
    for call in calls_of(message):
        if wanted[call["id"]] == index and call["id"] not in {c["id"] for c in own}:
            own.append(call)
    if "tool_calls" in message and own != message["tool_calls"]:
        message = {key: value for key, value in message.items() if key != "tool_calls"}
        if own:
            message["tool_calls"] = own
        elif not message.get("content"):
            message["content"] = ""
    out.put(message, index)
    for call in own:
        origin, result = results.get(call["id"], (-1, None))
        if result is not None:
            out.put(result, origin)
        elif not keep_open:
            out.put({"role": "tool", "tool_call_id": call["id"], "content": NO_RESULT}, -1)


@dataclass(frozen=True)
class ParsedMessage:
    """One message as parsed. `kind` is system, reminder, segment, user, assistant, result or other.

    `step` counts the agent's messages in a long turn, 0 in a short one.
    """

    kind: str
    text: str
    turn: int
    actions: tuple[Action, ...] = ()
    answers: Action | None = None
    segment: ParsedSegment | None = None
    reminder: str | None = None
    step: int = 0

    @cached_property
    def edited(self) -> EditedText | None:
        """Its text without what the edits in it remove; None if it shows none. Read once for all attempts."""
        return without_removed(self.text) if shows_edit(self.text) else None

    @cached_property
    def errors(self) -> tuple[str, ...]:
        """The first two lines that report an error; looked for once, as several parts ask.

        A line that only opens what follows (`The following tests FAILED:`) is none where any other is; behind the name
        of an error its message is taken from the next line.
        """
        if not is_error_line(self.text):
            return ()
        lines = [line for line in self.text.split("\n") if line and not line.isspace()]
        openings: list[str] = []
        told: list[str] = []
        for place, line in enumerate(map(str.strip, lines)):
            if not 8 <= len(line) <= 400 or not is_error_line(line) or EXIT_MARK.fullmatch(line):
                continue
            if not line.endswith(":"):
                told.append(line)
            elif _NAMES_ERROR.fullmatch(line) and place + 1 < len(lines):
                told.append(f"{line} {lines[place + 1].strip()}"[:400])
            elif line.startswith(_TRACEBACK):  # what was raised stands behind the indented lines
                raised = next((behind for behind in lines[place + 1 :] if not behind[0].isspace()), "")
                openings.append(f"{line} {raised}".strip()[:400])
            else:
                openings.append(line)
            if len(told) == 2:
                break
        return tuple(told or openings[:2])


def turns_of(messages: Sequence[AnyMessage]) -> list[int]:
    """The turn of each message. Turns count from 1 and go on after the turns that segments stand for."""
    found: list[int] = []
    turn = 0
    for message in messages:
        kind = kind_of(message)
        if kind == "segment":
            turn = max(turn, last_turn(text_of(message)))
        elif kind == "prompt":
            turn += 1
        found.append(turn)
    return found


def parse_messages(messages: Sequence[AnyMessage]) -> list[ParsedMessage]:
    """Parse a normalised list."""
    found: list[ParsedMessage] = []
    made: dict[str, Action] = {}
    for message, turn in zip(messages, turns_of(messages), strict=True):
        kind = kind_of(message)
        if kind == "reminder":
            found.append(ParsedMessage("reminder", text_of(message), turn, reminder=reminder_type(message)))
        elif kind == "segment":
            found.append(ParsedMessage("segment", text_of(message), turn, segment=parse_segment(text_of(message))))
        elif kind == "prompt":
            found.append(ParsedMessage("user", text_of(message), turn))
        elif kind == "assistant":
            answered = {str(m.get("tool_call_id")): text_of(m)[:600] for m in _answers(messages, len(found))}
            calls = map(action_of, calls_of(message))
            actions = tuple(with_file_of(action, answered.get(action.call_id, "")) for action in calls)
            made = {action.call_id: action for action in actions}
            found.append(ParsedMessage("assistant", text_of(message), turn, actions))
        elif kind == "tool":
            answers = made.get(str(message.get("tool_call_id")))
            text = text_of(message)
            if answers is not None and answers.kind == "command":
                text = _output_in(text)
            found.append(ParsedMessage("result", text, turn, answers=answers))
        else:
            found.append(ParsedMessage("other", text_of(message), turn))
    for index, message in enumerate(messages):
        if message.get("role") not in ("system", "developer"):
            break
        found[index] = ParsedMessage("system", found[index].text, 0)
    return _with_steps(found)


def _output_in(text: str) -> str:
    """What a command printed, and its exit status as the last line, out of the form in which tools wrap both."""
    if text.startswith("{"):
        return _output_in_json(text)
    return _output_in_frame(text) if text.startswith(("Output: ", "Command: ")) else text


def _output_in_json(text: str) -> str:
    """The output in a JSON object that holds it beside an exit status, or as stdout and stderr; else the text."""
    if _OUTPUT_KEYS.search(text) is None:
        return text
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    nested = parsed.get("metadata")
    fields = {**(nested if isinstance(nested, dict) else {}), **parsed}
    fields = {key.lower().replace("_", ""): value for key, value in fields.items()}
    output = [fields[key] for key in ("output", "stdout", "stderr") if isinstance(fields.get(key), str)]
    code = next((fields[key] for key in ("exitcode", "returncode") if type(fields.get(key)) is int), None)
    if not output or (code is None and not fields.keys() >= {"stdout", "stderr"}):
        return text
    cut_short = any(fields.get(key) is True for key in ("timedout", "interrupted"))
    told = [] if code is None or cut_short else [f"[exit code {code}]"]
    return "\n".join([*filter(None, (part.rstrip("\n") for part in output)), *told])


def _output_in_frame(text: str) -> str:
    """The output between lines that name the command and lines that tell how it ended; without these the text."""
    begins = 0 if text.startswith("Output: ") else text.find("\nOutput: ", 0, _FRAME_HEAD) + 1
    lines = text[begins:].rstrip().split("\n")
    told: dict[str, str] = {}
    while len(lines) > 1 and (found := _FRAME_END.match(lines[-1])):
        told[found[1]] = found[2]
        lines.pop()
    if told.keys().isdisjoint(("Exit Code", "Process Group PGID")) or not lines[0].startswith("Output: "):
        return text
    error, code = told.get("Error", _NONE), told.get("Exit Code", _NONE)
    ends = told.get("Signal", _NONE) == _NONE and code.isdecimal()
    lines[0] = lines[0].removeprefix("Output: ").removeprefix("(empty)")
    return "\n".join([*lines, *[error] * (error != _NONE), *[f"[exit code {code}]"] * ends])


def _answers(messages: Sequence[AnyMessage], index: int) -> Iterator[AnyMessage]:
    """The results right after a message."""
    behind = (messages[place] for place in range(index + 1, len(messages)))
    return takewhile(lambda message: message.get("role") == "tool", behind)


def _with_steps(found: list[ParsedMessage]) -> list[ParsedMessage]:
    """The same with the number of their step in messages of long turns."""
    steps: list[int] = []
    last: dict[int, int] = {}
    for reading in found:
        if reading.segment is not None:
            last[reading.turn] = max(last.get(reading.turn, 0), last_step(reading.segment))
        elif reading.kind == "assistant":
            last[reading.turn] = last.get(reading.turn, 0) + 1
        steps.append(last.get(reading.turn, 0))
    long = {turn for turn, count in last.items() if count > LONG_TURN}
    return [
        replace(reading, step=step) if reading.turn in long and reading.kind in ("assistant", "result") else reading
        for reading, step in zip(found, steps, strict=True)
    ]


def faults(messages: Sequence[AnyMessage]) -> list[str]:
    """Return what is wrong with a list: broken pairs, a reminder type that stands twice. Empty means valid."""
    found: list[str] = []
    wanted: list[str] = []
    types: set[str] = set()
    for message in messages:
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if wanted and wanted[0] == call_id:
                wanted.pop(0)
            else:
                found.append(f"a result without a call: {call_id}")
            continue
        found.extend(f"a call without a result: {call_id}" for call_id in wanted)
        wanted = [call["id"] for call in calls_of(message)]
        kind = reminder_type(message)
        if kind is not None and kind in types:
            found.append(f"a second reminder of type {kind}")
        types.add(kind or "")
    found.extend(f"a call without a result: {call_id}" for call_id in wanted)
    return found
