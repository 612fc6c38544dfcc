"""The machine's current state, for the export and for a reminder; and freeing of memory.

Values that the machine does not offer are left out.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

_MEMORY = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)
_BATTERIES = Path("/sys/class/power_supply")


_MOST_PROCESSES = 20


class RunningProcess(TypedDict):
    """One process; the time of the processor in % over its whole life."""

    pid: int
    name: str
    cpu_percent: float
    memory_mb: float


class MachineState(TypedDict, total=False):
    """The machine, the workspace's disk, and the user's largest processes."""

    workspace: str
    platform: str
    python: str
    processes: list[RunningProcess]
    memory_used_mb: float
    memory_total_mb: float
    disk_usage_percent: float
    battery_percent: float | None
    uptime_seconds: float


_SHARED_SECONDS = 2.0
_looking = threading.Lock()
_looked: list[tuple[float, list[RunningProcess]]] = []
"""When processes were last looked at, by the uptime, and what was found."""


def machine_state(workspace: Path) -> MachineState:
    """Platform, Python, memory in MB, the use of the workspace's disk and the battery in %, the uptime
    in seconds, and the user's largest processes. Reads a few hundred small files: call it in a thread.
    """
    system, library = os.uname(), "".join(platform.libc_ver())  # `platform.platform` would run a program, `uname`
    state: MachineState = {
        "workspace": str(workspace),
        "platform": "-".join((system.sysname, system.release, system.machine, *(("with", library) if library else ()))),
        "python": platform.python_version(),
    }
    memory = {name: int(size) / 1024 for name, size in _MEMORY.findall(_text(Path("/proc/meminfo")))}
    if len(memory) == 2:
        state["memory_used_mb"] = round(memory["MemTotal"] - memory["MemAvailable"], 1)
        state["memory_total_mb"] = round(memory["MemTotal"], 1)
    try:
        disk = os.statvfs(workspace)
    except OSError:
        disk = None
    if disk is not None and disk.f_blocks:
        state["disk_usage_percent"] = round(100 * (1 - disk.f_bavail / disk.f_blocks), 1)
    if uptime := _text(Path("/proc/uptime")).split():
        state["uptime_seconds"] = float(uptime[0])
        state["processes"] = _processes(float(uptime[0]))
    for battery in sorted(_BATTERIES.glob("BAT*/capacity")):
        if (percent := _text(battery).strip()).isdecimal():
            state["battery_percent"] = float(percent)
            break
    return state


def give_back_memory() -> bool:
    """Return free memory to the system, within about a millisecond; return whether there was any.

    Linux's allocator keeps memory below a block in use: a long session would grow by it.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    return trim is not None and bool(trim(0))


def _processes(uptime: float) -> list[RunningProcess]:
    """The user's processes that hold most memory, by name; the time of the processor over their whole life.

    All sessions of this process share one look for a moment.
    """
    with _looking:
        if not _looked or uptime - _looked[0][0] >= _SHARED_SECONDS:
            _looked[:] = [(uptime, _look_at_processes(uptime))]
        return _looked[0][1]


def _look_at_processes(uptime: float) -> list[RunningProcess]:
    found: list[RunningProcess] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError, ValueError, IndexError):  # it has ended, or is hidden from us
                if folder.stat().st_uid == os.getuid():
                    found.append(_process(folder, uptime))
    found.sort(key=lambda process: (-process["memory_mb"], process["pid"]))
    return found[:_MOST_PROCESSES]


def _process(folder: Path, uptime: float) -> RunningProcess:
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    text = _text(folder / "stat")
    name = text[text.index("(") + 1 : text.rindex(")")]
    rest = text[text.rindex(")") + 2 :].split()
    busy, began, pages = int(rest[11]) + int(rest[12]), int(rest[19]), int(rest[21])
    lifetime = max(uptime - began / ticks, 1 / ticks)
    return {
        "pid": int(folder.name),
        "name": name,
        "cpu_percent": round(100 * busy / ticks / lifetime, 1),
        "memory_mb": round(pages * page / 2**20, 1),
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
