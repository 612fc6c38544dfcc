"""The audit as a guard, by itself because only a session with `--audit` loads it.

Verdicts, answers, changes and the ends of calls go into the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codelet.extensions.base import Extension, Guard, GuardedCall, Noted

if TYPE_CHECKING:
    from codelet.safety.audit.log import AuditLog


class Audit(Extension, Guard):
    """Writes down what guards are told; `close` ends the file, which else counts as cut off."""

    def __init__(self, log: AuditLog) -> None:
        self.guards = (self,)
        self._log = log

    def record(self, kind: Noted, call: GuardedCall, **facts: object) -> None:
        """Append one record. Raises AuditError where it cannot be written: nothing goes on unseen."""
        if kind == "verdict":
            facts = {"title": call.title, "arguments": call.arguments, **facts}
        self._log.record(kind, call=call.id, tool=call.name, **facts)

    async def close(self) -> None:
        """Append the closing record."""
        self._log.close()
