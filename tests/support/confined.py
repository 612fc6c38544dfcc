"""Runs a command as codelet runs one that only reads: in the read-only sandbox, with the variables that it gets."""

from __future__ import annotations

import asyncio
import tempfile
from functools import cache
from pathlib import Path

import pytest

from codelet.safety.sandbox import Confinement, Sandbox, find_confinement, variables_for_reading
from codelet.system.git import hardened_environment
from codelet.system.process import Finished, child_environment, run_child


@cache
def _found() -> Confinement:
    return asyncio.run(find_confinement(Path(tempfile.gettempdir())))


def run_confined(workspace: Path, command: str, timeout: float = 30.0) -> Finished:
    """Run the command in the workspace; skips the test where bubblewrap does not work."""
    if _found().way != "bubblewrap":
        pytest.skip(f"needs bubblewrap: {_found().detail}")
    sandbox = Sandbox(workspace)
    sandbox.found = _found()
    environment = hardened_environment(variables_for_reading(child_environment()))
    words = sandbox.wrap(command, environment, "read-only")
    run = run_child(words, cwd=workspace, environment=environment, timeout=timeout, output_limit=1 << 20)
    return asyncio.run(run)
