"""From the bytes of an export to a snapshot: read strictly, checked whole, mended where only pairs are broken."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import msgspec

from codelet.errors import ExportError
from codelet.export.check import check_document
from codelet.export.document import FILE_NAMES
from codelet.export.migrate import migrated
from codelet.export.pairs import paired
from codelet.export.snapshot import Snapshot
from codelet.messages import Message, user, with_kinds
from codelet.prompt import IMPORTED_SYSTEM, escape

MOST_BYTES = 256 * 1024 * 1024
"""The largest document that is read or written."""


def from_json(data: bytes, name: str = "the export") -> Snapshot:
    """The snapshot in `data`. Raises ExportError, in one line that begins with `name`, for anything else.

    Refused: what is not UTF-8 JSON, repeated names, NaN and infinities, lone surrogates, unknown roles, wrong
    types, sizes beyond the bounds. Older versions are migrated, calls and results that are not paired are mended,
    and system messages become text. Names that are not known are kept as they came.
    """
    try:
        document = migrated(_parsed(data))
        check_document(document)
    except ExportError as error:
        raise ExportError(f"{name}: {error}") from None
    assert isinstance(document, dict)
    names = FILE_NAMES.values()
    values: dict[str, Any] = {"unknown": {name: value for name, value in document.items() if name not in names}}
    # Each version that knows profiles writes the other key.
    values["profile_held"] = document.get("profile") is None or "reminders_off" in document
    for field, key in FILE_NAMES.items():
        if key in document:
            value = document[key]
            values[field] = tuple(value) if isinstance(value, list) else value
    known = _prompts(document)
    given = values["messages"] = tuple(with_kinds(_without_system(values["messages"]), known))
    values["messages"] = paired(given)
    values["pins"] = _moved(values.get("pins", ()), given, values["messages"])
    if (stopped := values.get("interruption")) is not None and stopped["messages"] is not None:
        values["interruption"] = {**stopped, "messages": with_kinds(_without_system(stopped["messages"]), known)}
    if (archive := values.get("archive")) is not None:
        values["archive"] = tuple({**entry, "message": _without_system((entry["message"],))[0]} for entry in archive)
    return Snapshot(**values)


def _prompts(document: dict[str, Any]) -> frozenset[str]:
    """Texts of the role user that are no segments, whatever they look like; none where a file does not list these.

    What is pinned does not count: 0.1.0 did not list the segments that were put back after a compaction and pinned.
    """
    if "segments" not in document:
        return frozenset()
    pins = set(document.get("pins", ()))
    messages = enumerate(document["messages"])
    said = {message["content"] for place, message in messages if message["role"] == "user" and place not in pins}
    return frozenset(said - {segment["text"] for segment in document["segments"]})


def _without_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with what a file calls the system's as text of a user, marked: only codelet speaks as the system."""
    if all(message["role"] != "system" for message in messages):
        return tuple(messages)
    return tuple(
        user(escape(IMPORTED_SYSTEM.format(text=message["content"]))) if message["role"] == "system" else message
        for message in messages
    )


def _moved(pins: tuple[int, ...], old: tuple[Message, ...], new: tuple[Message, ...]) -> tuple[int, ...]:
    """The pins of messages that are still there, at their places now."""
    if len(old) == len(new):
        return tuple(pin for pin in pins if pin < len(new))
    places = {id(message): place for place, message in enumerate(new)}
    return tuple(places[id(old[pin])] for pin in pins if pin < len(old) and id(old[pin]) in places)


def _parsed(data: bytes) -> object:
    if len(data) > MOST_BYTES:
        raise ExportError(f"is larger than {MOST_BYTES >> 20} MiB")
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # the strict reader tells what is wrong
        value = msgspec.json.decode(data)
        if msgspec.json.encode(value) == data.replace(b"\n", b""):  # so nothing of it was passed over
            return value
    return _strictly_parsed(data)


def _strictly_parsed(data: bytes) -> object:
    """The value of any JSON, as slowly as it takes to see each name; raises ExportError."""
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant, parse_float=_finite
        )
        if b"\\ud" in data or b"\\uD" in data:
            json.dumps(value, ensure_ascii=False).encode()  # fails on what is not a whole pair
    except ExportError:
        raise
    except UnicodeDecodeError as error:
        raise ExportError(f"is not UTF-8 (byte {error.start})") from None
    except UnicodeEncodeError:
        raise ExportError("holds half of a surrogate pair") from None
    except RecursionError:
        raise ExportError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ExportError(f"is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError:
        raise ExportError("holds a number that is too long") from None
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        given = [name for name, _ in pairs]
        twice = next(name for name in given if given.count(name) > 1)
        raise ExportError(f"has the name {twice[:64]!r} twice in one object")
    return names


def _refuse_constant(name: str) -> NoReturn:
    raise ExportError(f"holds {name}, which is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ExportError(f"holds {text[:32]}, which is out of range")
    return number
