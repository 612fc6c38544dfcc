"""What a tool call does, told from its name and arguments: which file, which command, read or write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codelet.compaction.content import call_arguments, call_name

_PATH_KEYS = ("path", "file_path", "filename", "file", "notebook_path", "target_file")
_COMMAND_KEYS = ("command", "cmd", "script")
_OTHER_KEYS = ("pattern", "query", "url", "name", "prompt", "description")
_WRITERS = frozenset({"write", "edit", "create", "apply_patch", "multiedit", "multi_edit", "patch", "insert"})
_WRITING = ("write", "edit", "create", "replace", "insert", "patch")
READERS = frozenset({"read", "open", "cat", "view", "read_file", "open_file", "goto", "get_file"})
LABEL_LENGTH = 110


@dataclass(frozen=True)
class Deed:
    """A call read: `kind` is read, write, command or other; `subject` its file, command or main argument."""

    call_id: str
    name: str
    kind: str
    subject: str
    values: tuple[str, ...]


def read_call(call: Mapping[str, Any]) -> Deed:
    """What the call does. Arguments that do not parse count as one value."""
    name, raw = call_name(call), call_arguments(call)
    try:
        parsed = json.loads(raw) if raw else {}
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        return Deed(str(call.get("id")), name, _kind(name, False), "", (raw,) if raw else ())
    path = _first(parsed, _PATH_KEYS)
    command = _first(parsed, _COMMAND_KEYS)
    subject = path or command or _first(parsed, _OTHER_KEYS)
    kind = "command" if command and not path else _kind(name, bool(path))
    values = tuple(_flat(value) for value in parsed.values() if value is not None and value != subject)
    return Deed(str(call.get("id")), name, kind, subject, values)


def _first(parsed: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((parsed[key] for key in keys if isinstance(parsed.get(key), str) and parsed[key]), "")


def _flat(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return "\n".join(_flat(part) for item in value for part in item.values())
    return json.dumps(value, ensure_ascii=False, default=str)


def _kind(name: str, has_path: bool) -> str:
    low = name.lower()
    if low in _WRITERS or any(word in low for word in _WRITING):
        return "write"
    if low in READERS or (has_path and ("read" in low or "view" in low or "open" in low)):
        return "read"
    return "other"


def label_of(deed: Deed) -> str:
    """A short line that names the call: its name and the head of its subject."""
    subject = " ".join(deed.subject[: 2 * LABEL_LENGTH].split())
    if len(subject) > LABEL_LENGTH:
        subject = subject[: LABEL_LENGTH - 1] + "…"
    return f"{deed.name} {subject}".strip().replace("]", ")")
