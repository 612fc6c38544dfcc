"""The policy's values: touches, verdicts, modes, and the question to the user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from codelet.events import FileChange
from codelet.record import Record

VerdictAction = Literal["allow", "ask", "deny"]
Tier = Literal["read", "write", "execute", "critical"]
Mode = Literal["read-only", "ask", "auto-edit", "auto"]
SandboxKind = Literal["read-only", "workspace"]
"""The places that a confined command may write besides its temporary folder: none, or the workspace."""

MODES: tuple[Mode, ...] = ("ask", "auto-edit", "auto", "read-only")
"""All modes, in the order in which the key cycles through them."""


def mode_named(text: str) -> Mode | None:
    """The mode with that name, or None."""
    return next((mode for mode in MODES if mode == text), None)


class Touch(Record):
    """An effect of a call: it reads, lists or writes the path `what`, runs the command `what`, or fetches from the web
    server `what`.

    A path is absolute or relative to the workspace; `list` is for names and sizes only. `unconfined` requests to run
    the command without its sandbox. `own` marks a write to the tool's own file, which an option of the user names: it
    may be anywhere, and is written unless a mode, rule or guard forbids it.
    """

    kind: Literal["read", "list", "write", "run", "fetch"]
    what: str
    unconfined: bool = False
    own: bool = False


CommandParts = tuple[tuple[str, str], ...]
"""The parts of a command that may do more than read: each with its text ("" if it is no command) and the reason."""


class Verdict(Record):
    """The decision on one action, with the reason as text.

    `rule` is the rule that decided. `suggestion` is the rule that "always for this session" would add, or None; then
    `exactly` is the command line that can be allowed unchanged. `lifted_by` is the mode that would not ask. `parts` are
    the parts of a command that may do more than read. `place` is the resolved path of a file tool, which must open
    that very place. `sandbox` is the confinement of an allowed command, None if a rule or an answer lifts it.
    `person_may`: the user, if asked, can lift this denial once; no rule, mode or `--yes` does.
    """

    action: VerdictAction
    tier: Tier
    reason: str
    rule: str | None = None
    suggestion: str | None = None
    place: Path | None = None
    exactly: str | None = None
    lifted_by: Mode | None = None
    parts: CommandParts = ()
    sandbox: SandboxKind | None = None
    person_may: bool = False


class Question(Record):
    """A question to the user: `shown` is the whole command or diff, not yet cleaned for a terminal.

    `asks` is a short description of the call, empty if `touches` say enough. After `timeout` seconds the answer is no;
    None waits forever. `where` is a command's folder, `following` the number of questions that wait, `covered` other
    commands that the rule of "always" would allow, `change` the edit of a file, if its text is known. `options` are the
    answers to a question that is not about permission.
    """

    call_id: str
    tool: str
    arguments: dict[str, Any]
    verdict: Verdict
    shown: str
    timeout: float | None = None
    asks: str = ""
    touches: tuple[Touch, ...] = ()
    where: str = ""
    following: int = 0
    covered: tuple[str, ...] = ()
    change: FileChange | None = None
    options: tuple[str, ...] | None = None


class Answer(Record):
    """The user's answer. `reason` goes to the model; it is the answer itself if the question has options. `always` adds
    the suggested rule for this session, or `rule` if the user edited it. `mode` switches to the mode that does not ask.
    """

    allow: bool
    reason: str = ""
    always: bool = False
    mode: bool = False
    rule: str = ""


Ask = Callable[[Question], Awaitable[Answer]]
