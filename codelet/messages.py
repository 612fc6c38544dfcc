"""The message: one entry sent to a provider, in the shape of OpenAI's Chat Completions.

Messages are plain dicts and never change once they are in a list: to change a text, replace its dict. Encoders rely on
that to encode each message once (see `providers/native.py`).

Three kinds of message have the role of the user: prompts, reminders and segments. A message's kind is set when it is
made, in an attribute that no wire and no file contains; its text decides nothing. Only for a list from outside does
`with_kinds` derive the kinds from the texts, once.

Annotations are evaluated here, not postponed: each start would compile those of the TypedDicts again.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, NotRequired, Required, TypedDict, TypeVar, cast

Role = Literal["system", "user", "assistant", "tool"]
UserKind = Literal["prompt", "reminder", "segment"]
Arguments = dict[str, Any]
"""The arguments of a tool call: a JSON object."""
JsonSchema = dict[str, Any]
"""A JSON Schema."""
AnswerBlock = dict[str, Any]
"""A piece of an answer, in the form of the server that sent it."""
ForeignMessage = Mapping[str, object]
"""A message of any shape: from a provider, a file or a user, with keys that may be missing or of another type."""
_Given = TypeVar("_Given", bound=ForeignMessage)

SEGMENT_OPENING = "<compacted turns="
NO_RESULT = "[interrupted: no result]"
_SPEAKERS = frozenset({"system", "user", "assistant", "developer"})
_REMINDER_OPENING = "<system-reminder>\n<!-- type:"


class FunctionCall(TypedDict):
    """The function's name and its arguments as the JSON text of an object."""

    name: str
    arguments: str


class ToolCall(TypedDict):
    """The model's request to run one tool.

    `extra` holds other fields that the server sent with it (a thought signature). It goes back with the call, only to
    the provider that its message's `origin` names.
    """

    id: str
    type: Literal["function"]
    function: FunctionCall
    extra: NotRequired[dict[str, Any]]


class Picture(TypedDict):
    """An image attached to a message: `data` is its file in base64, `width` and `height` are in pixels."""

    name: str
    media_type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    width: int
    height: int
    data: str


_PICTURE = frozenset({"name", "media_type", "width", "height", "data"})


class Message(TypedDict, total=False):
    """One message. `content` is text (None for an assistant message that only calls tools).

    `images` are attached to a prompt or a tool's result, whose text names them. `failed` marks a tool's result that is
    an error, a refusal or cut short; otherwise it is absent.

    `reasoning_content`, `reasoning`, `reasoning_details` (OpenAI-like servers) and the reasoning in `blocks`
    (Anthropic) are an assistant's reasoning, unchanged; `extra` holds other fields that came with its text (a
    signature). They go back only to the provider that `origin` names.

    `blocks` is the order of an answer: whole blocks of reasoning, `{"type": "text", "length": 12}` for the next 12
    characters of `content`, and `{"type": "tool_use"}` for the next call, or for the one that its `call_id` names.
    Other keys of a block go back with it. `bound_to` is the digest of everything sent before the answer, if its
    reasoning is valid only after that prefix. `thinking_blocks` is how exports of version 0.1.0 hold the reasoning: it
    comes first in them. `inline_reasoning` came at the start of the text, with its tags, and goes back before the text.
    """

    role: Required[Role]
    content: Required[str | None]
    tool_calls: list[ToolCall]
    tool_call_id: str
    failed: bool
    images: list[Picture]
    reasoning_content: str
    reasoning: str
    inline_reasoning: str
    reasoning_details: list[AnswerBlock]
    thinking_blocks: list[AnswerBlock]
    blocks: list[AnswerBlock]
    bound_to: str
    extra: dict[str, Any]
    origin: str


def system(text: str) -> Message:
    """A system message."""
    return {"role": "system", "content": text}


class _Marked(dict[str, Any]):
    """A message of the role user that knows what it was made as: for everybody who writes it, a plain dict."""

    __slots__ = ("kind", "reminder")
    kind: UserKind
    reminder: str | None


def _marked(fields: Mapping[str, object], kind: UserKind, reminder: str | None = None) -> Message:
    message = _Marked(fields)
    message.kind, message.reminder = kind, reminder
    return cast("Message", message)


def user(text: str, images: Sequence[Picture] = ()) -> Message:
    """A prompt: what the user says, and shows."""
    shown = {"images": list(images)} if images else {}
    return _marked({"role": "user", "content": text, **shown}, "prompt")


def reminder(kind: str, text: str) -> Message:
    """A reminder of that type; `text` is the whole message."""
    return _marked({"role": "user", "content": text}, "reminder", kind)


def segment(text: str) -> Message:
    """A message that replaces compacted turns."""
    return _marked({"role": "user", "content": text}, "segment")


def assistant(text: str | None, calls: list[ToolCall] | None = None) -> Message:
    """An assistant message, with its tool calls if there are any."""
    message: Message = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    return message


def tool_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """A tool call; `arguments` is the JSON text of an object."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_result(call_id: str, text: str, *, failed: bool = False, images: Sequence[Picture] = ()) -> Message:
    """The answer to the tool call with that id."""
    message: Message = {"role": "tool", "tool_call_id": call_id, "content": text}
    if failed:
        message["failed"] = True
    if images:
        message["images"] = list(images)
    return message


def with_text(message: Mapping[str, object], text: str) -> dict[str, object]:
    """Another message of the same kind, with that text."""
    changed = {**message, "content": text}
    if isinstance(message, _Marked):
        return cast("dict[str, object]", _marked(changed, message.kind, message.reminder))
    return changed


def images_of(message: ForeignMessage) -> Sequence[Picture]:
    """Return the images of a message, without entries of another shape."""
    images = message.get("images")
    if not isinstance(images, list) or message.get("role") not in ("user", "tool"):
        return ()
    return [cast("Picture", each) for each in images if isinstance(each, dict) and each.keys() >= _PICTURE]


def without_images(message: Mapping[str, object], note: str) -> dict[str, object]:
    """Return the message with a note instead of its images; the same object if it has no images."""
    if "images" not in message:
        return cast("dict[str, object]", message)
    bare = with_text(message, f"{text_of(message)}\n{note}")
    del bare["images"]
    return bare


def reasoning_of(message: ForeignMessage) -> str:
    """Return the text of an assistant message's reasoning, "" if it has none."""
    fields = ("reasoning_content", "reasoning", "inline_reasoning")
    return next((str(message[name]) for name in fields if message.get(name)), "")


def kind_of(message: Mapping[str, object]) -> str:
    """Return what a message is: `prompt`, `reminder` or `segment` where its role is user, else its role."""
    role = message.get("role")
    if role != "user":
        return str(role)
    return message.kind if isinstance(message, _Marked) else "prompt"


def reminder_type(message: Mapping[str, object]) -> str | None:
    """The type of a reminder; None for every other message."""
    return message.reminder if isinstance(message, _Marked) else None


def text_of(message: ForeignMessage) -> str:
    """The text of a message's content, "" if it has none; parts that are not text appear as their type in brackets."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(map(_part_text, content))
    return str(content)


def _part_text(part: object) -> str:
    if isinstance(part, Mapping):
        text = part.get("text")
        return text if isinstance(text, str) else f"[{part.get('type', 'part')}]"
    return str(part)


def calls_of(message: ForeignMessage) -> list[dict[str, object]]:
    """The tool calls of an assistant message; entries that do not have the shape of a call are left out."""
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, list):
        return []
    return [call for call in calls if isinstance(call, dict) and isinstance(call.get("id"), str)]


def call_name(call: Mapping[str, object]) -> str:
    """The name of the function that a call asks for, "" if it names none."""
    function = call.get("function")
    return str(function.get("name") or "") if isinstance(function, Mapping) else ""


def call_arguments(call: Mapping[str, object]) -> str:
    """Return the arguments of a call as JSON text, as the model wrote them, "" without arguments."""
    function = call.get("function")
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return ""
    import json

    return json.dumps(arguments, ensure_ascii=False, default=str)


_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "bound_to")


_ITEMS = {"message": "text", "function_call": "tool_use"}
"""The blocks of an answer over Responses: the key `extra` of some exports under its present name."""


def _blocks(message: Message) -> list[AnswerBlock]:
    if "blocks" in message:
        return message["blocks"]
    items = message.get("extra", {}).get("output_items")
    if isinstance(items, list):
        known = [item for item in items if isinstance(item, dict)]
        return [{**item, "type": _ITEMS.get(str(item.get("type")), item.get("type"))} for item in known]
    return [*message.get("thinking_blocks", ()), {"type": "text"}]


def answer_parts(message: Message) -> list[tuple[AnswerBlock, str | ToolCall | None]]:
    """The blocks of an assistant message in the order in which they came, each with its text or its call.

    A block of reasoning has neither. What `blocks` does not account for comes last: text, then calls.
    """
    text, calls = message["content"] or "", list(message.get("tool_calls", ()))
    blocks = _blocks(message)
    texts = sum(block.get("type") == "text" for block in blocks)
    parts: list[tuple[AnswerBlock, str | ToolCall | None]] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                texts -= 1
                length = block.get("length") if texts else None
                end = length if isinstance(length, int) else len(text)
                parts.append((block, text[:end]))
                text = text[end:]
            case "tool_use":
                call = next((each for each in calls if block.get("call_id") in (None, each["id"])), None)
                if call is not None:
                    calls.remove(call)
                    parts.append((block, call))
            case _:
                parts.append((block, None))
    return [*parts, ({"type": "text"}, text), *(({"type": "tool_use"}, call) for call in calls)]


def has_reasoning(message: Message) -> bool:
    """Return whether an assistant message carries reasoning that can be sent back."""
    return "blocks" in message or any(name in message for name in _REASONING)


def without_reasoning(message: Message) -> Message:
    """The same message without its reasoning; texts and calls keep their order."""
    rest = {name: value for name, value in message.items() if name not in _REASONING}
    if "blocks" in rest:
        rest["blocks"] = [block for block in message["blocks"] if block.get("type") in ("text", "tool_use")]
    return cast("Message", rest)


def newest_prompt(messages: Sequence[ForeignMessage], number: int = 1) -> int:
    """Return the index of the newest prompt, or of the one `number` prompts from the end; -1 if there are fewer."""
    for place in range(len(messages) - 1, -1, -1):
        if kind_of(messages[place]) == "prompt":
            number -= 1
            if number == 0:
                return place
    return -1


def newest_messages(messages: Sequence[ForeignMessage], turns: int) -> int:
    """Return how many messages the newest `turns` turns have; all of them if there are no more turns."""
    return len(messages) - max(0, newest_prompt(messages, turns))


def with_kinds(messages: Iterable[_Given], prompts: Collection[str] = ()) -> list[_Given]:
    """Return a list from outside with the kinds of its messages derived from their texts.

    A plain prompt, or a message whose kind is known, is the same object. `prompts` are texts that are never segments.
    """
    return [_understood(message, prompts) for message in messages]


def _understood(message: _Given, prompts: Collection[str]) -> _Given:
    if not isinstance(message, dict) or isinstance(message, _Marked) or message.get("role") != "user":
        return message
    text = message.get("content")
    if not isinstance(text, str):
        return message
    if not text.startswith((SEGMENT_OPENING, _REMINDER_OPENING)):
        return message
    import re

    if (found := re.match(_REMINDER_OPENING + r"([^\n>]{1,80}?) -->", text)) is not None:
        return cast("_Given", _marked(message, "reminder", found.group(1)))
    if re.match(SEGMENT_OPENING + r'"\d{1,7}-\d{1,7}">\n', text) is None:
        return message
    return cast("_Given", _marked(message, "prompt" if text in prompts else "segment"))


def unpaired(messages: Iterable[Message]) -> list[str]:
    """Return the ids that break the pairing rule: each call has exactly one result, right after its message.

    An empty list means that the list is valid. Used by tests and for lists from outside.
    """
    wrong: list[str] = []
    open_ids: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            call_id = message.get("tool_call_id", "")
            if call_id in open_ids:
                open_ids.remove(call_id)
            else:
                wrong.append(call_id)
            continue
        wrong.extend(open_ids)
        open_ids = [call["id"] for call in message.get("tool_calls", ())]
    return wrong + open_ids


class Normalised(NamedTuple):
    """A list that obeys the pairing rule, and where each message came from (-1: added here)."""

    messages: list[dict[str, object]]
    origin: list[int]


def normalise(messages: Sequence[ForeignMessage], *, in_flight: bool = False) -> Normalised:
    """Return the same messages (the same objects if nothing had to change) in a list that obeys the pairing rule.

    Right after an assistant message come the results of its calls, one for each, in the order of the calls. A result
    without a call goes; a call without one gets NO_RESULT; a late result moves up; of several the last with text
    counts. Of each type of reminder the newest stays. Entries that are not messages go; kinds are derived for those
    from outside. `in_flight` leaves the last assistant message's unanswered calls open.
    """
    listed = [(at, message) for at, message in enumerate(with_kinds(messages)) if isinstance(message, dict)]
    owner: dict[str, int] = {}  # the first message that makes a call
    results: dict[str, tuple[int, dict[str, object]]] = {}  # the last one after its call, if possible with text
    newest: dict[str, int] = {}
    last_calls = -1
    for at, message in listed:
        for call in calls_of(message):
            owner.setdefault(str(call["id"]), at)
            last_calls = at
        if (kind := reminder_type(message)) is not None:
            newest[kind] = at
        key = message.get("tool_call_id") if message.get("role") == "tool" else None
        if isinstance(key, str) and owner.get(key, at) < at and (key not in results or message.get("content")):
            results[key] = at, message
    out = Normalised([], [])
    for at, message in listed:
        kind = reminder_type(message)
        if message.get("role") not in _SPEAKERS or (kind is not None and newest[kind] != at):
            continue
        own: dict[str, dict[str, object]] = {}
        for call in calls_of(message):
            if owner[str(call["id"])] == at:
                own.setdefault(str(call["id"]), call)
        found = [(at, _with_calls(message, list(own.values())))]
        for key in own:
            missing: tuple[int, dict[str, object]] = (-1, {"role": "tool", "tool_call_id": key, "content": NO_RESULT})
            if key in results or not (in_flight and at == last_calls):
                found.append(results.get(key, missing))
        for origin, each in found:
            out.messages.append(each)
            out.origin.append(origin)
    return out


def _with_calls(message: dict[str, object], calls: Sequence[dict[str, object]]) -> dict[str, object]:
    """Return the message with these of its calls."""
    if "tool_calls" not in message or calls == message["tool_calls"]:
        return message
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "tool_calls": calls} if calls else {**rest, "content": message.get("content") or ""}
