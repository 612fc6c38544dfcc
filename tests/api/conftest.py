"""The options that lead a session in Python to the model server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ModelServer


@pytest.fixture
def options(model_server: ModelServer, repo: Path) -> dict[str, Any]:
    """What `open_session` and `run` are called with."""
    return {
        "model": "openai/scripted",
        "api_base": model_server.openai,
        "api_key": "test-key",
        "workspace": repo,
        "retries": 0,
    }
