"""What can go wrong with an export. Each is one line that says what happened and what to do."""

from __future__ import annotations

import errno

from codelet.errors import UsageError

_REMEDIES = {
    errno.ENOSPC: "make room there, or save to another disk",
    errno.EDQUOT: "make room within your quota, or save to another disk",
    errno.EFBIG: "raise the limit on a file's size (ulimit -f), or save to another disk",
    errno.EROFS: "save to another disk",
}


def why(error: OSError) -> str:
    """Why something could not be written and, where that is known, what to do about it."""
    reason, remedy = error.strerror or str(error), _REMEDIES.get(error.errno or 0)
    return f"{reason}: {remedy}" if remedy else reason


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
