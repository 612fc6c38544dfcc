"""The table of commands. To add one is to add one entry; /help and the completion are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codelet.frontends.terminal.commands import change_session as command_session
from codelet.frontends.terminal.commands import export_import as command_export
from codelet.frontends.terminal.commands import show_context as context
from codelet.frontends.terminal.commands import show_session as command_views
from codelet.text import one_line
from codelet.text.spelling import nearest

if TYPE_CHECKING:
    from codelet.frontends.terminal.repl import Repl

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
    name = argument.removeprefix("/").lower()
    found = next((command for command in COMMANDS if name in (command.name, *command.words)), None)
    if name and found is None:
        repl.fail(_unknown(name))
    else:
        command_views.show_help(repl, COMMANDS if found is None else [found], keys=found is None)


COMMANDS = (
    Command("help", "this list, or one command of it", _help, "[COMMAND]", words=("?",)),
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

    Raises LookupError for a slash and a word that is no command, naming the closest one, and for words after a command
    that takes none.
    """
    word, _, argument = text.strip().partition(" ")
    if word.startswith("/"):
        name = word[1:].lower()
        if not name:
            raise LookupError("a command has its name right after the /; /help lists them")
        if not name.replace("-", "").isalpha() and name != "?":
            return None
        for command in COMMANDS:
            if name == command.name or name in command.words:
                if argument.strip() and not command.arguments:
                    told = f"/{name} takes nothing after it, so nothing was done"
                    raise LookupError(f"{told}: {one_line(argument, 60)}")
                return command, argument.strip()
        raise LookupError(_unknown(name))
    if not argument:
        for command in COMMANDS:
            if command.bare and word.lower() in (command.name, *(w for w in command.words if len(w) > 1)):
                return command, ""
    return None


def _unknown(name: str) -> str:
    names = [name for command in COMMANDS for name in (command.name, *command.words)]
    close = _ELSEWHERE.get(name) or nearest(name, names) or next((n for n in names if n.startswith(name)), None)
    hint = f"did you mean /{close}?" if close else "/help lists them"
    return f"there is no command /{name}; {hint}"
