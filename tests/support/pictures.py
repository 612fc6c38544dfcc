"""Small pictures of each kind, whole files as programs write them."""

from __future__ import annotations

import struct
import zlib


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 3, height: int = 2, more: bytes = b"") -> bytes:
    """A grey PNG; `more` are bytes of a comment in it."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + b"\x80" * width for _ in range(height)))
    text = chunk(b"tEXt", b"Comment\0" + more) if more else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + text + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int = 5, height: int = 4) -> bytes:
    """The segments of a JPEG, with a thumbnail's size in the first one that must not be taken for its own."""
    inner = b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 1, 1)
    app = b"\xff\xe1" + struct.pack(">H", len(inner) + 8) + b"Exif\0\0" + inner
    frame = b"\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width) + b"\x03" + b"\x01\x11\0" * 3
    return b"\xff\xd8" + app + b"\xff\xc4\0\x04\0\0" + frame + b"\xff\xda\0\x02\0\0\xff\xd9"


def gif(width: int = 7, height: int = 6) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0" + b"\x3b"


def webp(kind: str = "VP8X", width: int = 9, height: int = 8) -> bytes:
    """A WebP of one of its three forms: extended, lossless, lossy."""
    if kind == "VP8X":
        body = b"VP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + (width - 1).to_bytes(3, "little")
        body += (height - 1).to_bytes(3, "little")
    elif kind == "VP8L":
        body = b"VP8L" + struct.pack("<I", 5) + b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"\0"
    else:
        body = b"VP8 " + struct.pack("<I", 10) + b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body
