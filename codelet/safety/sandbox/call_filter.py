"""The filter of system calls that a confined command runs under: a program for the kernel, as bytes.

It refuses sockets that lead to services of the machine, what reaches into other processes, what makes new name spaces
and mounts, what types into a terminal, and calls that pass by every other filter (io_uring). Under Landlock, which
knows files and TCP only, it also refuses what changes a file's mode, owner, times and attributes, all sockets, and the
shared memory, semaphores and message queues of System V and POSIX.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Sequence
from functools import cache

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_CLONE_NEWUSER = 0x10000000
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: both put letters into a terminal's input

_LOAD, _EQUAL, _MASK, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_NUMBER_AT, _MACHINE_AT, _ARGUMENTS_AT = 0, 4, 16
_REFUSE, _UNKNOWN, _ALLOW = 0x00050000 | 13, 0x00050000 | 38, 0x7FFF0000

# The kernel's number of the machine, and which of the two numbers below are its calls'.
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# Calls by name: their numbers on x86_64 and on aarch64, None where there is no such call.
_CALLS: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "ioctl": (16, 29), "clone": (56, 220), "clone3": (435, 435),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "syslog": (103, 116), "acct": (163, 89),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
    "shmget": (29, 194), "shmctl": (31, 195), "shmat": (30, 196), "shmdt": (67, 197), "semget": (64, 190),
    "semctl": (66, 191), "semop": (65, 193), "semtimedop": (220, 192), "msgget": (68, 186), "msgctl": (71, 187),
    "msgsnd": (69, 189), "msgrcv": (70, 188), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "setpriority": (141, 140), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "ioprio_set": (251, 30), "prlimit64": (302, 261),
}  # fmt: skip

_REACHES_OTHERS = ("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise")
_PRIVILEGED = (
    "setns", "mount", "umount2", "pivot_root", "chroot", "bpf", "perf_event_open", "userfaultfd", "add_key",
    "request_key", "keyctl", "syslog", "acct",
)  # fmt: skip
_NOT_THERE = (
    "io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "open_tree", "move_mount", "fsopen", "fsconfig",
    "fsmount", "fspick", "mount_setattr",
)  # fmt: skip
"""Calls that a program gets told do not exist: it then does without, or takes an older one that can be looked into."""
_METADATA = (
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
    "setxattrat", "removexattrat", "file_setattr",
)  # fmt: skip
_SHARED_MEMORY = (
    "shmget", "shmctl", "shmat", "shmdt", "semget", "semctl", "semop", "semtimedop", "msgget", "msgctl", "msgsnd",
    "msgrcv", "mq_open", "mq_unlink",
)  # fmt: skip
"""What processes share by numbers and names that no file system knows."""
# Which argument names the process: 0 is the caller itself.
_OF_PROCESSES = {
    "setpriority": 1, "ioprio_set": 1, "sched_setparam": 0, "sched_setscheduler": 0, "sched_setaffinity": 0,
    "sched_setattr": 0, "prlimit64": 0,
}  # fmt: skip
_SET_FLAGS = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR: attributes of a file

_Line = bytes


@cache
def filter_program(*, network: bool, sockets: bool, metadata: bool) -> bytes:
    """The filter as the kernel takes it: it leaves `network` sockets of the internet, `sockets` those of services on
    this machine.

    `metadata` leaves a file's mode, owner, times and attributes to be changed, sockets of the internet to be made,
    memory to be shared, and other processes' priorities: a sandbox that mounts what is outside read-only, has a network
    of its own and hides other processes needs no filter for these. Raises FileNotFoundError for a machine whose calls
    are not known.
    """
    machine = platform.machine()
    if machine not in _MACHINES:
        raise FileNotFoundError(f"no filter for system calls is known for {machine}")
    audited, column = _MACHINES[machine]
    lines: list[_Line] = [
        _load(_MACHINE_AT),
        _jump(_EQUAL, 1, 0, audited),
        _answer(_REFUSE),
        _load(_NUMBER_AT),
        _jump(_AT_LEAST, 0, 1, 0x40000000),  # x32: the same calls by other numbers
        _answer(_REFUSE),
    ]
    for name, block in _blocks(network=network, sockets=sockets, metadata=metadata).items():
        number = _CALLS[name][column]
        if number is not None:
            lines += [_jump(_EQUAL, 0, len(block), number), *block]
    lines.append(_answer(_ALLOW))
    return b"".join(lines)


def _blocks(*, network: bool, sockets: bool, metadata: bool) -> dict[str, list[_Line]]:
    """What is done with each call that is looked at."""
    refused = [*_REACHES_OTHERS, *_PRIVILEGED, *(() if metadata else _METADATA + _SHARED_MEMORY)]
    blocks = {name: [_answer(_REFUSE)] for name in refused}
    blocks |= {name: [_answer(_UNKNOWN)] for name in _NOT_THERE}
    blocks["ioctl"] = _unless(1, [*_TERMINAL_INPUT, *(() if metadata else _SET_FLAGS)], refuse=True)
    blocks["clone"] = blocks["unshare"] = _masked(_CLONE_NEWUSER)
    if not metadata:
        blocks |= {name: _unless(argument, [0], refuse=False) for name, argument in _OF_PROCESSES.items()}
    internet = [_AF_INET, _AF_INET6, _AF_NETLINK] if network or metadata else []
    blocks["socket"] = _unless(0, internet + ([_AF_UNIX] if sockets else []), refuse=False)
    return blocks


def _load(place: int) -> _Line:
    return struct.pack("HxxI", _LOAD, place)


def _jump(code: int, fits: int, fails: int, value: int) -> _Line:
    """A comparison, and over how many lines it jumps where it fits and where it fails."""
    return struct.pack("HBBI", code, fits, fails, value)


def _answer(value: int) -> _Line:
    return struct.pack("HxxI", _RETURN, value)


def _unless(argument: int, values: Sequence[int], *, refuse: bool) -> list[_Line]:
    """Refuse the call where the argument is one of the values, or where it is none of them."""
    lines: list[_Line] = [_load(_ARGUMENTS_AT + 8 * argument)]
    lines += [_jump(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
    listed, others = (_REFUSE, _ALLOW) if refuse else (_ALLOW, _REFUSE)
    return [*lines, _answer(others), _answer(listed)]


def _masked(mask: int) -> list[_Line]:
    """Refuse the call where its first argument has one of these bits."""
    return [_load(_ARGUMENTS_AT), _jump(_MASK, 0, 1, mask), _answer(_REFUSE), _answer(_ALLOW)]
