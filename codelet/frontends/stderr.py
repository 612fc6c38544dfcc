"""Lines on stderr: progress and complaints. That nobody can read them is no reason to stop."""

from __future__ import annotations

import sys
from contextlib import suppress


def say(line: str) -> None:
    """Write one line, without secrets; a stderr that is closed, full or broken loses it."""
    from codelet.policy.secrets.masker import mask  # not before there is something to say: --help has no use for it

    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.write(f"{mask(line)}\n")
            sys.stderr.flush()
