"""The words of the policy: verdict, mode, and the question put to a person."""

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
"""What a confined command may write beside a private temporary folder: nothing, or the workspace."""

MODES: tuple[Mode, ...] = ("ask", "auto-edit", "auto", "read-only")
"""All modes, in the order in which a key goes through them."""


def mode_named(text: str) -> Mode | None:
    """The mode of that name, or None if there is none."""
    return next((mode for mode in MODES if mode == text), None)


class Touch(Record):
    """What a call does to the world: it reads, lists or writes the path `what`, runs the shell command `what`, or
    fetches from the web server `what`.

    A path is absolute or relative to the workspace; `list` is for names and sizes only. `unconfined` asks to run the
    command without the sandbox that would be around it. `own` says of a write that the tool keeps that file itself, and
    that an option of the user's names it: it may be anywhere, and is written unless a mode, rule or guard forbids it.
    """

    kind: Literal["read", "list", "write", "run", "fetch"]
    what: str
    unconfined: bool = False
    own: bool = False


CommandParts = tuple[tuple[str, str], ...]
"""The parts of a command that are not known to read only: each as it is written, "" for what is no command, and why."""


class Verdict(Record):
    """The decision on one action, with its reason in words.

    `rule` is the rule that decided, if one did; `suggestion` is the rule that "always for this session"
    would make, or None if there is none to offer; then `exactly` is the command line that may be allowed as it
    stands. `lifted_by` is the mode in which it would not have been asked. `parts` are the parts of a command that are
    not known to read only, each with its reason. `place` is where the path of a file tool leads: what is opened must
    be that very place. `sandbox` is what an allowed command has to run in, None if a rule or an answer lets it run
    without. `person_may` says of a deny that a person who can be asked may lift it, this once; no rule, no mode and no
    `--yes` does.
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
    """What a person is asked: `shown` is the whole command or diff, not yet cleaned for a terminal.

    `asks` says in a few words what the call would do, empty where `touches` say it: what it reads, writes or runs.

    `timeout` is after how many seconds the question answers itself with no; None for never. `where` is the folder that
    a command would run in, `following` how many questions wait behind this one. `covered` are commands that the rule
    of "always" would allow besides. `change` is what the call would make of a file, where its texts are at hand.
    `options` are the answers to a question that is not about permission.
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
    """A person's answer. `reason` goes to the model: it is the answer itself if the question has options. `always` adds
    the suggested rule for this session, or `rule`, where the person has changed it. `mode` switches to the mode in
    which it would not have been asked.
    """

    allow: bool
    reason: str = ""
    always: bool = False
    mode: bool = False
    rule: str = ""


Ask = Callable[[Question], Awaitable[Answer]]
