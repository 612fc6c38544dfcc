"""The Landlock helper: a separate program that needs only the standard library.

It gives up every privilege and forks. The child restricts itself to the paths in the request, installs the filter of
system calls and becomes the command. The parent waits, changes modes, times and owners for the command where it may
write, removes its private temporary folder, and exits as the command did. Arguments: the request of `landlock_argv` as
JSON, then the command's words. Any failure ends the helper: no command runs with more rights than that.

Landlock grants folders with all that is in them. In a workspace with protected or hidden entries, `guarded` (the
workspace, then these entries), it can grant only the other entries one by one; so the parent also opens, makes, renames
and removes the others there. All calls that it leaves to the kernel meet Landlock.
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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, _PR_CAPBSET_DROP = 38, 22, 2, 24
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _WITH_LISTENER, _UNTIL_KILLED = 1, 1 << 3, 1 << 5
_ASK_HELPER, _REFUSE = struct.pack("HxxI", 6, 0x7FC00000), struct.pack("HxxI", 6, 0x00050000 | errno.EACCES)
_ASK_TO_WRITE, _ALLOW = struct.pack("HxxI", 6, 0x7FC00001), struct.pack("HxxI", 6, 0x7FFF0000)
_RECEIVE, _SEND, _IS_WAITING, _ADD_DESCRIPTOR = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_TO_THE_KERNEL, _AND_SEND = 1, 1 << 1
_CAPABILITY_VERSION = 0x20080522

# Rights over files, as the kernel numbers them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_RIGHTS = (1 << 16) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READING = _EXECUTE | _READ_FILE | _READ_DIR
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
    for paths, rights in ((listed, _READ_DIR), (readable, _READING), ((*writable, *_DEVICES), handled)):
        for path in paths:
            _grant(ruleset, path, handled & rights)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))  # its descriptor is closed when the command starts


def taken_away(version: int, *, network: bool) -> list[int]:
    """The rights to give up over files, TCP and other processes, as far as this version of Landlock has them."""
    taken = [_RIGHTS_BY_VERSION.get(version, _ALL_RIGHTS), 0 if network else _TCP, _OTHER_PROCESSES]
    return taken[: 1 if version < 4 else 2 if version < 6 else 3]


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
            # No signal but a deadly one interrupts a call: it would be made a second time.
            flags = _WITH_LISTENER | (_UNTIL_KILLED if _ASK_TO_WRITE in program else 0)
            return _call(number, ctypes.c_uint(_SET_FILTER), ctypes.c_uint(flags), whole)
        if _ASK_TO_WRITE in program:  # an older kernel, perhaps
            return filter_calls(program.replace(_ASK_TO_WRITE, _ALLOW))
        return filter_calls(program.replace(_ASK_HELPER, _REFUSE))
    if _LIBC.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, whole):
        error = ctypes.get_errno()
        raise OSError(error, f"no filter for system calls: {os.strerror(error)}")
    return None


_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_REMOVE_FOLDER, _AT_EMPTY_PATH = -100, 0x100, 0x200, 0x1000
_PATH_CAP, _TIMES_SIZE = 4096, 32
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
_OPEN_AT_2, _NO_MAGIC_LINKS = 437, 2
_NO_POSITION = "6"
"""The position of the zero after a call's arguments."""


class Places:
    """The places that a command may change: `writable` ones, and the `guarded` folder but for the protected entries in
    it, and the folders that lead to them: a rename would put another entry at a protected place.
    """

    def __init__(self, writable: list[str], guarded: list[str]) -> None:
        self._writable = writable
        self._root, *named = guarded or [""]
        self._protected = [each for each in named if each.startswith(f"{self._root}/")]
        self._leading = [folder for each in self._protected for folder in self._above(each)]

    def hold(self, place: str) -> bool:
        """Return whether the command may change the status of a resolved place."""
        return self.guard(place) or any(f"{place}/".startswith(f"{one}/") for one in self._writable)

    def guard(self, place: str) -> bool:
        """Return whether the helper may make, replace or remove the entry of the guarded folder for the command.

        Some file systems know an entry by further names: .GIT and GIT~1 may be .git there.
        """
        low, protected = place.casefold(), [each.casefold() for each in self._protected]
        inside = self._root != "" and place.startswith(f"{self._root}/")
        if not inside or any(f"{low}/".startswith(f"{one}/") or f"{one}/".startswith(f"{low}/") for one in protected):
            return False
        itself, closed = _identities([place]), _identities(self._protected)
        return not (itself | _identities(self._above(place))) & closed and not itself & _identities(self._leading)

    def _above(self, place: str) -> list[str]:
        """The folders that lead from the guarded one to a place in it."""
        return [place[:at] for at, letter in enumerate(place) if letter == "/" and at > len(self._root)]


def _identities(places: list[str]) -> set[tuple[int, int]]:
    found = set()
    for place in places:
        with suppress(OSError):
            status = os.lstat(place)
            found.add((status.st_dev, status.st_ino))
    return found


def answer_calls(listener: int, child: int, calls: dict[str, list[str]], places: Places) -> None:
    """Make the changes that the command's system calls ask for, in its `places` only, until `child` ends.

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
            arguments.append(0)
            name, what, *positions = calls[str(number)]
            error, flags, opened = 0, 0, None
            try:
                with _caller(listener, identity, task) as caller:
                    if what in ("chmod", "chown", "utime"):
                        _change(name, what, positions, caller, arguments, places)
                    elif (done := _write(what, positions, caller, arguments, places)) is None:
                        flags = _TO_THE_KERNEL
                    else:
                        (opened,) = done
            except OSError as failed:
                error = failed.errno or errno.EACCES
            if opened is not None:
                kept = arguments[int(positions[-1])] & os.O_CLOEXEC
                try:
                    fcntl.ioctl(listener, _ADD_DESCRIPTOR, struct.pack("QIIII", identity, _AND_SEND, opened, 0, kept))
                    continue
                except OSError as failed:  # the caller has too many descriptors, say
                    error = failed.errno or errno.EMFILE
                finally:
                    os.close(opened)
            fcntl.ioctl(listener, _SEND, struct.pack("QqiI", identity, 0, -error, flags))


@contextmanager
def _caller(listener: int, identity: int, task: int) -> Iterator[str]:
    """The folder in /proc of a caller that waits. It never becomes another's, as a killed one's number may."""
    folder = os.open(f"/proc/{task}", _FOLDER)
    try:
        fcntl.ioctl(listener, _IS_WAITING, struct.pack("Q", identity))
        yield f"/proc/self/fd/{folder}"
    finally:
        os.close(folder)


def _write(
    what: str, positions: list[str], caller: str, arguments: list[int], places: Places
) -> tuple[int | None] | None:
    """Make one change in the guarded folder. Returns the descriptor if the call opens a file, and None to leave the
    call to the kernel.

    The folder of each path is opened first, then its place is judged, and the change goes through its descriptor. No
    link is followed at the end, and none of /proc on the way, which could lead to the files of another process.
    """
    folders, paths, at = (position.split(",") for position in positions)
    with ExitStack() as closing:
        ends: list[tuple[str, int]] = []
        for folder, path in zip(folders, paths, strict=True):
            text = _text(caller, arguments[int(path)])
            above, _, last = text.rstrip("/").rpartition("/")
            if last in ("", ".", "..") or (text.endswith("/") and what not in ("mkdir", "rmdir", "rename")):
                return None
            try:
                base = os.open("/" if text.startswith("/") else _folder(caller, arguments, folder), _FOLDER)
                closing.callback(os.close, base)
                how = struct.pack("QQQ", _FOLDER, 0, _NO_MAGIC_LINKS)
                opened = _call(_OPEN_AT_2, base, os.fsencode(above or "."), how, ctypes.c_size_t(len(how)))
            except OSError:
                return None
            closing.callback(os.close, opened)
            ends.append((last, opened))
        guarded = {places.guard(f"{os.readlink(f'/proc/self/fd/{opened}')}/{last}") for last, opened in ends}
        if guarded == {True, False}:  # the program copies the file instead, if it may
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        if guarded == {False}:
            return None
        with open(f"{caller}/status", encoding="ascii", errors="replace") as status:
            masks = [int(line.split()[1], 8) for line in status if line.startswith("Umask:")]
        if not masks:
            raise ProcessLookupError(errno.ESRCH, "the caller was killed")
        os.umask(masks[0])
        value = ctypes.c_int(arguments[int(at[0])]).value
        if what != "open":
            _perform(what, ends, value, _text(caller, arguments[0]) if what == "symlink" else "")
            return (None,)
        # creat has no flags
        flags, mode = (value, arguments[int(at[0]) + 1]) if at != [_NO_POSITION] else (_CREATE, arguments[1])
        try:
            file = os.open(ends[0][0], flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode & 0o7777, dir_fd=ends[0][1])
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link, which may lead elsewhere
                return None
            raise
        os.set_blocking(file, not flags & os.O_NONBLOCK)
        return (file,)


def _perform(what: str, ends: list[tuple[str, int]], value: int, target: str) -> None:
    """Make, rename or remove an entry. Raises OSError."""
    (first, folder), (second, other) = ends[0], ends[-1]
    match what:
        case "mkdir":
            os.mkdir(first, value & 0o7777, dir_fd=folder)
        case "unlink" if not value & _AT_REMOVE_FOLDER:
            os.unlink(first, dir_fd=folder)
        case "unlink" | "rmdir":
            os.rmdir(first, dir_fd=folder)
        case "symlink":
            os.symlink(target, first, dir_fd=folder)
        case _ if value:  # flags without which programs try again
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        case "rename":
            os.rename(first, second, src_dir_fd=folder, dst_dir_fd=other)
        case "link":
            os.link(first, second, src_dir_fd=folder, dst_dir_fd=other, follow_symlinks=False)


def _change(name: str, what: str, positions: list[str], caller: str, arguments: list[int], places: Places) -> None:
    """Make one change, with the command's memory and descriptors read from /proc.

    The file is opened first, then its place is judged, and the change goes through its descriptor: a link that is put
    in the path leads nowhere else.
    """
    at, (path, value, flag) = positions[0], map(int, positions[1:])
    flags = _AT_SYMLINK_NOFOLLOW if name == "lchown" else arguments[flag]
    place, how = _folder(caller, arguments, at), os.O_PATH | os.O_CLOEXEC
    if arguments[path]:
        text = _text(caller, arguments[path])
        if text or not flags & _AT_EMPTY_PATH:
            text = text.replace("/proc/self/", f"{caller}/", 1) if text.startswith("/proc/self/") else text
            place = text if text.startswith("/") else f"{place}/{text}" if text else ""
            how |= os.O_NOFOLLOW if flags & _AT_SYMLINK_NOFOLLOW else 0
    elif str(path) != _NO_POSITION and what != "utime":
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    file = os.open(place, how)
    try:
        opened = f"/proc/self/fd/{file}"
        if not places.hold(os.readlink(opened)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if what == "chmod":
            os.chmod(opened, arguments[value] & 0o7777)
        elif what == "chown":
            os.chown(opened, *(ctypes.c_uint(arguments[value + step]).value for step in (0, 1)))
        else:
            times = _memory(caller, arguments[value], _TIMES_SIZE) if arguments[value] else None
            if _LIBC.utimensat(_AT_FDCWD, os.fsencode(opened), times, 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(file)


def _folder(caller: str, arguments: list[int], at: str) -> str:
    """The folder or file that the descriptor at this position stands for; without one the current folder."""
    folder = _AT_FDCWD if at == "-" else ctypes.c_int(arguments[int(at)]).value
    return f"{caller}/cwd" if folder == _AT_FDCWD else f"{caller}/fd/{folder}"


def _text(caller: str, address: int) -> str:
    return os.fsdecode(_memory(caller, address, _PATH_CAP).partition(b"\0")[0])


def _memory(caller: str, address: int, size: int) -> bytes:
    with open(f"{caller}/mem", "rb", buffering=0) as memory:
        try:
            return os.pread(memory.fileno(), size, address)
        except (OSError, OverflowError) as error:  # Python refuses addresses that are too large for an offset
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from error


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
    places = Places(writable, request["guarded"])
    ours, theirs = _socket.socketpair()
    child = os.fork()
    if child:
        theirs.close()
        _, received, _, _ = ours.recvmsg(1, _socket.CMSG_SPACE(4))
        _end_as(child, folder, [struct.unpack("i", data)[0] for _, _, data in received], request["helped"], places)
    if folder is not None:
        os.environ["TMPDIR"] = folder
    os.environ["UV_NO_CACHE"] = "1"  # uv ends if it cannot write its cache
    confine_files(writable, request["read"], request["list"], network=request["network"])
    listener = filter_calls(bytes.fromhex(request["calls"]))
    passed = [] if listener is None else [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", listener))]
    theirs.sendmsg([b"1"], passed)
    os.execvp(command[0], command)


def _end_as(
    child: int, folder: str | None, listeners: list[int], calls: dict[str, list[str]], places: Places
) -> NoReturn:
    """Serve and wait for the command, remove its folder, and exit with its status or by its signal."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # sent to the command too, which is waited for
        signal.signal(number, lambda *_: None)
    for listener in listeners:
        answer_calls(listener, child, calls, places)
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
