"""The table of commands. To add one is to add one entry; /help and the completion are made from it."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codelet.frontends.repl import command_context as context
from codelet.frontends.repl import command_export, command_session, command_views

if TYPE_CHECKING:
    from codelet.frontends.repl.repl import Repl

Handler = Callable[["Repl", str], Awaitable[None]]


@dataclass(frozen=True)
class Command:
    """One command: `/name arguments`. `words` are other names for it; a bare one works without the slash."""

    name: str
    help: str
    run: Handler
    arguments: str = ""
    words: tuple[str, ...] = ()
    bare: bool = False


async def _help(repl: Repl, argument: str) -> None:
    command_views.show_help(repl, COMMANDS)


COMMANDS = (
    Command("help", "this list", _help, words=("?",)),
    Command("model", "show the model, or go on with another", command_session.model, "[NAME]"),
    Command("mode", "show the mode, or set it", command_session.mode, "[MODE]"),
    Command("permissions", "the mode, the rules that allow and deny, what was asked", command_views.permissions),
    Command("context", "what the model is sent, with its tokens, and when it is compacted", context.show, "[all]"),
    Command(
        "compact",
        "make the conversation smaller now, or see what that would do",
        context.compact,
        "[--preview] [20k|30%] [WISH]",
    ),
    Command("uncompact", "take the last compaction back", context.uncompact),
    Command("pin", "keep a message word for word, by its number in /context, or what was lost", context.pin, "N|lost"),
    Command("unpin", "let go of a pin", context.unpin, "N"),
    Command("drop", "take a message out, a call with its results", context.drop, "N"),
    Command("why", "what the last compaction did with each turn, and why", context.why, "[TURN]"),
    Command(
        "reminders", "what codelet tells the model, its cost, and its switches", context.reminders, "[TYPE on|off]"
    ),
    Command("usage", "tokens and cost so far", command_views.usage),
    Command("tools", "the tools that the model has", command_views.tools),
    Command("diff", "what changed in the work tree", command_views.diff),
    Command("reasoning", "the model's last reasoning in full", command_views.reasoning),
    Command("continue", "take an interrupted turn up again", command_session.resume, bare=True),
    Command("rewind", "back to before the last prompt; files stay as they are", command_session.rewind),
    Command("redo", "rewind, and send the same prompt again", command_session.redo),
    Command("clear", "forget the conversation", command_session.clear, words=("new", "reset")),
    Command(
        "export", "save the session once, or as a page for people", command_export.export, "[FILE|PAGE.html] [--force]"
    ),
    Command("import", "go on with a saved session in place of this one", command_export.load, "FILE"),
    Command(
        "exit", "leave; nothing is kept that was not asked for", command_session.leave, words=("quit", "q"), bare=True
    ),
)


# What these are called elsewhere, where the names alone would lead astray.
_ELSEWHERE = {
    "undo": "rewind",
    "back": "rewind",
    "retry": "redo",
    "cost": "usage",
    "tokens": "usage",
    "stats": "usage",
    "status": "context",
    "save": "export",
    "share": "export",
    "load": "import",
    "resume": "import",
    "approvals": "permissions",
    "config": "mode",
    "models": "model",
    "summarize": "compact",
    "compress": "compact",
}


def find_command(text: str) -> tuple[Command, str] | None:
    """The command that a line means, with its argument; None if the line is a prompt for the model.

    Raises LookupError, naming the closest command, for a slash and a word that is no command.
    """
    word, _, argument = text.strip().partition(" ")
    if word.startswith("/"):
        name = word[1:].lower()
        if not name.replace("-", "").isalpha() and name != "?":
            return None
        for command in COMMANDS:
            if name == command.name or name in command.words:
                return command, argument.strip()
        raise LookupError(_unknown(name))
    if not argument:
        for command in COMMANDS:
            if command.bare and word.lower() in (command.name, *(w for w in command.words if len(w) > 1)):
                return command, ""
    return None


def _unknown(name: str) -> str:
    names = [name for command in COMMANDS for name in (command.name, *command.words)]
    close = [_ELSEWHERE[name]] if name in _ELSEWHERE else difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    close = close or [known for known in names if known.startswith(name)][:1]
    hint = f"did you mean /{close[0]}?" if close else "/help lists them"
    return f"there is no command /{name}; {hint}"
