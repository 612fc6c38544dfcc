"""Finds a program and starts it. Used by `child` alone."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class StartError(Exception):
    """A child could not be started; the text is one line that says why."""


def shell_argv(command: str, environment: Mapping[str, str]) -> list[str]:
    """The words that run a shell command: bash, or sh where there is no bash."""
    shell = find_program("bash", environment) or find_program("sh", environment) or "/bin/sh"
    return [shell, "-c", command]


def find_program(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """The absolute path of a program, or None.

    Relative entries of PATH are passed over: what they find, a repository can supply.
    """
    path = (os.environ if environment is None else environment).get("PATH") or os.defpath
    for folder in path.split(os.pathsep):
        candidate = f"{folder}/{name}"
        if folder.startswith("/") and os.access(candidate, os.X_OK) and not Path(candidate).is_dir():
            return candidate
    return None


def start(argv: Sequence[str], cwd: Path, environment: Mapping[str, str], apart: bool) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own, standard error `apart` or merged. Raises StartError."""
    program = argv[0] if "/" in argv[0] else find_program(argv[0], environment)
    if program is None:
        raise StartError(f"{argv[0]} is not installed, or not in PATH")
    try:
        if not cwd.is_dir():
            raise StartError(f"the folder {cwd} does not exist any more")
        return subprocess.Popen(
            [program, *argv[1:]],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if apart else subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
    except ValueError as error:  # a NUL, or half of a surrogate pair
        raise StartError(f"cannot start {argv[0]}: {error}") from error
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise StartError("the command is too long for the system: put the long part into a file") from error
        raise StartError(f"cannot start {argv[0]}: {error.strerror}") from error
