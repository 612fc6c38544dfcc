"""The pages for developers name what exists."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "codelet"
PAGES = PACKAGE / "help" / "developing"
PAGE = (PAGES / "architecture.md").read_text(encoding="utf-8")
NOT_MODULES = {"fetch", "ask_user", "await", "redis"}


def test_every_part_is_named():
    layers = PAGE.split("```")[1]
    parts = {path.stem if path.suffix == ".py" else f"{path.name}/" for path in PACKAGE.iterdir()}
    parts -= {"__init__", "__pycache__/", "py.typed/"}
    assert {part for part in parts if not re.search(rf"(?<![\w/]){re.escape(part)}(?!\w)", layers)} == set()


def test_every_path_exists():
    paths = {path for path in re.findall(r"`([\w/]+(?:/|\.py))`", PAGE) if "/" in path or path.endswith(".py")}
    missing = {path for path in paths if not (PACKAGE / path).exists() and not (PACKAGE.parent / path).exists()}
    assert missing == set()


def test_every_module_of_the_parts_exists():
    sections = (PAGES / "parts.md").read_text(encoding="utf-8").split("\n## ")[1:]
    missing = []
    for section in sections:
        title, _, text = section.partition("\n")
        folders = [PACKAGE / name.rstrip("/") for name in re.findall(r"`(\w+)/`", title)] or [PACKAGE]
        exist = {path.stem for folder in folders for path in folder.rglob("*")}
        names = set(re.findall(r"`([a-z_]+)/?`", text)) if title != "Glossary" else set()
        missing += [f"{title}: {name}" for name in names - exist - NOT_MODULES if folders != [PACKAGE]]
    assert missing == []
