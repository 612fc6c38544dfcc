"""The command line of the second way: a helper that takes rights from itself, then becomes the command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from codelet.sandbox.protected import protected_places, writable_root

_HELPER = Path(__file__).with_name("confine.py")


def confined(command: Sequence[str], workspace: Path, *, network: bool) -> list[str]:
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
