"""A `!` line: a command on its own terminal. With `!!` the model does not see it."""

from __future__ import annotations

import time

from codelet.frontends.terminal.screen import TerminalScreen
from codelet.frontends.terminal.show.call_rows import how_it_ended
from codelet.frontends.terminal.show.numbers import duration
from codelet.loop.session import Session
from codelet.system.process import StartError

_TOLD_SECONDS = 5.0
"""A longer command is reported with its time."""


class UserShell:
    """One such line. Its output goes to `attached`, for the next prompt."""

    def __init__(self, line: str, session: Session, screen: TerminalScreen, attached: list[str]) -> None:
        self._command = line.lstrip("!").strip()
        self._tells_model = not line.startswith("!!")
        self._session = session
        self._screen = screen
        self._attached = attached

    async def run(self) -> None:
        from codelet.frontends.terminal.terminal_command import TerminalCommand

        if not self._command:
            self._screen.fail(
                "write the shell command right after the !, or after !! to keep its output from the model"
            )
            return
        masker = self._session.toolbox.masker
        command = TerminalCommand(self._command, self._session.workspace, masker)
        began = time.monotonic()
        try:
            async with self._screen.lent(command.resized):
                await command.run()
        except StartError as error:
            self._screen.fail(str(error))
            return
        self._screen.printed()
        seconds = time.monotonic() - began
        took = f" after {duration(seconds)}" if seconds > _TOLD_SECONDS else ""
        if command.exit_code is None:
            self._screen.note("stopped")
        elif command.exit_code:
            self._screen.fail(f"{how_it_ended(command.exit_code)}{took}")
        elif took:
            self._screen.note(f"done{took}")
        if self._command.split()[0] in ("cd", "pushd", "popd", "export"):
            self._screen.note(
                f"{self._command.split()[0]} has no lasting effect: each ! starts a new shell in the workspace"
            )
        if self._tells_model:
            self._attached.append(masker.mask(command.text))
