"""From the bytes of an export to a document: read strictly, checked whole, repaired only where pairs are broken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec

from codelet.errors import ExportError
from codelet.export.document import FILE_NAMES, VERSION, Document, check_free, problem
from codelet.export.migrate import RawDocument, migrated
from codelet.messages import SEGMENT_OPENING, Message, normalise, unpaired, user, with_kinds
from codelet.prompt import IMPORTED_SYSTEM, escape

MOST_BYTES = 256 * 1024 * 1024
"""The largest document that is read or written."""
_DEEPEST = 7
"""Levels from a field of the document to its deepest free value: archive, entry, message, calls, call, `extra`."""
_FIELDS = {key: field for field, key in FILE_NAMES.items()}


class Read(NamedTuple):
    """A document, and the form of another agent that it was converted from, empty if it was ours."""

    document: Document
    converted_from: str


def from_json(data: bytes, name: str = "the export") -> Document:
    """Return the document in `data`; see `read_json`."""
    return read_json(data, name).document


def read_json(data: bytes, name: str = "the export") -> Read:
    """Return the document in `data`. Raise ExportError, in one line that begins with `name`, for anything else.

    Refused: what is not UTF-8 JSON, NaN and infinities, lone surrogates, unknown roles, wrong
    types, sizes beyond the bounds. Other agents' forms are converted, calls and results that are not paired are
    repaired, and system messages become text. Names that are not known are kept as they came.
    """
    try:
        raw, converted_from = migrated(_parsed(data))
        return Read(_document(raw), converted_from)
    except ExportError as error:
        raise ExportError(f"{name}: {error}") from None


def _document(raw: RawDocument) -> Document:
    known = {key: value for key, value in raw.items() if key in _FIELDS}
    unknown = {key: value for key, value in raw.items() if key not in _FIELDS}
    try:
        msgspec.convert(known, Document)
        for part, depth in ((unknown, 0), (known, 1 - _DEEPEST)):
            check_free(part, depth)
    except ValueError as error:  # msgspec's own errors are of this type too
        version = raw["version"]
        newer = f" (it is of version {version}, newer than this codelet reads: update codelet)"
        raise ExportError(problem(str(error)) + (newer if version != VERSION else "")) from None
    values: dict[str, Any] = {
        _FIELDS[key]: tuple(value) if isinstance(value, list) else value for key, value in known.items()
    }
    prompts = _prompts(raw)
    given = tuple(with_kinds(_without_system(raw["messages"]), prompts))
    values["messages"] = paired(given)
    values["pins"] = _moved(values.get("pins", ()), given, values["messages"])
    if (stopped := values.get("interruption")) is not None and stopped["messages"] is not None:
        values["interruption"] = {**stopped, "messages": with_kinds(_without_system(stopped["messages"]), prompts)}
    if (archive := values.get("archive")) is not None:
        values["archive"] = tuple({**entry, "message": _without_system((entry["message"],))[0]} for entry in archive)
    return Document(unknown=unknown, **values)


def _prompts(document: RawDocument) -> frozenset[str]:
    """Return the user's texts that only look like segments; empty if the file lists no segments.

    Pinned messages do not count: 0.1.0 did not list the segments that were put back after a compaction and pinned.
    """
    if "segments" not in document:
        return frozenset()
    pins = set(document.get("pins", ()))
    messages = enumerate(document["messages"])
    said = (message["content"] for place, message in messages if message["role"] == "user" and place not in pins)
    alike = frozenset(text for text in said if text.startswith(SEGMENT_OPENING))
    return alike - {segment["text"] for segment in document["segments"]}


def _without_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with what a file calls the system's as text of a user, marked: only codelet speaks as the system."""
    if all(message["role"] != "system" for message in messages):
        return tuple(messages)
    return tuple(
        user(escape(IMPORTED_SYSTEM.format(text=message["content"]))) if message["role"] == "system" else message
        for message in messages
    )


def paired(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the same messages (the same objects if nothing had to change), calls and results paired, each id once.

    Some servers number their calls from the start in each answer: an id that was used before gets a number appended.
    """
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    if len(set(ids)) == len(ids) and not unpaired(messages):
        return tuple(messages)
    return tuple(cast("list[Message]", normalise(_each_id_once(messages, set(ids))).messages))


def _each_id_once(messages: Sequence[Message], taken: set[str]) -> list[Message]:
    """Rename an id that an earlier message used, in the later one and in the results that follow it."""
    used: dict[str, int] = {}
    renamed: dict[str, str] = {}

    def told_apart(message: Message) -> Message:
        nonlocal renamed
        if calls := message.get("tool_calls"):
            own = {call["id"] for call in calls}
            renamed = {call_id: _free_id(call_id, used, taken) for call_id in own if call_id in used}
            used.update(dict.fromkeys(own - used.keys(), 1))
            if renamed:
                return {**message, "tool_calls": [{**c, "id": renamed.get(c["id"], c["id"])} for c in calls]}
        elif message["role"] == "tool" and (name := renamed.get(message["tool_call_id"])) is not None:
            return {**message, "tool_call_id": name}
        return message

    return [told_apart(message) for message in messages]


def _free_id(call_id: str, used: dict[str, int], taken: set[str]) -> str:
    """The id with the next number after it that no other call has."""
    while True:
        used[call_id] += 1
        name = f"{call_id}~{used[call_id]}"
        if name not in taken:
            taken.add(name)
            return name


def _moved(pins: tuple[int, ...], old: tuple[Message, ...], new: tuple[Message, ...]) -> tuple[int, ...]:
    """The pins of messages that are still there, at their places now."""
    if len(old) == len(new):
        return tuple(pin for pin in pins if pin < len(new))
    places = {id(message): place for place, message in enumerate(new)}
    return tuple(places[id(old[pin])] for pin in pins if pin < len(old) and id(old[pin]) in places)


def _parsed(data: bytes) -> object:
    if len(data) > MOST_BYTES:
        raise ExportError(f"is larger than {MOST_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise ExportError("is nested too deeply") from None
    except ValueError as error:  # msgspec's errors, and of text that is not UTF-8
        reason = str(error).removeprefix("JSON is malformed: ").partition(" - at ")[0]
        raise ExportError(f"is not JSON: {reason}") from None
