"""The helper of the second way, run as a program of its own: it needs nothing but the standard library.

It grants itself reading everywhere and writing in the folders named, filters the system calls that open sockets,
and becomes the command. Arguments: a JSON object `{"write": [paths], "network": bool}`, then the command's words.
Whatever cannot be done ends it: a command never runs with more rights than were meant.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import stat
import struct
import sys
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

# Rights over files, as the kernel numbers them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_RIGHTS = (1 << 16) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_NETWORK_VERSION, _SCOPE_VERSION = 4, 6
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

# Per machine: the number by which the kernel knows it, and its calls socket, io_uring_setup, ptrace,
# process_vm_readv, process_vm_writev.
_MACHINES = {
    "x86_64": (0xC000003E, (41, 425, 101, 310, 311)),
    "aarch64": (0xC00000B7, (198, 425, 117, 270, 271)),
}
_DENY, _ALLOW = 0x00050000 | 13, 0x7FFF0000


def _call(number: int, *arguments: Any) -> int:
    result: int = _LIBC.syscall(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def confine_files(writable: list[str], *, network: bool) -> None:
    """Take the rights over files, TCP and other processes from this process. Raises OSError."""
    try:
        version = _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError as error:
        raise OSError(error.errno, f"the kernel has no Landlock ({error.strerror})") from error
    handled = _RIGHTS_BY_VERSION.get(version, _ALL_RIGHTS)
    ports = 3 if version >= _NETWORK_VERSION and not network else 0
    scope = 3 if version >= _SCOPE_VERSION else 0
    fields = struct.pack("QQQ", handled, ports, scope)
    size = 8 if version < _NETWORK_VERSION else 16 if version < _SCOPE_VERSION else 24
    ruleset = _call(_CREATE_RULESET, fields, ctypes.c_size_t(size), ctypes.c_uint32(0))
    _grant(ruleset, "/", handled & _READING)
    for path in (*writable, *_DEVICES):
        if os.path.exists(path):
            _grant(ruleset, path, handled)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, place)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(place)


def filter_calls(*, network: bool) -> None:
    """Deny the calls that open sockets and those that reach into other processes. Raises OSError."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise OSError(0, f"no filter for system calls is known for {machine}")
    architecture, (socket, *others) = _MACHINES[machine]
    denied = [*others, *([] if network else [socket])]
    # Load the architecture, then the call's number; each denied number jumps to the end.
    program = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, _DENY), (0x20, 0, 0, 0)]
    program.append((0x35, len(denied) + 1, 0, 0x40000000))  # x32: the same calls by other numbers
    program += [(0x15, len(denied) - at, 0, number) for at, number in enumerate(denied)]
    program += [(0x06, 0, 0, _ALLOW), (0x06, 0, 0, _DENY)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    whole = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _LIBC.prctl(
        _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(whole), 0, 0
    ):
        error = ctypes.get_errno()
        raise OSError(error, f"no filter for system calls: {os.strerror(error)}")


def main(request: dict[str, Any], command: list[str]) -> None:
    """Confine this process and become the command."""
    confine_files(request["write"], network=request["network"])
    filter_calls(network=request["network"])
    os.execvp(command[0], command)


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]), sys.argv[2:])
    except OSError as _error:
        sys.stderr.write(f"{_error.strerror or _error}\n")
        sys.exit(126)
