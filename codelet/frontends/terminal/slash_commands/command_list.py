"""The list of commands, from which /help is made, and those of extensions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import get_args

from codelet.events import Event
from codelet.extensions.base import Command
from codelet.frontends.terminal.screen import Screen
from codelet.frontends.terminal.slash_commands import (
    conversations,
    file_changes,
    review_change,
    sent_context,
    this_session,
)
from codelet.frontends.terminal.slash_commands.slash_command import Commands, ReplControls, SlashCommand
from codelet.loop.session import Session
from codelet.providers.protocol import EFFORTS
from codelet.safety.verdict import MODES
from codelet.setting_kinds import ThemeName

_CONVERSATION, _CONTEXT, _MODEL, _PERMISSIONS = "conversation", "context", "model", "permissions"

_OWN = (
    SlashCommand("status", "model, mode, context, tokens and cost", show=this_session.status,
                 aliases=("usage", "cost"), topic=_MODEL),
    SlashCommand("model", "pick the model, or name it", act=this_session.switch_model, arguments="[NAME]",
                 words=("effort",), topic=_MODEL),
    SlashCommand("model effort", "show or set how hard the model thinks", act=this_session.switch_effort,
                 arguments="[LEVEL|default]", aliases=("effort",), words=(*EFFORTS, "default"), topic=_MODEL),
    SlashCommand("mode", f"show the mode, or set it: {', '.join(MODES)}, plan",
                 show=this_session.switch_mode, arguments="[MODE]", words=(*MODES, this_session.PLAN_MODE),
                 topic=_PERMISSIONS),
    SlashCommand("permissions", "the rules that allow and deny, what was asked", show=this_session.permissions,
                 topic=_PERMISSIONS),
    SlashCommand("context", "what the model is sent, with tokens", show=sent_context.context, arguments="[all|N]",
                 words=("all", "reminders", "tools"), topic=_CONTEXT),
    SlashCommand("context reminders", "what codelet tells the model, and its switches", show=sent_context.reminders,
                 arguments="[TYPE on|off]", aliases=("reminders",), topic=_CONTEXT),
    SlashCommand("context tools", "the tools that the model has", show=this_session.tools, aliases=("tools",),
                 topic=_CONTEXT),
    SlashCommand("compact", "make the conversation smaller now", act=sent_context.compact_now,
                 arguments="[--preview] [20k|30%] [INSTRUCTIONS]", words=("--preview", "undo", "why"),
                 topic=_CONTEXT),
    SlashCommand("compact undo", "undo the last compaction or drop", act=sent_context.uncompact,
                 aliases=("uncompact",), topic=_CONTEXT),
    SlashCommand("compact why", "what the last compaction did with each turn", show=sent_context.explain,
                 aliases=("why",), topic=_CONTEXT),
    SlashCommand("pin", "keep a message verbatim, by its number in /context",
                 show=sent_context.pin, arguments="N", words=("off",), topic=_CONTEXT),
    SlashCommand("pin off", "unpin a message", show=sent_context.unpin, arguments="N", aliases=("unpin",),
                 topic=_CONTEXT),
    SlashCommand("drop", "take a message out, a call with its results", show=sent_context.drop, arguments="N",
                 topic=_CONTEXT),
    SlashCommand("continue", "resume an interrupted turn", act=this_session.continue_turn, bare=True,
                 topic=_CONVERSATION),
    SlashCommand("rewind", "back to an earlier prompt, with its files", act=file_changes.rewind,
                 arguments="[N] [both|conversation|files] [overwrite]", topic=_CONVERSATION),
    SlashCommand("redo", "rewind, and send the same prompt again", act=this_session.redo, topic=_CONVERSATION),
    SlashCommand("clear", "start over; the conversation is kept as a fork", act=conversations.clear,
                 aliases=("new", "reset"), topic=_CONVERSATION),
    SlashCommand("fork", "set the conversation aside in memory, or return to one", act=conversations.fork,
                 arguments="[N|list]", topic=_CONVERSATION),
    SlashCommand("export", "save the session to a file, or as an HTML page", act=conversations.export_session,
                 arguments="FILE|PAGE.html [--force]", topic=_CONVERSATION),
    SlashCommand("resume", "continue a saved session", act=conversations.import_session,
                 arguments="FILE", aliases=("import",), topic=_CONVERSATION),
    SlashCommand("btw", "ask on the side; not added to the conversation", act=conversations.by_the_way,
                 arguments="QUESTION", topic=_CONVERSATION),
    SlashCommand("copy", "copy the last answer, or the N-th from the end", act=conversations.copy,
                 arguments="[N]", topic=_CONVERSATION),
    SlashCommand("diff", "what changed in this session, or since the last commit", show=file_changes.diff,
                 arguments="[FILE|git]", words=("git",)),
    SlashCommand("undo", "undo the last file change", act=file_changes.undo, arguments="[overwrite]"),
    SlashCommand("review", "review a change, or have finding N fixed", act=review_change.review,
                 arguments="[WHAT|fix N]"),
    SlashCommand("init", "write AGENTS.md, after asking you", act=conversations.init),
    SlashCommand("theme", f"show the theme, or set it: {', '.join(get_args(ThemeName))}",
                 act=this_session.switch_theme, arguments="[THEME]", words=get_args(ThemeName)),
    SlashCommand("exit", "leave codelet", act=this_session.leave, aliases=("quit", "q"), bare=True),
)  # fmt: skip

_FIRST = "status model mode context compact diff undo rewind clear resume export exit".split()
"""The commands that /help shows."""
_UNLISTED = ("stats", "env")
"""Commands of extensions that /status makes rare."""

_ELSEWHERE = {
    other: ours
    for ours, others in {
        "rewind": "checkpoint restore back",
        "redo": "retry",
        "status": "tokens",
        "export": "save share",
        "resume": "load sessions",
        "fork": "branch",
        "btw": "aside",
        "copy": "clipboard yank",
        "facts": "memory remember",
        "plan": "todo todos",
        "tasks": "jobs bashes",
        "profile": "agents",
        "permissions": "rules approvals",
        "env": "doctor",
        "model": "models",
        "compact": "summarize compress",
        "effort": "think thinking",
    }.items()
    for other in others.split()
}
"""Names in other programs that do not resemble ours."""


def commands_for(session: Session, *, in_repl: bool = False) -> Commands:
    """Return codelet's own commands, then those of the session's extensions."""
    return Commands(
        _OWN, lambda: map(_of_extension, session.commands.values()), elsewhere=_ELSEWHERE, first=_FIRST, in_repl=in_repl
    )


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
            if command.prompts:
                await repl.ask_model(text, typed=True)
            else:
                repl.screen.text(text)

    listed = command.name not in _UNLISTED
    shown = None if command.prompts else show
    return SlashCommand(
        command.name, command.help, shown, act, command.arguments, listed=listed, prompts=command.prompts
    )
