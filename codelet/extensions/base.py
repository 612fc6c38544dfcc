"""Extensions: what a part may bring to a session, each of it optional, and what it may use of that session.

An extension brings tools, reminders, guards that stand before and after each call, commands, and a key of the export.
It is given to `Session(extensions=…)`; nothing is looked for elsewhere. `SessionView` is what it may use of a session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

_CLOSE_SECONDS = 5.0
"""How long an extension may take to end what it opened."""
_STRICTNESS: tuple[VerdictAction, ...] = ("allow", "ask", "deny")


class GuardedCall(Record):
    """A call as guards see it. Each is given a copy of the arguments: to change that in place changes nothing.

    `tool` is None if the model named one that does not exist. `touches` is what the call touches with these
    arguments, None if that is not known, and `title` what it is about, for the user; see `with_arguments`. `verdict` is
    None until the call was judged. `ran` says that its tool was run, to its end or to an error: the answer to a call
    that was not run says why.
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
        """Return the call with other arguments, and with what its tool says of them: the tool is queried only here."""
        if self.tool is None:
            return self.replace(arguments=arguments)
        touches, title = self.tool.touched(arguments), self.tool.about(arguments)
        return self.replace(arguments=arguments, touches=touches, title=title)

    def copied(self) -> Self:
        """Return the call with a copy of its arguments."""
        return self.replace(arguments=copied(self.arguments))

    @property
    def described(self) -> str:
        """The tool's name and what the call is about."""
        return f"{self.name} {self.title}".strip()


class Guard:
    """What stands before and after every call, in the order of the extensions.

    `before` is asked twice about each call. First the arguments are as the model sent them, or as the guards before
    this one left them, unchecked, and `call.verdict` is None: it may return other arguments. Then they are final and
    checked, and `call.verdict` is what the policy says of them: it may return a verdict, which counts where it is
    stricter. What is returned out of its time does not count, so a guard that only does one of the two need not look
    which it is. A guard that raises refuses the call: a ToolError says why.

    It also stands in the sessions that work beside its own, such as those of `/review`, unless `beside` is False: what
    each of these has by itself, or what is about one session's list.
    """

    beside = True

    async def before(self, call: GuardedCall) -> Verdict | Arguments | None:
        """Other arguments, a verdict, or None to let the call be."""
        return None

    async def starting(self, call: GuardedCall) -> None:
        """The call is about to run: nothing decides on it or changes it any more. A ToolError keeps it from running."""

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """The answer to a call, or another one in its place; also asked where it is an error or a refusal."""
        return output

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Take note of what was decided on a call, what a person said, what it changed, and how it ended.

        Raises CodeletError if that cannot be and nothing may continue unseen: it ends the turn.
        """


class Guards:
    """All guards of a session. Secrets go out of every answer behind `guards`; `closing` only leave text out of it."""

    def __init__(self, masker: Masker, guards: Sequence[Guard] = (), closing: Sequence[Guard] = ()) -> None:
        self.masker = masker
        self._guards = guards
        self._closing = closing

    async def rewritten(self, call: GuardedCall) -> GuardedCall:
        """Return the call with the arguments that the guards want. Raises ToolError if one refuses the call."""
        for guard in _with(self._guards, "before"):
            with _told_to_the_model(prompt.GUARD_BROKE):
                wanted = await guard.before(call.copied())
            call = call.with_arguments(copied(wanted)) if isinstance(wanted, dict) else call
        return call

    async def judged(self, call: GuardedCall) -> Verdict | None:
        """The strictest verdict of the guards on a call whose arguments are final, if one has one."""
        found: Verdict | None = None
        for guard in _with(self._guards, "before"):
            try:
                with _told_to_the_model(prompt.GUARD_BROKE):
                    wanted = await guard.before(call.copied())
            except ToolError as error:
                wanted = Verdict("deny", "execute", str(error))
            if isinstance(wanted, Verdict):
                found = wanted if found is None else stricter(found, wanted)
        return found

    async def starting(self, call: GuardedCall) -> None:
        """Tell every guard that the call runs now. Raises ToolError if one keeps it from that."""
        for guard in _with((*self._guards, *self._closing), "starting"):
            with _told_to_the_model(prompt.GUARD_BROKE):
                await guard.starting(call.copied())

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """The answer to a call as the list and everybody may see it."""
        output = await _through(self._guards, call, output)
        mask = self.masker.mask
        display = None if output.display is None else mask(output.display)
        return await _through(
            self._closing, call, output.replace(text=mask(output.text), display=display, counted=mask(output.counted))
        )

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Have every guard take note. Raises CodeletError if one cannot: nothing continues unseen."""
        for guard in _with((*self._guards, *self._closing), "record"):
            try:
                guard.record(kind, call.copied(), **facts)
            except CodeletError:
                raise
            except Exception as error:
                problem = self.masker.mask(f"{type(error).__name__}: {error}")
                raise CodeletError(f"{type(guard).__name__} could not take note of a call: {problem}") from error


def _with(guards: Iterable[Guard], moment: str) -> list[Guard]:
    """The guards that do something at this moment; for the others no arguments are copied."""
    return [guard for guard in guards if getattr(type(guard), moment) is not getattr(Guard, moment)]


@contextmanager
def _told_to_the_model(broke: str) -> Iterator[None]:
    """Make a ToolError of any error of a guard."""
    try:
        yield
    except ToolError:
        raise
    except Exception as error:
        raise ToolError(broke.format(problem=f"{type(error).__name__}: {error}")) from error


async def _through(guards: Sequence[Guard], call: GuardedCall, output: ToolOutput) -> ToolOutput:
    for guard in _with(guards, "after"):
        try:
            with _told_to_the_model(prompt.ANSWER_GUARD_BROKE):
                output = await guard.after(call.copied(), output)
        except ToolError as error:
            output = ToolOutput(str(error), failed=True)
    return output


def stricter(verdict: Verdict, wanted: Verdict) -> Verdict:
    """The verdict, tightened where `wanted` is stricter: no rule and no mode answers what a guard asks or denies."""
    lifts = verdict.person_may and wanted.action == "deny"  # what a guard denies no person may permit
    if not lifts and _STRICTNESS.index(wanted.action) <= _STRICTNESS.index(verdict.action):
        return verdict
    return Verdict(wanted.action, verdict.tier, wanted.reason, place=verdict.place)


class Command(Record):
    """A command of the user's: `/name` in the terminal, and as the prompt of `-p`.

    `run` gets the session and what was typed behind the name, without the spaces around it, and gives a text to show,
    or the prompt to send if it `prompts`; raises CodeletError, in one line, where that cannot be. `arguments` shows
    people what may be typed there, such as `[FILE]`. Whoever runs it calls `Session.run_command`, which keeps secrets
    out of the text.
    """

    name: str
    help: str
    run: Callable[[SessionView, str], Awaitable[str]]
    arguments: str = ""
    prompts: bool = False


Named = TypeVar("Named", Tool, Source, Command)
ExtensionClass = TypeVar("ExtensionClass")


def named(what: str, parts: Iterable[Named]) -> dict[str, Named]:
    """The parts by their names. Raises UsageError where two have the same; `what` says what they are."""
    found: dict[str, Named] = {}
    for part in parts:
        if part.name in found:
            raise UsageError(f"there are two {what}s called {part.name!r}")
        found[part.name] = part
    return found


UNSAID: Any = object()
"""What a part saves while it has nothing to say: what the file held of it stays as it is."""


class ExportPart(Record):
    """A key of the export that an extension keeps.

    `save` returns the value as plain JSON, now, or UNSAID; a new object if it has changed. It is fast: the turn waits
    for it. If it raises, the user is told, and the key stays in the export as it was last saved. `restore` takes up a
    value from a file, which fits the JSON Schema that `schema` returns.

    Codelet's own may keep one of the document's fields, such as `plan`: then the document says its form, and a session
    that is restored is given it always, so that what stood there before goes.
    """

    key: str
    save: Callable[[], Any]
    restore: Callable[[Any], object]
    schema: Callable[[], Mapping[str, Any]] = dict


class OwnFolder(Record):
    """A folder of files that the user wrote for the agent, or that a trusted `project` brings."""

    path: Path
    project: Path | None = None


class OpenedWith(Record, kw_only=True):
    """What settings give to the extensions that they turn on.

    `profile` is the one that the session begins with, `search` looks into earlier sessions if the user opened these.
    `workspace` is the folder to work in.
    """

    settings: ExtensionSettings
    profile: object = None
    search: FindPassages | None = None
    workspace: Path | None = None

    def folders(self, kind: Literal["commands", "skills"]) -> list[OwnFolder]:
        """The folders of the user's for files of this kind that are there, then a trusted project's."""
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
    """A part that adds to a session. Everything is optional; whoever derives from it says what it brings."""

    tools: Sequence[Tool] = ()
    reminders: Sequence[Source] = ()
    guards: Sequence[Guard] = ()
    commands: Sequence[Command] = ()
    parts: Sequence[ExportPart] = ()
    offers_later = False
    """Whether tools can come that `offered` does not have at first."""

    @classmethod
    def from_session(cls, session: SessionView) -> Self:
        """Make the extension for a session; `attach` follows."""
        return cls()

    @classmethod
    def from_settings(cls, given: OpenedWith, session: SessionView) -> Self:
        """Make an extension that settings turn on; `attach` follows. Raises UsageError for a wrong setting."""
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
        """Return whether `answer` can have something to say."""
        return type(self).answer is not Extension.answer

    def offered(self) -> Sequence[Tool]:
        """The tools for the next request: what is new joins the others, behind them, and stays.

        Between two turns another tool of the same name takes the place of the one before. What comes or changes later
        than the first request costs the provider's cache of the whole list.
        """
        return self.tools

    def commands_now(self) -> Sequence[Command]:
        """The commands that there are now: some may come late. Of two with one name in a session the first counts."""
        return self.commands

    def attach(self, session: SessionView) -> None:
        """The session that it serves, once, before its first turn."""

    def awaited(self) -> str:
        """Return what the first request is to wait for, in a few words; "" for nothing. Then `prepare` follows."""
        return ""

    async def prepare(self, seconds: float) -> Sequence[str]:
        """Get ready for the first request, within so many seconds; called once, if `awaited` names something.

        Returns what the user should know of it, a sentence each. What takes longer may continue afterwards.
        """
        return ()

    def reported(self) -> Mapping[str, Any]:
        """Return what the result of `--output-format json` says of it: keys of its own, with plain JSON."""
        return {}

    def status(self) -> str:
        """A few words for the row below the prompt, asked for again and again; nothing if there is nothing."""
        return ""

    def answer(self) -> str:
        """Return what the answer to a prompt ends with if the front end shows only answers; mostly nothing."""
        return ""

    def ending(self) -> Sequence[str]:
        """Return what ends with the session and the user should know of, a line each; asked for before `close`."""
        return ()

    def clear(self) -> None:
        """The conversation is forgotten: forget what belongs to it."""

    async def prompted(self, text: str) -> str | None:
        """A prompt comes in: context to add to it. A CodeletError refuses the prompt, which then enters no list."""
        return None

    async def stopping(self, answer: str) -> str | None:
        """The turn would end with this answer: why the model has to go on, if it has to; heard a few times a turn."""
        return None

    async def compacting(self, reason: str) -> None:
        """The conversation is about to be made smaller."""

    async def between_turns(self) -> None:
        """A turn is done, or a compaction by hand is: ask the user what is to be asked."""

    async def close(self) -> None:
        """The session ends: end whatever was opened for it. Called once."""


def offered_by(extensions: Iterable[Extension]) -> list[Tool]:
    """The tools that these extensions have for the next request."""
    return [tool for each in extensions for tool in each.offered()]


def guards_beside(extensions: Iterable[Extension]) -> tuple[Guard, ...]:
    """The guards of a session that also stand in one that works beside it."""
    return tuple(guard for each in extensions for guard in each.guards if guard.beside)


def extension_of(session: SessionView, kind: type[ExtensionClass]) -> ExtensionClass | None:
    """Return the session's extension of this class, made now if nothing has used it yet; None if it has none."""
    found = (each.as_a(kind) for each in session.extensions if isinstance(each, Extension))
    return next((each for each in found if each is not None), None)


async def end_extension(extension: Extension) -> None:
    """Close an extension. Raises CodeletError, also where it takes too long and is left."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS) as limit:
            await extension.close()
    except CodeletError:
        raise
    except Exception as error:
        if limit.expired():
            raise CodeletError(f"{extension.label} did not end within {_CLOSE_SECONDS:g} s") from None
        raise CodeletError(f"{extension.label} did not end well: {type(error).__name__}: {error}") from error
