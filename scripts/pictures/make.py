"""Take the README's screenshots of an exported page with headless Chromium. Use: python -m scripts.pictures.make."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from codelet.export.page import page
from tests.export.page_material import work

SIZES = ((400, 1200), (1400, 1000))


def main() -> int:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("the program chromium is not installed")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        file.write_text(page(work(), mask=None), encoding="utf-8")
        for width, height in SIZES:
            picture = Path(__file__).with_name(f"page-{width}.png")
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}"]
            shot = [f"--window-size={width},{height}", f"--screenshot={picture}", file.as_uri()]
            subprocess.run([chromium, *options, *shot], check=True, capture_output=True, timeout=60)
            print(picture, picture.stat().st_size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
