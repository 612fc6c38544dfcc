"""Whether the arguments of a call fit its tool: those of codelet's own tools by hand, others by their JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codelet.errors import ToolError

_LONGEST_PROBLEM = 300


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
    "contents": "content",
    "regex": "pattern",
    "include": "glob",
    "-i": "ignore_case",
    "head_limit": "limit",
}
_OTHER_PARTS = {
    "old_string": "old",
    "new_string": "new",
    "old_str": "old",
    "new_str": "new",
    "old_text": "old",
    "new_text": "new",
    "replace_all": "all",
}


def with_known_names(arguments: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The arguments under the names that the tool has for them: some models send those of tools that they learnt on."""
    known = set(known)
    others = {other: name for other, name in _OTHER_NAMES.items() if other not in known and name in known}
    renamed = {others.get(name, name): value for name, value in arguments.items()}
    if len(renamed) != len(arguments):
        return arguments  # both names were given: one too many
    if "edits" not in known:
        return renamed
    if "edits" not in renamed and not renamed.keys().isdisjoint((*_OTHER_PARTS, "old")):
        parts = {name: renamed.pop(name) for name in (*_OTHER_PARTS, "old", "new", "all") if name in renamed}
        renamed["edits"] = [parts]
    edits = _as_meant(renamed.get("edits"), "array")
    if isinstance(edits, dict):
        edits = [edits]
    if isinstance(edits, list):
        renamed["edits"] = [_with_known_parts(edit) if isinstance(edit, dict) else edit for edit in edits]
    return renamed


def _with_known_parts(edit: dict[str, Any]) -> dict[str, Any]:
    return {_OTHER_PARTS.get(name, name): value for name, value in edit.items()}


def check_own(name: str, parameters: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as a tool made of a function takes them; raises ToolError that tells the model what is wrong.

    An explicit null for an optional argument counts as left out: several models send it. `parameters` are of the form
    that `tools.tool` makes.
    """
    known = parameters["properties"]
    required = parameters.get("required", ())
    arguments = with_known_names(arguments, known)
    unknown = [key for key in arguments if key not in known]
    if unknown:
        raise ToolError(f"{name}: unknown argument {unknown[0]!r}; it takes {', '.join(known)}")
    present = {key: value for key, value in arguments.items() if value is not None or key in required}
    missing = [key for key in required if key not in present]
    if missing:
        raise ToolError(f"{name}: the argument {missing[0]!r} is missing")
    return {key: _checked(name, key, value, known[key]) for key, value in present.items()}


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _as_meant(value: Any, kind: str) -> Any:
    """What several models send in place of a number or an array: `10.0`, `"10"`, the array as JSON text."""
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind in ("integer", "number", "array") and isinstance(value, str):
        import json

        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _checked(tool_name: str, where: str, value: Any, schema: dict[str, Any]) -> Any:
    kind = schema["type"]
    value = _as_meant(value, kind)
    right = isinstance(value, _PYTHON_TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not right:
        raise ToolError(f"{tool_name}: {where} must be of type {kind}, not {type(value).__name__}")
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(f"{tool_name}: {where} must be one of {', '.join(schema['enum'])}")
    if kind == "array":
        return [_checked(tool_name, f"{where}[{i}]", item, schema["items"]) for i, item in enumerate(value)]
    if kind == "object":
        missing = [name for name in schema["required"] if name not in value]
        if missing:
            raise ToolError(f"{tool_name}: {where} lacks {missing[0]!r}")
        return {
            name: _checked(tool_name, f"{where}.{name}", value[name], part)
            for name, part in schema["properties"].items()
            if name in value
        }
    return value


def check_foreign(name: str, parameters: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a tool from outside, checked by its JSON Schema, of whatever draft; raises ToolError.

    They are passed on as they are. Only where they do not fit, a null for an optional argument counts as left out.
    Nothing is fetched: a schema that refers to one elsewhere cannot be checked, and the call is not made.
    """
    import re

    from jsonschema.exceptions import SchemaError, best_match
    from jsonschema.validators import Draft202012Validator, validator_for
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable

    kind = validator_for(parameters, default=Draft202012Validator)
    try:
        kind.check_schema(parameters)
        judge = kind(parameters, registry=REGISTRY)
        problem = best_match(judge.iter_errors(arguments))
        if problem is None:
            return arguments
        required = parameters.get("required", ())
        present = {key: value for key, value in arguments.items() if value is not None or key in required}
        if len(present) < len(arguments) and judge.is_valid(present):
            return present
    except (SchemaError, Unresolvable, re.error, RecursionError) as error:
        why = str(getattr(error, "message", error))[:_LONGEST_PROBLEM]
        raise ToolError(f"{name}: its schema cannot be used, the call was not made: {why}") from error
    where = problem.json_path.removeprefix("$").removeprefix(".")
    raise ToolError(f"{name}: {f'{where}: ' if where else ''}{problem.message[:_LONGEST_PROBLEM]}")
