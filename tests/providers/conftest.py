"""One event loop for the tests of a module: litellm, which takes seconds to import, ends with its loop."""

from __future__ import annotations

from inspect import iscoroutinefunction
from pathlib import Path

import pytest

_OWN_LOOP = {"make_session", "session_of"}
"""Fixtures that close their sessions in a test's own loop."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        here = Path(__file__).parent in item.path.parents and iscoroutinefunction(getattr(item, "function", None))
        if here and not _OWN_LOOP & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
