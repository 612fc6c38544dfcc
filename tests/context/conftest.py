"""A session on a scripted provider, in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codelet.loop.session import Session
from tests.context.scripted import ScriptedProvider, session_of

Open = Callable[..., tuple[Session, ScriptedProvider]]


@pytest.fixture
def open_session(tmp_path: Path) -> Open:
    """Opens a session; named arguments that the provider has go to it, the rest to the session."""

    def begin(provider: ScriptedProvider | None = None, **options: object) -> tuple[Session, ScriptedProvider]:
        chosen = provider or ScriptedProvider()
        return session_of(chosen, tmp_path, **options), chosen

    return begin
