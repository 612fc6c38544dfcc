"""A workspace as the shared cases describe it, with a few more files for commands to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.policy_cases import workspace_of_cases

DATA = Path(__file__).parent.parent / "safety" / "data"


def lines_of(name: str) -> list[str]:
    return [line for line in (DATA / name).read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture
def places() -> Iterator[tuple[Path, Path]]:
    """The workspace, and a folder outside it with `secret.txt`."""
    with workspace_of_cases() as (workspace, outside):
        for name in ("b.txt", "a.json", ".gitignore", "docs/unicode name é中.md"):
            (workspace / name).write_text("1\n", encoding="utf-8")
        yield workspace, outside


@pytest.fixture
def workspace(places: tuple[Path, Path]) -> Path:
    return places[0]
