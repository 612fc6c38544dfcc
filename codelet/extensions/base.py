"""Extensions: what a part may bring to a session, each of it optional, and what it may use of that session.

An extension brings tools, reminders, guards that stand before and after each call, commands, and a key of the export.
It is given to `Session(extensions=…)`; nothing is looked for elsewhere. Where a session is handed over it is a
`codelet.session.Session`; that module imports this one, so it cannot be named in the types here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from codelet.policy.verdict import Touch, Verdict
from codelet.record import Record
from codelet.tools.tool import Arguments, Tool, ToolOutput

Zone = Literal["head", "tail"]


class Source:
    """Where one reminder's text comes from. A subclass says `name` and `text`, and what it wants otherwise.

    `name` is the reminder's type, one per session. What stands in the `head` is gathered once a turn and should be the
    same bytes while nothing has changed: it is part of the prefix that the provider caches. What stands in the `tail`
    is gathered at the turn's start and before each request. With `off` it is left out until the user switches it on;
    with `quiet` no front end says that its text was replaced.
    """

    name: str
    zone: Zone = "tail"
    off: bool = False
    quiet: bool = False

    async def text(self) -> str | None:
        """What the model is to be told now; None or an empty text takes the reminder out."""
        raise NotImplementedError

    async def begin(self) -> None:
        """A turn begins: `text` is asked next."""

    def changed(self) -> None:
        """Calls have run that may have changed files. Returns at once."""

    async def stop(self) -> None:
        """The turn is over: nothing is looked at any more."""


class Call(Record):
    """A call as guards see it. They are given a copy of its arguments: to change it in place changes nothing.

    `verdict` is None until it was judged. `ran` says that its tool was run, to its end or to an error: an answer to a
    call that did not says why.
    """

    id: str
    tool: Tool
    arguments: Arguments
    verdict: Verdict | None = None
    ran: bool = False

    @property
    def touches(self) -> tuple[Touch, ...] | None:
        """What it touches; None where nobody knows."""
        return self.tool.touched(self.arguments)


class Guard:
    """What stands before and after every call, in the order of the extensions.

    `before` is asked twice about each call. First the arguments are as the model sent them, or as the guards before
    this one left them, unchecked, and `call.verdict` is None: it may return other arguments. Then they are final and
    checked, and `call.verdict` is what the policy says of them: it may return a verdict, which counts where it is
    stricter. What is returned out of its time does not count, so a guard that only does one of the two need not look
    which it is. A guard that raises refuses the call: a ToolError says why.
    """

    async def before(self, call: Call) -> Verdict | Arguments | None:
        """Other arguments, a verdict, or None to let the call be."""
        return None

    async def after(self, call: Call, output: ToolOutput) -> ToolOutput:
        """The answer to a call, or another one in its place; also asked where it is an error or a refusal."""
        return output

    def record(self, kind: Literal["verdict", "approval", "change", "execution"], call: Call, **facts: object) -> None:
        """Take note of what was decided on a call, what a person said, what it changed, and how it ended."""


class Command(Record):
    """A command of the user's: `/name` in the terminal, and as the prompt of `-p`.

    `run` gets the session and what was typed behind the name, without the blanks around it, and gives a text to show;
    raises CodeletError, in one line, where that cannot be. `arguments` shows people what may be typed there, such as
    `[FILE]`. Whoever runs it calls `Session.run_command`, which keeps secrets out of the text.
    """

    name: str
    help: str
    run: Callable[[Any, str], Awaitable[str]]
    arguments: str = ""


class ExportPart:
    """A key of the export that an extension keeps. A subclass says `key`, `schema` (JSON Schema), `save`, `restore`."""

    key: str
    schema: Mapping[str, Any] = {}

    def save(self) -> Any:
        """The value as plain JSON, now; a new object where it has changed. Fast: the turn waits for it."""
        raise NotImplementedError

    def restore(self, value: Any) -> None:
        """Take up a value from a file that fits the schema."""
        raise NotImplementedError


class Extension:
    """A part that adds to a session. Everything is optional; whoever derives from it says what it brings.

    `tools` is asked again before each request: what is new joins the list, behind all others, and stays. A tool that
    comes later than the first request costs the provider's cache of the whole list.
    """

    tools: Sequence[Tool] = ()
    reminders: Sequence[Source] = ()
    guards: Sequence[Guard] = ()
    commands: Sequence[Command] = ()
    part: ExportPart | None = None

    def attach(self, session: Any) -> None:
        """The session that it serves, a `Session`, once, before its first turn."""

    async def close(self) -> None:
        """The session ends: end whatever was opened for it. Called once."""
