"""`--audit`: what was decided on each call, and how it ended, goes into a file.

Short because the file's form and its checks belong to `safety.audit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from codelet.extensions.base import Extension, Guard, GuardedCall, Noted
from codelet.safety.audit import AuditLog

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView


class Audit(Extension, Guard):
    """Writes verdicts, answers, changes and ends of calls into a file; `close` ends it: else it counts as cut off."""

    def __init__(self, log: AuditLog) -> None:
        self.guards = (self,)
        self._log = log

    @classmethod
    def from_session(cls, session: SessionView) -> Self:
        assert session.safeguards.audit is not None
        return cls(session.safeguards.audit)

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Append one record. Raises AuditError if it cannot be written: nothing continues unseen."""
        if kind == "verdict":
            facts = {"title": call.title, "arguments": call.arguments, **facts}
        self._log.record(kind, call=call.id, tool=call.name, **facts)

    async def close(self) -> None:
        self._log.close()
