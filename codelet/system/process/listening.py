"""The ports that the processes below one listen on, as Linux reports them: no connection is made."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_TABLES = ("tcp", "tcp6")
_LISTENING = "0A"


def listens(pid: int, port: int) -> bool:
    """Return whether the process or one below it listens on the TCP port, in whatever network it has."""
    return any(_listens(one, port) for one in _with_children(pid))


def _listens(pid: int, port: int) -> bool:
    listening = _listening(pid, port)
    own = listening and _network(pid) != _network(os.getpid())  # no one else is in there
    return bool(own) or not listening.isdisjoint(_sockets(pid))


def _network(pid: int) -> str:
    """Return what names the network that the process is in; empty if no one says."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/net")
    return ""


def _with_children(pid: int) -> list[int]:
    """The process and all below it."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError, ValueError):
            parent = (
                Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            )
            children.setdefault(int(parent), []).append(int(name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def _sockets(pid: int) -> set[str]:
    """The numbers of the sockets that the process holds."""
    found = set()
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{name}")
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def _listening(pid: int, port: int) -> set[str]:
    """The numbers of the sockets that listen on the port in the process's network."""
    found = set()
    for table in _TABLES:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found
