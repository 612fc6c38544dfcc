"""Programs that have the terminal for a time: the commands of `!` lines, the user's pager and editor."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import re
import shlex
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which

from codelet.errors import UsageError
from codelet.frontends.terminal.screen import TerminalScreen
from codelet.frontends.terminal.show.event_rows import how_it_ended
from codelet.frontends.terminal.show.renderer import part_rows
from codelet.loop.session import Session
from codelet.safety.secrets import Masker, MaskStream
from codelet.settings import current_folder
from codelet.system.process import Finished, StartError, find_program, run_child
from codelet.system.process.foreground import run_on_terminal
from codelet.system.process.start import attended_environment, supplied_by
from codelet.system.text.printout import FULL_SCREEN, SCREENFUL, as_printed
from codelet.tools.bash import exit_line

_KEPT = 30_000
_SECONDS = 86_400.0
_CHUNK = 1 << 16
_HELD_SECONDS = 0.02
"""The time that a possible start of a secret stays hidden."""
_BACK_TO_NORMAL = (
    "\x1b7\x1b[r\x1b8\x1b[0m\x1b[?25h\x1b[?1l\x1b>\x0f\x1b(B"
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l"
)
"""Resets what a killed program may have left: scrolled rows, colours, cursor, charset, mouse, paste mode."""
_LEAVE_SCREEN = "\x1b[?1049l"
_ENTERED = re.compile(rf"{FULL_SCREEN.pattern}(?!.*\x1b\[\?(?:1049|1047|47)l)", re.DOTALL)
"""A full screen that a program has not left."""


async def run_user_command(line: str, session: Session, screen: TerminalScreen, attached: list[str]) -> None:
    """Run a `!` line on its own terminal, so vim, `git add -p` and sudo work. Raises CodeletError.

    Its output goes to `attached`, for the next prompt; that of a `!!` line does not.
    """
    words = line.lstrip("!").strip()
    if not words:
        raise UsageError("write the shell command right after the !, or after !! to keep its output from the model")
    masker = session.toolbox.masker
    command = _TerminalCommand(words, session.workspace, masker)
    try:
        async with screen.lent(command.resized):
            await command.run()
    except StartError as error:
        raise UsageError(str(error)) from None
    screen.renderer.printed()
    if command.exit_code is None:
        screen.note("stopped")
    elif command.exit_code:
        screen.fail(how_it_ended(command.exit_code))
    if (first := words.split()[0]) in ("cd", "pushd", "popd", "export"):
        screen.note(f"{first} has no lasting effect: each ! starts a new shell in the workspace")
    if not line.startswith("!!"):
        attached.append(masker.mask(command.text))


class _TerminalCommand:
    """One run; `exit_code` is None if the user stopped it. `text` is for the model.

    Keys go to the command directly. Its output is shown unchanged, except for secrets of the environment.
    """

    def __init__(self, command: str, workspace: Path, masker: Masker) -> None:
        self._command, self._workspace = command, workspace
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._masking = MaskStream(masker)
        self._flush: asyncio.TimerHandle | None = None
        self._printed, self._cut, self._keys = "", False, b""
        self._master = -1
        self._task: asyncio.Task[Finished] | None = None
        self.exit_code: int | None = None

    @property
    def text(self) -> str:
        """The command, its output, and its exit."""
        output = as_printed(self._printed).rstrip("\n")
        if self._cut:
            output = f"[… the beginning is left out …]\n{output}"
        end = "[stopped by the user]" if self.exit_code is None else exit_line(self.exit_code)
        return "\n".join(part for part in (f"$ {self._command}", output, end) if part)

    async def run(self) -> None:
        """Run the command. Raises StartError."""
        loop = asyncio.get_running_loop()
        self._master, terminal = os.openpty()
        os.set_blocking(self._master, False)
        self.resized()
        child = run_child(
            self._command, cwd=self._workspace, environment=attended_environment(), timeout=_SECONDS,
            output_limit=_KEPT, terminal=terminal,
        )  # fmt: skip
        try:
            with _raw_keys():
                self._task = asyncio.create_task(child)
                loop.add_reader(self._master, self._show_next)
                loop.add_reader(sys.stdin.fileno(), self._pass_keys)
                try:
                    await asyncio.wait([self._task])
                    if not self._task.cancelled():
                        self.exit_code = self._task.result().exit_code
                finally:
                    self._task.cancel()
                    await asyncio.wait([self._task])
                    for descriptor in (sys.stdin.fileno(), self._master):
                        loop.remove_reader(descriptor)
                    loop.remove_writer(self._master)
                    self._finish()
        finally:
            os.close(terminal)
            master, self._master = self._master, -1
            os.close(master)

    def _pass_keys(self) -> None:
        """Pass on what the user types. ESC alone stops a command that reads whole lines or nothing."""
        try:
            keys = os.read(sys.stdin.fileno(), _CHUNK)
        except OSError:
            keys = b""
        if not keys or (keys == b"\x1b" and termios.tcgetattr(self._master)[tty.LFLAG] & termios.ICANON):
            if self._task is not None:
                self._task.cancel()
            return
        self._keys += keys
        self._hand_on()

    def _hand_on(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_writer(self._master)
        with suppress(BlockingIOError):
            self._keys = self._keys[os.write(self._master, self._keys) :]
        if self._keys:
            loop.add_writer(self._master, self._hand_on)

    def _show_next(self) -> bool:
        """Show new output; return whether there was any."""
        try:
            data = os.read(self._master, _CHUNK)
        except OSError:  # nothing now, or no one has the terminal open
            return False
        self._show(self._masking.feed(self._decoder.decode(data)))
        if self._flush is not None:
            self._flush.cancel()
        self._flush = asyncio.get_running_loop().call_later(_HELD_SECONDS, self._show_held)
        return bool(data)

    def _show_held(self) -> None:
        self._show(self._masking.flush())

    def _show(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._printed += text
        if len(self._printed) > 2 * _KEPT:
            self._printed, self._cut = self._printed[-_KEPT:], True

    def _finish(self) -> None:
        """Show the rest, and reset the screen for the next prompt."""
        while self._show_next():
            pass
        if self._flush is not None:
            self._flush.cancel()
        self._show_held()
        if "\x1b" in self._printed or "\x0e" in self._printed:
            left = _LEAVE_SCREEN if _ENTERED.search(self._printed) else ""
            sys.stdout.write(left + _BACK_TO_NORMAL)
        if as_printed(self._printed).removesuffix(SCREENFUL)[-1:] not in ("", "\n"):
            sys.stdout.write("\r\n")
        sys.stdout.flush()

    def resized(self) -> None:
        """Pass the window's size on."""
        if self._master < 0:
            return
        size = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)


@contextmanager
def _raw_keys() -> Iterator[None]:
    """Pass keys and output through unchanged inside the block."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSANOW)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def show_last(screen: TerminalScreen) -> None:
    """Open the pager; without one, print the last part."""
    parts = screen.renderer.shown_parts
    if (part := parts.last()) is None and not parts.asked:
        screen.note("nothing was shown yet, or since /clear")
        return
    renderer = screen.renderer
    rows, place = parts.rows(renderer.width)
    async with screen.lent(lambda: None):
        shown = await _page("".join(map(renderer.console.written, rows)), place + 1)
    if not shown and part is not None:
        screen.say(*part_rows(part, renderer.width))


async def _page(text: str, line: int) -> bool:
    """Show a text from a line on (from 1) in $PAGER, less or more; return False without one.

    A name without a folder is not searched in the workspace.
    """
    try:
        named = shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        named = []
    for name, *rest in (*([named] if named else ()), ["less"], ["more"]):
        if program := which(name) if "/" in name else find_program(name, current_folder()):
            # -R passes on colours, and nothing else that a terminal obeys.
            own = ["-R", f"+{line}g"] if os.path.basename(name) == "less" else []
            with suppress(StartError):
                await run_on_terminal([program, *rest, *own], text, os.environ)
                return True
    return False


def why_no_editor(workspace: Path) -> str:
    """Return why the user's editor may not start, or "". The repository must not supply it."""
    for variable in ("VISUAL", "EDITOR"):
        try:
            words = shlex.split(os.environ.get(variable, ""))
        except ValueError as error:
            return f"{variable} cannot be read: {error}"
        if found := which(words[0]) if words else None:
            if not supplied_by(workspace, found):
                return ""
            return f"{variable} names {found}, which this folder could supply: give the path of a program outside it"
    return ""
