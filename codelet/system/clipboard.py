"""The image in the system's clipboard, read by the programs of Wayland, X and macOS.

A terminal passes on text only. Over SSH the clipboard is the remote machine's, which has none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from codelet.record import Record
from codelet.system.process import StartError, capture, child_environment

_SECONDS = 5.0
_LARGEST = 64 << 20
_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_MAC = "the clipboard as «class PNGf»"


class Copied(Record):
    """The bytes of an image, or the reason for none, in a few words for the user."""

    data: bytes = b""
    why: str = ""


async def copied_picture(workspace: Path, environment: Mapping[str, str] = os.environ) -> Copied:
    """Return the image in the clipboard. Nothing is written to disk, and no program of the workspace runs."""
    asked = False
    for argv in _ways(environment):
        try:
            done = await capture(
                argv, cwd=workspace, environment=child_environment(environment), timeout=_SECONDS, limit=_LARGEST
            )
        except StartError:
            continue  # this program is not installed
        asked = True
        if done.exit_code == 0 and done.stdout and not done.cut and not done.timed_out:
            data = _of_mac(done.stdout) if argv[0] == "osascript" else done.stdout
            if data:
                return Copied(data)
    if asked:
        return Copied(why="there is no image in the clipboard")
    return Copied(why="no clipboard here without wl-paste or xclip; name a file as @path")


def _ways(environment: Mapping[str, str]) -> Iterator[list[str]]:
    """The commands that can print it, one for each image type."""
    if environment.get("WAYLAND_DISPLAY"):
        yield from (["wl-paste", "--no-newline", "--type", kind] for kind in _TYPES)
    if environment.get("DISPLAY"):
        yield from (["xclip", "-selection", "clipboard", "-target", kind, "-out"] for kind in _TYPES)
    if sys.platform == "darwin":
        yield ["osascript", "-e", _MAC]


def _of_mac(printed: bytes) -> bytes:
    """The bytes that are printed as «data PNGf8950…»."""
    _, _, text = printed.decode("utf-8", "replace").partition("PNGf")
    try:
        return bytes.fromhex(text.partition("»")[0])
    except ValueError:
        return b""
