"""A /command, what one may act on, and the list in which a typed line finds it."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from codelet.events import Event
from codelet.frontends.mistakes import PEER_SLASH
from codelet.frontends.terminal.screen import Screen
from codelet.frontends.terminal.show.style import ACCENT
from codelet.loop.session import Session
from codelet.record import Record
from codelet.safety.verdict import Mode
from codelet.system.text import one_line
from codelet.system.text.spelling import nearest

if TYPE_CHECKING:
    from rich.text import Text

    from codelet.frontends.terminal.draft import Pastes
    from codelet.frontends.terminal.export_log import ExportLog
    from codelet.frontends.terminal.slash_commands.forks import Forks, RewoundFiles
    from codelet.frontends.terminal.turn_view import TurnStatus
    from codelet.providers.protocol import Effort, Provider
    from codelet.review.findings import Report
    from codelet.review.reviewed_change import ReviewedChange
    from codelet.safety.sandbox import Confinement
    from codelet.setting_kinds import ThemeName

_NAME = re.compile(r"\?|[a-z0-9_:.-]*[a-z][a-z0-9_:.-]*")
"""What a command can be called: /1 and a path such as /etc/hosts are for the model."""
_NARROWEST = 20
"""Columns that a meaning needs beside its name."""
_NAMES = 24
"""Columns that names may take of any screen, of a wide one a third."""


class ReplControls(Protocol):
    """What a command may do to the REPL that runs it, besides writing on its screen.

    `attached` are outputs that go along with the next prompt, `prefill` is what the line editor begins with. `pastes`
    knows the long ones that stand behind markers. `exit_status` ends the REPL once it is set. `can_resume` says that
    `continue` has a turn to take up. `forks` are conversations that were put aside, `rewound` the files that were put
    back. `review` is the last one.
    """

    session: Session
    log: ExportLog
    attached: list[str]
    pastes: Pastes
    prefill: str
    can_resume: bool
    exit_status: int | None
    review: tuple[Report, ReviewedChange] | None
    forks: Forks
    rewound: RewoundFiles

    @property
    def screen(self) -> Screen:
        """Return where commands write."""

    def open_model(self, name: str, effort: Effort | None, /) -> Provider:
        """The provider of a model by its name, asked for that effort. Raises CodeletError."""

    @property
    def theme(self) -> ThemeName:
        """The theme in force."""

    def set_theme(self, theme: ThemeName) -> None:
        """Go on in another theme."""

    async def pick_model(self) -> str | None:
        """The model that the user picks of those that can be asked now; None if they pick none, or nothing can be
        picked: there is none, or a turn runs.
        """

    def set_mode(self, mode: Mode) -> None:
        """Switch the policy's mode."""

    async def confinement(self) -> Confinement | None:
        """Return what confines commands in this mode; None if nothing is to."""

    async def warm_up(self) -> None:
        """Ready the model in the background."""

    def show(self, event: Event) -> None:
        """Show one event that belongs to no turn."""

    async def show_resumed(self, note: str, /) -> None:
        """Show where a conversation from a file was left, and then the note."""

    async def choose(self, head: Sequence[Text], options: Sequence[Text], /) -> int | None:
        """The place of the option that the user chooses; None for none. `head` is printed above."""

    async def ask_model(self, text: str, /, *, typed: bool = False) -> None:
        """Send a prompt. `typed`: the user meant each file that it names."""

    async def turn(self, events: AsyncGenerator[Event, None]) -> None:
        """Run a turn, which the user can stop."""

    async def watch(self, events: AsyncGenerator[Event, None]) -> TurnStatus:
        """Show events that are no turn, and let the user stop them."""


_KEYS = (
    ("/", "commands; /help lists them"),
    ("@", "attach a file or an image; Tab completes its name"),
    ("!", "run a shell command yourself; the model sees its output"),
    ("Enter", "send; while a turn runs, add to it"),
    ("Alt-Enter", "new line"),
    ("Shift-Tab", "next mode: ask, auto-edit, auto, read-only"),
    ("Esc", "stop the turn; continue resumes it"),
    ("Esc Esc", "go back to an earlier prompt"),
    ("Ctrl-O", "show the last output in full"),
    ("Ctrl-R", "search earlier prompts"),
    ("Ctrl-V", "attach the image in the clipboard"),
    ("Ctrl-D", "leave"),
)
"""The keys to know first. `KEYS_HELP` has all of them."""

ShowHandler = Callable[[Screen, Session, str], Awaitable[None]]
"""Runs a command that needs no terminal; the text is what stands after its name."""
ReplHandler = Callable[[ReplControls, str], Awaitable[None]]


class SlashCommand(Record):
    """One command: `/name arguments`. In the REPL `act` runs it where it is there, without a terminal only `show` can.

    A name of two words is a command of the first one. `aliases` are other names for it; `bare` says that it works
    without the slash; `words` are those that may come first behind it, for who completes them. `topic` is the heading
    under which /help lists it, unless it is not `listed`. One that `prompts` gives the model a prompt: only
    `Session.run_command` knows its text.
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
        """The name and the aliases."""
        return (self.name, *self.aliases)

    async def run(self, repl: ReplControls, argument: str) -> None:
        """Run it in the REPL."""
        if self.act is not None:
            await self.act(repl, argument)
        elif self.show is not None:
            await self.show(repl.screen, repl.session, argument)


class Commands:
    """The commands of one session, `/help` first. `elsewhere` maps names that other programs use to those used here.

    `keys` are a terminal's, each with what it does; without them /help lists what works without a terminal. `first` are
    the commands that it shows of all. `more` gives the commands of extensions, which change; of two with one name the
    first counts.
    """

    def __init__(
        self,
        commands: Sequence[SlashCommand],
        elsewhere: Mapping[str, str] | None = None,
        keys: Sequence[tuple[str, str]] = (),
        first: Sequence[str] = (),
        more: Callable[[], Iterable[SlashCommand]] = tuple,
    ) -> None:
        aliases = () if keys else ("?",)
        about = SlashCommand(
            "help", "the commands; all of them, one topic, or one", self.help, None, "[all|TOPIC|COMMAND]", aliases,
            bare=True, words=("all",),
        )  # fmt: skip
        sheet = SlashCommand("keys", "the keys, in short", act=_show_keys, aliases=("?",), bare=True)
        self._first = first
        self._more = more
        self._commands = (about, sheet, *commands) if keys else (about, *commands)
        self._elsewhere = elsewhere or {}
        self._keys = keys

    def __iter__(self) -> Iterator[SlashCommand]:
        """All commands in the order in which they are listed."""
        own = {name for command in self._commands for name in command.names}
        return iter((*self._commands, *(each for each in self._more() if each.name not in own)))

    def find(self, text: str) -> tuple[SlashCommand, str] | None:
        """The command that a line means, with its argument; None if the line is a prompt for the model.

        Raises LookupError for a slash and a word that is no command, naming the closest one, and for words after a
        command that takes none.
        """
        word, _, argument = text.strip().partition(" ")
        if not word.startswith("/"):
            bare = (command for command in self if command.bare and not argument)
            named = (command for command in bare if word.lower() in (name for name in command.names if name != "q"))
            return next(((command, "") for command in named), None)
        name = word[1:].lower()
        if not name:
            raise LookupError("a command has its name right after the /; /help lists them")
        if not _NAME.fullmatch(name):
            return None
        part, _, rest = argument.strip().partition(" ")
        if part and (found := self._named(f"{name} {part.lower()}")) is not None:
            name, argument = found.name, rest
        else:
            found = self._named(name)
        if found is None:
            raise LookupError(self._unknown(name))
        if argument.strip() and not found.arguments:
            raise LookupError(f"/{name} takes nothing after it, so nothing was done: {one_line(argument, 60)}")
        return found, argument.strip()

    def named_by(self, prompt: str) -> tuple[SlashCommand, str] | None:
        """The command that a prompt of the command line means, with its argument; None for one that is for the model.

        Raises LookupError for a word that is nearly a command; a path such as /etc/hosts is none.
        """
        if not prompt.startswith("/"):
            return None
        name = prompt.split(maxsplit=1)[0][1:]
        try:
            return self.find(prompt)
        except LookupError as error:
            if not name or (self.near(name.lower()) is None and name.lower() not in PEER_SLASH):
                return None
            raise LookupError(f"{error.args[0]}; to send it as a prompt, start with a space") from None

    def near(self, name: str) -> str | None:
        """The command that was probably meant by a name that none has."""
        names = [name for command in self for name in command.names if " " not in name]
        begun = (known for known in names if known.startswith(name))
        meant = self._elsewhere.get(name)
        return (meant if meant in names else None) or nearest(name, names) or next(begun, None)

    @property
    def listed(self) -> list[SlashCommand]:
        """The commands that /help all lists: without a terminal those that work there."""
        return [command for command in self if command.listed and (self._keys or command.show or command.prompts)]

    async def help(self, screen: Screen, session: Session, argument: str) -> None:
        """Show the commands and keys to know first; all of them; those of a topic; or one with its parts."""
        from rich.text import Text

        name = argument.removeprefix("/").lower()
        topics = list(dict.fromkeys(command.topic for command in self.listed))
        parts = [command for command in self if command.name == name or command.name.startswith(f"{name} ")]
        if name == "all" or (not name and not self._keys):
            for topic in topics:
                screen.say(Text(topic, "bold"), *self._rows(topic, screen))
            if self._keys:
                screen.say(Text("keys", "bold"), *_columns((*_TYPED, *self._keys), _name_width(self._keys), screen))
        elif not name:
            shown = [(f"/{command.name}", command.help) for command in self if command.name in self._first]
            screen.say(*_columns((*shown, *_KEYS[1:6]), _name_width(_KEYS), screen))
            hint = f"/help all lists everything · /help {'|'.join(topics)} · /help COMMAND · ? shows the keys"
            screen.note(hint)
        elif name in topics and not parts:
            screen.say(*self._rows(name, screen))
        elif entries := [_entry(command) for command in parts or self if parts or name in command.names]:
            screen.say(*_columns(entries, min(_name_width(entries), max(screen.width // 3, _NAMES)), screen))
        else:
            screen.fail(self._unknown(name))

    def _rows(self, topic: str, screen: Screen) -> list[Text]:
        entries = [_entry(command) for command in self.listed if command.topic == topic]
        width = max(_name_width([_entry(command)]) for command in self.listed)
        return _columns(entries, min(width, max(screen.width // 3, _NAMES)), screen)

    def _named(self, name: str) -> SlashCommand | None:
        return next((command for command in self if name in command.names), None)

    def _unknown(self, name: str) -> str:
        if name in PEER_SLASH:
            return f"there is no command /{name}: {PEER_SLASH[name]}"
        close = self.near(name)
        if close is None:
            return f"there is no command /{name}; /help lists them"
        begun = [command.name for command in self.listed if command.name.startswith(name) and " " not in command.name]
        *others, last = [f"/{each}" for each in (begun if begun and close.startswith(name) else [close])]
        meant = f"{', '.join(others)} or {last}" if others else last
        return f"there is no command /{name}; did you mean {meant}?"


_TYPED = (
    ("!COMMAND", "run a shell command; the model sees its output with your next prompt"),
    ("!!COMMAND", "the same, and the model does not see its output"),
    ("#TEXT", "keep a fact that the model is told from now on"),
    ("@PATH", "attach a file, with completion"),
)


def _entry(command: SlashCommand) -> tuple[str, str]:
    return f"/{command.name} {command.arguments}".rstrip(), command.help


def _name_width(entries: Iterable[tuple[str, str]]) -> int:
    return max(len(name) for name, _ in entries) + 2


async def _show_keys(repl: ReplControls, argument: str) -> None:
    """Show the most important keys."""
    repl.screen.say(*_columns(_KEYS, max(len(key) for key, _ in _KEYS) + 2, repl.screen))


async def run_if_command(repl: ReplControls, commands: Commands, prompt: str) -> bool:
    """Run the command line's prompt where it is a command that -p would run; any other waits in the line for Enter.

    False for a prompt that is no command.

    The prompt may come from a file, which is to change nothing outside the session by what it begins with.
    """
    try:
        found = commands.named_by(prompt)
    except LookupError as error:
        repl.screen.fail(str(error.args[0]))
        repl.prefill = prompt
        return True
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


def _columns(entries: Iterable[tuple[str, str]], name_width: int, screen: Screen) -> list[Text]:
    """Names beside their meanings, which continue below themselves; above them where the screen is narrow.

    A name that is longer than its column has a row of its own, for one long name would leave all meanings little room.
    """
    from rich.text import Text

    from codelet.frontends.terminal.show.console import wrap, wrap_indented

    room = screen.width - name_width - 2
    rows = []
    for name, meaning in entries:
        if room < _NARROWEST:
            rows += wrap_indented(Text(name, ACCENT), screen.width, "  ")
            rows += wrap_indented(Text(meaning), screen.width, "    ")
            continue
        lead = name
        if len(name) + 2 > name_width:
            rows += wrap_indented(Text(name, ACCENT), screen.width, "  ")
            lead = ""
        for row in wrap(Text(meaning), room):
            rows.append(Text.assemble((f"  {lead:<{name_width}}", ACCENT), row.plain))
            lead = ""
    return rows
