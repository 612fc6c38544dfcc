"""A front end's side of the export: follows a session's events, saves it, says what the user should know.

Imported only where an option or a command asks for an export: none of it is on the way to a first request.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from codelet import events
from codelet.errors import UsageError
from codelet.export.document import EnvironmentState
from codelet.export.live import LiveExport, Resumed
from codelet.loop.session import Session
from codelet.opening import unfinished
from codelet.settings import Settings
from codelet.system.git import run_git
from codelet.system.machine import machine_state

_LOOK_SECONDS = 3.0


class Exporting(LiveExport):
    """The export of a front end's session, from the first turn to `close`, and what is said of it."""

    _looking: asyncio.Task[None] | None = None

    @classmethod
    async def begin(cls, session: Session, settings: Settings, resumed: Resumed | None) -> Exporting:
        """Begin the export that the settings name, if they name one. Raises UsageError."""
        if settings.export is not None and settings.export.endswith(".html"):
            raise UsageError("--export saves JSON; for the page, /export PAGE.html in the terminal")
        archived = resumed is not None and resumed.snapshot.archive is not None
        exporting = cls(session, resumed, every=settings.export_every, archive=settings.export_archive or archived)
        if settings.keeps_changes:
            folder = Path(settings.snapshots) if settings.snapshots is not None else None
            await exporting.open(settings.export, folder, raw=settings.raw, force=settings.force)
        return exporting

    @property
    def unfinished(self) -> bool:
        return unfinished(self.session)

    @property
    def welcome(self) -> str:
        """What was resumed, in one line, or nothing."""
        return resumed_note(self.session, self.resumed.target.shown) if self.resumed is not None else ""

    @property
    def parting(self) -> str:
        """Where the session was saved, in one line, or nothing."""
        from shlex import quote

        place = self.place
        return f"saved in {place}; codelet --session {quote(place)} goes on with it" if place else ""

    @property
    def place(self) -> str | None:
        """Where the session is saved by now, as a person knows it; None where it is not."""
        return self.saver.target.shown if self.saver is not None else None

    def see(self, event: events.Event) -> None:
        """Take in an event of a turn, and save when a step is complete. After the turn, call `save`.

        The machine is looked at while a turn begins; the next save has it.
        """
        if isinstance(event, events.TurnStart) and self.saves and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())
        super().see(event)

    async def close(self) -> None:
        """Save for the last time. Raises ExportError if the newest state could not be saved."""
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=_LOOK_SECONDS)
        await super().close()

    async def _look(self) -> None:
        self.look(await environment_state(self.session.workspace))


async def environment_state(workspace: Path) -> EnvironmentState:
    """The machine and the workspace as they are now, for the export's last known environment."""
    state = cast("EnvironmentState", await asyncio.to_thread(machine_state, workspace))
    asked = {
        "git_branch": ("symbolic-ref", "--short", "-q", "HEAD"),
        "git_commit": ("rev-parse", "--verify", "-q", "HEAD"),
    }
    answers = await asyncio.gather(*(run_git(workspace, *words, timeout=_LOOK_SECONDS) for words in asked.values()))
    for name, answer in zip(asked, answers, strict=True):
        if answer is not None and answer.exit_code == 0:
            cast("dict[str, Any]", state)[name] = answer.stdout.decode("utf-8", "replace").strip()
    return state


def resumed_note(session: Session, shown: str) -> str:
    """What was resumed, in one line."""
    count, turns = len(session.conversation.sent()), session.turns
    note = f"resumed {shown}: {count} messages, {turns} turn{'s' if turns != 1 else ''}"
    return f'{note}; the last one is unfinished: type "continue" to resume it' if unfinished(session) else note
