"""The filter of system calls for confined commands: a program for the kernel, as bytes.

It refuses sockets to services of the machine, access to other processes, new namespaces and mounts, input into a
terminal, and calls that bypass every filter (io_uring). Under Landlock, which covers files and TCP only, it also
refuses all sockets, file attributes, and the shared memory, semaphores and message queues of System V and POSIX, and
hands changes of modes, times and owners to the helper.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Sequence
from errno import EACCES, ENOSYS, EOPNOTSUPP
from functools import cache

from codelet.safety.tables import read_table

_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_CLONE_NEWUSER = 0x10000000
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: both put letters into a terminal's input

_LOAD, _EQUAL, _MASK, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16


def _line(code: int, value: int, fits: int = 0, fails: int = 0) -> bytes:
    """A line of the program. A comparison has the numbers of lines to skip if it fits and if it fails."""
    return struct.pack("HBBI", code, fits, fails, value)


_REFUSE, _UNKNOWN, _UNSUPPORTED = (_line(_RETURN, 0x00050000 | number) for number in (EACCES, ENOSYS, EOPNOTSUPP))
_ASK_HELPER, _ASK_TO_WRITE, _ALLOW = (_line(_RETURN, value) for value in (0x7FC00000, 0x7FC00001, 0x7FFF0000))

# The kernel's number of the machine, and its column in the table `calls`.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

_SET_FLAGS = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR: attributes of a file

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@cache
def filter_program(*, network: bool, metadata: bool, writing: bool = False) -> bytes:
    """The filter for the kernel. `network` permits internet sockets.

    `metadata` permits changes of file modes, owners, times and attributes, internet sockets, shared memory, and other
    processes' priorities: a sandbox with read-only mounts and separate network and process namespaces needs no filter
    for them. With `writing` the helper answers all calls that write. Raises FileNotFoundError for a machine with
    unknown calls.
    """
    machine = platform.machine()
    if machine not in _MACHINES:
        raise FileNotFoundError(f"no filter for system calls is known for {machine}")
    audited, column = _MACHINES[machine]
    lines = [_line(_LOAD, _MACHINE_AT), _line(_EQUAL, audited, 1, 0), _REFUSE, _line(_LOAD, _NUMBER_AT)]
    lines += [_line(_AT_LEAST, 0x40000000, 0, 1), _REFUSE]  # x32: the same calls by other numbers
    calls = read_table("calls")
    numbers = {name: row.split()[column] for key in calls if key != "opening" for name, row in calls[key].items()}
    refused = [*calls["refused"], *(() if metadata else (*calls["metadata"], *calls["shared memory"]))]
    blocks = {name: [_REFUSE] for name in refused}
    blocks |= {name: [_UNKNOWN] for name in calls["missing"]}
    blocks["ioctl"] = _unless(1, [*_TERMINAL_INPUT, *(() if metadata else _SET_FLAGS)], refuse=True)
    new_users = [_line(_LOAD, _ARGUMENTS_AT), _line(_MASK, _CLONE_NEWUSER, 0, 1), _REFUSE, _ALLOW]
    blocks["clone"] = blocks["unshare"] = new_users
    if not metadata:
        blocks |= {name: [_ASK_HELPER] for name in calls["helped"]}
        blocks |= {name: [_UNSUPPORTED] for name in calls["extended attributes"]}
        named = {name: int(row.split()[2]) for name, row in calls["of processes"].items()}
        blocks |= {name: _unless(argument, [0], refuse=False) for name, argument in named.items()}
    if writing:
        blocks |= {name: [_ASK_TO_WRITE] for name in calls["writing"]}
        for name, row in calls["opening"].items():
            reads = [_line(_LOAD, _ARGUMENTS_AT + 8 * int(row)), _line(_MASK, _WRITE_FLAGS, 1, 0), _ALLOW]
            blocks[name] = [*reads, *blocks[name]]
        blocks |= {name: [_UNKNOWN] for name in calls["opening unseen"]}
    internet = [_AF_INET, _AF_INET6, _AF_NETLINK] if network or metadata else []
    blocks["socket"] = _unless(0, internet, refuse=False)
    for name, block in blocks.items():
        if numbers[name] != "-":
            lines += [_line(_EQUAL, int(numbers[name]), 0, len(block)), *block]
    return b"".join((*lines, _ALLOW))


def helped_calls() -> dict[str, list[str]]:
    """The calls that the helper of Landlock answers, by number: the name and the further columns of the table."""
    _, column = _MACHINES[platform.machine()]
    rows = {**read_table("calls")["helped"], **read_table("calls")["writing"]}
    return {row.split()[column]: [name, *row.split()[2:]] for name, row in rows.items()}


def _unless(argument: int, values: Sequence[int], *, refuse: bool) -> list[bytes]:
    """Refuse the call if the argument is one of the values, or without `refuse` if it is not."""
    lines = [_line(_LOAD, _ARGUMENTS_AT + 8 * argument)]
    lines += [_line(_EQUAL, value, len(values) - at, 0) for at, value in enumerate(values)]
    listed, others = (_REFUSE, _ALLOW) if refuse else (_ALLOW, _REFUSE)
    return [*lines, others, listed]
