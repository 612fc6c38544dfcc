"""What a shell does before a command of the model: it sets limits, and then tells how the parts of a pipeline ended.

The text stands in a variable, and `PREFIX` in front of the command, on its first line: no line of the command moves.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping

ResourceLimits = Mapping[str, int]
"""What a command may use; what is 0 or absent has no limit.

`memory` is the data of each process in MiB, `processes` how many processes and threads its user may have (the system
does not hold root to it), `file_size` how large a file may get that it writes, in MiB.
"""

_VARIABLE = "CODELET_START"
PREFIX = f'eval "${_VARIABLE}"; '
"""What stands in front of the command; a shell prints it where it cannot parse the first line."""

_PIPE_CLOSED = 141
"""The status of what wrote to a program that had read enough, such as `head`."""
_MIB = 1024  # in the KiB that shells count in
_TOO_LARGE = ("File too large", "File size limit exceeded")
_NO_MEMORY = ("Cannot allocate memory", "MemoryError", "out of memory", "Out of memory", "bad_alloc")
_NO_PROCESS = ("fork: Resource temporarily unavailable", "fork: retry", "Cannot fork", "can't start new thread")


def start_variables(limits: ResourceLimits, shell: str, told: int | None) -> Mapping[str, str]:
    """The variables that a shell of this path needs for `PREFIX`.

    `told` is the descriptor for the statuses of the last pipeline, which bash alone can tell.
    """
    bash = os.path.basename(shell) == "bash"
    wanted = {
        "d": limits.get("memory", 0) * _MIB,
        "u": limits.get("processes", 0) if bash else 0,  # other shells name it otherwise
        "f": limits.get("file_size", 0) * _MIB * (1 if bash else 2),
    }
    lines = [f"ulimit -{name} {value} 2>/dev/null" for name, value in wanted.items() if value]
    if bash and told is not None:
        lines.append(f'trap \'printf "%s " "${{PIPESTATUS[@]}}" >&{told}\' EXIT')
    return {_VARIABLE: "; ".join([*lines, f"unset {_VARIABLE}"])}


def limits_hit(limits: ResourceLimits, shell: str, exit_code: int, output: str) -> tuple[str, ...]:
    """The names of the limits in force that a failed command speaks of, by its output or by how it ended."""
    stopped = exit_code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ)
    signs = {
        "memory": any(sign in output for sign in _NO_MEMORY),
        "processes": os.path.basename(shell) == "bash" and any(sign in output for sign in _NO_PROCESS),
        "file_size": stopped or any(sign in output for sign in _TOO_LARGE),
    }
    return tuple(name for name, seen in signs.items() if seen and limits.get(name)) if exit_code else ()


def failed_parts(statuses: str) -> str | None:
    """The statuses of a pipeline where a part failed although the last one did not, None where that is not so.

    That a part could not write all that it had to a reader that had enough is no failure.
    """
    if not re.fullmatch(r"(?:\d{1,3} )+", statuses):
        return None
    *parts, last = map(int, statuses.split())
    failed = last == 0 and any(part not in (0, _PIPE_CLOSED) for part in parts)
    return statuses.strip() if failed else None
