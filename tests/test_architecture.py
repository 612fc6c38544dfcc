"""The page on the architecture names what there is."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "codelet"
PAGE = (PACKAGE / "help" / "developing" / "architecture.md").read_text(encoding="utf-8")


def test_every_part_is_named():
    layers = PAGE.split("```")[1]
    parts = {path.stem if path.suffix == ".py" else f"{path.name}/" for path in PACKAGE.iterdir()}
    parts -= {"__init__", "__pycache__/", "py.typed/"}
    assert {part for part in parts if not re.search(rf"(?<![\w/]){re.escape(part)}(?!\w)", layers)} == set()


def test_every_path_exists():
    paths = {path for path in re.findall(r"`([\w/]+(?:/|\.py))`", PAGE) if "/" in path or path.endswith(".py")}
    missing = {path for path in paths if not (PACKAGE / path).exists() and not (PACKAGE.parent / path).exists()}
    assert missing == set()
