"""Shows everything that the screen shows in part, in the user's pager."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codelet.frontends.terminal.screen import TerminalScreen


async def show_last(screen: TerminalScreen) -> None:
    """Open the pager; without one, print the last part."""
    parts = screen.renderer.shown_parts
    if (part := parts.last()) is None and not parts.asked:
        screen.note("nothing was shown yet, or since /clear")
        return
    renderer = screen.renderer
    rows, place = parts.rows(renderer.width)
    async with screen.lent(lambda: None):
        shown = await _page(renderer.written(rows), place + 1)
    if not shown and part is not None:
        from codelet.frontends.terminal.show.shown_parts import part_rows

        screen.say(*part_rows(part, renderer.width))


async def _page(text: str, line: int) -> bool:
    """Show a text from a line on (from 1); return False without a pager."""
    from codelet.system.process import StartError
    from codelet.system.process.foreground import run_on_terminal

    command = _command()
    if not command:
        return False
    environment = {**os.environ}
    if os.path.basename(command[0]) == "less":
        environment.setdefault("LESS", "-R")
        if "R" not in environment["LESS"]:
            command = [*command, "-R"]  # colours, and nothing else that a terminal obeys
        command = [*command, f"+{line}g"]
    try:
        await run_on_terminal(command, text, environment)
    except StartError:
        return False
    return True


def _command() -> Sequence[str]:
    """Return $PAGER, or less or more.

    A name without a folder is not searched in the workspace.
    """
    from codelet.settings import current_folder
    from codelet.system.process import find_program

    try:
        named = shlex.split(os.environ.get("PAGER", ""))
    except ValueError:
        named = []
    if named and "/" in named[0] and shutil.which(named[0]):
        return named
    for name, *rest in (*([named] if named else ()), ["less"], ["more"]):
        if program := find_program(name, current_folder()):
            return [program, *rest]
    return []
