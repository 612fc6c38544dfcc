"""The helper of the second way, run as a program of its own: it needs nothing but the standard library.

A child of it grants itself reading and writing at the places named, gives up every privilege, takes on a filter of
system calls and becomes the command. The helper itself waits, removes the command's private temporary folder, and ends
as the command did. Arguments: a JSON object `{"write": [paths], "read": [paths], "list": [paths], "network": bool,
"calls": hex, "temporary": path}`, then the command's words. Whatever cannot be done ends it: a command never runs with
more rights than were meant.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import stat
import struct
import sys
from contextlib import suppress
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_CAPBSET_DROP = 38, 22, 2, 24
_CAPABILITY_VERSION = 0x20080522

# Rights over files, as the kernel numbers them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_RIGHTS = (1 << 16) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_NETWORK_VERSION, _SCOPE_VERSION = 4, 6
_TCP = _OTHER_PROCESSES = 0b11  # to bind and connect; to reach abstract sockets and to send signals
PREFIX = "codelet-command-"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")


def _call(number: int, *arguments: Any) -> int:
    result: int = _LIBC.syscall(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def confine_files(writable: list[str], readable: list[str], listed: list[str], *, network: bool) -> None:
    """Take the rights over files, TCP and other processes from this process. Names are listed in the folders `listed`,
    also where files of theirs cannot be read. Raises OSError.
    """
    try:
        version = _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError as error:
        raise OSError(error.errno, f"the kernel has no Landlock ({error.strerror})") from error
    handled, *others = taken_away(version, network=network)
    fields = struct.pack(f"Q{len(others)}Q", handled, *others)
    ruleset = _call(_CREATE_RULESET, fields, ctypes.c_size_t(len(fields)), ctypes.c_uint32(0))
    for path in listed:
        _grant(ruleset, path, handled & _READ_DIR)
    for path in readable:
        _grant(ruleset, path, handled & _READING)
    for path in (*writable, *_DEVICES):
        _grant(ruleset, path, handled)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))  # its descriptor is closed when the command starts


def taken_away(version: int, *, network: bool) -> list[int]:
    """The rights that are taken, as far as this version of Landlock knows them: over files, TCP and other processes."""
    taken = [_RIGHTS_BY_VERSION.get(version, _ALL_RIGHTS)]
    if version >= _NETWORK_VERSION:
        taken.append(0 if network else _TCP)
    if version >= _SCOPE_VERSION:
        taken.append(_OTHER_PROCESSES)
    return taken


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, PermissionError):  # it is gone meanwhile, or stands where this user may not look
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        if not rights:  # a file cannot be listed, and the kernel takes no rule without a right
            return
        rule = struct.pack("=Qi", rights, place)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(place)


def drop_privileges() -> None:
    """Give up all capabilities, for this process and whatever it becomes: also root's. Raises OSError."""
    capability = 0
    while _LIBC.prctl(_PR_CAPBSET_DROP, capability) == 0:  # until the kernel knows no further one, or this user may not
        capability += 1
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if _LIBC.capset(ctypes.create_string_buffer(header), ctypes.create_string_buffer(24)):
        error = ctypes.get_errno()
        raise OSError(error, f"privileges cannot be given up: {os.strerror(error)}")


def filter_calls(program: bytes) -> None:
    """Take on the filter of system calls. Raises OSError, also where the process may still get new privileges."""
    code = ctypes.create_string_buffer(program, len(program))
    whole = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    if _LIBC.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(whole)):
        error = ctypes.get_errno()
        raise OSError(error, f"no filter for system calls: {os.strerror(error)}")


def _private_folder(temporary: str) -> str | None:
    """Make a folder of the command's own, and remove those whose helper was killed; None if none can be made.

    The helper holds a lock on its folder for as long as it lives.
    """
    import shutil

    with suppress(OSError):
        for name in os.listdir(temporary):
            place = f"{temporary}/{name}"
            if name.startswith(PREFIX) and os.lstat(place).st_uid == os.geteuid() and _locked(place):
                shutil.rmtree(place, ignore_errors=True)
        made = f"{temporary}/{PREFIX}{os.urandom(8).hex()}"
        os.mkdir(made, 0o700)
        if _locked(made):
            return made
    return None


def _locked(folder: str) -> bool:
    """Lock a folder until this process ends; return whether no other process holds its lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    os.close(descriptor)
    return False


def main(request: dict[str, Any], command: list[str]) -> None:
    """Run the command confined, and end as it did."""
    folder = _private_folder(request["temporary"])
    child = os.fork()
    if child:
        _end_as(child, folder)
    if folder is not None:
        os.environ["TMPDIR"] = folder
    writable = [*request["write"], *filter(None, [folder])]
    confine_files(writable, request["read"], request["list"], network=request["network"])
    drop_privileges()
    filter_calls(bytes.fromhex(request["calls"]))
    os.execvp(command[0], command)


def _end_as(child: int, folder: str | None) -> NoReturn:
    """Wait for the command, remove its folder, and end with its status or by its signal."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # sent to the command too, which is waited for
        signal.signal(number, lambda *_: None)
    status = os.waitpid(child, 0)[1]
    if folder is not None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
    if os.WIFSIGNALED(status):
        with suppress(OSError):  # nothing can be set for SIGKILL
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]), sys.argv[2:])
    except OSError as _error:
        sys.stderr.write(f"{_error.strerror or _error}\n")
        sys.exit(126)
