"""Images for the model: PNG, JPEG, GIF and WebP, recognized by their first bytes, whatever the file's name.

The limits are Anthropic's: 5 MB in base64 and 8,000 pixels a side, with many images 2,000; OpenAI's and Gemini's are
wider. A larger image is made smaller if Pillow is installed (`picture_child`), else it is refused with what to do.
"""

from __future__ import annotations

import io
import os
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal

from codelet.errors import ToolError
from codelet.messages import Picture

_PICTURE_TOO_LARGE = ", which is too large: at most {most} bytes and {side} pixels a side; make a smaller copy"
_PICTURE_HELPER = " (with Pillow codelet makes one itself: pip install pillow)"


MOST_BYTES = 3_750_000
MOST_SIDE = 8_000
GOOD_SIDE = 2_000
"""Pixels a side that all vendors accept for any number of images, and beyond which they see no more."""

_LARGEST_FILE = 64 << 20
_SECONDS = 20.0

MediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
_KINDS: tuple[tuple[MediaType, str], ...] = (
    ("image/png", "a PNG image"),
    ("image/jpeg", "a JPEG image"),
    ("image/gif", "a GIF image"),
    ("image/webp", "a WebP image"),
)
_NO_SIZE = frozenset({0xC4, 0xC8, 0xCC})


def media_type(head: bytes) -> MediaType | None:
    """Return what a file is by its first bytes; None if it is not an image that models take."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def kind_of_picture(kind: MediaType) -> str:
    """The kind as text."""
    return dict(_KINDS)[kind]


def read_picture(file: BinaryIO, head: bytes, name: str, size: int) -> Picture:
    """Return the image in an open file of that size, which begins with `head`; a large image is made smaller.

    Raises ToolError if it cannot be sent.
    """
    kind = media_type(head)
    if kind is None:
        raise ToolError(f"{name} is not an image that models take")
    if size > MOST_BYTES:
        return _smaller(file, name, kind, f"{size:,} bytes", size)
    file.seek(0)
    data = file.read(MOST_BYTES + 1)
    width, height = _size(kind, data)
    if not width or not height or len(data) > MOST_BYTES:
        raise ToolError(f"{name} begins as {kind_of_picture(kind)}, but is broken or not whole")
    if max(width, height) > MOST_SIDE:
        return _smaller(file, name, kind, f"{width} × {height} pixels", size)
    return _picture(name, kind, (width, height), data)


def memory_file(data: bytes) -> BinaryIO:
    """A file in memory with the data."""
    if not hasattr(os, "memfd_create"):
        return io.BytesIO(data)
    file = os.fdopen(os.memfd_create("picture"), "w+b")
    file.write(data)
    file.flush()
    return file


def _picture(name: str, kind: MediaType, size: tuple[int, int], data: bytes) -> Picture:
    encoded = b64encode(data).decode("ascii")
    return {"name": name, "media_type": kind, "width": size[0], "height": size[1], "data": encoded}


def _smaller(file: BinaryIO, name: str, kind: MediaType, was: str, size: int) -> Picture:
    """Return the image as a helper makes it smaller. Raises ToolError if it fails, or if Pillow is not installed."""
    from importlib.util import find_spec

    if find_spec("PIL") is None:
        raise ToolError(_too_large(name, kind, was) + _PICTURE_HELPER)
    data = _made_smaller(file) if size <= _LARGEST_FILE else b""
    made = media_type(data)
    width, height = _size(made, data) if made else (0, 0)
    if made is None or not width or not height or len(data) > MOST_BYTES:
        raise ToolError(_too_large(name, kind, was))
    return _picture(f"{name} (made smaller, it has {was})", made, (width, height), data)


def _made_smaller(file: BinaryIO) -> bytes:
    """Return what the helper writes; nothing if it fails."""
    import sys
    from pathlib import Path

    from codelet.system.process import StartError, child_environment
    from codelet.system.process.brief import capture_now

    program = Path(__file__).with_name("picture_child.py")
    words = [sys.executable, "-I", str(program), str(GOOD_SIDE), str(MOST_BYTES)]
    file.seek(0)
    try:
        limits: dict[str, Any] = {"timeout": _SECONDS, "limit": MOST_BYTES, "stdin": file.fileno()}
        done = capture_now(words, cwd=program.parent, environment=child_environment(), **limits)
    except (StartError, io.UnsupportedOperation):  # memory without a descriptor
        return b""
    return done.stdout if done.exit_code == 0 else b""


def _too_large(name: str, kind: MediaType, size: str) -> str:
    what = f"{name} is {kind_of_picture(kind)} of {size}"
    return what + _PICTURE_TOO_LARGE.format(most=f"{MOST_BYTES:,}", side=f"{MOST_SIDE:,}")


def _size(kind: MediaType, data: bytes) -> tuple[int, int]:
    """Width and height in pixels; zeros where the file is broken or ends too early."""
    if kind == "image/png":
        whole = data[12:16] == b"IHDR" and b"IEND" in data[-64:]
        return (_big(data[16:20]), _big(data[20:24])) if whole else (0, 0)
    if kind == "image/gif":
        return (_little(data[6:8]), _little(data[8:10])) if b"\x3b" in data[-16:] else (0, 0)
    if kind == "image/jpeg":
        return next(_frames(data), (0, 0)) if b"\xff\xd9" in data[-65_536:] else (0, 0)
    return _webp_size(data) if _little(data[4:8]) + 8 <= len(data) + 1 else (0, 0)


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    """The sizes that a JPEG's frame headers name."""
    place = 2
    while place + 9 < len(data) and data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:  # fill bytes may precede a marker
            place += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            yield _big(data[place + 7 : place + 9]), _big(data[place + 5 : place + 7])
        place += 2 + _big(data[place + 2 : place + 4])


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return _little(data[24:27]) + 1, _little(data[27:30]) + 1
        case b"VP8L":
            bits = _little(data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    return 0, 0


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
