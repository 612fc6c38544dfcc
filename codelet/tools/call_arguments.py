"""Checks the arguments of a call: for codelet's own tools by hand, for others by their JSON Schema."""

from __future__ import annotations

from codelet.errors import ToolError
from codelet.messages import Arguments, JsonSchema

_LONGEST_PROBLEM = 300


def check_own(name: str, parameters: JsonSchema, arguments: Arguments) -> Arguments:
    """The arguments as a tool made of a function takes them; raises ToolError that tells the model what to send.

    An explicit null for an optional argument counts as left out: several models send it. `parameters` are of the form
    that `tools.tool` makes.
    """
    known = parameters["properties"]
    required = parameters.get("required", ())
    try:
        if unknown := [key for key in arguments if key not in known]:
            raise ToolError(f"{name}: unknown argument {unknown[0]!r}{_instead(name, unknown[0])}")
        present = {key: value for key, value in arguments.items() if value is not None or key in required}
        if missing := [key for key in required if key not in present]:
            raise ToolError(f"{name}: the argument {missing[0]!r} is missing")
        return {key: _checked(name, key, value, known[key]) for key, value in present.items()}
    except ToolError as error:
        raise ToolError(f"{error}. Send {_form(parameters)}") from None


def _instead(tool_name: str, argument: str) -> str:
    """Return the replacement for an argument of other agents' tools, as a clause; or ""."""
    from codelet.tools.other_agents import INSTEAD

    told = INSTEAD.get(tool_name, {}).get(argument.rpartition(".")[2], "")
    return f": {told}" if told else ""


def _form(schema: JsonSchema) -> str:
    """Return the form of a value as text: `{"path": string, "limit"?: integer}`."""
    if schema["type"] == "array":
        return f"[{_form(schema['items'])}, …]"
    if schema["type"] != "object":
        return " or ".join(map(repr, schema["enum"])) if "enum" in schema else str(schema["type"])
    required = schema.get("required", ())
    parts = (f'"{name}"{"" if name in required else "?"}: {_form(part)}' for name, part in schema["properties"].items())
    return f"{{{', '.join(parts)}}}"


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _checked(tool_name: str, where: str, value: object, schema: JsonSchema) -> object:
    kind = schema["type"]
    right = isinstance(value, _PYTHON_TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not right:
        raise ToolError(f"{tool_name}: {where} must be of type {kind}, not {type(value).__name__}")
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(f"{tool_name}: {where} must be one of {', '.join(schema['enum'])}")
    if isinstance(value, list):
        return [_checked(tool_name, f"{where}[{i}]", item, schema["items"]) for i, item in enumerate(value)]
    if isinstance(value, dict):
        required, parts = schema["required"], schema["properties"]
        missing = [name for name in required if name not in value]
        if missing:
            raise ToolError(f"{tool_name}: {where} lacks {missing[0]!r}")
        if unknown := [name for name in value if name not in parts]:
            raise ToolError(f"{tool_name}: {where}: unknown argument {unknown[0]!r}{_instead(tool_name, unknown[0])}")
        return {
            name: _checked(tool_name, f"{where}.{name}", value[name], part)
            for name, part in parts.items()
            if name in value and (value[name] is not None or name in required)
        }
    return value


def check_foreign(name: str, parameters: JsonSchema, arguments: Arguments) -> Arguments:
    """Return the arguments of a foreign tool, checked by its JSON Schema, of any draft; raises ToolError.

    They are passed on unchanged. Only if they do not fit, a null for an optional argument counts as left out. Nothing
    is fetched: a schema that refers to another document cannot be checked, and the call is not made.
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
