"""The command lines that confine a command, and what of the workspace they leave read-only.

bubblewrap gives the command a file system of its own: read-only but for the workspace, without network and privileges.
Landlock is used by a helper that takes rights from itself and then becomes the command.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from codelet.safety.sensitive_names import PROTECTED_FILES, PROTECTED_FOLDERS, SECRET_FOLDERS

_HELPER = Path(__file__).with_name("landlock_helper.py")
# Sockets of services that would act for the command outside (the user's bus, Docker) are in /run and /tmp.
_EMPTY = ("/run", "/tmp", "/var/tmp")


def bubblewrap_argv(program: str, command: Sequence[str], workspace: Path, *, network: bool) -> list[str]:
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


def landlock_argv(command: Sequence[str], workspace: Path, *, network: bool) -> list[str]:
    """The words that run `command` confined to the workspace.

    Landlock can only grant, for whole folders. Where something in a folder is protected, each other entry is granted
    by itself, and then nothing new can be made in that folder.
    """
    root = writable_root(workspace)
    granted = _granted(root, protected_places(Path(root)))
    request = json.dumps({"write": granted, "network": network})
    return [sys.executable, "-I", "-S", str(_HELPER), request, *command]


def _granted(folder: str, protected: Sequence[str]) -> list[str]:
    """The folder, or where something in it is protected, all else in it."""
    if not any(place.startswith(f"{folder}/") for place in protected):
        return [folder]
    granted = []
    for entry in os.scandir(folder):
        if entry.path not in protected and not entry.is_symlink():
            granted += _granted(entry.path, protected)
    return granted


def writable_root(workspace: Path) -> str:
    """The workspace, resolved. Raises FileNotFoundError for `/`, where nothing would be left to protect."""
    root = os.path.realpath(workspace)
    if root == "/":
        raise FileNotFoundError("the workspace is the whole file system")
    return root


def protected_places(root: Path) -> list[str]:
    """The existing protected files and folders of the workspace: those with a protected name at its top, codelet's own
    settings, the Python that codelet runs in, and the folders in which programs are looked for.

    A linked worktree's own git folder lies elsewhere, unless that is inside the workspace, too.
    """
    places = [str(root / name) for name in (*PROTECTED_FOLDERS, *PROTECTED_FILES)]
    # A program put there would run outside at the next start of codelet or of anything else.
    started = (sys.prefix, sys.base_prefix, *os.environ.get("PATH", "").split(os.pathsep))
    places += [os.path.realpath(place) for place in started if place.startswith("/")]
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    places.append(os.path.realpath(f"{settings}/codelet"))
    inside = f"{root}/"
    return sorted({place for place in places if place.startswith(inside) and _is_real(place)})


def _is_real(place: str) -> bool:
    """Whether there is something, and no link: what a link leads to is protected where it lies."""
    return os.path.exists(place) and not Path(place).is_symlink()
