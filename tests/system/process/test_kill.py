"""What codelet runs ends with it, also where nothing of codelet gets to run any more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.amount import FULL
from tests.support.program import ROOT


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_nothing_outlives_a_codelet_that_is_killed_in_the_middle_of_commands() -> None:
    """1,000 kills at full size; confined commands, approved ones, and those that leave session and parent."""
    kills = "1000" if FULL else "8"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.kill_commands", "--kills", kills], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kills} kills: 0 " in done.stdout
