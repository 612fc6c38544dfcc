"""Fixtures of the tests of reviews: a model server and a repository with a change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import repo
from tests.support.reviews import finding, found, model
from tests.support.server import ModelServer

BEFORE = "def area(w, h):\n    return w * h\n\n\ndef half(x):\n    return x / 2\n"
AFTER = "def area(w, h):\n    return w * h * 2\n\n\ndef half(x):\n    return x // 2\n"
DOUBLED = finding("    return w * h * 2", 2)
FLOORED = finding("    return x // 2", 6, severity="medium")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model that finds one bug in app.py and confirms it."""
    with ModelServer(model(found(DOUBLED))) as running:
        yield running


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A repository whose last commit changes app.py."""
    folder = repo.plain(tmp_path / "r", {"app.py": BEFORE})
    repo.commit(folder, {"app.py": AFTER}, "Make it faster")
    return folder
