"""The REPL: read a prompt, run the turn, show it, repeat."""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit.history import InMemoryHistory

from codelet.errors import EXIT_DONE, EXIT_HANGUP, EXIT_INTERRUPT, CodeletError, UsageError
from codelet.events import Event
from codelet.frontends.terminal.completion import ReplCompleter
from codelet.frontends.terminal.draft import Draft, HistoryFile, Pastes, as_prompt, is_plain_prompt
from codelet.frontends.terminal.export_log import ExportLog
from codelet.frontends.terminal.key_sequences import KeyInput
from codelet.frontends.terminal.prompt_line import PromptLine
from codelet.frontends.terminal.screen import TerminalScreen, styled
from codelet.frontends.terminal.show.style import writable
from codelet.frontends.terminal.slash_commands.command_list import commands_for
from codelet.frontends.terminal.slash_commands.forks import Forks, RewoundFiles
from codelet.frontends.terminal.slash_commands.slash_command import run_if_command
from codelet.frontends.terminal.slash_commands.this_session import confinement, next_mode
from codelet.frontends.terminal.status_row import Attention, StatusRow, greeting
from codelet.loop.session import Session
from codelet.opening import mentioned, models_to_choose, provider_named, unfinished
from codelet.providers.protocol import Effort, Provider
from codelet.setting_kinds import ThemeName
from codelet.settings import Settings
from codelet.system.text import clean

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.frontends.exporting import Exporting
    from codelet.frontends.terminal.turn_view import TurnStatus, TurnView
    from codelet.review.findings import Report

PARTING = "not saved: /export FILE keeps this conversation; Ctrl-D again leaves"
_SAVE_THE_NEXT = "this conversation was not saved; to keep the next one: codelet --session ~/work.json"
_SHORT_TURNS = 3
"""A conversation of more turns is worth a reminder to save it."""
_AT_ONCE = frozenset({"help", "keys", "status", "context", "context tools", "mode", "model", "permissions"})
"""Commands that run during a turn: they only look, or set what the next call reads."""
_FIRST_DRAW_SECONDS = 0.05
"""Before imports compete with the first prompt for the interpreter."""


class Repl:
    """One REPL for one session. `ReplControls` describes what commands use of it.

    `export` saves the session live, or continues one. `first` is the first prompt.
    """

    def __init__(
        self, session: Session, settings: Settings, export: Exporting | None = None, first: str | None = None
    ) -> None:
        self.session, self._settings, self._first = session, settings, first
        self.commands, self.log = commands_for(session, in_repl=True), ExportLog(session, settings, export)
        self.screen = TerminalScreen(settings.theme)
        self.exit_status: int | None = None
        self.can_resume = self.log.carried is not None and unfinished(session)
        self.prefill = ""
        self.review: Report | None = None
        self.attached: list[str] = []
        self._sent: dict[str, tuple[str, list[str]]] = {}
        """By prompt: what was typed, and the command output before it."""
        self.forks, self.rewound, self.pastes = Forks(), RewoundFiles(), Pastes()
        self.draft = Draft(self.pastes, self._act)
        self._main: asyncio.Task[object] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._status = StatusRow(session, self.attached)
        path, say = settings.history, session.notices.say
        history = InMemoryHistory() if path is None else HistoryFile(Path(path).expanduser(), self.pastes.expand, say)
        self.prompt_line = PromptLine(
            KeyInput(sys.stdin, self.screen.answered),
            self.draft,
            self.screen,
            workspace=session.workspace,
            completer=ReplCompleter(
                session.workspace,
                lambda: [(each.name, each.help, each.words) for each in self.commands.listed],
                lambda: session.conversation.calls,
            ),
            status=self._status_row,
            cycle_mode=self._cycle_mode,
            history=history,
            settings=settings,
        )
        self.prompt_line.hung_up, self.prompt_line.parting = self._hung_up, self._parting
        self.attention = Attention(
            settings.notify, title=settings.title, workspace=session.workspace, send=self.screen.send
        )

    @cached_property
    def view(self) -> TurnView:
        """Runs turns and answers the session's questions."""
        from codelet.frontends.terminal.turn_view import TurnView

        view = TurnView(self.screen.renderer, self.prompt_line, self.session, self.log, self.attention)
        self.session.upkeep.steering = self._steering
        return view

    async def run(self) -> int:
        """Read and evaluate until the user leaves; return the exit status."""
        task = self._main = asyncio.current_task()
        try:
            try:
                await self._begin()
                evaluate = self._evaluate if self._first is None else self._evaluate_first
                while self.exit_status is None:
                    text = await self._next()
                    if text is not None and self.exit_status is None:
                        try:
                            if (events := await evaluate(text)) is not None:
                                await self.turn(events)
                        except CodeletError as error:
                            self.screen.fail(str(error))
                        self._part()
                    evaluate = self._evaluate
                if self.exit_status == EXIT_DONE and self._parting():
                    self.screen.note(_SAVE_THE_NEXT)
            finally:
                self._main = None
                for each in self._tasks:
                    each.cancel()
                self.attention.end()
                await self.prompt_line.close()
        except asyncio.CancelledError:
            if self.exit_status is None or task is None:
                raise
            task.uncancel()
        except OSError:
            # The terminal is gone: writing to it fails before the signal comes.
            if sys.stdout.isatty():
                raise
            self.exit_status = EXIT_HANGUP
        return EXIT_INTERRUPT if self.exit_status is None else self.exit_status

    async def _begin(self) -> None:
        """Show the input line and what is resumed."""
        rows = greeting(self.session, shutil.get_terminal_size().columns)
        sys.stdout.write(writable("".join(f"{row}\n" for row in rows), sys.stdout))
        sys.stdout.flush()
        self.screen.ask_ground()
        self.attention.begin()
        self.prompt_line.start()
        self._begin_task(self._status.read_branch())
        self._begin_task(asyncio.to_thread(_import_later)).add_done_callback(self._imported)
        if self.log.carried is not None:
            await self.show_resumed(self.log.export.welcome)
            self._part()

    def _parting(self) -> str:
        """A hint on how to keep the conversation, unless it is short or saved."""
        turns = self.session.turns
        is_kept = self.log.saves or self.log.exported == turns
        return "" if is_kept or turns <= _SHORT_TURNS else PARTING

    def _command(self, line: str) -> tuple[str, str, Callable[[], Awaitable[None]]] | None:
        """Return a command's name, argument and run; None for a prompt. Raises UsageError for an unknown command."""
        text = line.strip()
        if is_plain_prompt(line) or self.pastes.expand(text).startswith("!["):  # an image in Markdown
            return None
        if text.startswith("!"):
            from codelet.frontends.terminal.terminal_programs import run_user_command

            whole = self.pastes.expand(text)
            return "!", whole, lambda: run_user_command(whole, self.session, self.screen, self.attached)
        if text.startswith("#") and "\n" not in text and "facts" in self.session.commands:
            text = f"/facts add {text.lstrip('#').strip()}"
        if (found := self.commands.find(text)) is None:
            return None
        command, argument = found
        return command.name, argument, lambda: command.run(self, self.pastes.expand(argument))

    async def _evaluate(self, line: str) -> AsyncGenerator[Event, None] | None:
        """Run a command; return the turn of a prompt."""
        text = line.strip()
        if (found := self._command(line)) is not None:
            await found[2]()
            self.log.save()
        elif text:
            if is_plain_prompt(line) and "\n" not in text:
                with suppress(UsageError):  # no command even without the space
                    if self._command(text) is not None:
                        self.screen.note(f"sent to the model: a {text[0]} acts only if you type it first in the line")
            return await self._turn_of(text)
        return None

    async def _evaluate_first(self, text: str) -> AsyncGenerator[Event, None] | None:
        """Evaluate the prompt of the command line. It may come from a file: all but a /command goes to the model."""
        self.pastes.keep(text)
        return None if await run_if_command(self, self.commands, text) else await self._turn_of(text)

    async def _turn_of(self, text: str, *, typed: bool = False) -> AsyncGenerator[Event, None]:
        """Return the turn of a prompt and the files that it names. Raises UsageError if an image cannot be sent.

        `typed`: the user meant each file that it names.
        """
        from codelet.context.attachments import Person

        async def confirm(path: str, reason: str) -> bool:
            head = styled(clean(f"Attach {path}? It{reason.removeprefix(path)}."))
            return await self.choose([head], [styled("no, send the prompt without it"), styled("yes, attach it")]) == 1

        person = Person(lambda at: typed or not self.pastes.begins(text[at:]), confirm)
        try:
            brought = await mentioned(self.session, text, person=person, pasted=self.pastes.pictures)
        except UsageError:
            self.prefill = text
            raise
        if brought is not None:
            names = [f"attached: {', '.join(brought.names)}"] if brought.names else []
            for note in (*names, *brought.notes):
                self.screen.note(note)
        self.screen.renderer.shown_parts.add("prompt", "› you", self.session.mask(text))
        return self.session.send(self._with_attached(text), None, brought)

    async def ask_model(self, text: str, *, typed: bool = False) -> None:
        await self.turn(await self._turn_of(text, typed=typed))

    async def turn(self, events: AsyncGenerator[Event, None]) -> None:
        """Run a turn. Lines still queued when it is stopped or fails go back to the input line."""
        outcome = await self.view.run(events)
        self.can_resume = outcome != "done" and unfinished(self.session)
        if outcome == "failed" and self.can_resume:
            self.screen.note('type "continue" to retry, or a new prompt')
        await self._status.read_branch()

    async def watch(self, events: AsyncGenerator[Event, None]) -> TurnStatus:
        return await self.view.run(events)

    async def choose(self, head: Sequence[Text], options: Sequence[Text]) -> int | None:
        from codelet.frontends.terminal.dialogs import choose

        return await choose(self.screen.renderer, self.prompt_line, head, options)

    def show(self, event: Event) -> None:
        self.screen.renderer.show(event)
        self.screen.renderer.stop()

    @property
    def theme(self) -> ThemeName:
        return self.screen.theme

    def set_theme(self, theme: ThemeName) -> None:
        self.screen.set_look(theme)
        self.screen.ask_ground()

    def open_model(self, name: str, effort: Effort | None) -> Provider:
        return provider_named(name, self._settings.replace(effort=effort))

    async def pick_model(self) -> str | None:
        if self.view.task is not None:
            return None
        from codelet.frontends.terminal.dialogs import pick_model

        models = await models_to_choose(self._settings, now := self.session.provider.model)
        return await pick_model(self.screen.renderer, self.prompt_line, models, now)

    async def warm_up(self) -> None:
        await self.session.provider.warm()
        self.session.upkeep.server.begin()

    async def _next(self) -> str | None:
        """Return the next line: the first prompt, one queued during a turn, else what the user types. None to leave."""
        if (text := self._first) is not None:
            self._first = None
            self.prompt_line.remember(as_prompt(text))
        elif self.draft.queued and (self.draft.sent or not self.draft.is_cut):
            text = self.draft.next_line()
            self.prompt_line.changed()  # its row among the waiting lines goes
            self.prompt_line.remember(text)
        elif self.draft.left or (self.draft.leaving and not self.draft.is_cut):
            self.exit_status = EXIT_DONE
        else:
            text = await self._read()
        if text is not None:
            self.screen.renderer.say_prompt(text)
        return text

    async def _read(self) -> str | None:
        """Read a line; what waits goes back into the input line."""
        default = "\n".join(part for part in (as_prompt(self.pastes.fold(self.prefill)), self.draft.withdraw()) if part)
        self.prefill = ""
        following = asyncio.create_task(self._status.follow(self.prompt_line.refresh))
        try:
            line = await self.prompt_line.read(default)
        finally:
            following.cancel()
        if line is None:
            self.exit_status = self.prompt_line.exit_status
        return line

    def _with_attached(self, text: str) -> str:
        """Return the prompt for the model: attached output, then the text with its pastes."""
        typed = self.pastes.expand(text)
        whole = "\n\n".join([*self.attached, *self.rewound.told(self.session.turns + 1), typed])
        if whole != typed:
            self._sent[whole] = typed, [*self.attached]
        self.attached.clear()
        return whole

    def words_of(self, prompt: str) -> str:
        return self.pastes.fold(self._sent.get(prompt, (prompt, []))[0])

    def edit_again(self, prompt: str) -> None:
        self.prefill, outputs = self._sent.get(prompt, (prompt, []))
        self.attached += outputs

    def _steering(self) -> list[str]:
        """Return the lines typed for the model since the last step."""

        def is_prompt(line: str) -> bool:
            try:
                return self._command(line) is None
            except UsageError:
                return False

        lines = self.draft.for_the_model(is_prompt)
        for line in lines:
            self.prompt_line.remember(line)
        return [self._with_attached(line.strip()) for line in lines]

    def _act(self, line: str) -> bool:
        """Run a line's command, if it may run during a turn; return whether it ran."""
        try:
            found = self._command(line)
        except UsageError:
            return False
        if found is None or found[0] not in _AT_ONCE or (found[0] == "model" and found[1]):
            return False
        self.screen.renderer.say_prompt(line.strip())
        self.view.beside(found[2]())
        return True

    async def show_resumed(self, note: str) -> None:
        from codelet.frontends.terminal.show.renderer import show_last_turns

        show_last_turns(self.screen.renderer, self.session.messages, self.session.mask)
        if self.log.carried is not None and self.log.carried.plan and "plan" in self.session.commands:
            self.screen.say(styled())
            self.screen.text(await self.session.run_command("plan"))
        self.screen.say(styled())
        self.screen.note(note)

    def _part(self) -> None:
        """Print notices and an empty row."""
        for line in (*self.log.notices(), *self.session.notices.take()):
            self.screen.note(line)
        if self.exit_status is None:
            self.screen.say(styled())

    def _begin_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _imported(self, importing: asyncio.Task[None]) -> None:
        if importing.cancelled():
            return
        if not gc.isenabled():  # the prompt is there and everything is imported; see cli.main
            gc.freeze()
            gc.enable()
        self._begin_task(self.warm_up())
        self._begin_task(self._look())

    async def _look(self) -> None:
        """Find out what confines commands, for the status row."""
        await confinement(self.session)
        self.prompt_line.refresh()

    def _cycle_mode(self) -> None:
        next_mode(self.session)
        self.prompt_line.refresh()
        self._begin_task(self._look())

    def _status_row(self) -> str:
        is_running = "view" in vars(self) and self.view.task is not None
        return self._status.row(shutil.get_terminal_size().columns, running=is_running)

    def _hung_up(self) -> None:
        """The terminal is gone: stop the running turn and end."""
        self.exit_status = EXIT_HANGUP
        main, self._main = self._main, None
        if main is not None:
            main.cancel()


def _import_later() -> None:
    """Import what the first turn needs, in a thread, while the user types."""
    time.sleep(_FIRST_DRAW_SECONDS)
    import markdown_it.tree

    import codelet.context.attachments
    import codelet.frontends.exporting
    import codelet.frontends.terminal.turn_view
    from codelet.frontends.terminal.show.highlight import highlight, lexer_of_file

    highlight(lexer_of_file("a.py"), ["def f(a):  # b", '    return f"{a}"'])
    del markdown_it, codelet
