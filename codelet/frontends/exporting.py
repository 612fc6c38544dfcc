"""A front end's side of the export: follows a session's events, saves it, says what the user should know.

Imported only where an option or a command asks for an export: none of it is on the way to a first request.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from codelet import events
from codelet.errors import UsageError
from codelet.export.document import Document, EnvironmentState
from codelet.export.live import LiveExport, Resumed, open_export
from codelet.loop.session import Session
from codelet.opening import unfinished
from codelet.settings import Settings
from codelet.system.git import run_git
from codelet.system.machine import machine_state

_LOOK_SECONDS = 3.0


class Exporting:
    """One session and its export, from the first turn to `close`."""

    def __init__(self, session: Session, settings: Settings, resumed: Resumed | None) -> None:
        self.session = session
        self.resumed = resumed
        self.carried = resumed.snapshot if resumed is not None else None
        self._looking: asyncio.Task[None] | None = None
        self._live: LiveExport | None = None
        self._closed = False

    @classmethod
    async def begin(cls, session: Session, settings: Settings, resumed: Resumed | None) -> Exporting:
        """Begin the export that the settings name, if they name one. Raises UsageError."""
        if settings.export is not None and settings.export.endswith(".html"):
            raise UsageError("--export saves JSON; for the page, /export PAGE.html in the terminal")
        exporting = cls(session, settings, resumed)
        if settings.export is not None or settings.snapshots is not None:
            archived = exporting.carried is not None and exporting.carried.archive is not None
            exporting._live = await open_export(
                settings.export,
                session,
                resumed=resumed,
                snapshots=Path(settings.snapshots) if settings.snapshots is not None else None,
                every=settings.export_every,
                raw=settings.raw,
                force=settings.force,
                archive=settings.export_archive or archived,
            )
        return exporting

    @property
    def unfinished(self) -> bool:
        """Whether `continue` has something to take up."""
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
        return f"saved in {place}; codelet --continue {quote(place)} goes on with it" if place else ""

    @property
    def place(self) -> str | None:
        """Where the session is saved by now, as a person knows it; None where it is not."""
        saver = self._live.saver if self._live is not None else None
        return saver.target.shown if saver is not None else None

    def see(self, event: events.Event) -> None:
        """Take in an event of a turn, and save when a step is complete. After the turn, call `save`."""
        if isinstance(event, events.TurnStart):
            self._look()
        if self._live is not None:
            self._live.see(event)

    def save(self) -> None:
        """Save soon, after a change between turns."""
        if self._live is not None and not self._closed:
            self._live.save()

    def snapshot(self) -> Document | None:
        """The session as it is now, if it is being recorded."""
        return self._live.snapshot() if self._live is not None else None

    def replaced_by(self, snapshot: Document) -> None:
        """The session now holds an imported snapshot: what the list does not say comes from there."""
        self.carried = snapshot
        if self._live is not None:
            self._live.carry(snapshot)

    def notices(self) -> list[str]:
        """Remarks for the user, each returned once."""
        return self._live.notices.take() if self._live is not None else []

    async def close(self) -> None:
        """Save for the last time. Raises ExportError if the newest state could not be saved."""
        if self._live is not None and not self._closed:
            self._closed = True
            if self._looking is not None:
                await asyncio.wait({self._looking}, timeout=_LOOK_SECONDS)
            await self._live.close()

    def _look(self) -> None:
        """Look at the machine while the turn begins; the next save has it."""

        async def looking(live: LiveExport) -> None:
            live.look(await environment_state(self.session.workspace))

        if self._live is not None and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(looking(self._live))


async def environment_state(workspace: Path) -> EnvironmentState:
    """The machine and the workspace as they are now, for the export's last known environment."""
    state = cast("EnvironmentState", await asyncio.to_thread(machine_state, workspace))
    answer = await run_git(workspace, "symbolic-ref", "--short", "-q", "HEAD", timeout=_LOOK_SECONDS)
    if answer is not None and answer.exit_code == 0:
        state["git_branch"] = answer.stdout.decode("utf-8", "replace").strip()
    return state


def resumed_note(session: Session, shown: str) -> str:
    """What was resumed, in one line."""
    count, turns = len(session.conversation.sent()), session.turns
    note = f"resumed {shown}: {count} messages, {turns} turn{'s' if turns != 1 else ''}"
    return f"{note}; the last one is unfinished, continue takes it up" if unfinished(session) else note
