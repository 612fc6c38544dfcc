"""The session's export: saved live if the user asked for it, else recorded for /export and for forks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelet import events

if TYPE_CHECKING:
    from codelet.export.document import Document
    from codelet.frontends.exporting import Exporting
    from codelet.loop.session import Session
    from codelet.settings import Settings


class ExportLog:
    """`opened` saves live, or continues a session."""

    def __init__(self, session: Session, settings: Settings, opened: Exporting | None = None) -> None:
        self._session, self._settings, self._opened = session, settings, opened
        self.raw = settings.raw
        """Mask nothing."""
        self.exported = 0
        """The session's turns at the last /export."""
        self._early: list[events.Event] = []

    @property
    def export(self) -> Exporting:
        """The export. Its modules are imported on first use: the first request needs none of them."""
        if self._opened is None:
            from codelet.frontends.exporting import Exporting

            self._opened = Exporting(self._session, self._settings, None, events.Notices())
            for event in self._early:
                self._opened.see(event)
        return self._opened

    @property
    def carried(self) -> Document | None:
        """The snapshot that the session continues."""
        return self._opened.carried if self._opened is not None else None

    @property
    def saves(self) -> bool:
        return self._opened is not None and self._opened.saves

    def see(self, event: events.Event) -> None:
        """Record an event, and save it if the export is live."""
        if self._opened is not None or isinstance(event, events.UsageReport | events.ToolResult | events.Compaction):
            self.export.see(event)
        elif isinstance(event, events.TurnStart | events.Steering):
            self._early.append(event)

    def save(self) -> None:
        """Schedule a save."""
        if self._opened is not None:
            self._opened.save()

    def notices(self) -> list[str]:
        """Remove and return lines for the user."""
        return self._opened.notices.take() if self._opened is not None else []

    async def snapshot(self, *, archive: bool = False) -> Document:
        """The session and its recorded events; `archive` adds what compaction took out."""
        from codelet.export.live import environment_state
        from codelet.export.recorder import Recorder

        if not self.saves and self._session.turns:
            self.export.look(await environment_state(self._session.workspace))
        snapshot = self.export.snapshot()
        return Recorder(snapshot, archive=True).snapshot(self._session) if archive else snapshot
