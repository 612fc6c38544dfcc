"""The Landlock helper: a separate program that needs only the standard library.

It gives up every privilege and forks. The child restricts itself to the paths in the request, installs the filter of
system calls and becomes the command. The parent waits, changes modes, times and owners for the command where it may
write, removes its private temporary folder, and exits as the command did. Arguments: a JSON object `{"write": [paths],
"read": [paths], "list": [paths], "network": bool, "calls": hex, "helped": {number: name}, "temporary": path}`, then the
command's words. Any failure ends the helper, so that no command runs with more rights than requested.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import stat
import struct
import sys
from contextlib import suppress
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_CAPBSET_DROP = 38, 22, 2, 24
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _WITH_LISTENER = 1, 1 << 3
_ASK_HELPER, _REFUSE = struct.pack("HxxI", 6, 0x7FC00000), struct.pack("HxxI", 6, 0x00050000 | errno.EACCES)
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
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
    """Give up this process's rights over files, TCP and other processes. `listed` are folders whose names it may list,
    even if it may not read their files. Raises OSError.
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
    """The rights to give up over files, TCP and other processes, as far as this version of Landlock has them."""
    taken = [_RIGHTS_BY_VERSION.get(version, _ALL_RIGHTS)]
    if version >= _NETWORK_VERSION:
        taken.append(0 if network else _TCP)
    if version >= _SCOPE_VERSION:
        taken.append(_OTHER_PROCESSES)
    return taken


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, PermissionError):  # it is gone by now, or in a folder that this user may not read
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
    """Give up all capabilities, also root's, in this process and its children. Raises OSError."""
    capability = 0
    while _LIBC.prctl(_PR_CAPBSET_DROP, capability) == 0:  # until the kernel knows no further one, or this user may not
        capability += 1
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if _LIBC.capset(ctypes.create_string_buffer(header), ctypes.create_string_buffer(24)):
        error = ctypes.get_errno()
        raise OSError(error, f"privileges cannot be given up: {os.strerror(error)}")


def filter_calls(program: bytes) -> int | None:
    """Install the filter of system calls. Returns the descriptor on which calls wait for the helper's answer, or None
    if something around codelet answers calls already: then the filter refuses them.

    Raises OSError, also if the process may still get new privileges.
    """
    code = ctypes.create_string_buffer(program, len(program))
    whole = ctypes.c_char_p(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    if _ASK_HELPER in program:
        with suppress(OSError, KeyError):
            number = _SECCOMP[os.uname().machine]
            return _call(number, ctypes.c_uint(_SET_FILTER), ctypes.c_uint(_WITH_LISTENER), whole)
        return filter_calls(program.replace(_ASK_HELPER, _REFUSE))
    if _LIBC.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, whole):
        error = ctypes.get_errno()
        raise OSError(error, f"no filter for system calls: {os.strerror(error)}")
    return None


_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH = -100, 0x100, 0x1000
_PATH_CAP, _TIMES_SIZE = 4096, 32
_ARGUMENTS = {
    "chmod": (None, 0, 1, None),
    "fchmod": (0, None, 1, None),
    "fchmodat": (0, 1, 2, None),
    "fchmodat2": (0, 1, 2, 3),
    "chown": (None, 0, 1, None),
    "fchown": (0, None, 1, None),
    "lchown": (None, 0, 1, None),
    "fchownat": (0, 1, 2, 4),
    "utimensat": (0, 1, 2, 3),
}
"""The positions of a call's arguments: descriptor, path, first value, flags."""


def answer_calls(listener: int, child: int, names: dict[str, str], writable: list[str]) -> None:
    """Make the changes that the command's system calls ask for, in the `writable` places only, until `child` ends.

    Landlock has no rights for modes, times and owners, so the filter hands these calls to this process, which has no
    more privileges than the command.
    """
    ended = os.pidfd_open(child)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while True:
        events = dict(poll.poll())
        if ended in events or not events.get(listener, 0) & select.POLLIN:
            return
        with suppress(OSError):  # the caller was killed
            call = fcntl.ioctl(listener, _RECEIVE, bytes(80))
            identity, task, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", call)
            error = 0
            try:
                _change(names[str(number)], task, arguments, writable)
            except OSError as failed:
                error = failed.errno or errno.EACCES
            fcntl.ioctl(listener, _SEND, struct.pack("QqiI", identity, 0, -error, 0))


def _change(name: str, task: int, arguments: list[int], writable: list[str]) -> None:
    """Make one change, with the command's memory and descriptors read from /proc.

    The file is opened first, then its place is judged, and the change goes through its descriptor: a link that is put
    in the path leads nowhere else. The number of a task that was killed may be another's by now, but its path is judged
    all the same.
    """
    at, path, value, flag = _ARGUMENTS[name]
    flags = _AT_SYMLINK_NOFOLLOW if name == "lchown" else 0 if flag is None else arguments[flag]
    folder = _AT_FDCWD if at is None else ctypes.c_int(arguments[at]).value
    place = f"/proc/{task}/cwd" if folder == _AT_FDCWD else f"/proc/{task}/fd/{folder}"
    how = os.O_PATH | os.O_CLOEXEC
    if path is not None and arguments[path]:
        text = os.fsdecode(_memory(task, arguments[path], _PATH_CAP).partition(b"\0")[0])
        if text or not flags & _AT_EMPTY_PATH:
            text = text.replace("/proc/self/", f"/proc/{task}/", 1) if text.startswith("/proc/self/") else text
            place = text if text.startswith("/") else f"{place}/{text}" if text else ""
            how |= os.O_NOFOLLOW if flags & _AT_SYMLINK_NOFOLLOW else 0
    elif path is not None and name != "utimensat":
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    file = os.open(place, how)
    try:
        opened = f"/proc/self/fd/{file}"
        real = os.readlink(opened)
        if not any(real == one or real.startswith(f"{one}/") for one in writable):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if "chmod" in name:
            os.chmod(opened, arguments[value] & 0o7777)
        elif "chown" in name:
            os.chown(opened, *(ctypes.c_int(arguments[value + step]).value for step in (0, 1)))
        else:
            times = _memory(task, arguments[value], _TIMES_SIZE) if arguments[value] else None
            if _LIBC.utimensat(_AT_FDCWD, os.fsencode(opened), times, 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(file)


def _memory(task: int, address: int, size: int) -> bytes:
    memory = os.open(f"/proc/{task}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, size, address)
    finally:
        os.close(memory)


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
        name = os.urandom(8).hex()
        os.mkdir(f"{temporary}/.{name}", 0o700)
        if _locked(f"{temporary}/.{name}"):  # first, since another helper removes an unlocked folder with the prefix
            os.rename(f"{temporary}/.{name}", made := f"{temporary}/{PREFIX}{name}")
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
    """Run the command confined, and exit as it did."""
    import _socket  # `socket` costs five milliseconds more

    drop_privileges()
    folder = _private_folder(request["temporary"])
    writable = [*request["write"], *filter(None, [folder])]
    ours, theirs = _socket.socketpair()
    child = os.fork()
    if child:
        theirs.close()
        _, received, _, _ = ours.recvmsg(1, _socket.CMSG_SPACE(4))
        _end_as(child, folder, [struct.unpack("i", data)[0] for _, _, data in received], request["helped"], writable)
    if folder is not None:
        os.environ["TMPDIR"] = folder
    os.environ["UV_NO_CACHE"] = "1"  # uv ends if it cannot write its cache
    confine_files(writable, request["read"], request["list"], network=request["network"])
    listener = filter_calls(bytes.fromhex(request["calls"]))
    passed = [] if listener is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", listener))]
    theirs.sendmsg([b"1"], passed)
    os.execvp(command[0], command)


def _end_as(
    child: int, folder: str | None, listeners: list[int], names: dict[str, str], writable: list[str]
) -> NoReturn:
    """Serve and wait for the command, remove its folder, and exit with its status or by its signal."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # sent to the command too, which is waited for
        signal.signal(number, lambda *_: None)
    for listener in listeners:
        answer_calls(listener, child, names, writable)
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
