"""Lines on stderr: progress and complaints. That nobody can read them is no reason to stop."""

from __future__ import annotations

import sys
from contextlib import suppress


def say(line: str) -> None:
    """Write one line; a stderr that is closed, full or broken loses it."""
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
