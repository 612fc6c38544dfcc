"""Runs the real program, `python -m codelet`, as a child with a clean environment and bounded time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
CODELET = (sys.executable, "-m", "codelet")

# A child's peak memory starts at its parent's, so a small process forks it, not the test run.
_LAUNCHER = """
import json, os, sys
pid = os.fork()
if pid == 0:
    os.execve(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
os.write(int(sys.argv[1]), json.dumps([os.waitstatus_to_exitcode(status), used.ru_maxrss]).encode())
"""


@dataclass(frozen=True)
class Finished:
    """How a run ended. `exit` is negative for a signal, None if the time was up and it was killed.

    `peak_kib` is its greatest resident size where it was asked for.
    """

    exit: int | None
    stdout: bytes
    stderr: bytes
    peak_kib: int = 0

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def err(self) -> str:
        return self.stderr.decode()

    @property
    def complaints(self) -> list[str]:
        """The lines on stderr that are not empty."""
        return [line for line in self.err.splitlines() if line.strip()]

    def json(self) -> dict[str, object]:
        parsed: dict[str, object] = json.loads(self.stdout)
        return parsed

    def lines(self) -> list[dict[str, object]]:
        """stdout as one JSON object a line."""
        return [json.loads(line) for line in self.stdout.splitlines()]


def environment(home: Path | None, extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """What the program gets: a path, a language, a home; no key, proxy or setting of whoever runs the tests.

    A value of None in `extra` takes a variable away.
    """
    clean = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    clean["PYTHONPATH"] = str(ROOT)
    clean["NO_PROXY"] = "127.0.0.1,localhost"
    if home is not None:
        clean["HOME"] = str(home)
    for name, value in (extra or {}).items():
        if value is None:
            clean.pop(name, None)
        else:
            clean[name] = value
    return clean


def run(
    *arguments: str,
    cwd: Path | str,
    home: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    stdin: bytes | IO[bytes] | int | None = None,
    timeout: float = 120.0,
    command: Sequence[str] = CODELET,
    measure: bool = False,
    stdout: int = subprocess.PIPE,
) -> Finished:
    """Run the program to its end, or kill it and all of its group after `timeout` seconds.

    `stdin` is bytes to send, an open file, or nothing (/dev/null). `measure` asks for the peak memory.
    """
    read_end, write_end = os.pipe()
    full = [*command, *arguments]
    if measure:
        full = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(write_end), *full]
    child = subprocess.Popen(
        full,
        cwd=cwd,
        env=environment(home, env),
        stdin=subprocess.PIPE if isinstance(stdin, bytes) else (stdin or subprocess.DEVNULL),
        stdout=stdout,
        stderr=subprocess.PIPE,
        pass_fds=(write_end,) if measure else (),
        start_new_session=True,
    )
    os.close(write_end)
    status: int | None
    try:
        out, err = child.communicate(stdin if isinstance(stdin, bytes) else None, timeout)
        status = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        status = None
    with os.fdopen(read_end, "rb") as pipe:
        note = pipe.read() if measure and status is not None else b""
    peak = 0
    if note:
        status, peak = json.loads(note)
    return Finished(status, out or b"", err or b"", peak)


def start(
    *arguments: str,
    cwd: Path,
    home: Path | None = None,
    env: Mapping[str, str | None] | None = None,
    command: Sequence[str] = CODELET,
) -> subprocess.Popen[bytes]:
    """Start the program and leave it running; stdin is empty, stdout and stderr are pipes."""
    return subprocess.Popen(
        [*command, *arguments],
        cwd=cwd,
        env=environment(home, env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def stop(child: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> tuple[bytes, bytes]:
    """Signal the child and its whole group, wait for its end; stdout and stderr."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)
    return child.communicate(timeout=30)


def descendants(pid: int) -> list[int]:
    """The live processes below this one, but for the supervisor of commands, which waits for the next command."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            own = [] if _supervises(entry) and not _supervises(entry.with_name(str(pid))) else [int(entry.name)]
            found += [*own, *descendants(int(entry.name))]
    return found


def _supervises(process: Path) -> bool:
    """Whether it is the supervisor of commands or one of its guards, which are its children."""
    try:
        return b"/supervisor.py" in (process / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def lives(pid: int) -> bool:
    """Whether it runs on. One that has ended may wait to be reaped: by us, if an earlier test made us adopt orphans."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_with(text: str) -> list[int]:
    """The live processes whose command line holds the text, wherever they hang in the tree."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if text.encode() in command.replace(b"\0", b" "):
            found.append(int(entry.name))
    return found


def processor_seconds(pid: int) -> float:
    """Processor time that a live process has used so far, its threads included, its children left out."""
    return time.clock_gettime((~pid << 3) | 2)  # Linux: the clock of another process
