"""The events of a turn: the one channel between the loop and the front ends.

`async for event in session.send(prompt)`, then `match event`. Events are small: they carry deltas and ids, never whole
messages. Each class's `type` is also the `type` of a stream-json line.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Literal

from codelet.call_record import CommandEnd
from codelet.record import Record
from codelet.usage import Usage

ResultStatus = Literal["done", "failed", "refused", "interrupted"]
StepStatus = Literal["pending", "in progress", "completed", "failed"]
EndReason = Literal["done", "limit", "interrupted", "failed"]


class Event(Record):
    """The base of all events, with the name of their type. `internal` fields are not in `as_dict`."""

    type: ClassVar[str] = ""
    internal: ClassVar[frozenset[str]] = frozenset()

    def as_dict(self) -> dict[str, object]:
        """Return the event as plain JSON values, as a line of stream-json has it."""
        return {"type": self.type, **_fields(self)}


def as_json(value: object) -> object:
    """Return a record, with the records in it, as a dictionary; anything else unchanged.

    Usage that was not reported becomes None: unknown is not 0.
    """
    match value:
        case Usage() if not value.known:
            return None
        case Record():
            return _fields(value)
        case tuple() | list():
            return [as_json(each) for each in value]
    return value


def _fields(record: Record) -> dict[str, object]:
    internal = record.internal if isinstance(record, Event) else ()
    return {name: as_json(getattr(record, name)) for name in record.fields if name not in internal}


class TurnStart(Event):
    """A user's prompt was taken in. `turn` counts from 1 over the session."""

    type: ClassVar[str] = "turn_start"
    turn: int
    model: str


class StepStart(Event):
    """A model request is about to leave. `step` counts from 1 within the turn."""

    type: ClassVar[str] = "step_start"
    step: int


class Reasoning(Event):
    """A piece of the model's reasoning."""

    type: ClassVar[str] = "reasoning"
    delta: str


class Text(Event):
    """A piece of the model's text."""

    type: ClassVar[str] = "text"
    delta: str


class ToolCallStarted(Event, kw_only=True):
    """The model asked for a tool. `arguments` is the parsed object, or the raw text if it did not parse.

    `title` describes the call to users; it can be empty.
    """

    type: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: dict[str, Any] | str
    title: str = ""


class ToolProgress(Event):
    """A piece of a running tool's output."""

    type: ClassVar[str] = "tool_progress"
    id: str
    delta: str


class FileChange(Record, kw_only=True):
    """The text of a file before and after a change; `before` is None for a new file. `path` is absolute."""

    path: str
    before: str | None
    after: str


class ToolResult(Event, kw_only=True):
    """A tool call was answered. `text` is for the model, `display` for users if it differs.

    `counted` is the unit of a line of `text`, such as `file`, if their number should be shown. `caveat` is a short
    warning about a call that succeeded: `exit 1 | 0`, or that an encoding is a guess. `ended` is how its command ended,
    None if it ran none or if that is unknown. `change` is the change that the call made to a file, None if it made
    none, or if the texts are too large or are not text.
    """

    type: ClassVar[str] = "tool_result"
    internal: ClassVar[frozenset[str]] = frozenset({"ended", "change"})
    id: str
    name: str
    status: ResultStatus
    text: str
    display: str | None = None
    seconds: float = 0.0
    counted: str = ""
    caveat: str = ""
    ended: CommandEnd | None = None
    change: FileChange | None = None


class PlannedStep(Record):
    """One step of a plan. `result` is its outcome in a few words, or empty."""

    description: str
    status: StepStatus = "pending"
    result: str = ""


class PlanChanged(Event, kw_only=True):
    """The plan changed. Without goal and steps there is no plan any more."""

    type: ClassVar[str] = "plan"
    goal: str
    steps: tuple[PlannedStep, ...]


class ModeChanged(Event):
    """The mode of the policy is another one."""

    type: ClassVar[str] = "mode"
    mode: str


class UsageReport(Event, kw_only=True):
    """A step's usage, as the provider reported it; `context` is the list's size in tokens after it.

    `budget` is the size that the list can reach, the base of percentages; `window` is the model's context window.
    """

    type: ClassVar[str] = "usage"
    usage: Usage
    context: int
    window: int
    budget: int = 0


class Retry(Event, kw_only=True):
    """A request failed and will be sent again after `wait` seconds."""

    type: ClassVar[str] = "retry"
    attempt: int
    attempts: int
    wait: float
    reason: str


class Note(Event):
    """A sentence for the user about the requests to this model or its reports, shown once."""

    type: ClassVar[str] = "note"
    text: str


class Notices:
    """Sentences for the user, each shown once, from any part of a session, in any thread.

    Those of a session become `Note`s before the next event of a turn; between turns a front end takes them.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self._mask = mask
        self._waiting: list[str] = []  # a deque would take ten times the memory of an empty list
        self._said: set[Hashable] = set()

    def say(self, text: str, *, once: Hashable = None) -> None:
        """Add a sentence; of those with the same key `once` only the first is added."""
        if once is None or once not in self._said:
            self._said.add(once)
            self._waiting.append(self._mask(text))

    def take(self) -> list[str]:
        """Return the sentences that were not taken yet."""
        taken = self._waiting[:]
        del self._waiting[: len(taken)]  # another thread may have added more
        return taken

    def has(self, text: str) -> bool:
        """Return whether a sentence was said and no one has taken it yet."""
        return self._mask(text) in self._waiting


class Reminder(Event):
    """A reminder in the list was added, replaced or removed. Unchanged ones are not reported."""

    type: ClassVar[str] = "reminder"
    name: str
    change: Literal["added", "replaced", "removed"]
    tokens: int


class Compaction(Event, kw_only=True):
    """Old messages are being, or were, replaced by less; sizes are estimates in tokens of the whole list.

    `starting` is the warning before, `done` the receipt, `stopped` says in `note` why nothing was done, `undone` that
    the last one, or the last drop, was undone, `reduced` that a text was shortened on its way into the list, as `note`
    says. `tier` is 2 if the newest turns stay, 3 if fewer of them do than wanted; `reduced` messages are shortened.
    `kept_steps` stay verbatim, of whole turns or not. `lost` are paths and names that are nowhere in the list any more.
    """

    type: ClassVar[str] = "compaction"
    phase: Literal["starting", "done", "stopped", "undone", "reduced"]
    reason: Literal["hard", "cost", "entries", "asked", "overflow", "entry"]
    before: int
    after: int
    tier: int = 0
    kept_turns: int = 0
    kept_steps: int = 0
    anchors: tuple[str, ...] = ()
    segments: int = 0
    reduced: int = 0
    lost: tuple[str, ...] = ()
    note: str = ""


class Handoff(Event, kw_only=True):
    """A separate request asked the model for a handoff, which the next compaction uses.

    `usage` is that of the request, None if it is unknown; it also counts in the turn's. `prepared` says whether there
    was an answer.
    """

    type: ClassVar[str] = "handoff"
    usage: Usage | None
    prepared: bool


class Interrupted(Event, kw_only=True):
    """The user stopped the turn. Each tuple holds tool call ids of the step in hand.

    `half_done` are calls that were stopped while they ran; `not_done` were refused, or did not start; `refused` are the
    former among them.
    """

    type: ClassVar[str] = "interrupted"
    done: tuple[str, ...]
    half_done: tuple[str, ...]
    not_done: tuple[str, ...]
    failed: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class Steering(Event):
    """A prompt typed while the turn ran: it enters the list before the next step, and begins a new turn."""

    type: ClassVar[str] = "steering"
    text: str


class Cut(Record, kw_only=True):
    """Input of the user's that was not sent whole: its size and how much of it the model was sent, in bytes.

    `what` is `prompt` or `stdin`.
    """

    what: str
    bytes: int
    read: int

    @property
    def name(self) -> str:
        """The input's name in a sentence."""
        return "the prompt" if self.what == "prompt" else self.what


class TurnEnd(Event):
    """The turn is over. `usage` is the turn's sum; `error` names the limit or the failure.

    `cut` lists what of the user's input did not fit, also where the model has read all of it since.
    """

    type: ClassVar[str] = "turn_end"
    reason: EndReason
    steps: int
    usage: Usage
    error: str | None = None
    cut: tuple[Cut, ...] = ()
