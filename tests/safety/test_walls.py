"""Each wall holds with the other one switched off: what the classifier finds, and what the sandbox stops."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.amount import FULL
from tests.support.program import ROOT
from tests.support.shared import ABSENT, SHARED

_CASES = [SHARED / "cases" / f"{name}.jsonl" for name in ("safety", "safety2", "safety3", "safety3-rules", "safety4")]


@pytest.mark.needs("bwrap", "unshare", "setpriv")
@pytest.mark.long
def test_each_wall_alone_stops_what_is_unsafe() -> None:
    """In the gate with some of the cases, drawn by a fixed seed; with `--full` all of them."""
    if not all(file.is_file() for file in _CASES):
        pytest.skip(ABSENT)
    some = [] if FULL else ["--count", "25"]
    done = subprocess.run(
        [sys.executable, "-m", "scripts.walls", *map(str, _CASES), *some], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one alone: 0 " in done.stdout
    assert "two alone: 0 " in done.stdout
