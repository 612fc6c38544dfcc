"""A tool: a typed async function that the model can call.

The docstring is the description that the model reads, the annotations become the JSON schema of the
arguments. The schema is made here, by hand, from the few types that tools use: a library that does more
costs more than the whole start of codelet.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NotRequired,
    Protocol,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

from codelet.errors import ToolError
from codelet.messages import Arguments as Arguments
from codelet.messages import JsonSchema
from codelet.record import Newest, Record
from codelet.safety.verdict import Touch

if TYPE_CHECKING:
    from codelet.call_record import CommandEnd, FileFact
    from codelet.messages import Picture
    from codelet.system.process.shell_start import ResourceLimits
    from codelet.tools.change import Change
    from codelet.tools.seen import ShownLines

_OUTPUTS_KEPT = 64
"""Texts of searches and commands that are kept to look names up in."""

_SCALARS: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_WRITTEN: dict[Any, type] = {"str | None": str} | {kind.__name__: kind for kind in _SCALARS}
"""Types of arguments as `from __future__ import annotations` leaves them: as text."""


class ToolOutput(Record):
    """The output of a tool: `text` for the model and, if it differs, `display` for the user.

    `failed` marks an expected failure that still has output, such as a command with a non-zero exit. `lines` are the
    file's lines that `text` shows: they count as shown once the text has reached the model unchanged. Of a text of more
    than `most` characters head and tail enter the list; the rest can be recalled. `counted` is the unit of a line of
    `text`, such as `file`: the user sees their number instead of the text. `images` are shown to the model with it.
    `caveat` is a short warning to the user about a call that succeeded.

    `files` are the paths that the call read, listed, searched or wrote, for its record: absolute, or relative to the
    workspace. None means those that `touches` declares. `ended` says how its command ended, `blocked` that it failed
    because its sandbox is read-only.
    """

    text: str
    display: str | None = None
    failed: bool = False
    lines: ShownLines | None = None
    most: int | None = None
    counted: str = ""
    images: Sequence[Picture] = ()
    caveat: str = ""
    files: Sequence[FileFact] | None = None
    ended: CommandEnd | None = None
    blocked: bool = False


class BackgroundTasks(Protocol):
    """The commands that continue while the model does other things."""

    async def start(
        self, command: str, argv: Sequence[str], context: ToolContext, own: Mapping[str, str]
    ) -> ToolOutput:
        """Start a command in the background: what it has printed after a moment. Raises ToolError.

        `argv` are the words that run it, `own` is its environment.
        """

    async def control(self, command: str, seconds: float, progress: Progress) -> ToolOutput:
        """Show, wait for or end tasks, as a command says that `is_control` knows. Raises ToolError."""


def _takes_pictures() -> bool:
    return True


class ToolContext(Record):
    """The resources of a running tool. One per session; `seen` belongs to the file tools.

    `seen` maps a resolved path to the fingerprint (size, mtime in ns) it had when the model last read or wrote it;
    `contents` has a digest of its bytes then; `lines` says which of its lines the model was shown or wrote, `outputs`
    when each of the last searches and commands began, and their output. `environment` is that of child processes, None
    for the process's own without secrets. `place` is the target of one call's path, as the policy judged it: it is not
    resolved again. `change` is the call's planned and, if needed, approved change of a file. `wrap_command` returns the
    words and the environment that run a shell command, in a sandbox if it needs one, `wrap_lasting` those of a command
    that continues in the background. `sandbox_note` describes what the sandbox prevents, `home_note` what it hides of
    the home, and `write_note` what to do if a command failed to write, as `kept_from_writing` tells from its output.
    `tasks` gives the session's commands in the background. `resources` is the bound on each command. `sees` says
    whether the model takes images.
    """

    workspace: Path
    environment: dict[str, str] | None
    seen: dict[Path, tuple[int, int]]
    lines: dict[Path, ShownLines]
    contents: dict[Path, tuple[tuple[int, int], bytes]]
    outputs: list[tuple[int, str]]
    place: Path | None = None
    change: Change | None = None
    wrap_command: Callable[[str, Mapping[str, str]], Sequence[str]] | None = None
    wrap_lasting: Callable[[str, Mapping[str, str]], Sequence[str]] | None = None
    tasks: Callable[[], BackgroundTasks] | None = None
    sandbox_note: str = ""
    home_note: str = ""
    write_note: str = ""
    kept_from_writing: Callable[[str], bool] | None = None
    resources: ResourceLimits = types.MappingProxyType({})
    sees: Callable[[], bool] = _takes_pictures

    def __init__(self, workspace: Path, environment: dict[str, str] | None = None, **more: Any) -> None:
        outputs = Newest[tuple[int, str]](_OUTPUTS_KEPT)
        fresh = {"seen": {}, "lines": {}, "contents": {}, "outputs": outputs}
        super().__init__(workspace, environment, **(fresh | more))

    def saw(self, lines: ShownLines) -> None:
        """The model was shown these lines, or wrote them."""
        self.lines[lines.path] = lines.joined(self.lines.get(lines.path))

    def touched(self, path: Path, current: tuple[int, int]) -> None:
        """The file has another time stamp and the same bytes: what was shown of it holds."""
        known = self.lines.get(path)
        if known is not None and known.fingerprint == self.seen.get(path):
            self.lines[path] = known.replace(fingerprint=current)
        self.contents[path] = (current, self.contents[path][1])
        self.seen[path] = current

    def list_changed(self, *, body: bool) -> None:
        """The list may no longer hold what was shown: the model has to read a file again to replace it."""
        if body:
            self.lines.clear()
            self.outputs.clear()


Progress = Callable[[str], None]


class Preview(Record):
    """What the user approves: `text`, and `asks`, the action in a few words (`search src for`).

    `change` is a planned change of a file: its difference is shown instead of the text, and after a yes that very
    change reaches `run` as `context.change`.
    """

    text: str = ""
    asks: str = ""
    change: Change | None = None


def all_arguments(arguments: Arguments) -> str:
    """Return what a call is about, where its tool does not say: every argument with its name."""
    return " ".join(f"{name}={value}" for name, value in arguments.items())


class Tool(Record):
    """One tool: `run(context, progress, **arguments)` is awaited with arguments that fit `parameters`.

    `touches` says what a call with such arguments reads, lists, writes or runs. A call without touches uses only this
    process's memory and runs without asking; if `touches` is None, every call is asked about. A command runs as
    `context.wrap_command` gives it: the verdict counts on that. `title` describes a call to users, without the tool's
    name; it gets what the model sent, checked or not. Front ends make one line of it, clean it and cut it. `preview` is
    called in a thread, before a question and before each call that writes: it raises ToolError if the call cannot be
    done. Without it users see the commands, or the title. `check` returns the arguments as `run` takes them, or raises
    ToolError; without it `parameters` can be any JSON Schema. `alone` says that no other call of the step may run at
    the same time, though this one writes no file. `source` says whose tool it is, if it is not codelet's own: "the MCP
    server github". `stands_for` turns a call into the call of another tool that it asks for: that one is judged, shown,
    recorded and run. It raises ToolError if no such tool exists. `close` is awaited at the end of a session that got
    the tool in `extra_tools`. Each of these gets a copy of the arguments: changes to it have no effect on the run.
    """

    name: str
    description: str
    parameters: JsonSchema
    run: Callable[..., Awaitable[ToolOutput]]
    touches: Callable[[Arguments], Sequence[Touch]] | None = None
    title: Callable[[Arguments], str] = all_arguments
    preview: Callable[[ToolContext, Arguments], Preview] | None = None
    check: Callable[[Arguments], Arguments] | None = None
    alone: Callable[[Arguments], bool] | None = None
    source: str = ""
    stands_for: Callable[[Arguments], tuple[Tool, Arguments]] | None = None
    close: Callable[[], Awaitable[None]] | None = None

    def checked(self, arguments: object) -> Arguments:
        """The arguments as `run` can take them; raises ToolError that tells the model what is wrong."""
        if not isinstance(arguments, dict):
            raise ToolError(f"{self.name}: the arguments must be a JSON object")
        arguments = self.understood(arguments)
        if self.check is not None:
            return copied(self.check(copied(arguments)))
        from codelet.tools.call_arguments import check_foreign

        return check_foreign(self.name, self.parameters, arguments)

    def understood(self, arguments: Arguments) -> Arguments:
        """The arguments under the tool's own names and in its types, unchecked. See `call_forms`."""
        from codelet.tools.call_forms import understood

        return understood(self.name, self.parameters, arguments, own=self.check is not None)

    def touched(self, arguments: Arguments) -> tuple[Touch, ...] | None:
        """Return what a call touches; None if no one knows: no `touches`, or arguments that it cannot take."""
        try:
            return None if self.touches is None else tuple(self.touches(copied(arguments)))
        except (LookupError, TypeError, ValueError, AttributeError):
            return None

    def about(self, arguments: Arguments) -> str:
        """The title, or all arguments where they are not of the form that it needs."""
        try:
            return self.title(copied(arguments))
        except (LookupError, TypeError, ValueError, AttributeError):
            return all_arguments(arguments)

    def previewed(self, context: ToolContext, arguments: Arguments) -> Preview:
        """Return what the user approves, as the tool describes it; None if it does not. Raises ToolError."""
        return Preview() if self.preview is None else self.preview(context, copied(arguments))

    def schema(self) -> JsonSchema:
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        }


def copied(arguments: Arguments) -> Arguments:
    """The arguments with everything in them again."""
    from copy import deepcopy

    return deepcopy(arguments)


def in_memory(arguments: Arguments) -> tuple[Touch, ...]:
    """Return what a call touches that works on nothing but this process's memory."""
    return ()


_Function = Callable[..., Awaitable[ToolOutput]] | Callable[..., Awaitable[str]]
_Form = tuple[str, JsonSchema, Callable[[Arguments], Arguments] | None]
"""A tool's description, its parameters, and the check of its arguments."""
_FORMS: dict[tuple[object, ...], _Form] = {}


@overload
def tool(
    function: _Function,
    *,
    touches: Callable[[Arguments], Sequence[Touch]] | None = in_memory,
    title: Callable[[Arguments], str] = all_arguments,
    preview: Callable[[ToolContext, Arguments], Preview] | None = None,
    close: Callable[[], Awaitable[None]] | None = None,
) -> Tool: ...


@overload
def tool(
    *,
    touches: Callable[[Arguments], Sequence[Touch]] | None = in_memory,
    title: Callable[[Arguments], str] = all_arguments,
    preview: Callable[[ToolContext, Arguments], Preview] | None = None,
    close: Callable[[], Awaitable[None]] | None = None,
) -> Callable[[_Function], Tool]: ...


def tool(
    function: _Function | None = None,
    *,
    touches: Callable[[Arguments], Sequence[Touch]] | None = in_memory,
    title: Callable[[Arguments], str] = all_arguments,
    preview: Callable[[ToolContext, Arguments], Preview] | None = None,
    close: Callable[[], Awaitable[None]] | None = None,
) -> Tool | Callable[[_Function], Tool]:
    """Make a Tool of an async function that returns a text or a ToolOutput; a decorator, with or without arguments.

    The function's parameters are the model's; a function that begins with `context, progress` gets these as `Tool.run`
    does. The description is the docstring's text, the arguments' are at its end, as `described` reads them. Without
    `touches` the tool is taken to work in memory only and runs without asking; with `touches=None` every call is asked
    about. `close` is awaited when the session ends. Raises TypeError for a function that cannot become a tool.
    """
    if function is None:
        return partial(tool, touches=touches, title=title, preview=preview, close=close)
    taken, run = _taken(function)
    text, parameters, check = _form(function, taken)
    return Tool(function.__name__, text, parameters, run, touches, title, preview, check, close=close)


def _form(function: _Function, taken: Mapping[str, bool]) -> _Form:
    """Return the description, the parameters and the check, made once for all closures of one function."""
    key = getattr(function, "__code__", None), function.__doc__, tuple(function.__annotations__.items())
    try:
        if (known := _FORMS.get(key)) is not None:
            return known
    except TypeError:  # an annotation without a hash
        return _new_form(function, taken)
    form = _new_form(function, taken)
    if key[0] is not None:
        _FORMS[key] = form
    return form


def _new_form(function: _Function, taken: Mapping[str, bool]) -> _Form:
    name, hints = function.__name__, _hints(function, taken)
    properties: dict[str, Any] = {}
    text, meanings = described(inspect.getdoc(function) or "", list(taken))
    for argument in taken:
        if argument not in hints:
            raise TypeError(f"{name}: the argument {argument!r} has no type")
        properties[argument] = _schema_of(hints[argument]) | meanings.get(argument, {})
    parameters: JsonSchema = {"type": "object", "properties": properties}
    if required := [argument for argument, has_default in taken.items() if not has_default]:
        parameters["required"] = required
    check = partial(_check_own, name, parameters) if _is_plain(parameters) else None
    if check is None:  # its JSON Schema says all that may come
        parameters["additionalProperties"] = False
    return text, parameters, check


def _taken(function: _Function) -> tuple[dict[str, bool], Callable[..., Awaitable[ToolOutput]]]:
    """The arguments that the model gives, each with whether it may be left out, and what is awaited with them."""
    name = getattr(function, "__name__", repr(function))
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{name}: a tool is an async function")
    parameters = dict(inspect.signature(function).parameters)
    takes_context = list(parameters)[:2] == ["context", "progress"]
    if takes_context:
        del parameters["context"], parameters["progress"]
    for parameter in parameters.values():
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise TypeError(f"{name}: {parameter} cannot be an argument of a tool: each needs its own name")

    async def run(context: ToolContext, progress: Progress, **arguments: object) -> ToolOutput:
        output = await (function(context, progress, **arguments) if takes_context else function(**arguments))
        if isinstance(output, str):
            return ToolOutput(output)
        if not isinstance(output, ToolOutput):
            raise TypeError(f"it gave no text but {type(output).__name__}")
        return output

    return {each.name: each.default is not inspect.Parameter.empty for each in parameters.values()}, run


def _hints(function: _Function, taken: Iterable[str]) -> Mapping[str, object]:
    """The types of the arguments. Common ones are not compiled: every start would pay for it."""
    written = function.__annotations__
    common = {argument: _WRITTEN[written[argument]] for argument in taken if written.get(argument) in _WRITTEN}
    return common if common.keys() == set(taken) else get_type_hints(function)


def _check_own(name: str, parameters: JsonSchema, arguments: Arguments) -> Arguments:
    from codelet.tools.call_arguments import check_own  # nothing is checked before the first call

    return check_own(name, parameters, arguments)


def described(text: str, names: Sequence[str]) -> tuple[str, dict[str, dict[str, str]]]:
    """Return a tool's description, and what the end of the text says of each argument: `{"description": …}`.

    An argument begins a line with `name: `; the lines after it that are indented further belong to it. The last
    paragraph before them may be `Arguments:` alone.
    """
    lines = text.splitlines()
    meanings: dict[str, dict[str, str]] = {}
    end = place = len(lines)
    while place:
        place -= 1
        line = lines[place]
        name, colon, _ = line.strip().partition(": ")
        if colon and name in names:
            meanings[name] = {"description": " ".join(" ".join(lines[place:end]).split()).removeprefix(f"{name}: ")}
            end = place
        elif not line.startswith(" "):
            break
    return " ".join(" ".join(lines[:end]).removesuffix("Arguments:").split()), meanings


def _schema_of(hint: object) -> JsonSchema:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if origin in (Union, types.UnionType):
        parts = [_schema_of(part) for part in arguments if part is not type(None)]
        return parts[0] if len(parts) == 1 else {"anyOf": parts}
    if origin is Literal:
        kinds = {_SCALARS.get(type(each), "") for each in arguments}
        return ({"type": kind} if len(kinds) == 1 and (kind := kinds.pop()) else {}) | {"enum": list(arguments)}
    if list in (hint, origin):
        return {"type": "array"} | ({"items": _schema_of(arguments[0])} if arguments else {})
    if dict in (hint, origin):
        return {"type": "object"} | ({"additionalProperties": _schema_of(arguments[1])} if arguments else {})
    if hint is Any:
        return {}
    if is_typeddict(hint):
        _, meanings = described(inspect.getdoc(hint) or "", list(get_type_hints(hint)))
        fields = {name: _schema_of(part) | meanings.get(name, {}) for name, part in get_type_hints(hint).items()}
        # __required_keys__ does not see NotRequired where annotations are strings.
        marked = get_type_hints(hint, include_extras=True).items()
        required = [name for name, part in marked if get_origin(part) is not NotRequired]
        return {"type": "object", "properties": fields, "required": required}
    told = "str, int, float, bool, list, dict, Any, Literal, unions and TypedDicts have one"
    raise TypeError(f"no schema for the argument type {hint!r}: {told}; Tool(…, parameters=…) takes any JSON Schema")


def _is_plain(schema: JsonSchema) -> bool:
    """Return whether a schema is of the form of codelet's own tools, which is checked without a library."""
    match schema.get("type"):
        case "array":
            return "items" in schema and _is_plain(schema["items"])
        case "object":
            return all(map(_is_plain, schema["properties"].values())) if "properties" in schema else False
        case kind:
            return kind == "string" if "enum" in schema else kind is not None
