"""A copy of the checkout, in which mutants are put and tests are run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info", ".hypothesis")
_STALL = 600
"""Seconds of wall time after which a run counts as hung; what uses the processor is ended earlier."""


class Checkout:
    """A copy of a checkout in a folder that is not there yet. Only one thing at a time may be done in it."""

    def __init__(self, root: Path, place: Path) -> None:
        self.place = place
        shutil.copytree(root, place, ignore=_LEFT_OUT)
        self._stamps = count(1)

    def write(self, name: Path, text: str) -> None:
        """Gives a file another text, and a later time: byte code goes by the second."""
        path = self.place / name
        path.write_text(text, encoding="utf-8")
        stamp = time.time() + 2 * next(self._stamps)
        os.utime(path, (stamp, stamp))

    def passes(self, arguments: Sequence[str], processor: float, timeout: float, variables: dict[str, str]) -> bool:
        """Return whether pytest passes within its processor time, and each test within its wall time, in seconds."""
        words = ["bash", "-c", f'ulimit -t {int(processor) + 1}; exec "$@"', "bash"]
        words += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "scripts.mutants.plugin"]
        words += [f"--basetemp={self.place}-made", f"--timeout={timeout:.0f}", *self._for_hypothesis(arguments)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPATH": str(self.place), "PYTHONPYCACHEPREFIX": str(self.place.parent / "byte-code")}
        child = subprocess.Popen(
            [*words, *arguments],
            cwd=self.place,
            env={**environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status = child.wait(_STALL)
        except subprocess.TimeoutExpired:
            status = 1
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return status == 0

    def _for_hypothesis(self, arguments: Sequence[str]) -> list[str]:
        """A seed for Hypothesis where a file has to do with it; else it is not loaded, as that takes a second."""
        files = [self.place / one for one in arguments if one.endswith(".py")]
        used = any("hypothesis" in file.read_text(encoding="utf-8") for file in files)
        return ["--hypothesis-seed=1"] if used else ["-p", "no:hypothesispytest"]
