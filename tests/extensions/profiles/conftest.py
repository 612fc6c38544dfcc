"""Sessions with a profile from a real file, in an empty folder, on a scripted provider."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from codelet.extensions.base import OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.extensions.services import profile_places
from codelet.loop.session import Session
from codelet.settings import load_settings
from tests.context.scripted import ScriptedProvider
from tests.extensions.conftest import Open

WithProfile = Callable[..., tuple[Session, ScriptedProvider]]


@pytest.fixture
def own_profiles(tmp_path: Path) -> Path:
    """The user's folder of profiles."""
    folder = tmp_path / "home" / ".config" / "codelet" / "profiles"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def with_profile(own_profiles: Path, tmp_path: Path, open_session: Open) -> WithProfile:
    """Opens a session with the profile of that name; the options are the session's."""

    def begin(
        name: str | None, trust: bool = False, web: bool = False, **options: object
    ) -> tuple[Session, ScriptedProvider]:
        environment = {"HOME": str(tmp_path / "home")}
        settings = load_settings(
            {"profile": name, "web": web}, workspace=tmp_path, trust=trust, environment=environment
        )
        chosen = None if name is None else profile_places(settings, tmp_path).read(name)
        return open_session(*turned_on(OpenedWith(settings=settings, profile=chosen)), **options)

    return begin
