"""The command line of bubblewrap: a file system that is read-only but for the workspace, no network, no privileges."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from codelet.policy.sensitive_names import SECRET_FOLDERS
from codelet.sandbox.protected import protected_places, writable_root

# Sockets of services that would act for the command outside (the user's bus, Docker) are in /run and /tmp.
_EMPTY = ("/run", "/tmp", "/var/tmp")


def confined(program: str, command: Sequence[str], workspace: Path, *, network: bool) -> list[str]:
    """The words that run `command` confined to the workspace by bubblewrap, whose path is `program`."""
    root = writable_root(workspace)
    argv = [program, "--die-with-parent", "--unshare-all", "--new-session", "--cap-drop", "ALL"]
    argv += ["--share-net"] if network else []
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for folder in _EMPTY:
        if Path(folder).is_dir():
            argv += ["--tmpfs", os.path.realpath(folder)]
    argv += _resolver() if network else []
    argv += ["--bind", root, root]
    for place in protected_places(Path(root)):
        argv += ["--ro-bind", place, place]
    for secret in _home_secrets(root):
        argv += ["--tmpfs", secret]
    return [*argv, "--setenv", "TMPDIR", "/tmp", "--chdir", root, "--", *command]


def _home_secrets(root: str) -> list[str]:
    """The folders with keys in the user's home that a command has no business to read."""
    home = os.path.realpath(os.path.expanduser("~"))
    folders = (f"{home}/{folder}" for folder in (*SECRET_FOLDERS, ".config/gcloud", ".config/gh"))
    return [
        os.path.realpath(folder)
        for folder in folders
        if Path(folder).is_dir() and not f"{root}/".startswith(f"{os.path.realpath(folder)}/")
    ]


def _resolver() -> list[str]:
    """Names are resolved with a file that often stands in /run."""
    place = os.path.realpath("/etc/resolv.conf")
    return ["--ro-bind", place, place] if place.startswith("/run/") and Path(place).exists() else []
