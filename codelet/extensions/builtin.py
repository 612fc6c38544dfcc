"""Codelet's own extensions, written out: what every session has, what a setting turns on. Short, as it is a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codelet.context import Compactor, Entry
from codelet.extensions.base import ExportPart, Extension
from codelet.extensions.recall import Offered, Recall

if TYPE_CHECKING:
    from codelet.loop.calls import Safeguards

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
            from codelet.extensions.protected_files import ProtectedFiles

            self.first.append(ProtectedFiles(safeguards.sandbox))
        if safeguards.audit is not None:
            from codelet.extensions.audit import Audit

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
