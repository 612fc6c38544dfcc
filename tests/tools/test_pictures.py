"""Pictures by their first bytes: what they are, how large, and which cannot be sent."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path

import pytest

from codelet.errors import ToolError
from codelet.tools.pages import read_path
from codelet.tools.pictures import MOST_BYTES
from codelet.tools.tool import ToolContext
from tests.support.pictures import gif, jpeg, png, webp

KINDS = [
    (png(), "image/png", (3, 2)),
    (jpeg(), "image/jpeg", (5, 4)),
    (gif(), "image/gif", (7, 6)),
    (webp("VP8X"), "image/webp", (9, 8)),
    (webp("VP8L"), "image/webp", (9, 8)),
    (webp("VP8 "), "image/webp", (9, 8)),
]


@pytest.mark.parametrize(("data", "kind", "size"), KINDS, ids=[f"{kind}-{len(data)}" for data, kind, _ in KINDS])
async def test_a_picture_is_what_its_bytes_say(data: bytes, kind: str, size: tuple[int, int], tmp_path: Path):
    (tmp_path / "notes.txt").write_bytes(data)
    output = await read_path(ToolContext(tmp_path), "notes.txt", 1, 2000)
    (picture,) = output.images
    assert (picture["media_type"], picture["width"], picture["height"]) == (kind, *size)
    assert b64decode(picture["data"]) == data
    assert f"{size[0]} × {size[1]} pixels" in output.text
    blind = await read_path(ToolContext(tmp_path, sees=lambda: False), "notes.txt", 1, 2000)
    assert (blind.images, "you take no pictures" in blind.text) == ((), True)
    (tmp_path / "half").write_bytes(data[:-8])
    with pytest.raises(ToolError, match="broken or not whole"):
        await read_path(ToolContext(tmp_path), "half", 1, 2000)


async def test_a_name_makes_no_picture(tmp_path: Path):
    (tmp_path / "a.png").write_text("just text\n")
    output = await read_path(ToolContext(tmp_path), "a.png", 1, 2000)
    assert (output.images, output.text) == ((), "1\tjust text")


@pytest.mark.parametrize("data", [png(more=b"x" * MOST_BYTES), png(8_001, 1)], ids=["bytes", "pixels"])
async def test_one_that_is_too_large_is_refused_with_the_limits(data: bytes, tmp_path: Path):
    (tmp_path / "big.png").write_bytes(data)
    with pytest.raises(ToolError, match="at most 3,750,000 bytes and 8,000 pixels a side; make a smaller copy"):
        await read_path(ToolContext(tmp_path), "big.png", 1, 2000)
