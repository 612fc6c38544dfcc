"""A turn on the terminal: a stop reaches it wherever it is."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from codelet import events
from codelet.frontends.terminal.draft import Draft, Pastes
from codelet.frontends.terminal.export_log import ExportLog
from codelet.frontends.terminal.keys import Keyboard
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.turn_view import TurnView
from codelet.loop.session import Session
from tests.context.scripted import ScriptedProvider


@pytest.mark.parametrize("busy", [0.0, 0.03], ids=["while it waits", "while its events are shown"])
async def test_a_stop_is_the_turns_to_tell(tmp_path: Path, busy: float) -> None:
    """Its last events say what was done. With much to show, the only moment for a key is between two events."""
    told: list[str] = []

    async def turn() -> AsyncGenerator[events.Event, None]:
        try:
            yield events.TurnStart(1, "scripted")
            keys.send_text("\x03")
            for _ in range(5):
                begun = time.process_time()
                while time.process_time() - begun < busy:
                    pass
                yield events.Text("word ")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            yield events.Interrupted(done=(), half_done=(), not_done=())
            raise
        except GeneratorExit:
            told.append("left")
            raise

    shown = io.StringIO()
    renderer = Renderer(OutputConsole(file=shown, width=80))
    with create_pipe_input() as keys:
        keyboard = Keyboard(keys, DummyOutput(), closed=lambda: None)
        session = Session(ScriptedProvider(), workspace=tmp_path)
        view = TurnView(renderer, keyboard, Draft(Pastes()), session, ExportLog())
        assert await view.run(turn()) == "stopped"
    assert told == ["cancelled"]
    assert "stopped" in shown.getvalue()
    await session.close()
