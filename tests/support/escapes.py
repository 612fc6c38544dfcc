"""Tries to get out of a sandbox: run as a program inside one, it prints as JSON what each try came to.

Needs nothing but the standard library. Arguments: a JSON object with the folders `workspace`, `outside` (with a file
`kept`), `home` (with `.ssh/id_rsa` and `.netrc`), the number `pid` of the process outside, the paths of `sockets`, the
name `abstract` of a socket without a path, and the TCP and UDP port `port` of this machine.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWUSER, _TIOCSTI, _PTRACE_ATTACH = 0x10000000, 0x5412, 16
_IO_URING_SETUP = 425
_PTRACE = {"x86_64": 101, "aarch64": 117}[os.uname().machine]


def _system_call(number: int, *arguments: Any) -> None:
    if _LIBC.syscall(ctypes.c_long(number), *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _write(path: str) -> None:
    with open(path, "a", encoding="ascii") as file:
        file.write("changed\n")


def _link_out(at: dict[str, Any]) -> None:
    link = f"{at['workspace']}/src/link"
    os.symlink(at["outside"], link)
    try:
        _write(f"{link}/kept")
    finally:
        os.unlink(link)


def _hard_link(at: dict[str, Any]) -> None:
    name = f"{at['workspace']}/src/hard"
    os.link(f"{at['outside']}/kept", name)
    _write(name)


def _mounted(at: dict[str, Any]) -> None:
    words = (
        f"mount -o remount,rw / || mount --bind {at['workspace']} {at['outside']}; echo changed >> {at['outside']}/kept"
    )
    subprocess.run(["unshare", "-rm", "sh", "-ec", words], check=True, capture_output=True, timeout=20)


def _connect(kind: int, address: Any) -> None:
    with socket.socket(kind, socket.SOCK_STREAM) as client:
        client.settimeout(5)
        client.connect(address)


def _datagram(at: dict[str, Any]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"reached", ("127.0.0.1", at["port"]))


def _type_in(_: dict[str, Any]) -> None:
    _, slave = os.openpty()
    if _LIBC.ioctl(slave, ctypes.c_ulong(_TIOCSTI), b"x") < 0:
        raise OSError(ctypes.get_errno(), "TIOCSTI")


def _read(path: str) -> None:
    with open(path, "rb") as file:
        if not file.read(64):
            raise OSError(0, "nothing to read")


TRIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "write: path": lambda at: _write(f"{at['outside']}/kept"),
    "write: no folder": lambda at: os.rmdir(f"{at['outside']}/empty"),
    "write: new file": lambda at: _write(f"{at['outside']}/new"),
    "write: link": _link_out,
    "write: hard link": _hard_link,
    "write: rename": lambda at: os.rename(f"{at['outside']}/kept", f"{at['outside']}/moved"),
    "write: rename in": lambda at: os.rename(f"{at['outside']}/kept", f"{at['workspace']}/src/moved"),
    "write: mount": _mounted,
    "write: process root": lambda at: _write(f"/proc/self/root{at['outside']}/kept"),
    "write: other root": lambda at: _write(f"/proc/{at['pid']}/root{at['outside']}/kept"),
    "write: kernel": lambda at: _write("/proc/sys/kernel/hostname"),
    "write: home": lambda at: _write(f"{at['home']}/.bashrc"),
    "write: own python": lambda at: _write(f"{sys.prefix}/zz-planted.pth"),
    "write: helper": lambda at: _write(f"{at['workspace']}/.venv/bin/git"),
    "write: git": lambda at: _write(f"{at['workspace']}/.git/config"),
    "metadata: mode": lambda at: os.chmod(f"{at['outside']}/kept", 0o4777),
    "metadata: owner": lambda at: os.chown(f"{at['outside']}/kept", os.getuid(), os.getgid()),
    "metadata: times": lambda at: os.utime(f"{at['outside']}/kept", (1, 1)),
    "metadata: now": lambda at: os.utime(f"{at['outside']}/kept"),
    "metadata: attribute": lambda at: os.setxattr(f"{at['outside']}/kept", "user.changed", b"x"),
    "network: tcp": lambda at: _connect(socket.AF_INET, ("127.0.0.1", at["port"])),
    "network: udp": _datagram,
    "network: names": lambda at: socket.getaddrinfo("example.org", 80),
    "socket: abstract": lambda at: _connect(socket.AF_UNIX, f"\0{at['abstract']}"),
    "process: io_uring": lambda at: _system_call(_IO_URING_SETUP, 1, ctypes.create_string_buffer(120)),
    "process: ptrace": lambda at: _system_call(_PTRACE, _PTRACE_ATTACH, at["pid"], 0, 0),
    "process: signal": lambda at: os.kill(at["pid"], signal.SIGCONT),
    "process: environment": lambda at: _read(f"/proc/{at['pid']}/environ"),
    "process: memory": lambda at: os.close(os.open(f"/proc/{at['pid']}/mem", os.O_RDONLY)),
    "process: priority": lambda at: os.setpriority(os.PRIO_PROCESS, at["pid"], 19),
    "process: scheduler": lambda at: os.sched_setscheduler(at["pid"], os.SCHED_OTHER, os.sched_param(0)),
    "process: host name": lambda at: socket.sethostname("changed"),
    "process: name space": lambda at: _checked(_LIBC.unshare(_CLONE_NEWUSER)),
    "process: terminal": _type_in,
    "secret: key": lambda at: _read(f"{at['home']}/.ssh/id_rsa"),
    "secret: file": lambda at: _read(f"{at['home']}/.netrc"),
    "workspace: write": lambda at: _write(f"{at['workspace']}/src/made.txt"),
    "workspace: secret": lambda at: _read(f"{at['workspace']}/.env"),
    "pair of sockets": lambda at: socket.socketpair(),
}


def _checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main(at: dict[str, Any]) -> dict[str, str]:
    """What each try came to: "done", or the error that stopped it."""
    tries = dict(TRIES)
    for path in at["sockets"]:
        tries[f"socket: {path}"] = lambda _, path=path: _connect(socket.AF_UNIX, path)
    found = {}
    for name, attempt in tries.items():
        try:
            attempt(at)
            found[name] = "done"
        except (OSError, subprocess.SubprocessError) as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
