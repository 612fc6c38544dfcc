"""A turn on the terminal: a stop reaches it wherever it is."""

from __future__ import annotations

import asyncio
import io
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from prompt_toolkit.history import InMemoryHistory

from codelet import events
from codelet.frontends.terminal.completion import ReplCompleter
from codelet.frontends.terminal.draft import Draft, Pastes
from codelet.frontends.terminal.export_log import ExportLog
from codelet.frontends.terminal.key_sequences import KeyInput
from codelet.frontends.terminal.prompt_line import PromptLine
from codelet.frontends.terminal.screen import TerminalScreen
from codelet.frontends.terminal.show.console import OutputConsole
from codelet.frontends.terminal.show.renderer import Renderer
from codelet.frontends.terminal.status_row import Attention
from codelet.frontends.terminal.turn_view import TurnView
from codelet.loop.session import Session
from codelet.settings import Settings
from tests.context.scripted import ScriptedProvider
from tests.support.frames import ways


@pytest.mark.parametrize("busy", [0.0, 0.03], ids=["while it waits", "while its events are shown"])
async def test_a_stop_is_the_turns_to_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: float) -> None:
    """Its last events say what was done. With much to show, the only moment for a key is between two events."""
    told: list[str] = []

    async def turn() -> AsyncGenerator[events.Event, None]:
        try:
            yield events.TurnStart(1, "scripted")
            os.write(keys, b"\x03")
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

    shown, session, draft = io.StringIO(), Session(ScriptedProvider(), workspace=tmp_path), Draft(Pastes())
    keys, end = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(end) as terminal:
        line = PromptLine(
            KeyInput(terminal),
            draft,
            TerminalScreen("plain"),
            workspace=tmp_path,
            completer=ReplCompleter(tmp_path),
            status=str,
            cycle_mode=lambda: None,
            history=InMemoryHistory(),
            settings=Settings(),
        )
        line.start()
        await asyncio.sleep(0)
        renderer = Renderer(OutputConsole(file=shown, width=80))
        attention = Attention("off", title=False, workspace=tmp_path, send=pytest.fail)
        view = TurnView(renderer, line, session, ExportLog(session, Settings()), attention)
        assert await view.run(turn()) == "stopped"
        await line.close()
    os.close(keys)
    assert told == ["cancelled"]
    assert "stopped" in shown.getvalue()
    await session.close()


def test_the_way_from_enter_to_the_wire_is_short() -> None:
    way = ways(repl=True)
    assert way.at_work[0] == "main" and way.below, "the whole way was seen"
    assert len(way.at_work) <= 14, " > ".join(way.at_work)
