"""Pictures by their first bytes: what they are, how large, and which cannot be sent."""

from __future__ import annotations

import asyncio
import io
import random
import struct
import subprocess
import sys
import zlib
from base64 import b64decode
from importlib.util import find_spec
from pathlib import Path

import pytest

from codelet.errors import ToolError
from codelet.messages import Picture
from codelet.tools.pages import read_path
from codelet.tools.pictures import GOOD_SIDE, MOST_BYTES
from codelet.tools.tool import ToolContext
from tests.support.pictures import chunk, gif, jpeg, png, webp

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
    assert (blind.images, "no images" in blind.text) == ((), True)
    (tmp_path / "half").write_bytes(data[:-8])
    with pytest.raises(ToolError, match="broken"):
        await read_path(ToolContext(tmp_path), "half", 1, 2000)


async def test_a_name_makes_no_picture(tmp_path: Path):
    (tmp_path / "a.png").write_text("just text\n")
    output = await read_path(ToolContext(tmp_path), "a.png", 1, 2000)
    assert (output.images, output.text) == ((), "1\tjust text")


LARGE = [png(more=b"x" * MOST_BYTES), png(8_001, 1)]


@pytest.mark.parametrize(
    "data", [gif(8_001, 1), jpeg()[:-2] + b"\0" * MOST_BYTES + b"\xff\xd9"], ids=["pixels", "bytes"]
)
async def test_one_that_is_too_large_and_cannot_be_read_is_refused_with_the_limits(data: bytes, tmp_path: Path):
    (tmp_path / "big.png").write_bytes(data)
    with pytest.raises(ToolError, match=r"3,750,000 bytes .*8,000 pixels"):
        await read_path(ToolContext(tmp_path), "big.png", 1, 2000)


def shown(data: bytes, folder: Path) -> tuple[Picture, str]:
    (folder / "big.png").write_bytes(data)
    output = asyncio.run(read_path(ToolContext(folder), "big.png", 1, 2000))
    (picture,) = output.images
    return picture, output.text


@pytest.mark.skipif(find_spec("PIL") is None, reason="Pillow is not installed")
@pytest.mark.parametrize(
    ("data", "was", "size"),
    [(LARGE[0], "3,750,091 bytes", (3, 2)), (LARGE[1], "8001 × 1 pixels", (2_000, 1))],
    ids=["bytes", "pixels"],
)
def test_one_that_is_too_large_is_made_smaller(data: bytes, was: str, size: tuple[int, int], tmp_path: Path):
    picture, text = shown(data, tmp_path)
    assert (picture["media_type"], picture["width"], picture["height"]) == ("image/png", *size)
    assert len(b64decode(picture["data"])) < 1_000
    assert was in text and f"PNG image, {size[0]} × {size[1]} pixels" in text


@pytest.mark.skipif(find_spec("PIL") is None, reason="Pillow is not installed")
def test_what_stays_too_large_as_a_png_becomes_a_jpeg(tmp_path: Path):
    from PIL import Image

    side = 2_400
    noise = Image.frombytes("RGBA", (side, side), random.Random(1).randbytes(side * side * 4))
    out = io.BytesIO()
    noise.save(out, "PNG", compress_level=1)
    picture, text = shown(out.getvalue(), tmp_path)
    assert picture["media_type"] == "image/jpeg"
    assert len(b64decode(picture["data"])) <= MOST_BYTES
    assert max(picture["width"], picture["height"]) <= GOOD_SIDE
    assert " JPEG " in text


@pytest.mark.skipif(find_spec("PIL") is None, reason="Pillow is not installed")
def test_a_small_file_that_would_fill_the_memory_is_refused(tmp_path: Path):
    rows = zlib.compress(b"\0" * 1_000_000)
    huge = png(8_001, 1).replace(struct.pack(">II", 8_001, 1), struct.pack(">II", 60_000, 60_000))
    (tmp_path / "bomb.png").write_bytes(huge[:33] + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    with pytest.raises(ToolError, match="60000 × 60000 pixels"):
        asyncio.run(read_path(ToolContext(tmp_path), "bomb.png", 1, 2000))


def test_without_pillow_the_limits_and_the_way_are_told(tmp_path: Path):
    (tmp_path / "big.gif").write_bytes(gif(8_001, 1))
    program = (
        "import asyncio, sys, importlib.util as util\n"
        "from pathlib import Path\n"
        "from codelet.tools.pages import read_path\n"
        "from codelet.tools.tool import ToolContext\n"
        "sys.path[:] = [place for place in sys.path if not (Path(place) / 'PIL').exists()]\n"
        "sys.path_importer_cache.clear()\n"
        f"asyncio.run(read_path(ToolContext(Path({str(tmp_path)!r})), 'big.gif', 1, 9))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "3,750,000 bytes" in done.stderr and "8,000 pixels" in done.stderr
    assert "pip install pillow" in done.stderr
