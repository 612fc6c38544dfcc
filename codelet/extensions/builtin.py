"""Codelet's own extensions, written out: what every session has, what a setting turns on, and the two small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codelet import prompt
from codelet.context import Compactor, Entry
from codelet.extensions.base import ExportPart, Extension, Guard, GuardedCall, Noted
from codelet.extensions.recall import Offered, Recall
from codelet.safety.sandbox import Sandbox
from codelet.tools.tool import ToolOutput

if TYPE_CHECKING:
    from codelet.loop.toolbox import Safeguards
    from codelet.safety.audit.log import AuditLog

EXPORT_PARTS: tuple[type[ExportPart], ...] = ()
"""The keys that these keep in an export, which the published schema names."""


class Builtin:
    """The extensions by where their guards stand: `first` before those that a caller brings, `last` behind the masking.

    Those in `last` see every answer without its secrets, and only leave text out of it.
    """

    def __init__(
        self, safeguards: Safeguards, compactor: Compactor, entry: Entry, *, chosen: bool, has_tools: bool
    ) -> None:
        """`chosen` says that the user chose the tools, `has_tools` that the model has any."""
        recall: Offered = "when needed" if chosen else "always"
        self.first: list[Extension] = []
        self.last: list[Extension] = [Recall(compactor, entry, recall if has_tools else "never")]
        if safeguards.sandbox is not None:
            self.first.append(ProtectedFiles(safeguards.sandbox))
        if safeguards.audit is not None:
            self.last.append(Audit(safeguards.audit))


def turned_on(settings: Any) -> tuple[Extension, ...]:
    """The extensions that settings turn on, whose guards stand before those that a caller brings.

    `settings` is a `codelet.settings.Settings`; that module lies above this one, so it cannot be named in the types.
    """
    found: list[Extension] = []
    if settings.narrative:
        from codelet.extensions.narrator import Narrator

        found.append(Narrator())
    return tuple(found)


class ProtectedFiles(Extension, Guard):
    """A word on files that a confined command made and programs outside would obey.

    What is absent cannot be made read-only, so such files are looked for after each confined command.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.guards = (self,)
        self._sandbox = sandbox

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """The output, failed where the command made such files."""
        made = self._sandbox.newly_protected() if call.ran else []
        if not made:
            return output
        return output.replace(text=f"{output.text}\n{prompt.PROTECTED.format(names=', '.join(made))}", failed=True)


class Audit(Extension, Guard):
    """Writes verdicts, answers, changes and ends of calls into a file; `close` ends it: else it counts as cut off."""

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
