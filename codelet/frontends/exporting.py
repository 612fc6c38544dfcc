"""A front end's side of the export: follows a session's events, saves it, says what the user should know.

Imported only where an option or a command asks for an export: none of it is on the way to a first request.
"""

from __future__ import annotations

from codelet.export.live import LiveExport
from codelet.loop.session import Session
from codelet.opening import unfinished


class Exporting(LiveExport):
    """The export of a front end's session, from the first turn to `close`, and its lines for the user."""

    @property
    def unfinished(self) -> bool:
        return unfinished(self.session)

    @property
    def welcome(self) -> str:
        """Return what was resumed, in one line, or nothing."""
        return resumed_note(self.session, self.resumed.target.shown) if self.resumed is not None else ""

    @property
    def parting(self) -> str:
        """Return where the session was saved, in one line, or nothing."""
        from shlex import quote

        place = self.place
        return f"saved in {place}; codelet --session {quote(place)} resumes it" if place else ""

    @property
    def place(self) -> str | None:
        """Return where the session is saved, for the user; None if it is not."""
        return self.saver.target.shown if self.saver is not None else None


def resumed_note(session: Session, shown: str) -> str:
    """Return what was resumed, in one line."""
    count, turns = len(session.conversation.sent()), session.turns
    note = f"resumed {shown}: {count} messages, {turns} turn{'s' if turns != 1 else ''}"
    return f'{note}; the last one is unfinished: type "continue" to resume it' if unfinished(session) else note
