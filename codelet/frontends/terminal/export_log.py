"""The export of a REPL: the one that is saved along, and events logged for one that is asked for later."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from codelet import events

if TYPE_CHECKING:
    from codelet.export.snapshot import Snapshot
    from codelet.frontends.exporting import Exporting

_MOST_EVENTS = 20_000


class ExportLog:
    """`export` saves along, if there is one; `events` are those that leave no trace in the list, with their times.

    `carried` is the snapshot that they follow upon. `raw` masks nothing in what is saved.
    """

    def __init__(self, export: Exporting | None = None, *, raw: bool = False) -> None:
        self.export = export
        self.raw = raw
        self.carried = export.carried if export is not None else None
        self.events: deque[tuple[float, events.Event]] = deque(maxlen=_MOST_EVENTS)

    def see(self, event: events.Event) -> None:
        """Take in an event of a turn: save on the way, and log what leaves no trace in the list."""
        if self.export is not None:
            self.export.see(event)
        match event:
            case events.TurnStart() | events.UsageReport() | events.Compaction():
                self.events.append((time.time(), event))
            case events.ToolResult():
                self.events.append((time.time(), event.replace(text="", display=None)))

    def save(self) -> None:
        """Save soon: a turn or a command may have changed the session."""
        if self.export is not None:
            self.export.save()

    def notices(self) -> list[str]:
        """Lines for the user, each given once."""
        return self.export.notices() if self.export is not None else []

    def replaced_by(self, snapshot: Snapshot) -> None:
        """The session goes on from an imported snapshot."""
        self.carried = snapshot
        self.events.clear()
        if self.export is not None:
            self.export.replaced_by(snapshot)

    @property
    def welcome(self) -> str:
        """What was resumed, in one line, or nothing."""
        return self.export.welcome if self.export is not None else ""

    @property
    def unfinished(self) -> bool:
        """Whether a resumed turn is there for `continue`."""
        return self.export is not None and self.export.unfinished
