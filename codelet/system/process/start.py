"""Finds a program, starts it in the user's environment without credentials, and learns of its exit.

Names and values are judged: a name that speaks of a credential, a value that is a well-known kind of token,
or an address with a password in it. What only says where to ask for a credential stays (SSH_AUTH_SOCK, a
D-Bus address, the path of an X authority file): it gives nothing away when it is printed, any program that
runs as the user finds the same socket without it, and `git push` over ssh, once approved, needs it. A command that
only reads gets no more than a list of variables.

Nor does anything reach a command that would make it do something other than it says: functions and options of the
shell, a file that every shell or search reads first, libraries from wherever the command happens to run.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from codelet.system.text.secret_shapes import SHORTEST_SECRET, is_secret, live_secrets

if TYPE_CHECKING:
    import asyncio

_POLL = 0.01
_STATUS_POLL = 0.001
_CHANGES_COMMANDS = frozenset(
    [
        # bash reads these before it looks at the command: a file to run, options, the meaning of wildcards
        *("BASH_ENV", "BASHOPTS", "SHELLOPTS", "BASH_COMPAT", "BASH_XTRACEFD", "PS4", "GLOBIGNORE", "GLOBSORT"),
        *("EXECIGNORE", "CDPATH", "PROMPT_COMMAND", "BASH_LOADABLES_PATH"),
        # where operands end and options begin; options that no command line shows; what `less` runs first
        *("POSIXLY_CORRECT", "GREP_OPTIONS", "RIPGREP_CONFIG_PATH", "LESSOPEN", "LESSCLOSE", "LESS"),
    ]
)
_BEGINNINGS = ("BASH_FUNC_", "LESSKEY")
"""Beginnings of names: exported functions, and variables that can set LESSOPEN for `less`, which runs it."""
_SHELL_FILE = "ENV"
"""A file that some shells read first; applications use the name for a word such as `production`, which stays."""
_LIBRARIES = {
    **dict.fromkeys(("LD_PRELOAD", "LD_AUDIT"), r"[: ]"),
    **dict.fromkeys(("LD_LIBRARY_PATH", "GCONV_PATH", "DYLD_INSERT_LIBRARIES"), ":"),
    **dict.fromkeys(("DYLD_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH"), ":"),
}
"""Lists of what the loader puts into every program, and what parts them. An entry stays if it is an absolute path."""
_READING = frozenset(
    ["PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR", "HOSTNAME"]
)
"""The variables of a command that only reads, besides those of the locale and of toolchains."""
_SETTINGS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "DEBIAN_FRONTEND": "noninteractive",
    "SSH_ASKPASS_REQUIRE": "never",
}
"""No one is there to answer a question, leave a pager or close an editor; colours are noise to the model."""


DESCRIPTOR = "{descriptor}"
"""The word of `CommandWords` that the descriptor's number takes the place of."""


class StartError(Exception):
    """A child could not be started; the text is one line that says why."""


class CommandWords(tuple[str, ...]):
    """The words of a program that reads each of `data` (at most 64 KiB of bytes) from its own descriptor.

    Each word DESCRIPTOR is replaced by the number of the next descriptor.
    """

    data: Sequence[bytes]

    def __new__(cls, words: Iterable[str], data: Sequence[bytes]) -> Self:
        """The words with what their program reads."""
        made = super().__new__(cls, words)
        made.data = data
        return made


def shell_argv(command: str, environment: Mapping[str, str], workspace: Path) -> list[str]:
    """The words that run a shell command: bash, or sh if there is no bash; never a shell of the workspace."""
    shell = find_program("bash", workspace, environment) or find_program("sh", workspace, environment) or "/bin/sh"
    return [shell, "-c", command]


def find_program(name: str, workspace: Path, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the absolute path of a program outside the workspace, or None.

    Relative entries of PATH are passed over, and so is everything inside the workspace or the repository around it, as
    spelled or with links followed: a repository can supply what is there.
    """
    for folder in _search_path(environment).split(os.pathsep):
        candidate = f"{folder}/{name}"
        if os.access(candidate, os.X_OK) and not Path(candidate).is_dir() and not supplied_by(workspace, candidate):
            return candidate
    return None


def supplied_by(workspace: Path, program: str) -> bool:
    """Return whether a program's path is relative, or inside the workspace or the repository around it, as spelled or
    with links followed.
    """
    if not program.startswith("/"):
        return True
    folder, name = os.path.split(program)
    places = (os.path.normpath(program), f"{os.path.realpath(folder)}/{name}", os.path.realpath(program))
    return any(_lies_in(place, root) for place in places for root in _roots(workspace))


def outside_path(workspace: Path, environment: Mapping[str, str] | None = None) -> str:
    """Return PATH without its relative entries and the folders inside the workspace: for programs whose helpers are
    searched in it, such as git's filters.
    """
    return _outside(_search_path(environment), _roots(workspace))


@lru_cache(maxsize=16)
def _outside(search_path: str, roots: tuple[str, ...]) -> str:
    return os.pathsep.join(
        folder
        for folder in search_path.split(os.pathsep)
        if folder.startswith("/")
        and not any(
            _lies_in(place, root) for place in (os.path.normpath(folder), os.path.realpath(folder)) for root in roots
        )
    )


def _search_path(environment: Mapping[str, str] | None) -> str:
    return (os.environ if environment is None else environment).get("PATH", os.defpath)


def _roots(workspace: Path) -> tuple[str, ...]:
    """The workspace, as spelled and resolved, and the top of the repository around it; never the whole system."""
    resolved = os.path.realpath(workspace)
    top = resolved
    while top != "/" and not os.path.lexists(f"{top}/.git"):
        top = os.path.dirname(top)
    return tuple(sorted({os.path.abspath(workspace), resolved, top} - {"/"}))


def _lies_in(place: str, root: str) -> bool:
    return place == root or place.startswith(f"{root}/")


def start(
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    *,
    apart: bool,
    stdin: int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start `argv` in a new session, standard error `apart` or merged. `stdin` is as for Popen. Raises StartError."""
    program = program_path(argv, cwd, environment)
    try:
        with given([program, *argv[1:]], argv) as (words, data):
            return subprocess.Popen(
                words,
                cwd=cwd,
                env=environment,
                stdin=stdin,
                pass_fds=data,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if apart else subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        raise start_error(argv[0], error) from error


def program_path(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> str:
    """The path of the program that `argv` runs. Raises StartError, also if the folder does not exist."""
    program = argv[0] if "/" in argv[0] else find_program(argv[0], cwd, environment)
    if program is None:
        raise StartError(f"{argv[0]} is not installed, or not in PATH outside the workspace")
    if not cwd.is_dir():
        raise StartError(f"the folder {cwd} does not exist any more")
    return program


def start_error(name: str, error: OSError | ValueError) -> StartError:
    """The error for a program that could not be started; a ValueError is a NUL, or half of a surrogate pair."""
    problem = start_problem(error.errno or 0, error.strerror or str(error)) if isinstance(error, OSError) else error
    return StartError(f"cannot start {name}: {problem}")


def start_problem(number: int, text: str) -> str:
    """Say why a program could not be started, by the number and the text of the system's error."""
    return "the command is too long for the system: put the long part into a file" if number == errno.E2BIG else text


@contextmanager
def given(
    words: Sequence[str], argv: Sequence[str], number: int | None = None
) -> Iterator[tuple[list[str], list[int]]]:
    """The words with the numbers of the descriptors that hold what `argv` reads, and these descriptors.

    The program is to have them by the numbers from `number` on; without it, by their own.
    """
    ends: list[int] = []
    try:
        for data in argv.data if isinstance(argv, CommandWords) else ():
            end, start_ = os.pipe()
            ends.append(end)
            try:
                os.set_blocking(start_, False)
                os.write(start_, data)
            finally:
                os.close(start_)
        numbers = iter(ends if number is None else range(number, number + len(ends)))
        yield [str(next(numbers)) if ends and word == DESCRIPTOR else word for word in words], ends
    finally:
        for end in ends:
            os.close(end)


class ExitWatch:
    """Calls `exited` once, when the process has exited and its status is ready: through a pidfd, or by polling without
    one.

    The process is not reaped. Every way out must reach `close`.
    """

    def __init__(self, process: subprocess.Popen[bytes], exited: Callable[[], None]) -> None:
        import asyncio  # what is only started, comes before it

        self._loop = asyncio.get_running_loop()
        self._process = process
        self._exited = exited
        self._pidfd = -1
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except (AttributeError, OSError):
            self._ask()
        else:
            self._loop.add_reader(self._pidfd, self._tell)

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pidfd >= 0:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _tell(self) -> None:
        self._loop.remove_reader(self._pidfd)
        self._ask_status()

    def _ask_status(self) -> None:
        """A process that someone traces (strace, a debugger) is over before its parent may know how it ended."""
        if _has_status(self._process.pid):
            self._exited()
        else:
            self._timer = self._loop.call_later(_STATUS_POLL, self._ask_status)

    def _ask(self) -> None:
        if self._process.poll() is not None:
            self._exited()
        else:
            self._timer = self._loop.call_later(_POLL, self._ask)


def _has_status(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # someone has taken it already
        return True


def child_environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base` (the process's own by default) without secrets, and set up for programs that no one watches.

    A variable that repeats a secret under a harmless name goes, too, and one that changes what commands do.
    """
    variables = dict(os.environ) if base is None else base
    secrets = [value for _, value in live_secrets(variables) if len(value) >= SHORTEST_SECRET]
    kept = {
        name: value
        for name, value in _plain(variables)
        if not is_secret(name, value) and not any(secret in value for secret in secrets)
    }
    return kept | _SETTINGS


def reading_environment(environment: Mapping[str, str], more: Iterable[str]) -> dict[str, str]:
    """The variables that a command which only reads is given: those on a list, and `more`."""
    names = _READING.union(_SETTINGS, more)
    return {name: value for name, value in environment.items() if name in names or name.startswith("LC_")}


def attended_environment() -> dict[str, str]:
    """Return the environment for a program that the user watches: editor, pager and colours are the user's."""
    own = dict(os.environ)
    kept = {name: value for name, value in child_environment(own).items() if name not in _SETTINGS}
    return kept | {name: own[name] for name in _SETTINGS if name in own}


def _plain(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The variables that leave commands what they are; of lists of libraries the absolute entries."""
    for name, value in variables.items():
        if name in _CHANGES_COMMANDS or name.startswith(_BEGINNINGS):
            continue
        if name == _SHELL_FILE and not re.fullmatch(r"[\w-]*", value):
            continue
        if name in _LIBRARIES:
            absolute = [entry for entry in re.split(_LIBRARIES[name], value) if entry.startswith("/")]
            if absolute:
                yield name, ":".join(absolute)
        else:
            yield name, value
