"""The base classes of extensions: tools, reminders, guards around calls, commands, and keys of the export.

An extension is passed to `Session(extensions=…)`; there is no discovery. It uses the session through `SessionView`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from os.path import isdir
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from codelet import prompt
from codelet.context.reminders import Source
from codelet.errors import CodeletError, ToolError, UsageError
from codelet.record import Record
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Touch, Verdict, VerdictAction
from codelet.tools.tool import Arguments, Tool, ToolOutput, copied

if TYPE_CHECKING:
    from codelet.extensions.session_view import ExtensionSettings, FindPassages, SessionView

Noted = Literal["verdict", "approval", "change", "execution"]

AwaitedValue = TypeVar("AwaitedValue")

_CLOSE_SECONDS = 5.0
"""The time limit of `Extension.close`."""
_STRICTNESS: tuple[VerdictAction, ...] = ("allow", "ask", "deny")


class GuardedCall(Record):
    """A call as guards see it. Each guard gets a copy of the arguments, so changing them has no effect.

    `tool` is None if the model named an unknown tool. `touches` is None if the tool does not declare them, `title`
    describes the call to the user. `verdict` is None before the policy has judged the call. `ran` is true once the
    tool has run, even if it failed.
    """

    id: str
    name: str
    arguments: Arguments
    tool: Tool | None = None
    touches: tuple[Touch, ...] | None = None
    title: str = ""
    verdict: Verdict | None = None
    ran: bool = False

    def with_arguments(self, arguments: Arguments) -> Self:
        """Return the call with other arguments, and with its tool's touches and title for them."""
        if self.tool is None:
            return self.replace(arguments=arguments)
        touches, title = self.tool.touched(arguments), self.tool.about(arguments)
        return self.replace(arguments=arguments, touches=touches, title=title)

    def copied(self) -> Self:
        return self.replace(arguments=copied(self.arguments))

    @property
    def described(self) -> str:
        """The tool's name and the call's title."""
        return f"{self.name} {self.title}".strip()


class Guard:
    """Code that runs before and after every call, in the order of the extensions.

    `before` runs twice for each call. The first time `call.verdict` is None and the arguments are unchecked; the guard
    can return other arguments. The second time the arguments are final and `call.verdict` is the policy's; the guard
    can return a stricter verdict. Each return value is ignored at the other time. A guard that raises refuses the call,
    with the text of a ToolError as the reason.

    Guards also run in subsessions, such as those of `/review`, unless `in_subsessions` is False.
    """

    in_subsessions = True

    async def before(self, call: GuardedCall) -> Verdict | Arguments | None:
        """Return other arguments, a verdict, or None for no opinion."""
        return None

    async def starting(self, call: GuardedCall) -> None:
        """Run right before the call, after all decisions. A ToolError keeps the call from running."""

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """Return the output of a call, changed or not. Errors and refusals are outputs too."""
        return output

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Record a call's verdict, the user's answer, its change of a file, or its end.

        A CodeletError ends the turn: use it if nothing may continue unrecorded.
        """


class Guards:
    """All guards of a session. Outputs are masked after `guards`; `closing` run last and may only shorten them."""

    def __init__(self, masker: Masker, guards: Sequence[Guard] = (), closing: Sequence[Guard] = ()) -> None:
        self.masker = masker
        self._guards = guards
        self._closing = closing

    async def rewritten(self, call: GuardedCall) -> GuardedCall:
        """Return the call with the guards' arguments. Raises ToolError if a guard refuses it."""
        for guard in _with(self._guards, "before"):
            wanted = await _awaited(guard.before(call.copied()), prompt.GUARD_BROKE)
            call = call.with_arguments(copied(wanted)) if isinstance(wanted, dict) else call
        return call

    async def judged(self, call: GuardedCall) -> Verdict | None:
        """Return the strictest verdict of the guards on the final arguments, or None."""
        found: Verdict | None = None
        for guard in _with(self._guards, "before"):
            try:
                wanted = await _awaited(guard.before(call.copied()), prompt.GUARD_BROKE)
            except ToolError as error:
                wanted = Verdict("deny", "execute", str(error))
            if isinstance(wanted, Verdict):
                found = wanted if found is None else stricter(found, wanted)
        return found

    async def starting(self, call: GuardedCall) -> None:
        """Run the guards' `starting`. Raises ToolError if one refuses."""
        for guard in _with((*self._guards, *self._closing), "starting"):
            await _awaited(guard.starting(call.copied()), prompt.GUARD_BROKE)

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """Return the output of a call after all guards, masked."""
        output = await _through(self._guards, call, output)
        mask = self.masker.mask
        display = None if output.display is None else mask(output.display)
        return await _through(
            self._closing, call, output.replace(text=mask(output.text), display=display, counted=mask(output.counted))
        )

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Run the guards' `record`. Raises CodeletError if one fails."""
        for guard in _with((*self._guards, *self._closing), "record"):
            try:
                guard.record(kind, call.copied(), **facts)
            except CodeletError:
                raise
            except Exception as error:
                problem = self.masker.mask(f"{type(error).__name__}: {error}")
                raise CodeletError(f"{type(guard).__name__} could not record a call: {problem}") from error


def _with(guards: Iterable[Guard], moment: str) -> list[Guard]:
    """Return the guards that override this method; the others need no copy of the arguments."""
    return [guard for guard in guards if getattr(type(guard), moment) is not getattr(Guard, moment)]


async def _awaited(work: Awaitable[AwaitedValue], broke: str) -> AwaitedValue:
    """Await a guard; any error of it is a ToolError."""
    try:
        return await work
    except ToolError:
        raise
    except Exception as error:
        raise ToolError(broke.format(problem=f"{type(error).__name__}: {error}")) from error


async def _through(guards: Sequence[Guard], call: GuardedCall, output: ToolOutput) -> ToolOutput:
    for guard in _with(guards, "after"):
        try:
            output = await _awaited(guard.after(call.copied(), output), prompt.ANSWER_GUARD_BROKE)
        except ToolError as error:
            output = ToolOutput(str(error), failed=True)
    return output


def stricter(verdict: Verdict, wanted: Verdict) -> Verdict:
    """Return the stricter verdict. Neither a rule nor a mode answers a guard's question or lifts its denial."""
    lifts = verdict.person_may and wanted.action == "deny"  # the user cannot permit what a guard denies
    if not lifts and _STRICTNESS.index(wanted.action) <= _STRICTNESS.index(verdict.action):
        return verdict
    return Verdict(wanted.action, verdict.tier, wanted.reason, place=verdict.place)


class Command(Record):
    """A slash command: `/name` in the terminal, or as the prompt of `-p`.

    `run` gets the session and the stripped text after the name. It returns text to show, or the prompt to send if
    `prompts` is set; it raises a one-line CodeletError on failure. `arguments` is the usage, such as `[FILE]`. Run it
    through `Session.run_command`, which masks secrets.
    """

    name: str
    help: str
    run: Callable[[SessionView, str], Awaitable[str]]
    arguments: str = ""
    prompts: bool = False


Named = TypeVar("Named", Tool, Source, Command)
ExtensionClass = TypeVar("ExtensionClass")


def named(what: str, parts: Iterable[Named]) -> dict[str, Named]:
    """Return the parts by name. Raises UsageError for a duplicate; `what` names the kind of part."""
    found: dict[str, Named] = {}
    for part in parts:
        if part.name in found:
            raise UsageError(f"there are two {what}s called {part.name!r}")
        found[part.name] = part
    return found


UNSAID: Any = object()
"""Returned by `ExportPart.save` to keep the value that the file already has."""


class ExportPart(Record):
    """A key of the export that an extension owns.

    `save` returns plain JSON, as a new object if it has changed, or UNSAID. The turn waits for it, so it must be fast.
    If it raises, the user gets a notice and the last saved value stays. `restore` gets a value that fits the JSON
    Schema of `schema`.

    Codelet's own extensions can own a field of the document, such as `plan`. The document has its schema then, and
    `restore` is always called, to replace the previous value.
    """

    key: str
    save: Callable[[], Any]
    restore: Callable[[Any], object]
    schema: Callable[[], Mapping[str, object]] = dict


class OwnFolder(Record):
    """A folder of the user's commands or skills, or of a trusted `project`'s."""

    path: Path
    project: Path | None = None


class OpenedWith(Record, kw_only=True):
    """The inputs of `Extension.from_settings`.

    `profile` is the session's first profile, `search` the search of earlier sessions (`--memory`).
    """

    settings: ExtensionSettings
    profile: object = None
    search: FindPassages | None = None
    workspace: Path | None = None

    def folders(self, kind: Literal["commands", "skills"]) -> list[OwnFolder]:
        """Return the existing folders of this kind: the user's, then a trusted project's."""
        settings, shared = self.settings, (".agents",) if kind == "skills" else ()
        found = [OwnFolder(settings.own_folder / kind)] if settings.own_folder is not None else []
        if settings.home is not None:
            found += [OwnFolder(settings.home / name / kind) for name in (*shared, ".claude")]
        if settings.trusted and (folder := self.workspace) is not None:
            found += [OwnFolder(folder / name / kind, folder) for name in (".codelet", *shared, ".claude")]
            above = [folder, *folder.parents]
            root = next((place for place, each in enumerate(above) if (each / ".git").exists()), 0)
            found += [OwnFolder(each / name / kind, each) for name in shared for each in above[1 : root + 1]]
        return [each for each in found if isdir(each.path)]  # also False for a name that is too long


class Extension:
    """A part of a session. All attributes and methods are optional."""

    tools: Sequence[Tool] = ()
    reminders: Sequence[Source] = ()
    guards: Sequence[Guard] = ()
    commands: Sequence[Command] = ()
    parts: Sequence[ExportPart] = ()
    offers_later = False
    """True if `offered` can return more tools later."""

    @classmethod
    def from_session(cls, session: SessionView) -> Self:
        """Create the extension of a session; `attach` follows."""
        return cls()

    @classmethod
    def from_settings(cls, given: OpenedWith, session: SessionView) -> Self:
        """Create an extension that the settings turn on; `attach` follows. Raises UsageError for a wrong setting."""
        return cls.from_session(session)

    def as_a(self, kind: type[ExtensionClass]) -> ExtensionClass | None:
        """Return the extension if it is of this class, else None."""
        return self if isinstance(self, kind) else None

    @property
    def label(self) -> str:
        """The name of the extension in messages."""
        return type(self).__name__

    @property
    def ends_answers(self) -> bool:
        """Return whether `answer` can return text."""
        return type(self).answer is not Extension.answer

    def offered(self) -> Sequence[Tool]:
        """Return the tools for the next request. New tools are added after the others and stay.

        Between two turns a tool replaces the previous one of its name. A tool that is added or changed after the first
        request invalidates the provider's cache of the whole list.
        """
        return self.tools

    def commands_now(self) -> Sequence[Command]:
        """Return the current commands; more can follow later. The session uses the first command of a name."""
        return self.commands

    def attach(self, session: SessionView) -> None:
        """Take the session; called once, before its first turn."""

    def awaited(self) -> str:
        """Name what the first request should wait for, in a few words; "" for nothing. `prepare` follows."""
        return ""

    async def prepare(self, seconds: float) -> Sequence[str]:
        """Get ready for the first request within `seconds`; called once, if `awaited` names something.

        Returns notices for the user. Work that takes longer can continue in the background.
        """
        return ()

    def reported(self) -> Mapping[str, object]:
        """Return additional keys of the result of `--output-format json`, as plain JSON."""
        return {}

    def status(self) -> str:
        """Return a few words for the status row, or "". Called often."""
        return ""

    def answer(self) -> str:
        """Return text to append to the answer in a front end that only shows answers."""
        return ""

    def ending(self) -> Sequence[str]:
        """Return a line for each thing that ends with the session, such as a running task; called before `close`."""
        return ()

    def clear(self) -> None:
        """Forget what belongs to the conversation, which was cleared."""

    async def prompted(self, text: str) -> str | None:
        """Return context to add to a prompt. A CodeletError refuses the prompt; it is not sent."""
        return None

    async def stopping(self, answer: str) -> str | None:
        """Return why the model must continue after this answer, or None; obeyed a few times per turn."""
        return None

    async def compacting(self, reason: str) -> None:
        """Run before a compaction."""

    async def between_turns(self) -> None:
        """Run after each turn and each `/compact`: ask the user open questions."""

    async def close(self) -> None:
        """Release the extension's resources; called once, at the session's end."""


def offered_by(extensions: Iterable[Extension]) -> list[Tool]:
    """Return all extensions' tools for the next request."""
    return [tool for each in extensions for tool in each.offered()]


def subsession_guards(extensions: Iterable[Extension]) -> tuple[Guard, ...]:
    """Return the guards that also run in subsessions."""
    return tuple(guard for each in extensions for guard in each.guards if guard.in_subsessions)


def extension_of(session: SessionView, kind: type[ExtensionClass]) -> ExtensionClass | None:
    """Return the session's extension of this class, created if necessary, or None."""
    found = (each.as_a(kind) for each in session.extensions if isinstance(each, Extension))
    return next((each for each in found if each is not None), None)


async def end_extension(extension: Extension) -> None:
    """Close an extension. Raises CodeletError if it fails or takes too long."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS) as limit:
            await extension.close()
    except CodeletError:
        raise
    except Exception as error:
        if limit.expired():
            raise CodeletError(f"{extension.label} did not end within {_CLOSE_SECONDS:g} s") from None
        raise CodeletError(f"{extension.label} did not end well: {type(error).__name__}: {error}") from error
