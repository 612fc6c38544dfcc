"""Sessions that remember, on a scripted provider; facts files in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codelet.extensions.base import OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.loop.session import Session
from codelet.messages import reminder_type
from codelet.settings import load_settings
from tests.context.scripted import ScriptedProvider, Sent
from tests.extensions.conftest import Open

Remembering = Callable[..., tuple[Session, ScriptedProvider]]


@pytest.fixture
def remembering(tmp_path: Path, open_session: Open) -> Remembering:
    """Opens a session as the program does, with these flags; `options` are the session's."""

    def begin(options: dict[str, Any] | None = None, **flags: Any) -> tuple[Session, ScriptedProvider]:
        settings = load_settings(flags, workspace=tmp_path, environment={})
        return open_session(*turned_on(OpenedWith(settings=settings)), **(options or {}))

    return begin


def reminded(sent: Sent, kind: str = "facts") -> str:
    """The text of that reminder in a request; empty where it has none."""
    return next((message["content"] or "" for message in sent.tail if reminder_type(message) == kind), "")


def called(sent: Sent) -> list[str]:
    """The names of the tools in a request."""
    import json

    return [tool["function"]["name"] for tool in json.loads(sent.tools)]
