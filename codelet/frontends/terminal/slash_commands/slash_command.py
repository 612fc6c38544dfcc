"""A /command, the REPL that it controls, and the list that finds one for a line."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from codelet.errors import UsageError
from codelet.events import Event
from codelet.frontends.mistakes import PEER_SLASH
from codelet.frontends.terminal.help_page import page_rows, topics
from codelet.frontends.terminal.screen import Screen, styled
from codelet.frontends.terminal.show.style import ACCENT
from codelet.loop.session import Session
from codelet.record import Record
from codelet.system.text import one_line
from codelet.system.text.spelling import nearest

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.frontends.terminal.export_log import ExportLog
    from codelet.frontends.terminal.slash_commands.forks import Forks, RewoundFiles
    from codelet.frontends.terminal.turn_view import TurnStatus
    from codelet.providers.protocol import Effort, Provider
    from codelet.review.findings import Report
    from codelet.setting_kinds import ThemeName

_NAME = re.compile(r"\?|[a-z0-9_:.-]*[a-z][a-z0-9_:.-]*")
"""A command's name. /1 and a path such as /etc/hosts are not."""
_NARROW = 50
"""A screen with fewer columns has no room for two of them."""
_NAMES = 24
"""Columns for the names, or a third of a wide screen."""


class ReplControls(Protocol):
    """The REPL as commands use it.

    `attached` is command output for the next prompt, `prefill` the next text of the input line. A value in
    `exit_status` ends the REPL. `can_resume`: `continue` has a turn to resume. `review` is the last review.
    """

    session: Session
    log: ExportLog
    attached: list[str]
    prefill: str
    can_resume: bool
    exit_status: int | None
    review: Report | None
    forks: Forks
    rewound: RewoundFiles

    @property
    def screen(self) -> Screen: ...

    def open_model(self, name: str, effort: Effort | None, /) -> Provider:
        """Return a model's provider. Raises CodeletError."""

    @property
    def theme(self) -> ThemeName: ...

    def set_theme(self, theme: ThemeName) -> None: ...

    async def pick_model(self) -> str | None:
        """Return the model picked from a list; None if no list can be shown, or nothing is picked."""

    async def warm_up(self) -> None:
        """Prepare the model in the background."""

    def show(self, event: Event) -> None: ...

    async def show_resumed(self, note: str, /) -> None:
        """Show the last turns of a resumed conversation, then the note."""

    async def choose(self, head: Sequence[Text], options: Sequence[Text], /) -> int | None:
        """Print `head` and return the index of the chosen option, or None."""

    def words_of(self, prompt: str, /) -> str:
        """Return what the user typed of a prompt, without the command output sent with it; pastes are folded."""

    def edit_again(self, prompt: str, /) -> None:
        """Return a prompt to the input line; the command output sent with it goes with the next prompt."""

    async def ask_model(self, text: str, /, *, typed: bool = False) -> None:
        """Send a prompt. `typed`: the files that it names may be attached."""

    async def turn(self, events: AsyncGenerator[Event, None]) -> None: ...

    async def watch(self, events: AsyncGenerator[Event, None]) -> TurnStatus:
        """Show events that are not a turn until they end or the user stops them."""


KEYS = (
    ("/", "commands; Tab completes them, /help lists them"),
    ("@PATH", "attach a file or an image; Tab completes its name"),
    ("!COMMAND", "run a shell command yourself; the model sees its output"),
    ("Shift-Tab", "next mode: ask, auto-edit, auto, read-only, plan"),
    ("Esc, Ctrl-C", "stop the turn; continue resumes it"),
    ("Enter", "send; while a turn runs, add to it (Up takes the line back)"),
    ("Esc Esc", "go back to an earlier prompt, like /rewind"),
    ("Alt-Enter, Ctrl-J", "new line; while a turn runs, Alt-Enter sends after it"),
    ("Ctrl-O", "show the last output, change or answer in full"),
    ("Ctrl-R", "search earlier prompts"),
    ("Ctrl-V", "attach the image in the clipboard"),
    ("Ctrl-X Ctrl-E", "edit the line in $VISUAL or $EDITOR"),
    ("!!COMMAND", "like !COMMAND, but the model does not see the output"),
    ("#TEXT", "keep a fact for the model"),
    ("Ctrl-D, Ctrl-C twice", "leave"),
)
_FIRST_KEYS = KEYS[1:5]

ShowHandler = Callable[[Screen, Session, str], Awaitable[None]]
"""Runs a command anywhere; the text is its argument."""
ReplHandler = Callable[[ReplControls, str], Awaitable[None]]
"""Runs a command in the REPL."""


class SlashCommand(Record):
    """A command: `/name arguments`. The REPL calls `act`, or `show` without one; everything else calls `show`.

    A name of two words is a subcommand. `bare`: works without the slash. `words` complete the first argument. `topic`
    is its heading in /help, unless it is not `listed`. `prompts`: its text is a prompt, from `Session.run_command`.
    """

    name: str
    help: str
    show: ShowHandler | None = None
    act: ReplHandler | None = None
    arguments: str = ""
    aliases: tuple[str, ...] = ()
    bare: bool = False
    words: tuple[str, ...] = ()
    topic: str = "work"
    listed: bool = True
    prompts: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.aliases)

    async def run(self, repl: ReplControls, argument: str) -> None:
        """Run it in the REPL."""
        if self.act is not None:
            await self.act(repl, argument)
        elif self.show is not None:
            await self.show(repl.screen, repl.session, argument)


class Commands:
    """A session's commands, `/help` first. `elsewhere` maps other programs' names to ours.

    `in_repl`: keys and commands of the REPL are listed, too. `first` are the commands of the short /help. `more`
    returns the extensions' commands; a name that is taken is ignored.
    """

    def __init__(
        self,
        commands: Sequence[SlashCommand],
        more: Callable[[], Iterable[SlashCommand]],
        *,
        elsewhere: Mapping[str, str],
        first: Sequence[str],
        in_repl: bool,
    ) -> None:
        about = SlashCommand(
            "help", "the commands; all of them, one command, or a page", self.help, None, "[all|COMMAND|TOPIC]",
            () if in_repl else ("?",), bare=True, words=("all", *topics()),
        )  # fmt: skip
        sheet = SlashCommand("keys", "the keys", act=self._keys, aliases=("?",), bare=True)
        self._first, self._more, self._elsewhere, self._in_repl = first, more, elsewhere, in_repl
        self._commands = (about, sheet, *commands) if in_repl else (about, *commands)

    def __iter__(self) -> Iterator[SlashCommand]:
        """All commands, in the order of /help."""
        own = {name for command in self._commands for name in command.names}
        return iter((*self._commands, *(each for each in self._more() if each.name not in own)))

    def find(self, text: str) -> tuple[SlashCommand, str] | None:
        """Return the line's command and argument; None for a prompt.

        Raises UsageError for an unknown command, naming the closest one, and for an argument that it does not take.
        """
        word, _, argument = text.strip().partition(" ")
        if not word.startswith("/"):
            bare = (command for command in self if command.bare and not argument)
            named = (command for command in bare if word.lower() in (name for name in command.names if name != "q"))
            return next(((command, "") for command in named), None)
        name = word[1:].lower()
        if not name:
            raise UsageError("type a command's name right after the /; /help lists them")
        if not _NAME.fullmatch(name):
            return None
        part, _, rest = argument.strip().partition(" ")
        if part and (found := self._named(f"{name} {part.lower()}")) is not None:
            name, argument = found.name, rest
        else:
            found = self._named(name)
        if found is None:
            raise UsageError(self._unknown(name))
        if argument.strip() and not found.arguments:
            raise UsageError(f"/{name} takes no argument; not run: {one_line(argument, 60)}")
        return found, argument.strip()

    def named_by(self, prompt: str) -> tuple[SlashCommand, str] | None:
        """Return the command and argument of a prompt from the command line; None for a prompt.

        Raises UsageError for a word that is nearly a command. A path such as /etc/hosts is a prompt.
        """
        if not prompt.startswith("/"):
            return None
        name = prompt.split(maxsplit=1)[0][1:]
        try:
            return self.find(prompt)
        except UsageError as error:
            if not name or (self.near(name.lower()) is None and name.lower() not in PEER_SLASH):
                return None
            raise UsageError(f"{error}; to send it as a prompt, start with a space") from None

    def near(self, name: str) -> str | None:
        """Return the command probably meant by an unknown name."""
        names = [command.name for command in self if " " not in command.name]
        begun = (known for known in names if known.startswith(name))
        names += [alias for command in self for alias in command.aliases]
        meant = self._elsewhere.get(name)
        return (meant if meant in names else None) or next(begun, None) or nearest(name, names)

    @property
    def listed(self) -> list[SlashCommand]:
        """The commands of /help all."""
        return [command for command in self if command.listed and (self._in_repl or command.show or command.prompts)]

    async def help(self, screen: Screen, session: Session, argument: str) -> None:
        """Show the first commands and keys, all of them, a command, or a page of `codelet help`."""
        name = argument.removeprefix("/").lower()
        pages = ("/help TOPIC", ", ".join(topics()))
        parts = [command for command in self if command.name == name or command.name.startswith(f"{name} ")]
        entries = [_entry(command) for command in parts or self if parts or name in command.names]
        if name == "all" or (not name and not self._in_repl):
            listed = self.listed
            for topic in dict.fromkeys(command.topic for command in listed):
                own = [_entry(command) for command in listed if command.topic == topic]
                screen.say(styled((topic, "bold")), *_columns(own, screen, [*map(_entry, listed)]))
            if self._in_repl:
                screen.say(styled(("keys", "bold")), *_columns(KEYS, screen))
            screen.say(styled(("pages", "bold")), *_columns([pages], screen))
        elif not name:
            shown = [(f"/{command.name}", command.help) for command in self if command.name in self._first]
            screen.say(*_columns([*shown, *_FIRST_KEYS, pages], screen))
            screen.note("/help all lists every command; ? shows the keys")
        elif entries:
            screen.say(*_columns(entries, screen))
        elif name not in topics():
            raise UsageError(self._unknown(name))
        if name in topics():
            screen.say(*([styled()] if entries else []), *page_rows(name, screen.width, "/help"))

    async def _keys(self, repl: ReplControls, argument: str) -> None:
        repl.screen.say(*_columns(KEYS, repl.screen))

    def _named(self, name: str) -> SlashCommand | None:
        return next((command for command in self if name in command.names), None)

    def _unknown(self, name: str) -> str:
        if name in PEER_SLASH:
            return f"there is no command /{name}: {PEER_SLASH[name]}"
        close = self.near(name)
        return f"there is no command /{name}; {f'did you mean /{close}?' if close else '/help lists them'}"


def _entry(command: SlashCommand) -> tuple[str, str]:
    return f"/{command.name} {command.arguments}".rstrip(), command.help


async def run_if_command(repl: ReplControls, commands: Commands, prompt: str) -> bool:
    """Run the command line's prompt if it is a command; return whether it is one.

    Only commands that -p runs start without Enter: the prompt may come from a file.
    """
    try:
        found = commands.named_by(prompt)
    except UsageError:
        repl.prefill = prompt
        raise
    if found is None:
        return False
    command, argument = found
    if command.prompts:
        await command.run(repl, argument)
    elif command.show is not None:
        await command.show(repl.screen, repl.session, argument)
    else:
        repl.screen.note(f"/{command.name} runs with Enter")
        repl.prefill = prompt
    return True


def _columns(entries: Sequence[tuple[str, str]], screen: Screen, among: Sequence[tuple[str, str]] = ()) -> list[Text]:
    """Rows of names and meanings in two columns, the first as wide as the names of `among` need; on a narrow screen in
    one.
    """
    from rich.table import Table

    from codelet.frontends.terminal.show.console import drawn_rows, wrap_indented

    if screen.width < _NARROW:
        pairs = [(screen.indented(styled((name, ACCENT))), styled(meaning)) for name, meaning in entries]
        return [row for name, meaning in pairs for row in (*name, *wrap_indented(meaning, screen.width, "    "))]
    longest = max(len(name) for name, _ in among or entries)
    table = Table.grid(padding=(0, 2))
    table.add_column(style=ACCENT, width=min(longest, max(screen.width // 3, _NAMES)), overflow="fold")
    table.add_column(overflow="fold")
    for name, meaning in entries:
        table.add_row(styled(name), styled(meaning))
    return [styled("  ") + row for row in drawn_rows(table, screen.width - 2)]
