"""The filter of system calls, asked of the kernel: each call from a process that took it on, harmlessly."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from codelet.safety.sandbox.call_filter import filter_program
from tests.support.program import ROOT

# A call without sense fails with another error where the filter lets it through: the file is no terminal, say.
_PROGRAM = """
import ctypes, errno, json, os, platform, socket, sys
sys.path.insert(0, sys.argv[1])
import landlock_helper
X86 = platform.machine() == "x86_64"
libc = ctypes.CDLL(None, use_errno=True)
null = os.open(os.devnull, os.O_RDWR)
other = os.getppid()
libc.prctl(38, 1, 0, 0, 0)  # no new privileges: without that only root may take on a filter
listener = landlock_helper.filter_calls(bytes.fromhex(sys.argv[2]))
if listener is not None:
    os.close(listener)  # the helper is gone: its calls do not exist

def asked(number, *arguments):
    ctypes.set_errno(0)
    libc.syscall(number, *(ctypes.c_ulong(one) for one in arguments))
    return errno.errorcode.get(ctypes.get_errno(), "done")

calls = {
    "terminal input": (16 if X86 else 29, null, 0x5412, 0),
    "console input": (16 if X86 else 29, null, 0x541C, 0),
    "file flags": (16 if X86 else 29, null, 0x40086602, 0),
    "another ioctl": (16 if X86 else 29, null, 0x5413, 0),
    "new users": (272 if X86 else 97, 0x10000000),
    "new nothing": (272 if X86 else 97, 0),
    "io_uring": (425, 1, 0),
    "clone3": (435, 0, 0),
    "mount": (165 if X86 else 40, 0, 0, 0, 0, 0),
    "ptrace": (101 if X86 else 117, 16, 0, 0, 0),
    "mode": (91 if X86 else 52, 1 << 20, 0o600),
    "extended attributes": (190 if X86 else 7, 1 << 20, 0, 0, 0, 0),
    "own priority": (141 if X86 else 140, 0, 0, 0),
    "another's priority": (141 if X86 else 140, 0, other, 0),
    "own parameters": (142 if X86 else 118, 0, 0),
    "another's parameters": (142 if X86 else 118, other, 0),
    "own scheduler": (144 if X86 else 119, 0, 0, 0),
    "another's scheduler": (144 if X86 else 119, other, 0, 0),
    "own processors": (203 if X86 else 122, 0, 0, 0),
    "another's processors": (203 if X86 else 122, other, 0, 0),
    "own attributes": (314 if X86 else 274, 0, 0, 0),
    "another's attributes": (314 if X86 else 274, other, 0, 0),
    "own turn at the disk": (251 if X86 else 30, 1, 0, 0),
    "another's turn at the disk": (251 if X86 else 30, 1, other, 0),
    "own limits": (302 if X86 else 261, 0, 7, 0, 0),
    "another's limits": (302 if X86 else 261, other, 7, 0, 0),
    "internet": (41 if X86 else 198, 2, 1, 0),
    "internet 6": (41 if X86 else 198, 10, 1, 0),
    "routes": (41 if X86 else 198, 16, 3, 0),
    "local": (41 if X86 else 198, 1, 1, 0),
    "packets": (41 if X86 else 198, 17, 3, 0),
    "other numbers": (0x40000000 + 39,) if X86 else (425, 1, 0),
}
print(json.dumps({name: asked(*words) for name, words in calls.items()}))
"""
REFUSED = errno.errorcode[13]
ALWAYS = ("terminal input", "console input", "new users", "mount", "ptrace", "packets")
ABSENT = ("io_uring", "clone3")
OF_PROCESSES = ("priority", "parameters", "scheduler", "processors", "attributes", "turn at the disk", "limits")
METADATA = ("file flags", *(f"another's {what}" for what in OF_PROCESSES))
INTERNET = ("internet", "internet 6", "routes")
FREE = ("another ioctl", "new nothing", *(f"own {what}" for what in OF_PROCESSES))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the numbers of its calls are not known")
@pytest.mark.parametrize(("network", "metadata"), [(False, False), (True, False), (False, True)])
def test_what_the_kernel_refuses(network: bool, metadata: bool) -> None:
    program = filter_program(network=network, metadata=metadata)
    folder = str(ROOT / "codelet" / "safety" / "sandbox")
    words = [sys.executable, "-c", _PROGRAM, folder, program.hex()]
    found = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    refused = {"local", *ALWAYS, *(() if metadata else METADATA), *(() if network or metadata else INTERNET)}
    refused |= {"other numbers"} if platform.machine() == "x86_64" else set()
    assert {name for name, error in found.items() if error == REFUSED} == refused
    assert {found[name] for name in ABSENT} == {"ENOSYS"}
    assert found["mode"] == ("EBADF" if metadata else "ENOSYS")
    assert (found["extended attributes"] == "ENOTSUP") == (not metadata)
    assert not {found[name] for name in FREE} & {REFUSED, "ENOSYS"}


def test_a_machine_whose_calls_are_not_known_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    filter_program.cache_clear()
    with pytest.raises(FileNotFoundError, match="known for riscv64"):
        filter_program(network=False, metadata=False)


def answered(program: bytes, machine: int, number: int, first: int = 0) -> int:
    """The filter's answer to a call with this first argument."""
    return answer(list(struct.iter_unpack("HBBI", program)), struct.pack("=II8xQ40x", number, machine, first))


def answer(lines: list[tuple[int, ...]], data: bytes) -> int:
    """Run the lines of a filter as the kernel does. Returns the answer to a call."""
    at = loaded = 0
    while True:
        code, fits, fails, value = lines[at]
        if code == 0x06:
            return int(value)
        if code == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += fits if holds else fails
        at += 1


@pytest.mark.parametrize(("machine", "own", "other"), [("x86_64", 0xC000003E, 0x40000003), ("aarch64", 0xC00000B7, 40)])
def test_calls_by_the_numbers_of_another_machine_are_refused(
    machine: str, own: int, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel for 64 bits also takes the calls of one for 32, where each number means another call."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    filter_program.cache_clear()
    program = filter_program(network=False, metadata=False)
    filter_program.cache_clear()
    refused, allowed = 0x5000D, 0x7FFF0000
    for number in (0, 1, 400):
        assert (answered(program, own, number), answered(program, other, number)) == (allowed, refused)
    assert answered(program, own, 0x40000000) == refused
    clone, user = {"x86_64": 56, "aarch64": 220}[machine], 0x10000000
    assert {answered(program, own, clone, flags) for flags in range(512)} == {allowed}, "they are not taken for calls"
    assert {answered(program, own, clone, user | flags) for flags in range(512)} == {refused}


_NUMBERS = {
    "x86_64": {
        "refused": {29, 30, 31, 41, *range(64, 72), 220, 240, 241, 101, 103, 132, 141, 142, 144,
                    155, 161, 163, 165, 166, 203, 235, 248, 249, 250, 251, 261,
                    298, 302, 308, 310, 311, 312, 314, 321, 323, 438, 440, 469},
        "helped": {90, 91, 92, 93, 94, 260, 268, 280, 452},
        "unsupported": {188, 189, 190, 197, 198, 199, 463, 466},
        "absent": {425, 426, 427, 428, 429, 430, 431, 432, 433, 435, 442},
    },
    "aarch64": {
        "refused": {180, 181, *range(186, 198), 30, 39, 40, 41, 51, 89, 116, 117, 118, 119, 122, 140,
                    198, 217, 218, 219, 241, 261, 268, 270, 271, 272, 274, 280, 282, 438, 440, 469},
        "helped": {52, 53, 54, 55, 88, 452},
        "unsupported": {5, 6, 7, 14, 15, 16, 463, 466},
        "absent": {425, 426, 427, 428, 429, 430, 431, 432, 433, 435, 442},
    },
}  # fmt: skip
"""The calls by the filter's answer when every argument is 99, numbered as in the kernel's tables."""
_ANSWERS = {"refused": 0x5000D, "absent": 0x50026, "unsupported": 0x5005F, "helped": 0x7FC00000}


@pytest.mark.parametrize("machine", _NUMBERS)
def test_each_call_that_is_refused_by_its_number(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    filter_program.cache_clear()
    program = filter_program(network=False, metadata=False)
    filter_program.cache_clear()
    own = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    lines = list(struct.iter_unpack("HBBI", program))
    found = {number: answer(lines, struct.pack("=II8x6Q", number, own, *[99] * 6)) for number in range(600)}
    for name, value in _ANSWERS.items():
        assert {number for number, given in found.items() if given == value} == _NUMBERS[machine][name], name
    assert set(found.values()) == {*_ANSWERS.values(), 0x7FFF0000}


_HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
_WITHOUT_METADATA = """
    socket ioctl clone clone3 io_uring_setup io_uring_enter io_uring_register ptrace process_vm_readv process_vm_writev
    kcmp pidfd_getfd process_madvise unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig
    fsmount fspick mount_setattr bpf perf_event_open userfaultfd add_key request_key keyctl syslog acct chmod fchmod
    fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat setxattr lsetxattr fsetxattr
    removexattr lremovexattr fremovexattr setxattrat removexattrat file_setattr setpriority sched_setparam
    sched_setscheduler sched_setaffinity sched_setattr ioprio_set prlimit64 shmget shmctl shmat shmdt semget semctl
    semop semtimedop msgget msgctl msgsnd msgrcv mq_open mq_unlink
""".split()


_WRITING = """
    open openat openat2 creat mkdir mkdirat unlink unlinkat rmdir rename renameat renameat2 link linkat symlink
    symlinkat
""".split()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_what_opens_a_file_is_handed_on_only_if_it_may_write(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    filter_program.cache_clear()
    program = filter_program(network=False, metadata=False, writing=True)
    filter_program.cache_clear()
    own = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    lines = list(struct.iter_unpack("HBBI", program))
    for number, at in {"x86_64": {2: 1, 257: 2}, "aarch64": {56: 2}}[machine].items():
        for flags, asked in ((0, False), (os.O_CLOEXEC | os.O_DIRECTORY, False), (1, True), (2, True), (0o100, True)):
            arguments = [flags if place == at else 0 for place in range(6)]
            given = answer(lines, struct.pack("=II8x6Q", number, own, *arguments))
            assert given == (0x7FC00001 if asked else 0x7FFF0000), (number, flags)


@pytest.mark.parametrize("machine", _HEADERS)
def test_the_numbers_are_those_of_the_kernels_headers(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older header may lack calls of the filter, but not the other way round."""
    if not _HEADERS[machine].exists():
        pytest.skip("needs the kernel's headers")
    listed = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", _HEADERS[machine].read_text()))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    filter_program.cache_clear()
    lines = list(struct.iter_unpack("HBBI", filter_program(network=False, metadata=False, writing=True)))
    filter_program.cache_clear()
    # A comparison that jumps over a block where it fails is one of the call's number.
    numbers = {value for code, fits, _, value in lines if code == 0x15 and fits == 0}
    last = max(map(int, listed.values()))
    wanted = {int(listed[name]) for name in (*_WITHOUT_METADATA, *_WRITING) if name in listed}
    assert len(wanted) > 40
    assert {number for number in numbers if number <= last} == wanted
