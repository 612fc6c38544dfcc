"""Makes an image smaller: a separate process, which reads it on stdin and prints the result.

Pillow's decoders are large, and their input may come from anywhere. So the process has limits for its memory and time
and opens no file but those of Python and Pillow; any error in it means that there is no image. It is started with -I.
"""

from __future__ import annotations

import io
import resource
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

_MEMORY = 2 << 30
_SECONDS = 20
_PIXELS = 120_000_000
_QUALITY = 85
_SMALLEST = 500


def main(side: int, most: int) -> int:
    """Write the image with at most `side` pixels a side in at most `most` bytes, or end with another status than 0."""
    for kind, limit in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _SECONDS), (resource.RLIMIT_FSIZE, 0)):
        with suppress(OSError, ValueError):  # a system that has no such limit
            resource.setrlimit(kind, (limit, limit))
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = _PIXELS
    with Image.open(io.BytesIO(sys.stdin.buffer.read()), formats=("PNG", "JPEG", "GIF", "WEBP")) as opened:
        flat = opened.format == "JPEG"
        opened.draft("RGB", (side, side))
        picture = ImageOps.exif_transpose(opened)
        picture = picture.convert("RGB" if flat else "RGBA")
    while side >= _SMALLEST:
        picture.thumbnail((side, side))
        for form in ("JPEG",) if flat else ("PNG", "JPEG"):
            out = io.BytesIO()
            if form == "PNG":
                picture.save(out, form, optimize=True)
            else:
                _on_white(picture).save(out, form, quality=_QUALITY)
            if out.tell() <= most:
                sys.stdout.buffer.write(out.getvalue())
                return 0
        side = side * 3 // 4
    return 1


def _on_white(picture: Image.Image) -> Image.Image:
    """Return the image without transparency, which JPEG does not have."""
    if picture.mode == "RGB":
        return picture
    from PIL import Image

    ground = Image.new("RGB", picture.size, "white")
    ground.paste(picture, mask=picture.getchannel("A"))
    return ground


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
