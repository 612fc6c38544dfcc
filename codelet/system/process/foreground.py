"""Runs a program that has the terminal to itself until it ends, such as a pager: it reads its keys from there.

Short: the other ways to run a program keep it away from the terminal, this one needs nothing of theirs.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence

from codelet.system.process.start import StartError

_SECONDS_TO_END = 1.0


async def run_on_terminal(argv: Sequence[str], text: str, environment: Mapping[str, str]) -> int:
    """Run a program with `text` as its input; return its exit code. It ends when the caller is cancelled. Raises
    StartError.

    It stays in the caller's process group, because only that group can read from the terminal. The caller must read no
    keys while it runs.
    """
    process = _started(argv, environment)
    feeding = asyncio.ensure_future(asyncio.to_thread(process.communicate, text.encode("utf-8", "replace")))
    try:
        await asyncio.shield(feeding)
    finally:
        if process.poll() is None:
            process.terminate()
            await asyncio.wait([feeding], timeout=_SECONDS_TO_END)
            if process.poll() is None:
                process.kill()
                await asyncio.wait([feeding])
    return process.returncode


def _started(argv: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, stdin=subprocess.PIPE, env=dict(environment))
    except (OSError, ValueError) as error:
        raise StartError(f"{argv[0]} cannot be started: {error}") from None
