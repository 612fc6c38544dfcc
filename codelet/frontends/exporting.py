"""A front end's side of the export: resumes a session, follows its events, saves it, says what the user should know.

Imported only where an option or a command asks for an export: none of it is on the way to a first request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from codelet import events
from codelet.context import Piped
from codelet.errors import UsageError
from codelet.export.context import context_of
from codelet.export.document import ArchiveEntry, EnvironmentState
from codelet.export.live import LiveExport, Resumed, open_export, read_export, same_target
from codelet.export.machine import machine_state
from codelet.export.recorder import restore
from codelet.export.snapshot import Snapshot, kept_up
from codelet.export.store_target import open_target
from codelet.frontends.workspace import provider_for, provider_named, session_for
from codelet.git import run_git
from codelet.providers.base import Provider
from codelet.session import Session
from codelet.settings import Settings

_LOOK_SECONDS = 3.0


class Exporting:
    """One session and its export, from the first turn to `close`."""

    def __init__(self, session: Session, settings: Settings, resumed: Resumed | None) -> None:
        self.session = session
        self.resumed = resumed
        self.carried = resumed.snapshot if resumed is not None else None
        archived = self.carried is not None and self.carried.archive is not None
        self._archive: dict[str, ArchiveEntry] | None = {} if settings.export_archive or archived else None
        self._environment: EnvironmentState | None = None
        self._looking: asyncio.Task[None] | None = None
        self._live: LiveExport | None = None
        self._closed = False

    @classmethod
    async def begin(cls, settings: Settings) -> Exporting:
        """Open the session that the settings name, resumed where they say so. Raises CodeletError."""
        if settings.export is not None and settings.export.endswith(".html"):
            raise UsageError("--export saves JSON; for the page, /export PAGE.html in the terminal")
        resumed = await _read(settings)
        session = session_for(settings, await _provider(settings, resumed))
        if resumed is not None:
            resumed = resumed.replace(snapshot=kept_up(resumed.snapshot, time.time()))
            restore(session, resumed.snapshot)
        exporting = cls(session, settings, resumed)
        if settings.export is not None or settings.snapshots is not None:
            exporting._live = await open_export(
                settings.export,
                session,
                resumed=resumed,
                snapshots=Path(settings.snapshots) if settings.snapshots is not None else None,
                every=settings.export_every,
                raw=settings.raw,
                force=settings.force,
                beside=exporting._beside,
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
        place = self.place
        return f"saved in {place}; codelet --resume {place} --export {place} goes on with it" if place else ""

    @property
    def place(self) -> str | None:
        """Where the session is saved by now, as a person knows it; None where it is not."""
        saver = self._live.saver if self._live is not None else None
        return saver.target.shown if saver is not None else None

    def see(self, event: events.Event) -> None:
        """Take in an event of a turn, and save where a step is complete. Once the turn is over, `save`."""
        if isinstance(event, events.TurnStart):
            self._look()
        if self._live is not None:
            self._live.see(event)

    def turn(self, prompt: str, piped: Piped | None = None) -> AsyncGenerator[events.Event, None]:
        """The turn of a one-shot prompt. `continue` takes an unfinished turn up again, as in the REPL."""
        going_on = piped is None and prompt.strip().lower() == "continue" and unfinished(self.session)
        return self.session.resume() if going_on else self.session.send(prompt, piped)

    def save(self) -> None:
        """Save soon, after a change between turns."""
        if self._live is not None and not self._closed:
            self._live.save()

    def snapshot(self) -> Snapshot | None:
        """The session as it is now, if it is being recorded."""
        return self._live.snapshot() if self._live is not None else None

    def replaced_by(self, snapshot: Snapshot) -> None:
        """The session holds an imported snapshot by now: what the list does not say is that one's."""
        self.carried = snapshot
        if self._live is not None:
            self._live.carry(snapshot)

    def notices(self) -> list[str]:
        """Lines for the user, each given once."""
        return self._live.notices() if self._live is not None else []

    async def close(self) -> None:
        """Save for the last time. Raises ExportError if the newest state could not be saved."""
        if self._live is not None and not self._closed:
            self._closed = True
            if self._looking is not None:
                await asyncio.wait({self._looking}, timeout=_LOOK_SECONDS)
            await self._live.close()

    def _look(self) -> None:
        """Look at the machine while the turn begins; the next save has it."""

        async def looking() -> None:
            self._environment = await surroundings(self.session.workspace)

        if self._live is not None and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(looking())

    def _beside(self) -> dict[str, Any]:
        parts = context_of(self.session, self.carried, self._archive)
        if self._environment is not None:
            parts["last_known_environment"] = self._environment
        return parts


async def surroundings(workspace: Path) -> EnvironmentState:
    """The machine and the workspace as they are now, for the export's last known environment."""
    state = await asyncio.to_thread(machine_state, workspace)
    answer = await run_git(workspace, "symbolic-ref", "--short", "-q", "HEAD", timeout=_LOOK_SECONDS)
    if answer is not None and answer.exit_code == 0:
        state["git_branch"] = answer.stdout.decode("utf-8", "replace").strip()
    return state


def unfinished(session: Session) -> bool:
    """Whether the last turn did not come to its end, so that `continue` has something to take up."""
    return session.interruption is not None or session.conversation.is_open


def resumed_note(session: Session, shown: str) -> str:
    """What was taken up, in one line."""
    count, turns = len(session.conversation.sent()), session.turns
    note = f"resumed {shown}: {count} messages, {turns} turn{'s' if turns != 1 else ''}"
    return f"{note}; the last one is unfinished, continue takes it up" if unfinished(session) else note


async def _read(settings: Settings) -> Resumed | None:
    """What `--resume` names. Nothing where `--export` names the same and there is nothing yet: it begins there."""
    if settings.resume is None:
        return None
    if settings.export is not None:
        target = open_target(settings.resume)
        if same_target(target, open_target(settings.export)):
            found = await asyncio.to_thread(target.store.revision, target.name)
            if found is None:
                return None
    return await read_export(settings.resume)


async def _provider(settings: Settings, resumed: Resumed | None) -> Provider:
    """The provider of --model, else of the session that is resumed, else what the other settings say."""
    model = resumed.snapshot.model if resumed is not None else None
    if model is None or "model" in settings.given:
        return await provider_for(settings)
    try:
        return provider_named(model, settings)
    except UsageError as error:
        raise UsageError(f"{error}; the session was saved with this model, --model names another") from None
