"""Codelet's own commands, and an extension's beside them. To add one is to add one entry; /help is made from it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import get_args

from codelet.events import Event
from codelet.extensions.base import Command
from codelet.frontends.terminal.screen import Screen
from codelet.frontends.terminal.slash_commands import (
    beside_conversation,
    change_context,
    change_session,
    export_import,
    review_change,
    rewind,
    show_changes,
    show_context,
    show_session,
)
from codelet.frontends.terminal.slash_commands.slash_command import Commands, ReplControls, SlashCommand
from codelet.loop.session import Session
from codelet.providers.protocol import EFFORTS
from codelet.safety.verdict import MODES
from codelet.setting_kinds import ThemeName

_OWN = (
    SlashCommand(
        "model",
        "pick or name the model to go on with",
        show=change_session.list_models,
        act=change_session.switch_model,
        arguments="[NAME]",
    ),
    SlashCommand(
        "mode",
        f"show the mode, or set it: {', '.join(MODES)}",
        act=change_session.switch_mode,
        arguments="[MODE]",
        words=MODES,
    ),
    SlashCommand(
        "permissions", "the mode, the rules that allow and deny, what was asked", show=show_session.permissions
    ),
    SlashCommand(
        "context",
        "what the model is sent, with its tokens, and when it is compacted; or one message in full",
        show=show_context.context,
        arguments="[all|N]",
        words=("all",),
    ),
    SlashCommand(
        "compact",
        "make the conversation smaller now, or see what that would do",
        act=change_context.compact_now,
        arguments="[--preview] [20k|30%] [WISH]",
        words=("--preview",),
    ),
    SlashCommand("uncompact", "take the last compaction back", act=change_context.uncompact),
    SlashCommand(
        "pin",
        "keep a message word for word, by its number in /context, or what was lost",
        show=change_context.pin,
        arguments="N|lost",
        words=("lost",),
    ),
    SlashCommand("unpin", "unpin a message", show=change_context.unpin, arguments="N"),
    SlashCommand("drop", "take a message out, a call with its results", show=change_context.drop, arguments="N"),
    SlashCommand(
        "why",
        "what the last compaction did with each turn, and why",
        show=change_context.explain,
        arguments="[TURN|@FILE]",
    ),
    SlashCommand(
        "reminders",
        "what codelet tells the model, its cost, and its switches",
        show=show_context.reminders,
        arguments="[TYPE on|off]",
    ),
    SlashCommand("usage", "tokens and cost so far", show=show_session.usage, aliases=("cost",)),
    SlashCommand("tools", "the tools that the model has", show=show_session.tools),
    SlashCommand(
        "diff",
        "what this session changed, by file; or all since the last commit",
        show=show_changes.diff,
        arguments="[FILE|git]",
        words=("git",),
    ),
    SlashCommand("reasoning", "the model's last reasoning in full", act=show_session.reasoning),
    SlashCommand("continue", "take an interrupted turn up again", act=change_session.continue_turn, bare=True),
    SlashCommand(
        "rewind",
        "back to before a prompt, from a list: the conversation, the files that calls changed, or both",
        act=rewind.rewind,
        arguments="[N] [both|conversation|files] [overwrite]",
    ),
    SlashCommand("undo", "take the last change of a file back", act=rewind.undo, arguments="[overwrite]"),
    SlashCommand("redo", "rewind, and send the same prompt again", act=change_session.redo),
    SlashCommand(
        "clear",
        "a new conversation; the old one is kept as a fork",
        act=change_session.clear,
        aliases=("new", "reset"),
    ),
    SlashCommand(
        "export",
        "save the session once, or as a page for people",
        act=export_import.export_session,
        arguments="[FILE|PAGE.html] [--force]",
    ),
    SlashCommand(
        "import", "go on with a saved session in place of this one", act=export_import.import_session, arguments="FILE"
    ),
    SlashCommand(
        "resume",
        "the sessions saved in a folder, or go on with one of them",
        act=beside_conversation.resume,
        arguments="FOLDER [N]",
    ),
    SlashCommand(
        "fork",
        "keep the conversation aside in memory, or go on with one that was kept",
        act=beside_conversation.fork,
        arguments="[N|list]",
    ),
    SlashCommand(
        "btw",
        "ask on the side: answered from the conversation, not kept in it",
        act=beside_conversation.by_the_way,
        arguments="QUESTION",
    ),
    SlashCommand(
        "copy", "copy an answer, the last one or the N-th from the end", act=beside_conversation.copy, arguments="[N]"
    ),
    SlashCommand("init", "have AGENTS.md written, after asking you", act=beside_conversation.init),
    SlashCommand(
        "review",
        "review a change, then go through the findings: next, previous, fix, ignore REASON, quit",
        act=review_change.review,
        arguments="[WHAT|STEP]",
    ),
    SlashCommand(
        "effort",
        "show how hard the model is asked to think, or ask for another effort",
        act=change_session.switch_effort,
        arguments="[LEVEL|default]",
        words=(*EFFORTS, "default"),
    ),
    SlashCommand(
        "theme",
        "show the terminal's theme, or set it: auto, dark, light, colour-blind, plain",
        act=change_session.switch_theme,
        arguments="[THEME]",
        words=get_args(ThemeName),
    ),
    SlashCommand(
        "exit",
        "leave; nothing is kept unless you asked for it",
        act=change_session.leave,
        aliases=("quit", "q"),
        bare=True,
    ),
)

# What these are called elsewhere, where the names alone would lead astray.
_ELSEWHERE = {
    "checkpoint": "rewind",
    "restore": "rewind",
    "back": "rewind",
    "retry": "redo",
    "tokens": "usage",
    "status": "context",
    "save": "export",
    "share": "export",
    "load": "import",
    "sessions": "resume",
    "branch": "fork",
    "aside": "btw",
    "clipboard": "copy",
    "yank": "copy",
    "memory": "facts",
    "remember": "facts",
    "todo": "plan",
    "todos": "plan",
    "jobs": "tasks",
    "bashes": "tasks",
    "agents": "profile",
    "rules": "permissions",
    "doctor": "env",
    "approvals": "permissions",
    "models": "model",
    "summarize": "compact",
    "compress": "compact",
    "think": "effort",
    "thinking": "effort",
}


def commands_for(session: Session, keys: Sequence[tuple[str, str]] = ()) -> Commands:
    """Codelet's own commands, then those of the session's extensions; of two with one name the first counts.

    `keys` are those of the terminal, each with what it does, or none where there is no terminal.
    """
    return Commands((*_OWN, *map(_of_extension, session.commands.values())), _ELSEWHERE, keys)


def _of_extension(command: Command) -> SlashCommand:
    async def show(screen: Screen, session: Session, argument: str) -> None:
        screen.text(await session.run_command(command.name, argument))

    async def act(repl: ReplControls, argument: str) -> None:
        said: list[str] = []
        nothing: tuple[Event, ...] = ()

        async def running() -> AsyncGenerator[Event, None]:
            said.append(await repl.session.run_command(command.name, argument))
            for event in nothing:  # it has none, but what has events can be stopped by the user like a turn
                yield event

        await repl.watch(running())
        for text in said:
            repl.screen.text(text)

    return SlashCommand(command.name, command.help, show, act, command.arguments)
