"""The Python API: a session, or one prompt, from a program. The names are `codelet`'s own: `from codelet import run`.

Nothing is written but what a tool writes that was allowed to, and what an argument names (`export`, `facts`, `log`, …).
No settings file is read, and of the variables only those that hold keys, addresses of vendors and the like, as for the
command line.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelet.errors import CodeletError, ExportError, UsageError
from codelet.events import Event
from codelet.extensions.base import Extension
from codelet.loop.meter import SharedLimits
from codelet.loop.session import Session
from codelet.messages import Message
from codelet.opening import reserved_for, session_from, turn_of
from codelet.outcome import TurnProgress
from codelet.record import Record
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Ask, Mode
from codelet.setting_kinds import ChosenValues
from codelet.settings import SETTINGS, Settings, spelled_out
from codelet.system.text import one_line
from codelet.tools.tool import Tool
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.export.live import LiveExport, Reserved


_PLACES = ("export", "resume", "snapshots", "facts", "memory", "log", "record")
"""Settings that name a file or a folder; a relative path is one in the current folder of the process."""


class Result(Record):
    """The result of one prompt: the answer's `text`, and `exit`, the status with which the command line would end.

    `error` says what went wrong, if anything; `partial` that the answer was cut short. `usage` and `cost`, in US
    dollars, are None if they were not reported. `messages` is the conversation. `structured_output` is the value of an
    answer that meets `json_schema`, None if there is none.
    """

    text: str
    exit: int
    error: str | None
    partial: bool
    usage: Usage | None
    cost: float | None
    messages: tuple[Message, ...]
    structured_output: Any = None

    def __repr__(self) -> str:
        ended = f"error={self.error!r}" if self.error is not None else f"text={one_line(self.text, 60)!r}"
        messages = f"{len(self.messages)} message{'' if len(self.messages) == 1 else 's'}"
        return f"Result(exit={self.exit}, {ended}, cost={self.cost}, {messages})"


@asynccontextmanager
async def open_session(
    *,
    model: str,
    workspace: str | os.PathLike[str] = ".",
    api_base: str | None = None,
    mode: Mode = "ask",
    ask: Ask | None = None,
    tools: Sequence[str] | None = None,
    extra_tools: Sequence[Tool] = (),
    extensions: Sequence[Extension] = (),
    resume: str | os.PathLike[str] | None = None,
    ask_rules: Sequence[str] = (),
    shared: SharedLimits | None = None,
    **settings: Any,
) -> AsyncGenerator[Session, None]:
    """Open a session for an `async with` block, at whose end it is closed.

    `model` is named as on the command line, `workspace` is the folder to work in. `ask` is awaited with each Question
    and gives an Answer; without it what would be asked is refused. `tools` names those of codelet's own that the model
    is to have, all of them without it; `extra_tools` come on top. `ask_rules` are those of `--ask`. `shared` limits
    this session and others together. The other `settings` are those of the command line by name, `max_turns=5` or
    `deny=["bash(git push *)"]`.

    `resume` is an export to continue with; `export` saves the session after every step and at the end of the block, and
    is locked from the beginning, after at most `wait` seconds. Both may be one file, which need not be there yet.
    `facts`, `memory`, `log`, `snapshots` and `record` are as on the command line. Raises UsageError for what is
    wrong in them, and ExportError at the end of the block if the newest state is not saved.
    """
    settings |= {"model": model, "api_base": api_base, "mode": mode, "tools": tools, "ask": ask_rules, "resume": resume}
    chosen = _settings_of(({} if shared is None else shared.alone) | settings)
    settings.clear()  # an open session holds what this function does
    for each in _listed("extensions", extensions):
        if not isinstance(each, Extension):
            raise UsageError(f"extensions: {_name_of(each)} is no Extension; give an object, not a class")
    brought = (*([_Extra(extra_tools)] if extra_tools else ()), *extensions)
    masker = _masker(chosen.api_key or "", tuple(os.environ.items()))
    reserved = await reserved_for(chosen)
    session: Session | None = None
    try:
        async with reserved or nullcontext():
            session = await session_from(
                chosen, _folder(workspace), ask=ask, extensions=brought, masker=masker, reserved=reserved
            )
            session.meter.shared = shared
            export = None if reserved is None else await _saved_along(session, chosen, reserved)
        async with _saved_at_the_end(export):
            yield session
    finally:
        if session is not None:
            await session.close()


@asynccontextmanager
async def _saved_at_the_end(export: LiveExport | None) -> AsyncGenerator[None, None]:
    """Save for the last time. After an error in the block, what fails then is only noted on that error."""
    try:
        yield
    except BaseException as error:
        if export is not None:
            try:
                await export.close()
            except CodeletError as unsaved:
                error.add_note(str(unsaved))
        raise
    if export is not None:
        await export.close()


async def _saved_along(session: Session, settings: Settings, reserved: Reserved) -> LiveExport:
    """An export that sees what the session does; what is to be said of it becomes a Note."""
    from codelet.export.live import LiveExport

    export = await LiveExport.begin(session, settings, reserved, notices=session.notices)
    others = session.watch

    def see(event: Event) -> None:
        others(event)
        export.see(event)

    session.watch = see
    return export


async def run(prompt: str, *, model: str, **options: Any) -> Result:
    """Return the answer to one prompt. `options` are those of `open_session`; `json_schema` is a schema that the answer
    has to meet, or the name of its file.

    Raises UsageError for wrong options; any other failure is in the result.
    """
    if not isinstance(prompt, str):
        raise UsageError(f"the prompt must be a text, not {type(prompt).__name__}")
    if not prompt.strip():
        raise UsageError("the prompt is empty")
    turn = TurnProgress(time.monotonic())
    session: Session | None = None
    error: CodeletError | None = None
    unsaved: CodeletError | None = None
    try:
        async with open_session(model=model, **options) as session, aclosing(turn_of(session, prompt)) as stream:
            session.upkeep.unseen = True
            async for event in stream:
                turn.see(event)
            turn.is_over = True
    except UsageError as caught:
        if not (turn.is_over and isinstance(caught, ExportError)):
            raise
        unsaved = caught
    except CodeletError as caught:
        error = caught
    allow_cut = SETTINGS["allow_cut"].parse(options.get("allow_cut", False))
    came_to = turn.outcome(session, error, model=model, allow_cut=allow_cut, unsaved=unsaved)
    return Result(
        text=came_to.result,
        exit=came_to.exit_status,
        error=came_to.error,
        partial=came_to.partial,
        usage=came_to.usage if came_to.usage.known else None,
        cost=came_to.cost if came_to.usage.known else None,
        messages=tuple(session.messages) if session is not None else (),
        structured_output=came_to.structured[0] if came_to.structured else None,
    )


def _settings_of(named: Mapping[str, object]) -> Settings:
    """The settings of `open_session`, with the files that they name in full."""
    if named.get("history") is not None:
        raise UsageError("history: only a session in a terminal has one")
    return settings_from({**named, **{name: _place(named[name]) for name in _PLACES if named.get(name) is not None}})


def settings_from(values: Mapping[str, object], environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings that a caller in Python gives by name, None for what is not set. Raises UsageError.

    No file and no variable counts but `CODELET_API_KEY`, where the key is not given.
    """
    key = SETTINGS["api_key"]
    given = {key.name: environment.get(key.variable) or None, **values}
    given = {name: value for name, value in given.items() if value is not None}
    chosen = ChosenValues(SETTINGS)
    for name, value in given.items():
        chosen.take(name, value, name)
    return spelled_out(Settings(**chosen.values, given=frozenset(given)))


def _folder(workspace: str | os.PathLike[str]) -> Path:
    try:
        folder = Path(workspace).resolve()
    except (TypeError, ValueError) as error:
        raise UsageError(f"workspace: must be a path: {error}") from None
    if not folder.is_dir():
        raise UsageError(f"workspace: {folder} is no folder")
    return folder


@lru_cache(maxsize=8)
def _masker(api_key: str, environment: tuple[tuple[str, str], ...]) -> Masker:
    """Return what keeps secrets from the model and from files; one for all sessions with the same secrets."""
    return Masker(dict(environment), [("api_key", api_key)])


def _place(value: object) -> str:
    """Return a full path; an address stays unchanged."""
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"must be a path, not {type(value).__name__}")
    text = os.fspath(value)
    return text if "://" in text else os.path.abspath(os.path.expanduser(text))


class _Extra(Extension):
    """An extension with a caller's single tools."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        if wrong := next((each for each in _listed("extra_tools", tools) if not isinstance(each, Tool)), None):
            raise UsageError(f"extra_tools: {_name_of(wrong)} is not a Tool; put @tool before it")
        self.tools = tools

    @property
    def label(self) -> str:
        """The tools, as messages name them."""
        return "extra_tools"

    async def close(self) -> None:
        """Close each tool, whatever happens to the others."""
        async with AsyncExitStack() as ending:
            for each in self.tools:
                if each.close is not None:
                    ending.push_async_callback(each.close)


def _listed(name: str, values: Sequence[object]) -> Sequence[object]:
    if not isinstance(values, Sequence):
        raise UsageError(f"{name}: must be a list, not {type(values).__name__}")
    return values


def _name_of(value: object) -> str:
    return str(getattr(value, "__name__", value))
