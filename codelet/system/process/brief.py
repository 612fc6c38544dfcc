"""Runs a short helper to its end, for callers that cannot wait in the event loop."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from codelet.system.process import Captured
from codelet.system.process.start import start

_CHUNK = 1 << 16


def capture_now(
    argv: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout: float,
    limit: int = 1 << 20,
    stdin: int = subprocess.DEVNULL,
) -> Captured:
    """As `capture`, but blocking: for calls of a few milliseconds in code that is not async.

    `stdin` is the descriptor that the helper reads, `timeout` is in seconds, `limit` in bytes for each stream; a helper
    that takes longer or prints more is killed with its process group. Raises StartError.
    """
    process = start(argv, cwd, environment, apart=True, stdin=stdin)
    try:
        kept, ended = _read(process, time.monotonic() + timeout, limit)
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    stdout, stderr = kept
    return Captured(process.wait(), stdout[:limit], stderr[:limit], ended == "full", ended == "timeout")


def _read(process: subprocess.Popen[bytes], end: float, limit: int) -> tuple[list[bytes], str]:
    """Return what both streams gave, and why reading ended: "exit", "full" or "timeout"."""
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    kept = [bytearray() for _ in pipes]
    with selectors.DefaultSelector() as selector:
        for number, pipe in enumerate(pipes):
            selector.register(pipe, selectors.EVENT_READ, number)
        while selector.get_map():
            left = end - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                return [bytes(one) for one in kept], "timeout"
            for key, _ in ready:
                data = os.read(key.fd, _CHUNK)
                kept[key.data] += data
                if not data:
                    selector.unregister(key.fileobj)
                elif len(kept[key.data]) > limit:
                    return [bytes(one) for one in kept], "full"
    exited = _exited(process, max(0.0, end - time.monotonic()))
    return [bytes(one) for one in kept], "exit" if exited else "timeout"


def _exited(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True
