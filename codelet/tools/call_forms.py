"""The forms in which models write a call, as data: other names, other types, JSON that is almost right.

A call is read in three steps: `arguments_in` (the text), `plain_name` (the tool's name) and `understood` (the arguments
of one tool). Only what has one meaning is read; everything else stays unchanged and is refused later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import NoReturn

from codelet.messages import Arguments
from codelet.tools import other_agents

_NAMESPACE = re.compile(r"(?:to=)?(?:functions|default_api|tools?)[.:/]")
_NUMBER = re.compile(r":\d+$")
_MILLISECONDS_FROM = 10_000
"""A `timeout` this large is in milliseconds, as Claude Code and Codex count it: in seconds it is nearly three hours."""
_LONGEST_TIMEOUT = 600_000
_BOOLEANS = {"true": True, "false": False}
_MOST_LAYERS = 3
_SIMPLE = re.compile(r"(?:&&|\|(?!\|)|[^;&|\n])+")
"""A command that can follow `cd FOLDER &&`: words, pipes and `&&`."""
_CONTROL = re.compile(r"\s*(?:jobs|wait|kill)\b")
_BLOCK = re.compile(r"<{5,} SEARCH\n(.*?)\n?={5,}\n(.*?)\n?>{5,} REPLACE", re.DOTALL)
_REGEX_SIGNS = re.compile(r"[\\.+*?()|\[\]{}^$]")
_SIGNATURES = {
    "bash": ("command", "unconfined"),
    "read": ("path", "offset", "limit"),
    "write": ("path", "content"),
    "edit": ("path", "edits"),
    "grep": ("pattern", "path", "ignore_case"),
    "find": ("pattern", "path"),
    "plan": ("plan",),
    "recall": ("entry", "turn"),
}
"""Arguments that identify codelet's own tool, rather than another of the same name."""
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_STEP_MARKS = {"completed": "x", "done": "x", "inprogress": ">", "failed": "!"}


def plain_name(name: str) -> str:
    """Return the tool's name without what a chat template puts around it.

    Harmony's `functions.bash` and `bash<|channel|>commentary`, Gemini's `default_api.bash`, Kimi's `functions.bash:0`.
    """
    bare = name.partition("<|")[0].strip()
    return _NUMBER.sub("", _NAMESPACE.sub("", bare, count=1)).strip() or name


def strict_object(text: str) -> Arguments | None:
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

    Line breaks and other control characters in strings are accepted, and an object inside a JSON string is read as the
    object.
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


def meant_tool(name: str, arguments: object = None) -> str:
    """Return the name of the tool that a model means by another agent's name; the unchanged name if none is known."""
    plain = plain_name(name)
    low = plain.lower()
    if low in other_agents.EDITORS and isinstance(arguments, dict):
        return other_agents.EDITOR_COMMANDS.get(str(arguments.get("command")), low)
    return other_agents.OTHER_TOOLS.get(low, low)


def instead_of_tool(name: str) -> str:
    """Return the alternative to a tool that does not exist, or ""."""
    return other_agents.NO_SUCH_TOOL.get(plain_name(name).lower(), "")


def understood(name: str, parameters: Mapping[str, object], arguments: Arguments, *, own: bool) -> Arguments:
    """Return the arguments as the tool has them. Given its own result, it returns the same.

    Values of another type are read for every tool, other names only for codelet's `own` kind of schema.
    """
    known = parameters.get("properties")
    if not isinstance(known, Mapping):
        return arguments
    if own:
        arguments = _with_known_names(name, arguments, known)
        arguments = {
            key: value for key, value in arguments.items() if key in known or not _says_nothing(name, key, value)
        }
    return {key: _as_meant(value, known.get(key), key) for key, value in arguments.items()}


def _says_nothing(tool_name: str, key: str, value: object) -> bool:
    harmless = other_agents.HARMLESS.get(tool_name, {})
    if key not in harmless:
        return False
    values = harmless[key]
    return values is None or value is None or _as_meant(value, {"type": "boolean"}, key) in values


def _with_known_names(tool_name: str, arguments: Arguments, known: Mapping[str, object]) -> Arguments:
    is_ours = all(name in known for name in _SIGNATURES.get(tool_name, ("",)))
    names = other_agents.NAMES.get(tool_name, {}) if is_ours else {}
    others = {
        other: name
        for other, name in {**other_agents.NAMES[""], **names}.items()
        if other not in known and (name in known or other in names)
    }
    renamed = {others.get(name, name): value for name, value in arguments.items()}
    if len(renamed) != len(arguments):
        return arguments  # both names were given: one too many
    return _READERS[tool_name](renamed) if is_ours and tool_name in _READERS else renamed


def _bash_arguments(arguments: Arguments) -> Arguments:
    """A command that is a list of words, and its folder, as one command line; its time limit in seconds."""
    from shlex import join, quote

    arguments = _in_seconds(arguments)
    command, folder = arguments.get("command"), arguments.get("workdir")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        shell = len(command) == 3 and command[0].rpartition("/")[2] in ("bash", "sh") and command[1] in ("-c", "-lc")
        command = command[2] if shell else join(command)
        arguments = {**arguments, "command": command}
    if arguments.get("sandbox_permissions") == "require_escalated" and "unconfined" not in arguments:
        arguments = {key: value for key, value in arguments.items() if key != "sandbox_permissions"}
        arguments["unconfined"] = True
    if "workdir" not in arguments or not isinstance(command, str) or not isinstance(folder, str | None):
        return arguments
    arguments = {key: value for key, value in arguments.items() if key != "workdir"}
    if folder and folder not in (".", "./") and not _CONTROL.match(command):
        then = " && " if _SIMPLE.fullmatch(command) else " || exit\n"
        arguments["command"] = f"cd {quote(folder)}{then}{command}"
    return arguments


def _read_arguments(arguments: Arguments) -> Arguments:
    """The first and the last line as the first line and the number of lines."""
    arguments = dict(arguments)
    paths = arguments.get("paths")
    if isinstance(paths, list) and len(paths) == 1 and "path" not in arguments:
        arguments["path"] = arguments.pop("paths")[0]
    lines = _as_meant(arguments.get("view_range"), {"type": "array", "items": {"type": "integer"}}, "")
    if isinstance(lines, list) and len(lines) == 2 and arguments.keys().isdisjoint(("offset", "limit", "end")):
        del arguments["view_range"]
        arguments["offset"], arguments["end"] = lines
    first, last = (_as_meant(arguments.get(name), {"type": "integer"}, name) for name in ("offset", "end"))
    if "end" in arguments and "limit" not in arguments and isinstance(last, int | None):
        if last in (None, -1):
            del arguments["end"]
        elif isinstance(first, int | None) and last >= max(first or 1, 1):
            del arguments["end"]
            arguments["limit"] = last - max(first or 1, 1) + 1
    return arguments


def _edit_arguments(arguments: Arguments) -> Arguments:
    """One edit given without a list, and blocks of SEARCH and REPLACE, as the list of edits."""
    arguments = dict(arguments)
    content = arguments.get("content")
    if "edits" not in arguments and isinstance(content, str) and (blocks := _BLOCK.findall(content)):
        del arguments["content"]
        arguments["edits"] = [{"old": old, "new": new} for old, new in blocks]
    parts = ("old", "new", "all", *other_agents.EDIT_PARTS)
    given = {name: arguments.pop(name) for name in parts if name in arguments} if "edits" not in arguments else {}
    if given:
        arguments["edits"] = [given]
    edits = _as_meant(arguments.get("edits"), _OBJECTS, "edits")
    if isinstance(edits, list):
        arguments["edits"] = [_edit_parts(edit) if isinstance(edit, dict) else edit for edit in edits]
    return arguments


def _edit_parts(edit: Arguments) -> Arguments:
    named = {other_agents.EDIT_PARTS.get(name, name): value for name, value in edit.items()}
    if len(named) != len(edit):
        return edit
    return {key: value for key, value in named.items() if not _says_nothing("edit", key, value)}


def _grep_arguments(arguments: Arguments) -> Arguments:
    """Options of grep and ripgrep as codelet's own. Lines on one side count for both: that shows no less.

    A `before` that is true or false is another thing: a review's, for the files before the change.
    """
    arguments = dict(arguments)
    sides = tuple(name for name in ("after", "before") if not isinstance(arguments.get(name), bool))
    around = [
        number
        for name in ("around", *sides)
        if isinstance(number := _as_meant(arguments.get(name), {"type": "integer"}, name), int)
    ]
    if around and not arguments.keys().isdisjoint(sides):
        arguments = {key: value for key, value in arguments.items() if key not in sides}
        arguments["around"] = max(around)
    exact = _as_meant(arguments.get("case_sensitive"), {"type": "boolean"}, "")
    if isinstance(exact, bool) and "ignore_case" not in arguments:
        del arguments["case_sensitive"]
        arguments["ignore_case"] = not exact
    literal = _as_meant(arguments.get("literal"), {"type": "boolean"}, "")
    if isinstance(literal, bool) and isinstance(pattern := arguments.get("pattern"), str):
        del arguments["literal"]
        arguments["pattern"] = _REGEX_SIGNS.sub(r"\\\g<0>", pattern) if literal else pattern
    kind, exclude = arguments.get("type"), arguments.get("exclude")
    if "glob" not in arguments and isinstance(kind, str) and kind in other_agents.FILE_TYPES and exclude is None:
        arguments["glob"] = other_agents.FILE_TYPES[arguments.pop("type")]
    elif "glob" not in arguments and kind is None and isinstance(exclude, str) and exclude:
        arguments["glob"] = f"!{arguments.pop('exclude')}"
    if arguments.get("limit") in (0, "0"):  # elsewhere 0 means no limit
        arguments["limit"] = 1000
    return arguments


def _plan_arguments(arguments: Arguments) -> Arguments:
    """A list of steps with their status as the lines of a plan, and its goal above them."""
    goal = arguments.get("goal")
    if isinstance(goal, str):
        arguments = {name: value for name, value in arguments.items() if name != "goal"}
        if isinstance(arguments.get("plan"), str):
            return {**arguments, "plan": f"{goal}\n{arguments['plan']}"}
    steps = _as_meant(arguments.get("plan"), {"type": "array"}, "")
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        return arguments
    lines = [goal] if isinstance(goal, str) else []
    for step in steps:
        text = next((step[name] for name in ("step", "content", "description", "title", "task") if name in step), None)
        if not isinstance(text, str):
            return arguments
        status = str(step.get("status")).lower().replace("_", "")
        if status != "cancelled":
            result = f": {step['result']}" if isinstance(step.get("result"), str) else ""
            lines.append(f"[{_STEP_MARKS.get(status, ' ')}] {text}{result}")
    return {**arguments, "plan": "\n".join(lines)}


_READERS = {
    "bash": _bash_arguments,
    "read": _read_arguments,
    "edit": _edit_arguments,
    "grep": _grep_arguments,
    "plan": _plan_arguments,
}


def _in_seconds(arguments: Arguments) -> Arguments:
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


def _as_meant(value: object, schema: object, key: str) -> object:
    """Return a value in the type that its schema names, if what was sent can only mean that."""
    form = schema if isinstance(schema, Mapping) else {}
    kind = form.get("type")
    if isinstance(value, str) and kind in ("integer", "number", "array", "object"):
        read = arguments_in(value)
        value = read if isinstance(read, int | float | list | dict) and not isinstance(read, bool) else value
    if kind == "boolean" and isinstance(value, str):
        return _BOOLEANS.get(value.strip().lower(), value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind == "array":
        return _items(value, form.get("items"), key)
    if kind == "object" and isinstance(value, dict) and isinstance(parts := form.get("properties"), Mapping):
        return {name: _as_meant(part, parts.get(name), name) for name, part in value.items()}
    return value


def _items(value: object, schema: object, key: str) -> object:
    """Return an array's items: a single object counts as a list, as does a list inside an object under the array's
    name.
    """
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
