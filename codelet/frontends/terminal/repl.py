"""The REPL: read a prompt, run the turn, show it, repeat."""

from __future__ import annotations

import asyncio
import gc
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, EXIT_HANGUP, EXIT_INTERRUPT, UsageError
from codelet.events import Event
from codelet.frontends.terminal.attention import Attention
from codelet.frontends.terminal.completion import ReplCompleter, ranks_of
from codelet.frontends.terminal.draft import Draft, Pastes, as_prompt, is_plain_prompt
from codelet.frontends.terminal.export_log import ExportLog
from codelet.frontends.terminal.ground import GroundQuestion
from codelet.frontends.terminal.key_sequences import KeyInput
from codelet.frontends.terminal.preferences import Preferences
from codelet.frontends.terminal.prompt_line import PromptLine
from codelet.frontends.terminal.screen import TerminalScreen
from codelet.frontends.terminal.show.style import writable
from codelet.frontends.terminal.slash_commands.forks import Forks, RewoundFiles
from codelet.frontends.terminal.slash_commands.slash_command import Commands, run_if_command
from codelet.frontends.terminal.status_row import StatusRow, greeting
from codelet.loop.session import Session
from codelet.opening import mentioned, unfinished
from codelet.providers.protocol import Effort, Provider
from codelet.safety.verdict import Answer, Mode, Question
from codelet.setting_kinds import ThemeName
from codelet.system.text import clean

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.context.attachments import Person
    from codelet.frontends.terminal.turn_view import TurnStatus, TurnView
    from codelet.frontends.terminal.user_shell import UserShell
    from codelet.providers.choice.known import KnownModel
    from codelet.review.findings import Report
    from codelet.review.reviewed_change import ReviewedChange
    from codelet.safety.sandbox import Confinement

PARTING = "not saved: /export FILE keeps this conversation; Ctrl-D again leaves"
_SHORT_TURNS = 3
"""A conversation of more turns than these is worth a word at its end."""
_AT_ONCE = frozenset({"help", "keys", "status", "context", "context tools", "mode", "model", "permissions"})
"""Commands that act while a turn runs: they look, or set what only the next call reads."""


class Repl:
    """One REPL on one session. `open_model` makes the provider of a model's name and an effort.

    `first` is a prompt to begin with, `models` gives those that can be picked where that one is asked.
    To its commands it is what `ReplControls` says.
    """

    def __init__(
        self,
        session: Session,
        commands: Commands,
        open_model: Callable[[str, Effort | None], Provider],
        log: ExportLog,
        first: str | None = None,
        preferences: Preferences | None = None,
        models: Callable[[str], Awaitable[Sequence[KnownModel]]] | None = None,
        *,
        debug: bool = False,
    ) -> None:
        own = self._preferences = preferences or Preferences()
        self.session = session
        self.commands = commands
        self.log = log
        self.open_model = open_model
        self.screen = TerminalScreen(own.theme, debug=debug)
        self.exit_status: int | None = None
        self.can_resume = log.unfinished
        self.prefill = ""
        self.review: tuple[Report, ReviewedChange] | None = None
        self._first, self._models = first, models
        self.attached: list[str] = []
        self.forks, self.rewound, self.pastes = Forks(), RewoundFiles(), Pastes()
        self.draft = Draft(self.pastes, self._act)
        self._main: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[Confinement | None] | None = None
        self._status = StatusRow(session, self.screen.signs, self.attached)
        self._input = KeyInput(sys.stdin)
        self.prompt_line = PromptLine(
            self._input,
            self.pastes,
            self.draft,
            workspace=session.workspace,
            completer=ReplCompleter(session.workspace, self._command_words, ranks_of(session)),
            status=self._status_row,
            cycle_mode=self._cycle_mode,
            show_whole=self._show_whole,
            sign=self.screen.signs.prompt,
            preferences=own,
            complain=session.notices.say,
            fail=self.screen.fail,
        )
        self.prompt_line.hung_up, self.prompt_line.parting = self._hung_up, self._parting
        self.screen.bottom, self.screen.lent = self.prompt_line.bottom, self.prompt_line.lent
        self.attention = Attention(own.notify, title=own.title, workspace=session.workspace, send=self.screen.send)
        self._ground = GroundQuestion(self._input, lambda ground: self.screen.set_look(ground=ground))

    @cached_property
    def view(self) -> TurnView:
        """Runs the turns; its dialog answers the session's questions."""
        from codelet.frontends.terminal.turn_view import TurnView

        self.screen.renderer.quiet = self.session.reminders.quiet
        view = TurnView(self.screen.renderer, self.prompt_line, self.draft, self.session, self.log)
        self.session.toolbox.ask = self._ask
        self.session.upkeep.steering = self._steering
        return view

    async def loop(self) -> None:
        """Read and evaluate until `exit_status` is set."""
        self._greet()
        self._ground.ask(self.screen.theme)
        self.attention.begin()
        self.prompt_line.start()
        helpers = [asyncio.create_task(self._status.read_branch()), asyncio.create_task(self._prepare())]
        try:
            if self.log.welcome:
                await self.show_resumed(self.log.welcome)
                self._part()
            if self._first is not None:
                await self._begin(self._first)
            while self.exit_status is None:
                text = await self._next()
                if text is not None and self.exit_status is None:
                    await self.evaluate(text)
                    self._part()
            if self.exit_status == EXIT_DONE and self._parting():
                self.screen.note("this conversation was not saved; to keep the next one: codelet --session ~/work.json")
        finally:
            for task in helpers:
                task.cancel()
            self.attention.end()
            await self.prompt_line.close()

    def _parting(self) -> str:
        """Return how to keep a conversation that is worth it."""
        turns = self.session.turns
        is_kept = self.log.export is not None or self.log.exported == turns
        return "" if is_kept or turns <= _SHORT_TURNS else PARTING

    async def _begin(self, text: str) -> None:
        """Take the prompt of the command line: the model gets all that is no /command, for it may come from a file."""
        self._echo(text)
        self.pastes.lines.add(text.strip())
        self.prompt_line.remember(as_prompt(text))
        if not await run_if_command(self, self.commands, text):
            await self.ask_model(text)
        self._part()

    async def evaluate(self, text: str) -> None:
        """Run one line: a command, a shell command, a fact to keep, or a prompt for the model."""
        if is_plain_prompt(text):
            self._say_why_prompt(text.strip())
            await self.ask_model(text.strip())
            return
        if self._is_fact(text):
            text = f"/facts add {text.lstrip('#').strip()}"
        text = text.strip()
        try:
            found = self.commands.find(text)
        except LookupError as error:
            self.screen.fail(str(error.args[0]))
            return
        if found is not None:
            command, argument = found
            await command.run(self, self.pastes.expand(argument))
            self.log.save()
        elif self._is_shell(text):
            await self._shell(text).run()
        elif text:
            await self.ask_model(text)

    async def ask_model(self, text: str, *, typed: bool = False) -> None:
        """Send a prompt with the files that it names; one whose picture cannot be sent goes back to the editor.

        `typed`: the user meant each file that it names.
        """
        person = self._person(text, typed=typed)
        try:
            brought = await mentioned(self.session, text, person=person, pasted=self.pastes.pictures)
        except UsageError as error:
            self.screen.fail(str(error))
            self.prefill = text
            return
        if brought is not None:
            told = [f"attached: {', '.join(brought.names)}"] if brought.names else []
            for note in (*told, *brought.notes):
                self.screen.note(note)
        self.screen.renderer.keep_prompt(self.session.mask(text))
        await self.turn(self.session.send(self._with_attached(text), None, brought))

    def _command_words(self) -> list[tuple[str, str, Sequence[str]]]:
        """The commands with their help and the words that may follow, for the completion."""
        return [(each.name, each.help, each.words) for each in self.commands.listed]

    def _person(self, text: str, *, typed: bool) -> Person:
        from codelet.context.attachments import Person

        pasted = not typed and self.pastes.holds(text)
        return Person(lambda at: not pasted, self._confirm_file)

    async def _confirm_file(self, path: str, reason: str) -> bool:
        """Ask whether a file is attached."""
        from rich.text import Text

        head = Text(clean(f"Attach {path}? It{reason.removeprefix(path)}."))
        return await self.choose([head], [Text("no, send the prompt without it"), Text("yes, attach it")]) == 1

    async def turn(self, events: AsyncGenerator[Event, None]) -> None:
        """Run one turn. When it was stopped or failed, what was queued goes back to the editor."""
        outcome = await self.watch(events)
        self.can_resume = outcome != "done" and unfinished(self.session)
        if outcome == "failed" and self.can_resume:
            self.screen.note('type "continue" to retry, or a new prompt')
        await self._status.read_branch()

    async def watch(self, events: AsyncGenerator[Event, None]) -> TurnStatus:
        """Show a turn or other events, such as those of a compaction, and let the user stop them."""
        since = time.monotonic()
        self.attention.title("working")
        outcome = await self.view.run(events)
        self.attention.ended(time.monotonic() - since, outcome)
        return outcome

    async def _ask(self, question: Question) -> Answer:
        self.attention.asked()
        answer = await self.view.approver.ask(question)
        self.attention.title("working")
        return answer

    async def choose(self, head: Sequence[Text], options: Sequence[Text]) -> int | None:
        """The place of the option that the user chooses; None for none. `head` is printed above."""
        from codelet.frontends.terminal.menu import choose

        return await choose(self.screen.renderer, self.prompt_line, head, options)

    def show(self, event: Event) -> None:
        """Show one event that belongs to no turn."""
        self.screen.renderer.show(event)
        self.screen.renderer.stop()

    @property
    def theme(self) -> ThemeName:
        """The theme in force."""
        return self.screen.theme

    def set_theme(self, theme: ThemeName) -> None:
        """Go on in another theme."""
        self.screen.set_look(theme)
        self.prompt_line.use_colours(theme != "plain")
        self._ground.ask(theme)

    async def pick_model(self) -> str | None:
        """The model that the user picks of those that can be asked now, or None; see `ReplControls`."""
        if self._models is None or self.view.is_running:
            return None
        from codelet.frontends.terminal.menu import pick_model

        models = await self._models(now := self.session.provider.model)
        return await pick_model(self.screen.renderer, self.prompt_line, models, now)

    def set_mode(self, mode: Mode) -> None:
        """Switch the policy's mode."""
        self.session.policy.mode = mode

    async def confinement(self) -> Confinement | None:
        """Return what confines commands in this mode; None if nothing is to."""
        sandbox = self.session.safeguards.sandbox
        if sandbox is None or not sandbox.wanted:
            return None
        found = await sandbox.look()
        self.prompt_line.refresh()
        return found

    async def warm_up(self) -> None:
        """Ready the model in the background, where it needs that: never in the way of a key."""
        await self.session.provider.warm()
        self.session.upkeep.ask_server()

    async def run(self) -> int:
        """The whole REPL; its exit status."""
        self._main = asyncio.create_task(self.loop())
        try:
            await self._main
        except asyncio.CancelledError:
            if self.exit_status is None:
                raise
        except OSError:
            # The terminal is gone: writing to it fails before the signal comes.
            if sys.stdout.isatty():
                raise
            self.exit_status = EXIT_HANGUP
        return EXIT_INTERRUPT if self.exit_status is None else self.exit_status

    async def _next(self) -> str | None:
        """The next line: one that was queued while a turn ran, else what the user types now."""
        if self.draft.queued and (self.draft.sent or not self.can_resume):
            text = self.draft.next_line()
            self._echo(text)
            self.prompt_line.remember(text)
            return text
        if self.draft.left or (self.draft.leaving and not self.can_resume):
            self.exit_status = EXIT_DONE
            return None
        default = "\n".join(part for part in (as_prompt(self.pastes.fold(self.prefill)), self.draft.withdraw()) if part)
        self.prefill = ""
        following = asyncio.create_task(self._status.follow(self.prompt_line.refresh))
        try:
            text = await self.prompt_line.read(default)
            self._echo(text)
            return text
        except EOFError:
            self.exit_status = EXIT_HANGUP if self._input.closed else self.prompt_line.exit_status
            return None
        finally:
            following.cancel()

    def _with_attached(self, text: str) -> str:
        """A prompt as the model gets it: outputs that go along with it, then the text with its pastes."""
        whole = "\n\n".join([*self.attached, *self.rewound.told(self.session.turns + 1), self.pastes.expand(text)])
        self.attached.clear()
        return whole

    def _steering(self) -> list[str]:
        """Return what was typed for the model since the last step."""
        lines = self.draft.for_the_model(self._is_prompt)
        for line in lines:
            self.prompt_line.remember(line)
        return [self._with_attached(line.strip()) for line in lines]

    def _is_prompt(self, line: str) -> bool:
        """Return whether a line is nothing but words for the model."""
        try:
            acts = line.strip().startswith(("!", "#")) or self.commands.find(line) is not None
            return is_plain_prompt(line) or self._is_image(line) or not acts
        except LookupError:
            return False

    def _act(self, line: str) -> bool:
        """Do what a line asks for while a turn runs, where the turn does not mind."""
        text = line.strip()
        if is_plain_prompt(line):
            return False
        try:
            found = self.commands.find(text)
        except LookupError:
            return False
        if found is None or found[0].name not in _AT_ONCE or (found[0].name == "model" and found[1]):
            return False
        self._echo(text)
        self.view.beside(found[0].run(self, found[1]))
        return True

    def _is_shell(self, text: str) -> bool:
        return text.startswith("!") and not self._is_image(text)

    def _is_fact(self, text: str) -> bool:
        return text.startswith("#") and "\n" not in text.strip() and "facts" in self.session.commands

    def _is_image(self, text: str) -> bool:
        """Return whether a line begins as an image does in Markdown."""
        return self.pastes.expand(text).startswith("![")

    def _say_why_prompt(self, text: str) -> None:
        """Say that a line did not act, as it was pasted or begins with a space."""
        if "\n" not in text and (self._is_shell(text) or self._is_fact(text)):
            self.screen.note(f"sent to the model: a {text[0]} acts only if you type it first in the line")

    def _shell(self, text: str) -> UserShell:
        from codelet.frontends.terminal.user_shell import UserShell

        return UserShell(self.pastes.expand(text), self.session, self.screen, self.attached)

    def _greet(self) -> None:
        rows = greeting(self.session, shutil.get_terminal_size().columns, self.screen.signs)
        sys.stdout.write(writable("".join(f"{row}\n" for row in rows), sys.stdout))
        sys.stdout.flush()

    async def show_resumed(self, note: str) -> None:
        """Show where a conversation from a file was left: the last turns, the plan, and then the note."""
        from rich.text import Text

        from codelet.frontends.terminal.show.last_turn import show_last_turns

        show_last_turns(self.screen.renderer, self.session.messages, self.session.mask)
        if self.log.carried is not None and self.log.carried.plan and "plan" in self.session.commands:
            self.screen.say(Text())
            self.screen.text(await self.session.run_command("plan"))
        self.screen.say(Text())
        self.screen.note(note)

    def _part(self) -> None:
        """Print the export's remarks, and a blank row before the next prompt."""
        from rich.text import Text

        for line in (*self.log.notices(), *self.session.notices.take()):
            self.screen.note(line)
        if self.exit_status is None:
            self.screen.say(Text())

    def _echo(self, text: str) -> None:
        self.screen.renderer.say_prompt(text)

    async def _prepare(self) -> None:
        """Import what the first turn needs while the user types."""
        await asyncio.sleep(0.05)
        await asyncio.to_thread(_import_later)
        if not gc.isenabled():  # the prompt is there and everything is imported; see cli.main
            gc.freeze()
            gc.enable()
        await self.warm_up()
        await self.confinement()

    def _cycle_mode(self) -> None:
        from codelet.frontends.terminal.slash_commands.change_session import next_mode

        next_mode(self)
        self._looking = asyncio.create_task(self.confinement())

    async def _show_whole(self) -> None:
        """Show whole what the screen shows in part, in the pager, or above the line."""
        from codelet.frontends.terminal.pager import show_last

        await show_last(self.screen)

    def _status_row(self) -> str:
        is_running = "view" in vars(self) and self.view.is_running
        return self._status.row(shutil.get_terminal_size().columns, running=is_running)

    def _hung_up(self) -> None:
        """The terminal is gone: stop the running turn and end."""
        self.exit_status = EXIT_HANGUP
        if self._main is not None:
            self._main.cancel()


def _import_later() -> None:
    """Import what draws turns, so that the first one does not wait for it."""
    import markdown_it
    import markdown_it.tree
    import rich.console

    import codelet.frontends.terminal.turn_view
    from codelet.frontends.terminal.show.highlight import prepare

    prepare("python")
    del markdown_it, rich, codelet
