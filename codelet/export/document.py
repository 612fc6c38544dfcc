"""The form of the document, as msgspec types: what stands in an export, its names, its order and its bounds.

These types are the one description of the format. Reading and writing check against them, and `schema.json` is made
from them (`scripts/schema`). What they do not name is kept as it came: a newer version may have put it there. The
values themselves stay plain JSON, so that reading and writing copy nothing. Times are Unix seconds, sizes tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from codelet.providers.protocol import Effort

if TYPE_CHECKING:
    from codelet.messages import Message

VERSION = "1.0"
READABLE_VERSIONS = r"^1\.(0|[1-9][0-9]{0,8})$"
"""Those that can be read: a later one of the same kind only adds names, which are kept."""
MOST_DEPTH = 32
"""Levels of nesting in what has no form of its own."""

_MOST = 10**15
_TEXT = 64 * 1024 * 1024
_MANY = 100_000
ID_LENGTH = 512

CountForm = Annotated[int, Meta(ge=0, le=_MOST)]
AmountForm = Annotated[float, Meta(ge=0, le=_MOST)]
TimeForm = Annotated[float, Meta(ge=0, le=10**12)]
TextForm = Annotated[str, Meta(max_length=_TEXT)]
LineForm = Annotated[str, Meta(max_length=1_000_000)]
PlaceForm = Annotated[str, Meta(max_length=65_536)]
NameForm = Annotated[str, Meta(max_length=ID_LENGTH)]
WordForm = Annotated[str, Meta(max_length=64)]
FolderForm = Annotated[str, Meta(max_length=4096)]
FoldersForm = Annotated[list[FolderForm], Meta(max_length=1000, description="Folders that were worked in, relative.")]
KindsForm = Annotated[
    list[WordForm], Meta(max_length=100, description="Types of reminders that the user switched off.")
]
DroppedForm = Annotated[bool, Meta(description="A server refused reasoning after a changed prefix: it is left out.")]
KindsOnForm = Annotated[list[WordForm], Meta(max_length=100, description="Types that are off at first, switched on.")]
IdsForm = Annotated[list[NameForm], Meta(max_length=_MANY)]
PinsForm = Annotated[list[CountForm], Meta(max_length=_MANY, description="Indices of the messages that stay verbatim.")]


class Free:
    """A value of any form, bounded in depth and in its numbers."""


class OfAnotherRole:
    """What only messages of another role may have."""


FreeObject = Annotated[dict[str, Free], Meta(max_length=_MANY)]
VendorFields = Annotated[
    FreeObject,
    Meta(description="What a server sent beside a text or a call, such as a signature; it goes to that server alone."),
]
FreeObjects = Annotated[list[FreeObject], Meta(max_length=10_000)]


class Function(Struct):
    """A tool's name and its arguments as JSON text."""

    name: NameForm
    arguments: TextForm


class Call(Struct):
    """The model's request to run one tool."""

    id: PlaceForm
    type: Literal["function"]
    function: Function
    extra: VendorFields | UnsetType = UNSET


class PictureForm(Struct):
    """A picture beside a text: its file in base64, its size in pixels."""

    name: FolderForm
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    width: CountForm
    height: CountForm
    data: Annotated[str, Meta(max_length=_TEXT, pattern=r"^[A-Za-z0-9+/]*={0,2}$")]


PicturesForm = Annotated[list[PictureForm], Meta(max_length=1000)]


class _NotOfAModel(Struct, kw_only=True):
    tool_calls: OfAnotherRole | UnsetType = UNSET
    reasoning_content: OfAnotherRole | UnsetType = UNSET
    reasoning: OfAnotherRole | UnsetType = UNSET
    inline_reasoning: OfAnotherRole | UnsetType = UNSET
    reasoning_details: OfAnotherRole | UnsetType = UNSET
    thinking_blocks: OfAnotherRole | UnsetType = UNSET
    blocks: OfAnotherRole | UnsetType = UNSET
    bound_to: OfAnotherRole | UnsetType = UNSET
    extra: OfAnotherRole | UnsetType = UNSET
    origin: OfAnotherRole | UnsetType = UNSET


class _Said(_NotOfAModel, tag_field="role"):
    content: TextForm
    tool_call_id: OfAnotherRole | UnsetType = UNSET
    failed: OfAnotherRole | UnsetType = UNSET


class SystemMessage(_Said, tag="system"):
    """Instructions; on reading they become a user's text."""


class UserMessage(_Said, tag="user"):
    """What the user said and showed, or codelet beside it."""

    images: PicturesForm | UnsetType = UNSET


class AssistantMessage(Struct, tag_field="role", tag="assistant"):
    """What the model answered, its calls, and its reasoning as it came."""

    content: TextForm | None
    tool_calls: Annotated[list[Call], Meta(max_length=_MANY)] | UnsetType = UNSET
    reasoning_content: TextForm | UnsetType = UNSET
    reasoning: TextForm | UnsetType = UNSET
    inline_reasoning: TextForm | UnsetType = UNSET
    reasoning_details: FreeObjects | UnsetType = UNSET
    thinking_blocks: FreeObjects | UnsetType = UNSET
    blocks: FreeObjects | UnsetType = UNSET
    bound_to: PlaceForm | UnsetType = UNSET
    extra: VendorFields | UnsetType = UNSET
    origin: NameForm | UnsetType = UNSET
    tool_call_id: OfAnotherRole | UnsetType = UNSET
    failed: OfAnotherRole | UnsetType = UNSET


class ToolMessage(_NotOfAModel, tag_field="role", tag="tool"):
    """The answer to one call; `failed` where it is an error, a refusal or cut short."""

    content: TextForm
    tool_call_id: PlaceForm
    failed: bool | UnsetType = UNSET
    images: PicturesForm | UnsetType = UNSET


if TYPE_CHECKING:
    AnyMessage = Message
else:  # the forms that the plain dict is checked against
    AnyMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage
MessagesForm = Annotated[list[AnyMessage], Meta(max_length=200_000)]


class HistoryEntry(TypedDict):
    """One line of the recent history: the start of a message's text, when it came, its estimate in tokens."""

    timestamp: TimeForm
    role: Annotated[str, Meta(max_length=32)]
    content: LineForm
    token_count: CountForm | None


class TaskState(TypedDict):
    """A background task as it was last seen; `status` is such as Running or Completed.

    `command` is what runs it, with what it printed, in part, as `output`; `exit_code` is negative for a signal.
    """

    id: NameForm
    description: LineForm
    status: WordForm
    progress: Annotated[float, Meta(ge=0, le=1)]
    created_at: TimeForm
    updated_at: TimeForm
    command: NotRequired[LineForm]
    exit_code: NotRequired[Annotated[int, Meta(ge=-_MOST, le=_MOST)] | None]
    output: NotRequired[LineForm]


class ToolStats(TypedDict):
    """How often tools ran and failed."""

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
    processes: Annotated[list[ProcessInfo], Meta(max_length=1000)]
    memory_used_mb: AmountForm
    memory_total_mb: AmountForm
    disk_usage_percent: AmountForm
    battery_percent: AmountForm | None
    uptime_seconds: AmountForm


class TokenUsage(TypedDict):
    """Tokens as the provider reported them, summed, null where it reported none; `cost` in US dollars, null where it is
    not known.
    """

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
    message: AnyMessage


class Anchor(TypedDict):
    """A turn in which something was settled."""

    turn: CountForm
    kind: WordForm
    text: LineForm


class PlanStep(TypedDict):
    """One step of the plan."""

    id: CountForm
    description: LineForm
    status: Literal["Pending", "InProgress", "Completed", "Failed"]
    result: LineForm | None


class Plan(TypedDict):
    """The plan in hand."""

    goal: LineForm
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


def _tagged(form: Any, tag: str) -> type[Struct]:
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


class Document(Struct, kw_only=True):
    """A session of codelet: the message list, its usage, and what belongs to it. Times are Unix seconds."""

    version: Annotated[str, Meta(pattern=READABLE_VERSIONS)]
    timestamp: TimeForm
    token_count: Annotated[CountForm, Meta(description="Size of the message list.")] = msgspec.field(name="tokenCount")
    session_id: NameForm | UnsetType = UNSET
    model: NameForm | None = None
    profile: NameForm | None = None
    effort: Effort | None = None
    summary: Annotated[TextForm | None, Meta(description="The conversation so far, if there is a summary of it.")] = (
        None
    )
    long_term_summary: TextForm | UnsetType = UNSET
    facts: Annotated[list[LineForm], Meta(max_length=_MANY)] | UnsetType = UNSET
    active_tasks: Annotated[list[TaskState], Meta(max_length=10_000)] | UnsetType = UNSET
    plan: Plan | None = None
    pins: PinsForm | UnsetType = UNSET
    anchors: Annotated[list[Anchor], Meta(max_length=_MANY)] | UnsetType = UNSET
    segments: Annotated[list[Segment], Meta(max_length=_MANY)] | UnsetType = UNSET
    interruption: Interruption | None = None
    token_usage: TokenUsage | UnsetType = UNSET
    tool_stats: ToolStats | UnsetType = UNSET
    last_known_environment: EnvironmentState | None = None
    system_state: Annotated[dict[str, Free], Meta(max_length=10_000)] | UnsetType = UNSET
    timeline: Annotated[list[Mark], Meta(max_length=_MANY)] | UnsetType = UNSET
    recent_history: Annotated[list[HistoryEntry], Meta(max_length=1000)] | UnsetType = UNSET
    reminders_off: KindsForm | UnsetType = UNSET
    reminders_on: KindsOnForm | UnsetType = UNSET
    touched_folders: FoldersForm | UnsetType = UNSET
    thinking_dropped: DroppedForm | UnsetType = UNSET
    archive: Annotated[list[ArchiveEntry], Meta(max_length=_MANY)] | None = None
    messages: MessagesForm


FIELDS = {field.name: field for field in msgspec.structs.fields(Document)}
FILE_NAMES = {name: field.encode_name for name, field in FIELDS.items()}
"""Each field's name in the file, in the file's order: what identifies it first, what is long last."""


def check_free(value: object, depth: int = 1) -> None:
    """Raises ValueError for a value of free form that is nested too deeply or holds a number beyond 2**63."""
    if depth > MOST_DEPTH:
        raise ValueError(f"is nested deeper than {MOST_DEPTH} levels")
    if type(value) is dict:
        for item in value.values():
            check_free(item, depth + 1)
    elif type(value) is list:
        for item in value:
            check_free(item, depth + 1)
    elif isinstance(value, int | float) and not -(2.0**63) <= value <= 2.0**63:
        raise ValueError("holds a number that is out of range")


_CHECKED = Free()


def check_custom(kind: type, value: object) -> object:
    """The hook by which msgspec checks what is not one of its own types; raises ValueError."""
    if kind is OfAnotherRole:
        raise ValueError("is not a known field of this role")
    check_free(value)
    return _CHECKED


def schema(more: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of the document, as `schema.json` publishes it; `more` are extensions' keys."""
    _, parts = msgspec.json.schema_components((Document,), schema_hook=_published, ref_template="#/$defs/{name}")
    root = parts.pop("Document") | {"title": f"codelet export {VERSION}"}
    root["properties"] |= more or {}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": parts}


def _published(kind: type) -> dict[str, Any]:
    return {"not": {}} if kind is OfAnotherRole else {"description": "Any value."}
