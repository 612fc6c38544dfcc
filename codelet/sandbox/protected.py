"""What stays read-only inside the workspace: what the next program to start would run or obey."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from codelet.policy.sensitive_names import PROTECTED_FILES, PROTECTED_FOLDERS


def writable_root(workspace: Path) -> str:
    """The workspace, resolved. Raises FileNotFoundError where that is the whole system, of which nothing is left."""
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
