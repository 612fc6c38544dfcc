"""A session's export while the session runs: what a front end calls.

resumed = await read_export("work.json")              # --resume; raises ExportError
restore(session, resumed.snapshot)
export = await open_export("work.json", session, resumed=resumed)
...
export.see(event)                                      # every event of every turn
export.notices.take()                                  # lines for the user
await export.close()                                   # at the end, whatever the end is
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import cache
from pathlib import Path

from codelet import events
from codelet.errors import ExportError
from codelet.export.decode import read_json
from codelet.export.document import Document, EnvironmentState
from codelet.export.encode import Encoder
from codelet.export.recorder import Recorder, parts_of
from codelet.export.redaction import Mask
from codelet.export.saver import Periodic, Saver, save_once
from codelet.export.store_target import Target, is_url, open_target
from codelet.loop.session import Session
from codelet.record import Record
from codelet.safety.secrets import own_masker
from codelet.safety.secrets.prefilter import SecretPrefilter


class Resumed(Record):
    """A document, where it came from, and the revision that was read.

    `converted_from` is the form of another agent that it had, empty if it was ours.
    """

    snapshot: Document
    target: Target
    revision: str
    converted_from: str = ""

    @property
    def conversion(self) -> str:
        """Say in one line what was converted, empty if nothing was."""
        return f"{self.target.shown} was converted from {self.converted_from}" if self.converted_from else ""


async def read_export(target: str) -> Resumed:
    """What stands at a path or a Redis address, checked. Raises ExportError, in one line."""

    def read() -> Resumed:
        opened = open_target(target)
        stored = opened.store.load(opened.name)
        if stored is None:
            raise ExportError(f"{opened.shown}: there is no such export")
        document, converted_from = read_json(stored.data, opened.shown)
        return Resumed(document, opened, stored.revision, converted_from)

    return await asyncio.to_thread(read)


def default_mask(*, raw: bool) -> Mask | None:
    """What replaces secrets in an export; nothing does with `raw`."""
    return None if raw else _own_mask()


@cache
def _own_mask() -> Mask:
    masker = own_masker()
    return Mask(lambda text: masker.mask(text, patterns=True), SecretPrefilter(masker.pieces()))


class LiveExport:
    """Saves the session after every `every`-th step and at the end of each turn, once it is opened.

    `resumed` is what the session goes on with; with `archive`, also what compaction takes out is saved.
    """

    def __init__(
        self, session: Session, resumed: Resumed | None = None, *, every: int = 1, archive: bool = False
    ) -> None:
        self.session = session
        self.resumed = resumed
        self.carried = resumed.snapshot if resumed is not None else None
        self.notices = events.Notices()
        if resumed is not None and resumed.conversion:
            self.notices.say(resumed.conversion)
        self.saver: Saver | None = None
        self.periodic: Periodic | None = None
        self._archive = archive
        self._recorder = Recorder(self.carried, archive=archive, notices=self.notices)
        self._every = every
        self._steps = 0
        self._closed = False

    async def open(self, target: str | None, snapshots: Path | None, *, raw: bool, force: bool) -> None:
        """Begin to save at `target` (`--export`) and, from time to time, in the folder `snapshots`.

        An existing target is refused unless it is the one that was resumed, or with `force`. Raises ExportError.
        """
        parts_of(self.session)  # a key that two want is told before anything is done
        mask = default_mask(raw=raw)
        if target is not None:
            opened = open_target(target)
            same = self.resumed is not None and same_target(opened, self.resumed.target)
            revision = self.resumed.revision if self.resumed is not None and same else None
            self.saver = await Saver.open(opened, mask=mask, resumed=revision, force=force, notices=self.notices)
        if snapshots is not None:
            self.periodic = Periodic(snapshots, mask, notices=self.notices)

    @property
    def saves(self) -> bool:
        return bool(self._parts())

    def _parts(self) -> list[Saver | Periodic]:
        return [part for part in (self.saver, self.periodic) if part is not None]

    def snapshot(self) -> Document:
        return self._recorder.snapshot(self.session)

    def carry(self, document: Document) -> None:
        """Record from this document on: it replaced the session."""
        self.carried, environment = document, self._recorder.environment
        self._recorder = Recorder(document, archive=self._archive, notices=self.notices)
        self._recorder.environment = environment

    def look(self, environment: EnvironmentState) -> None:
        self._recorder.environment = environment

    def see(self, event: events.Event) -> None:
        """Take an event in and save where a step is complete. Never waits, never raises."""
        if not self._recorder.see(event):
            return
        self._steps += 1
        if isinstance(event, events.TurnEnd) or (self._steps - 1) % self._every == 0:
            self.save()

    def save(self) -> None:
        """Save the session as it is now, soon: for whatever changes it between turns (compact, rewind, pin, …)."""
        if self.saves and not self._closed:
            snapshot = self.snapshot()
            for part in self._parts():
                part.save(snapshot)

    async def close(self) -> None:
        """Save once more and give the lock up, once. Raises ExportError if the newest state is not saved."""
        if self._closed:
            return
        async with AsyncExitStack() as ending:
            for part in self._parts():
                ending.push_async_callback(part.close)
            try:
                self.save()
            finally:
                self._closed = True


async def open_export(
    target: str | None,
    session: Session,
    *,
    resumed: Resumed | None = None,
    every: int = 1,
    raw: bool = False,
    force: bool = False,
    archive: bool = False,
) -> LiveExport:
    """Begin to save a session at `target`; see LiveExport. Raises ExportError."""
    live = LiveExport(session, resumed, every=every, archive=archive)
    await live.open(target, None, raw=raw, force=force)
    return live


async def export_once(
    target: str, document: Document, *, raw: bool = False, force: bool = False
) -> tuple[str, Sequence[str]]:
    """One export now, as `/export FILE` makes it: the page where the name ends in .html, else the document.

    Returns where it is, and notices for the user. An existing target is refused without `force`. Raises ExportError.
    """
    opened = open_target(target)
    notices: list[str] = []
    mask = default_mask(raw=raw)

    def write() -> None:
        if opened.name.endswith(".html") and not is_url(opened.shown):
            from codelet.export.page import page

            parts = [page(document, mask=mask).encode()]
        else:
            parts = Encoder(mask, notices.append).parts(document)
        save_once(opened, parts, force=force)

    await asyncio.to_thread(write)
    return opened.shown, notices


def same_target(one: Target, other: Target) -> bool:
    """Whether two targets are one place, however they are written."""
    first, second = one.shown, other.shown
    if is_url(first) or is_url(second):
        return first == second
    return os.path.realpath(first) == os.path.realpath(second)
