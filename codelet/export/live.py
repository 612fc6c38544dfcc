"""A session's export while the session runs: what a front end calls.

reserved = await reserve("work.json", "work.json")    # --export, --resume: lock, then read; raises ExportError
restore(session, reserved.resumed.snapshot)
export = await LiveExport.begin(session, settings, reserved)
...
export.see(event)                                      # every event of every turn
export.notices.take()                                  # lines for the user
await export.close()                                   # at the end, whatever the end is
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, Self, cast

from codelet import events
from codelet.errors import ExportError, SessionHeld, UsageError
from codelet.export.decode import read_json
from codelet.export.document import Document, EnvironmentState, pruned
from codelet.export.encode import Encoder
from codelet.export.recorder import Recorder, parts_of
from codelet.export.redaction import Mask
from codelet.export.saver import Periodic, Saver, save_once
from codelet.export.store_target import Target, is_url, open_target
from codelet.export.stores.store import Lease, lock_within
from codelet.loop.session import Session
from codelet.record import Record
from codelet.safety.secrets import Masker, SecretPrefilter, own_masker
from codelet.system.git import run_git
from codelet.system.machine import machine_state

_LOOK_SECONDS = 3.0


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


class Reserved(Record, kw_only=True):
    """The locked place for a session's export, and the session that it continues.

    `async with` releases the lock if its block fails. Otherwise the export that the block began owns it.
    """

    target: Target | None = None
    lease: Lease | None = None
    resumed: Resumed | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self.lease is not None:
            with suppress(ExportError):
                await asyncio.shield(asyncio.to_thread(self.lease.release))


async def reserve(
    export: str | None,
    resume: str | None,
    *,
    wait: float = 0.0,
    waiting: Callable[[SessionHeld], object] = lambda held: None,
) -> Reserved:
    """Lock what `--export` names, waiting for at most `wait` seconds, then read what `--resume` names.

    If both name the same and nothing is there yet, the session begins there. `waiting` is called when a wait begins.
    Raises ExportError.
    """
    if export is not None and export.endswith(".html"):
        raise UsageError("--export saves JSON; for the page, /export PAGE.html in the terminal")
    target, source = (None if name is None else open_target(name) for name in (export, resume))
    begins = target is not None and source is not None and same_target(target, source)
    lease = None
    if target is not None:
        # Refuse a link, or anything but a file, before the lock file is created.
        await asyncio.to_thread(target.store.revision, target.name)
        lease = await lock_within(target.store, target.name, wait, waiting)
    async with Reserved(target=target, lease=lease) as reserved:
        resumed = None if source is None else await asyncio.to_thread(_read, source, is_optional=begins)
    if resumed is not None:
        resumed = resumed.replace(snapshot=pruned(resumed.snapshot, time.time()))
    return reserved.replace(resumed=resumed)


async def read_export(target: str) -> Resumed:
    """Return the checked export at a path or a Redis address. Raises ExportError."""
    resumed = await asyncio.to_thread(_read, open_target(target))
    assert resumed is not None
    return resumed


def _read(target: Target, *, is_optional: bool = False) -> Resumed | None:
    stored = target.store.load(target.name)
    if stored is not None:
        document, converted_from = read_json(stored.data, target.shown)
        return Resumed(document, target, stored.revision, converted_from)
    if not is_optional:
        raise ExportError(f"{target.shown}: no such export")
    return None


def default_mask(*, raw: bool) -> Mask | None:
    """Return what replaces secrets in an export; nothing does with `raw`."""
    return None if raw else _mask_of(own_masker())


@lru_cache(maxsize=16)
def _mask_of(masker: Masker) -> Mask:
    return Mask(lambda text: masker.mask(text, patterns=True), SecretPrefilter(masker.pieces()))


class KeepingSettings(Protocol):
    """The settings for saving, as in `codelet.settings.Settings`."""

    @property
    def export_every(self) -> int: ...
    @property
    def export_archive(self) -> bool: ...
    @property
    def snapshots(self) -> str | None: ...
    @property
    def raw(self) -> bool: ...
    @property
    def force(self) -> bool: ...


class LiveExport:
    """Saves the session after every N-th step and at the end of each turn, as the settings say; see `begin`."""

    def __init__(
        self, session: Session, settings: KeepingSettings, resumed: Resumed | None, notices: events.Notices
    ) -> None:
        self.session = session
        self.resumed = resumed
        self.carried = resumed.snapshot if resumed is not None else None
        self.notices = notices
        self.saver: Saver | None = None
        self.periodic: Periodic | None = None
        self._archive = settings.export_archive or (self.carried is not None and self.carried.archive is not None)
        self._recorder = Recorder(self.carried, archive=self._archive, notices=notices)
        self._every = settings.export_every
        self._steps = 0
        self._closed = False
        self._looking: asyncio.Task[None] | None = None

    @classmethod
    async def begin(
        cls, session: Session, settings: KeepingSettings, reserved: Reserved, notices: events.Notices | None = None
    ) -> Self:
        """Begin to save at the reserved target (`--export`) and, from time to time, in the folder `--snapshots`.

        An existing target is refused unless the session was resumed from it, or with `--force`. Raises ExportError.
        """
        parts_of(session)  # refuses a key that two extensions use
        resumed, target = reserved.resumed, reserved.target
        live = cls(session, settings, resumed, notices or events.Notices())
        if resumed is not None and resumed.conversion:
            live.notices.say(resumed.conversion)
        mask = None if settings.raw else _mask_of(session.safeguards.hides)
        if target is not None:
            live.saver = await Saver.open(
                target,
                mask=mask,
                resumed=resumed.revision if resumed is not None and same_target(target, resumed.target) else None,
                force=settings.force,
                notices=live.notices,
                lease=reserved.lease,
            )
        if settings.snapshots is not None:
            live.periodic = Periodic(Path(settings.snapshots), mask, notices=live.notices)
        return live

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
        """Take an event in and save where a step is complete. Never waits, never raises.

        The machine is looked at while a turn begins; the next save has it.
        """
        if isinstance(event, events.TurnStart) and self.saves and self._looking is None:
            self._looking = asyncio.create_task(self._look())
        if not self._recorder.see(event):
            return
        self._steps += 1
        if isinstance(event, events.TurnEnd) or (self._steps - 1) % self._every == 0:
            self.save()

    def save(self) -> None:
        """Save soon; called after changes between turns (compact, rewind, pin, …)."""
        if self.saves and not self._closed:
            snapshot = self.snapshot()
            for part in self._parts():
                part.save(snapshot)

    async def close(self) -> None:
        """Save once more and give the lock up, once. Raises ExportError if the newest state is not saved."""
        if self._closed:
            return
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=_LOOK_SECONDS)
        async with AsyncExitStack() as ending:
            for part in self._parts():
                ending.push_async_callback(part.close)
            try:
                self.save()
            finally:
                self._closed = True

    async def _look(self) -> None:
        try:
            self.look(await environment_state(self.session.workspace))
        finally:
            self._looking = None


async def environment_state(workspace: Path) -> EnvironmentState:
    """Return the current state of the machine and the workspace."""
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


async def export_once(
    target: str, document: Document, *, raw: bool = False, force: bool = False
) -> tuple[str, Sequence[str]]:
    """Export once, as `/export FILE` does: a page if the name ends in .html, else the document.

    Returns the place, and notices for the user. An existing target is refused without `force`. Raises ExportError.
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
    """Return whether two targets are one place, however they are written."""
    first, second = one.shown, other.shown
    if is_url(first) or is_url(second):
        return first == second
    return os.path.realpath(first) == os.path.realpath(second)
