"""What can go wrong with an export. Each is one line that says what happened and what to do."""

from __future__ import annotations

from codelet.errors import UsageError


class ExportError(UsageError):
    """An export cannot be read, written or taken over."""


class SessionHeld(ExportError):
    """Another process holds the session's lock; `holder` says which."""

    def __init__(self, shown: str, holder: str) -> None:
        super().__init__(f"{shown} is in use by {holder}; end that session or choose another name")
        self.holder = holder


class SaveConflict(ExportError):
    """What is stored is not what this session stored last: somebody else wrote it."""


class StoreUnreachable(ExportError):
    """The store could not be reached or could not write; the same save may succeed later."""
