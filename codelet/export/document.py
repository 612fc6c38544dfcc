"""The document: the one struct that an export holds, with the order and the bounds of its fields.

Reading and writing check against these types, and `schema.json` is made from them (`scripts/schema`). What they do not
name is kept as it came: a newer version may have put it there. The values inside stay plain JSON, so that reading and
writing copy nothing. Times are Unix seconds, sizes tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Self,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from codelet.call_record import CallStatus, PathEffect
from codelet.messages import JsonSchema
from codelet.providers.protocol import Effort
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.messages import Message

VERSION = "1.0"
READABLE_VERSIONS = r"^1\.(0|[1-9][0-9]{0,8})$"
"""The readable versions. Later 1.x versions only add names, which are preserved."""
MOST_DEPTH = 32
"""Levels of nesting in fields without a form."""

MOST_COUNTED = 10**15
MOST_MESSAGES = 200_000
MOST_ITEMS = 100_000
"""The maximum length of any other list."""
MOST_HISTORY = 1000
NAME_LENGTH = 512
TASK_SECONDS = 24 * 3600.0

_LONGEST_PROBLEM = 300
_TEXT = 64 * 1024 * 1024

CountForm = Annotated[int, Meta(ge=0, le=MOST_COUNTED)]
AmountForm = Annotated[float, Meta(ge=0, le=MOST_COUNTED)]
ExitForm = Annotated[int, Meta(ge=-MOST_COUNTED, le=MOST_COUNTED)]
TimeForm = Annotated[float, Meta(ge=0, le=10**12)]
TextForm = Annotated[str, Meta(max_length=_TEXT)]
PlaceForm = Annotated[str, Meta(max_length=65_536)]
NameForm = Annotated[str, Meta(max_length=NAME_LENGTH)]
WordForm = Annotated[str, Meta(max_length=64)]
FolderForm = Annotated[str, Meta(max_length=4096)]
_Kinds = Annotated[Sequence[WordForm], Meta(max_length=100)]
_KindsOff = Annotated[_Kinds, Meta(description="Types of reminders that the user switched off.")]
_KindsOn = Annotated[_Kinds, Meta(description="Types that are off at first, switched on.")]
IdsForm = Annotated[list[TextForm], Meta(max_length=MOST_ITEMS)]
OfAnotherRole = Annotated[UnsetType, Meta(extra_json_schema={"not": {}})]
"""A field of messages of another role."""

FreeObject = Annotated[dict[str, Any], Meta(max_length=MOST_ITEMS)]
VendorFields = Annotated[
    FreeObject,
    Meta(description="What a server sent with a text or a call, such as a signature. Only that server gets it back."),
]
FreeObjects = Annotated[list[FreeObject], Meta(max_length=10_000)]


class Function(Struct):
    """A tool's name and its arguments as JSON text."""

    name: TextForm
    arguments: TextForm


class Call(Struct):
    """The model's request to run one tool."""

    id: TextForm
    type: Literal["function"]
    function: Function
    extra: VendorFields | UnsetType = UNSET


class PictureForm(Struct):
    """An image sent with a text: its file in base64, its size in pixels."""

    name: FolderForm
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    width: CountForm
    height: CountForm
    data: Annotated[str, Meta(max_length=_TEXT, pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


PicturesForm = Annotated[list[PictureForm], Meta(max_length=1000)]


class _NotOfAModel(Struct, kw_only=True):
    tool_calls: OfAnotherRole = UNSET
    reasoning_content: OfAnotherRole = UNSET
    reasoning: OfAnotherRole = UNSET
    inline_reasoning: OfAnotherRole = UNSET
    reasoning_details: OfAnotherRole = UNSET
    thinking_blocks: OfAnotherRole = UNSET
    blocks: OfAnotherRole = UNSET
    bound_to: OfAnotherRole = UNSET
    extra: OfAnotherRole = UNSET
    origin: OfAnotherRole = UNSET


class _Said(_NotOfAModel, tag_field="role"):
    content: TextForm
    tool_call_id: OfAnotherRole = UNSET
    failed: OfAnotherRole = UNSET


class SystemMessage(_Said, tag="system"):
    """Instructions; on reading they become a user's text."""


class UserMessage(_Said, tag="user"):
    """A message from the user, or a reminder or segment from codelet."""

    images: PicturesForm | UnsetType = UNSET


class AssistantMessage(Struct, tag_field="role", tag="assistant"):
    """The model's answer, its calls, and its unchanged reasoning."""

    content: TextForm | None
    tool_calls: Annotated[list[Call], Meta(max_length=MOST_ITEMS)] | UnsetType = UNSET
    reasoning_content: TextForm | UnsetType = UNSET
    reasoning: TextForm | UnsetType = UNSET
    inline_reasoning: TextForm | UnsetType = UNSET
    reasoning_details: FreeObjects | UnsetType = UNSET
    thinking_blocks: FreeObjects | UnsetType = UNSET
    blocks: FreeObjects | UnsetType = UNSET
    bound_to: PlaceForm | UnsetType = UNSET
    extra: VendorFields | UnsetType = UNSET
    origin: TextForm | UnsetType = UNSET
    tool_call_id: OfAnotherRole = UNSET
    failed: OfAnotherRole = UNSET


class ToolMessage(_NotOfAModel, tag_field="role", tag="tool"):
    """The result of one call; `failed` if it is an error, a refusal or incomplete."""

    content: TextForm
    tool_call_id: TextForm
    failed: bool | UnsetType = UNSET
    images: PicturesForm | UnsetType = UNSET


if TYPE_CHECKING:
    MessageForm = Message
else:  # the forms that the plain dict is checked against
    MessageForm = SystemMessage | UserMessage | AssistantMessage | ToolMessage
MessagesForm = Annotated[Sequence[MessageForm], Meta(max_length=MOST_MESSAGES)]


class HistoryEntry(TypedDict):
    """One line of the recent history: the start of a message's text, when it came, its estimate in tokens."""

    timestamp: TimeForm
    role: Annotated[str, Meta(max_length=32)]
    content: TextForm
    token_count: CountForm | None


class TaskState(TypedDict):
    """The last known state of a background task; `status` is Running or Completed, for example.

    `output` is part of what `command` printed; `exit_code` is negative for a signal.
    """

    id: NameForm
    description: TextForm
    status: WordForm
    progress: Annotated[float, Meta(ge=0, le=1)]
    created_at: TimeForm
    updated_at: TimeForm
    command: NotRequired[TextForm]
    exit_code: NotRequired[ExitForm | None]
    output: NotRequired[TextForm]


class ToolStats(TypedDict):
    """Counts of tool calls and failures."""

    total_calls: CountForm
    by_tool: Annotated[dict[str, CountForm], Meta(max_length=10_000)]
    failures: CountForm


class ProcessInfo(TypedDict):
    """One process of the environment."""

    pid: CountForm
    name: FolderForm
    cpu_percent: AmountForm
    memory_mb: AmountForm


class EnvironmentState(TypedDict, total=False):
    """The machine when it was last looked at."""

    workspace: PlaceForm
    platform: PlaceForm
    python: PlaceForm
    git_branch: PlaceForm
    git_commit: WordForm
    processes: Annotated[list[ProcessInfo], Meta(max_length=1000)]
    memory_used_mb: AmountForm
    memory_total_mb: AmountForm
    disk_usage_percent: AmountForm
    battery_percent: AmountForm | None
    uptime_seconds: AmountForm


class TokenUsage(TypedDict):
    """Tokens as the provider reported them, summed, null if it reported none; `cost` in US dollars, null if unknown."""

    total_input: CountForm | None
    cache_read: CountForm | None
    cache_write: CountForm | None
    output: CountForm | None
    reasoning: CountForm | None
    turns: CountForm
    cost: AmountForm | None


class Segment(TypedDict):
    """An immutable piece of summary for the turns `first` to `last`."""

    first: CountForm
    last: CountForm
    text: TextForm


class ArchiveEntry(TypedDict):
    """A message that compaction took out, under the id that recalls it."""

    id: NameForm
    turn: CountForm
    message: MessageForm


class Anchor(TypedDict):
    """A turn in which something was settled."""

    turn: CountForm
    kind: WordForm
    text: TextForm


class PlanStep(TypedDict):
    """One step of the plan."""

    id: CountForm
    description: TextForm
    status: Literal["Pending", "InProgress", "Completed", "Failed"]
    result: TextForm | None


class Plan(TypedDict):
    """The plan in hand."""

    goal: TextForm
    steps: Annotated[list[PlanStep], Meta(max_length=10_000)]
    current_step: CountForm
    status: WordForm


class Interruption(TypedDict):
    """A turn that was stopped: call ids by what became of them, and the list before it, if it is kept."""

    done: IdsForm
    failed: NotRequired[IdsForm]
    half_done: IdsForm
    not_done: IdsForm
    refused: NotRequired[IdsForm]
    messages: MessagesForm | None


class FileEntry(TypedDict):
    """A call's effect on one path, relative to the workspace if it is inside."""

    effect: PathEffect
    path: TextForm
    lines: NotRequired[CountForm]
    bytes: NotRequired[CountForm]


class EndEntry(TypedDict):
    """The end of a command: its exit code, negative for a signal, null at its time limit.

    `pipeline` has the exit codes of the parts of its last pipeline, null if they are not known.
    """

    code: ExitForm | None
    pipeline: Annotated[list[ExitForm], Meta(max_length=MOST_ITEMS)] | None


class CallEntry(TypedDict):
    """The record of one call, also after the call has left the list."""

    id: TextForm
    turn: CountForm
    tool: TextForm
    title: TextForm
    status: CallStatus
    changes: bool
    seconds: AmountForm
    files: NotRequired[Annotated[list[FileEntry], Meta(max_length=MOST_ITEMS)]]
    commands: NotRequired[Annotated[list[TextForm], Meta(max_length=MOST_ITEMS)]]
    confined: NotRequired[Literal["read-only", "workspace"]]
    ended: NotRequired[EndEntry]


class StepMark(TypedDict):
    """One model request on the timeline, in tokens; `budget` is what `context` is measured against."""

    kind: Literal["step"]
    timestamp: TimeForm
    turn: CountForm
    total_input: CountForm
    cache_read: CountForm
    cache_write: CountForm
    output: CountForm
    context: CountForm
    window: CountForm
    budget: NotRequired[CountForm]


class CompactionMark(TypedDict):
    """One compaction on the timeline; sizes in tokens."""

    kind: Literal["compaction"]
    timestamp: TimeForm
    turn: CountForm
    before: CountForm
    after: CountForm
    reason: Annotated[str, Meta(max_length=4096)]


def _tagged(form: type, tag: str) -> type[Struct]:
    """A struct of the same form, tagged with one constant field: only structs can be tagged."""
    hints = get_type_hints(form, globals(), include_extras=True)
    (value,) = get_args(hints.pop(tag))
    fields = [
        (name, get_args(kind)[0] | UnsetType, UNSET) if get_origin(kind) is NotRequired else (name, kind)
        for name, kind in hints.items()
    ]
    named = {"__doc__": form.__doc__}
    return msgspec.defstruct(form.__name__, fields, tag_field=tag, tag=value, namespace=named, kw_only=True)


if TYPE_CHECKING:
    Mark = StepMark | CompactionMark
else:
    Mark = _tagged(StepMark, "kind") | _tagged(CompactionMark, "kind")


def no_stats() -> ToolStats:
    """Return the statistics before the first call."""
    return {"total_calls": 0, "by_tool": {}, "failures": 0}


def no_usage() -> TokenUsage:
    """Return the usage before the first request."""
    return {
        "total_input": 0,
        "cache_read": 0,
        "cache_write": 0,
        "output": 0,
        "reasoning": 0,
        "turns": 0,
        "cost": 0.0,
    }


class Document(Struct, kw_only=True, frozen=True):
    """A session of codelet: the message list, its usage, and what belongs to it. Times are Unix seconds."""

    version: Annotated[str, Meta(pattern=READABLE_VERSIONS)] = VERSION
    timestamp: TimeForm
    token_count: Annotated[CountForm, Meta(description="Size of the message list.")] = msgspec.field(name="tokenCount")
    session_id: NameForm = ""
    model: NameForm | None = None
    profile: NameForm | None = None
    effort: Effort | None = None
    summary: Annotated[TextForm | None, Meta(description="The conversation so far, if there is a summary of it.")] = (
        None
    )
    long_term_summary: TextForm = ""
    facts: Annotated[Sequence[TextForm], Meta(max_length=MOST_ITEMS)] = ()
    active_tasks: Annotated[Sequence[TaskState], Meta(max_length=10_000)] = ()
    plan: Plan | None = None
    pins: Annotated[
        Sequence[CountForm], Meta(max_length=MOST_ITEMS, description="Indices of the messages that stay verbatim.")
    ] = ()
    anchors: Annotated[Sequence[Anchor], Meta(max_length=MOST_ITEMS)] = ()
    segments: Annotated[Sequence[Segment], Meta(max_length=MOST_ITEMS)] = ()
    interruption: Interruption | None = None
    token_usage: TokenUsage = msgspec.field(default_factory=no_usage)
    tool_stats: ToolStats = msgspec.field(default_factory=no_stats)
    last_known_environment: EnvironmentState | None = None
    system_state: Annotated[Mapping[str, Any], Meta(max_length=10_000)] = msgspec.field(default_factory=dict)
    timeline: Annotated[Sequence[Mark], Meta(max_length=MOST_ITEMS)] = ()
    recent_history: Annotated[Sequence[HistoryEntry], Meta(max_length=MOST_HISTORY)] = ()
    reminders_off: _KindsOff | UnsetType = UNSET
    reminders_on: _KindsOn | UnsetType = UNSET
    touched_folders: Annotated[
        Sequence[FolderForm], Meta(max_length=1000, description="Folders that were worked in, relative.")
    ] = ()
    thinking_dropped: (
        Annotated[bool, Meta(description="A server refused reasoning after a changed prefix: it is left out.")]
        | UnsetType
    ) = UNSET
    calls: Annotated[Sequence[CallEntry], Meta(max_length=MOST_ITEMS)] | UnsetType = UNSET
    archive: Annotated[Sequence[ArchiveEntry], Meta(max_length=MOST_ITEMS)] | None = None
    messages: MessagesForm
    unknown: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Other keys of the file, by name."""

    def replace(self, **changes: Any) -> Self:
        return msgspec.structs.replace(self, **changes)

    @property
    def profile_held(self) -> bool:
        """Return whether the profile limited the session. 0.1.0 (no `reminders_off`) only wrote its name."""
        return self.profile is None or self.reminders_off is not UNSET


FORMS = {field.name: field.type for field in msgspec.structs.fields(Document)}
FILE_NAMES = {f.name: f.encode_name for f in msgspec.structs.fields(Document) if f.name != "unknown"}
"""Each field's name in the file, in the file's order: what identifies it first, what is long last."""


def check_free(value: object, depth: int = 1) -> None:
    """Raise ValueError, with the place, for a value that is nested too deeply or holds a number beyond 2**63."""
    if depth > MOST_DEPTH:
        raise ValueError(f": nested deeper than {MOST_DEPTH} levels")
    if type(value) is dict:
        inner: Iterable[tuple[Any, Any]] = value.items()
    elif type(value) is list:
        inner = enumerate(value)
    else:
        if isinstance(value, int | float) and not -(2.0**63) <= value <= 2.0**63:
            raise ValueError(": a number is out of range")
        return
    for name, item in inner:
        try:
            check_free(item, depth + 1)
        except ValueError as error:
            step = f".{name[:64]}" if isinstance(name, str) else f"[{name}]"
            raise ValueError(f"{step}{error}") from None


def problem(found: str) -> str:
    """Return what msgspec or `check_free` found, in one line after the place where they found it."""
    reason, _, path = found.partition(" - at `$")
    if not path:  # of `check_free`, which begins with the place
        return one_line(found.removeprefix("."), _LONGEST_PROBLEM)
    if reason.startswith("Expected `msgspec.UnsetType`"):
        reason = "not a field of a message of this role"
    return one_line(f"{path.rstrip('`').removeprefix('.')}: {reason}", _LONGEST_PROBLEM)


def schema(more: Mapping[str, JsonSchema] | None = None) -> JsonSchema:
    """Return the document's JSON Schema (draft 2020-12), as `schema.json` has it; `more` are extensions' keys."""
    _, parts = msgspec.json.schema_components((Document,), ref_template="#/$defs/{name}")
    root = parts.pop("Document") | {"title": f"codelet export {VERSION}"}
    root["required"].insert(0, "version")
    del root["properties"]["unknown"], root["properties"]["version"]["default"]
    root["properties"] |= more or {}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": parts}


def pruned(document: Document, now: float) -> Document:
    """Return the document with each fact once and without tasks that were completed more than 24 hours before `now`.

    Spaces around and between words do not make two facts of one.
    """
    facts = tuple(dict.fromkeys(words for fact in document.facts if (words := " ".join(fact.split()))))
    tasks = tuple(
        task
        for task in document.active_tasks
        if task["status"] != "Completed" or task["updated_at"] > now - TASK_SECONDS
    )
    return document.replace(facts=facts, active_tasks=tasks)
