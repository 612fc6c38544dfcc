"""How much of a long test is run: `scripts/test --full` sets CODELET_FULL, the gate takes less."""

from __future__ import annotations

import os

FULL = bool(os.environ.get("CODELET_FULL"))


def amount(gate: int, full: int) -> int:
    """A count of examples, turns or sessions: the first in the gate, the second at full size."""
    return full if FULL else gate
