"""The forms in which models write a call, as data: other names, other types, JSON that is almost right.

One call is read in three steps: `arguments_in` (the text), `plain_name` (the tool's name) and `understood` (the
arguments of one tool). Only what has one meaning is read; everything else stays as it is and is refused later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn

OTHER_TOOLS = {
    "shell": "bash",
    "run_shell_command": "bash",
    "run_command": "bash",
    "execute_command": "bash",
    "read_file": "read",
    "view": "read",
    "cat": "read",
    "ls": "read",
    "list_directory": "read",
    "write_file": "write",
    "create_file": "write",
    "str_replace": "edit",
    "edit_file": "edit",
    "replace": "edit",
    "multiedit": "edit",
    "search": "grep",
    "search_files": "grep",
    "grep_search": "grep",
    "glob": "find",
    "find_files": "find",
}
"""What tools are called elsewhere, in small letters; nothing here where the meaning of the arguments differs."""

_OTHER_NAMES = {
    "file_path": "path",
    "filePath": "path",
    "filepath": "path",
    "absolute_path": "path",
    "target_file": "path",
    "cmd": "command",
    "script": "command",
    "run_in_background": "background",
    "is_background": "background",
    "contents": "content",
    "regex": "pattern",
    "include": "glob",
    "-i": "ignore_case",
    "-C": "around",
    "head_limit": "limit",
}
_OTHER_PARTS = {
    "old_string": "old",
    "new_string": "new",
    "oldString": "old",
    "newString": "new",
    "old_str": "old",
    "new_str": "new",
    "old_text": "old",
    "new_text": "new",
    "oldText": "old",
    "newText": "new",
    "replace_all": "all",
    "replaceAll": "all",
}

_ANY_VALUE = None
_COMMENTS: dict[str, tuple[Any, ...] | None] = {"description": _ANY_VALUE, "explanation": _ANY_VALUE}
_HARMLESS: dict[str, dict[str, tuple[Any, ...] | None]] = {
    "bash": {**_COMMENTS, "justification": _ANY_VALUE, "restart": (False,)},
    "read": {**_COMMENTS, "pages": _ANY_VALUE},
    "write": {**_COMMENTS, "overwrite": (True,)},
    "edit": {**_COMMENTS, "instruction": _ANY_VALUE, "expected_replacements": (1,)},
    "grep": {
        **_COMMENTS,
        "-n": _ANY_VALUE,
        "output_mode": ("content", "files_with_matches"),
        "multiline": (False,),
        "recursive": (True,),
    },
    "find": _COMMENTS,
    "recall": _COMMENTS,
}
"""By tool: arguments that it does not have and that change nothing, with the values for which that holds.

What could change what a call does (`cwd`, `env`, `dry_run`) is not listed, so the call is refused.
"""

_NAMESPACE = re.compile(r"(?:to=)?(?:functions|default_api|tools?)[.:/]")
_NUMBER = re.compile(r":\d+$")
_MILLISECONDS_FROM = 10_000
"""A `timeout` this large is in milliseconds, as Claude Code and Codex count it: in seconds it is nearly three hours."""
_LONGEST_TIMEOUT = 600_000
_BOOLEANS = {"true": True, "false": False}
_MOST_LAYERS = 3


def plain_name(name: str) -> str:
    """Return the tool's name without what a chat template puts around it.

    Harmony's `functions.bash` and `bash<|channel|>commentary`, Gemini's `default_api.bash`, Kimi's `functions.bash:0`.
    """
    bare = name.partition("<|")[0].strip()
    return _NUMBER.sub("", _NAMESPACE.sub("", bare, count=1)).strip() or name


def strict_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is by the letter of RFC 8259, which servers demand; None for any other text.

    Numbers too large for a double count as no JSON.
    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def arguments_in(text: str) -> object:
    """Return the value of a call's arguments, or the text if it is no JSON.

    Line breaks and other control characters in strings are taken as they are, and an object inside a JSON string as
    the object.
    """
    value: object = text
    for _ in range(_MOST_LAYERS):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value, strict=False, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError):
            break
    return text if isinstance(value, str) else value


def understood(name: str, parameters: Mapping[str, Any], arguments: dict[str, Any], *, own: bool) -> dict[str, Any]:
    """Return the arguments as the tool has them. Given its own result, it returns the same.

    Values of another type are read for every tool, other names only for codelet's `own` kind of schema.
    """
    known = parameters.get("properties")
    if not isinstance(known, Mapping):
        return arguments
    if own:
        arguments = _with_known_names(_in_seconds(arguments) if name == "bash" else arguments, known)
        arguments = {
            key: value for key, value in arguments.items() if key in known or not _says_nothing(name, key, value)
        }
    return {key: _as_meant(value, known.get(key), key) for key, value in arguments.items()}


def _says_nothing(tool_name: str, key: str, value: Any) -> bool:
    harmless = _HARMLESS.get(tool_name, {})
    if key not in harmless:
        return False
    values = harmless[key]
    return values is None or _as_meant(value, {"type": "boolean"}, key) in values


def _with_known_names(arguments: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    others = {other: name for other, name in _OTHER_NAMES.items() if other not in known and name in known}
    renamed = {others.get(name, name): value for name, value in arguments.items()}
    if len(renamed) != len(arguments):
        return arguments  # both names were given: one too many
    if "edits" not in known:
        return renamed
    if "edits" not in renamed and not renamed.keys().isdisjoint((*_OTHER_PARTS, "old")):
        parts = {name: renamed.pop(name) for name in (*_OTHER_PARTS, "old", "new", "all") if name in renamed}
        renamed["edits"] = [parts]
    edits = _as_meant(renamed.get("edits"), known["edits"], "edits")
    if isinstance(edits, list):
        renamed["edits"] = [_edit_parts(edit) if isinstance(edit, dict) else edit for edit in edits]
    return renamed


def _edit_parts(edit: dict[str, Any]) -> dict[str, Any]:
    named = {_OTHER_PARTS.get(name, name): value for name, value in edit.items()}
    if len(named) != len(edit):
        return edit
    return {key: value for key, value in named.items() if not _says_nothing("edit", key, value)}


def _in_seconds(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command with its time limit in seconds."""
    names = {"timeout", "timeout_ms"} & arguments.keys()
    if len(names) != 1:
        return arguments
    name = names.pop()
    value = _as_meant(arguments[name], {"type": "number"}, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return arguments
    if name == "timeout_ms" or value >= _MILLISECONDS_FROM:
        value = min(value, _LONGEST_TIMEOUT) / 1000
    return {("timeout" if key == name else key): value if key == name else each for key, each in arguments.items()}


def _as_meant(value: Any, schema: Any, key: str) -> Any:
    """Return a value in the type that its schema names, where what was sent can only mean that."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(value, str) and kind in ("integer", "number", "array", "object"):
        read = arguments_in(value)
        value = read if isinstance(read, int | float | list | dict) and not isinstance(read, bool) else value
    if kind == "boolean" and isinstance(value, str):
        return _BOOLEANS.get(value.strip().lower(), value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "array":
        return _items(value, schema.get("items"), key)
    if kind == "object" and isinstance(value, dict) and isinstance(parts := schema.get("properties"), Mapping):
        return {name: _as_meant(part, parts.get(name), name) for name, part in value.items()}
    return value


def _items(value: Any, schema: Any, key: str) -> Any:
    """Return an array's items: one object for a list of objects, and a list inside an object of its own name, count."""
    if isinstance(value, dict) and value.keys() == {key} and isinstance(value[key], list):
        value = value[key]
    if isinstance(value, dict) and isinstance(schema, Mapping) and schema.get("type") == "object":
        value = [value]
    return [_as_meant(item, schema, key) for item in value] if isinstance(value, list) else value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is too large")
    return number
