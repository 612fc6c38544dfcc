"""The shell code around a command of the model: it sets limits, and reports the exit status of each part of a pipeline.

The text is in a variable, and `PREFIX` precedes the command on its first line: no line of the command moves.
"""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Mapping
from typing import Self

from codelet.system.process.supervisor import FIRST_KEPT

ResourceLimits = Mapping[str, int]
"""The limits of a command; 0 or an absent value means none.

`memory` is the data of each process in MiB, `processes` the number of processes and threads of its user (root is
exempt), `file_size` the largest file that it can write, in MiB.
"""

_VARIABLE = "CODELET_START"
PREFIX = f'eval "${_VARIABLE}"; '
"""The text before the command; a shell prints it when it cannot parse the first line."""

_PIPE_CLOSED = 141
"""The status of what wrote to a program that had read enough, such as `head`."""
_MIB = 1024  # in the KiB that shells count in
_TOO_LARGE = ("File too large", "File size limit exceeded")
_NO_MEMORY = ("Cannot allocate memory", "MemoryError", "out of memory", "Out of memory", "bad_alloc")
_NO_PROCESS = ("fork: Resource temporarily unavailable", "fork: retry", "Cannot fork", "can't start new thread")


class PipelineReport:
    """The exit codes of the parts of a command's last pipeline, which bash alone knows and reports when it exits.

    Only one report with the right token counts. Every process of the command can write to the descriptor, but what it
    adds makes the codes unknown, never different. The descriptor is a socket: no path below /proc opens it again, and
    no process can take a report out of it. A command whose own text takes the EXIT trap apart to find the token can
    lie, as it can by ending with `; true`.
    """

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self._token = os.urandom(8).hex()

    def __enter__(self) -> Self:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)  # a shell must not wait for room that another process has used up
        return self

    def __exit__(self, *error: object) -> None:
        self._ours.close()
        self._theirs.close()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return what the shell writes to, if a report is wanted."""
        return (self._theirs.fileno(),) if self.wanted else ()

    @property
    def script(self) -> str:
        """Return what the shell has to run first.

        No function or alias of the command's can replace the builtins: in POSIX mode, bash takes its own `unset` first.
        """
        codes = 'CODELET_PARTS=("${PIPESTATUS[@]}") POSIXLY_CORRECT=1 IFS=" "'
        write = f'\\builtin printf "%s\\n" "{self._token} ${{CODELET_PARTS[*]}}" 2>/dev/null >&{FIRST_KEPT}'
        return f"trap '{codes}; \\unset -f builtin printf; {write}' EXIT"

    def codes(self) -> tuple[int, ...] | None:
        """The exit codes once the shell has ended; None if they are unknown, and none if no report was wanted."""
        if not self.wanted:
            return ()
        try:
            report = self._ours.recv(4096)
        except BlockingIOError:
            return None
        found = re.fullmatch(rf"{self._token}((?: \d{{1,3}})+)\n".encode(), report)
        return None if found is None else tuple(map(int, found[1].split()))


def has_pipe(command: str) -> bool:
    """Return whether the command may have a pipeline of several parts."""
    return re.search(r"(?<!\|)\|(?!\|)", command) is not None


def has_failed_part(codes: tuple[int, ...]) -> bool:
    """Return whether a part of a pipeline failed although the last one did not.

    That a part could not write all its output to a reader that had enough is no failure.
    """
    *parts, last = codes or (0,)
    return last == 0 and any(part not in (0, _PIPE_CLOSED) for part in parts)


def is_bash(shell: str) -> bool:
    """Return whether a shell of this path is bash, which knows the exit codes of a pipeline's parts."""
    return os.path.basename(shell) == "bash"


def start_variables(limits: ResourceLimits, shell: str, report: PipelineReport | None) -> Mapping[str, str]:
    """The variables that a shell of this path needs for `PREFIX`; with `report`, it reports its last pipeline there."""
    bash = is_bash(shell)
    wanted = {
        "d": limits.get("memory", 0) * _MIB,
        "u": limits.get("processes", 0) if bash else 0,  # other shells name it otherwise
        "f": limits.get("file_size", 0) * _MIB * (1 if bash else 2),
    }
    lines = [f"ulimit -{name} {value} 2>/dev/null" for name, value in wanted.items() if value]
    if report is not None and report.wanted:
        lines.append(report.script)
    return {_VARIABLE: "; ".join([*lines, f"unset {_VARIABLE}"])}


def limits_hit(limits: ResourceLimits, shell: str, exit_code: int, output: str) -> tuple[str, ...]:
    """The names of the limits in force that a failed command speaks of, by its output or by how it ended."""
    stopped = exit_code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ)
    signs = {
        "memory": any(sign in output for sign in _NO_MEMORY),
        "processes": is_bash(shell) and any(sign in output for sign in _NO_PROCESS),
        "file_size": stopped or any(sign in output for sign in _TOO_LARGE),
    }
    return tuple(name for name, seen in signs.items() if seen and limits.get(name)) if exit_code else ()
