"""The machine as it is now, for the export's last known environment. What it does not tell is left out."""

from __future__ import annotations

import os
import re
from pathlib import Path

from codelet.export.snapshot import EnvironmentState

_MEMORY = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)
_BATTERIES = Path("/sys/class/power_supply")


def look(workspace: Path) -> EnvironmentState:
    """Memory in MB, the use of the workspace's disk and the battery in per cent, the uptime in seconds."""
    state: EnvironmentState = {"workspace": str(workspace)}
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
    for battery in sorted(_BATTERIES.glob("BAT*/capacity")):
        if (percent := _text(battery).strip()).isdecimal():
            state["battery_percent"] = float(percent)
            break
    return state


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
