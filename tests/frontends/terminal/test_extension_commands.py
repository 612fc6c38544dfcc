"""Commands that an extension brings, in the REPL: found, completed, listed, stopped."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.recorded import STATUS, ask, recording, step
from tests.support.terminal import Terminal

PROGRAM = """
import asyncio, sys
from pathlib import Path
from codelet.errors import UsageError
from codelet.extensions.base import Command, Extension
from codelet.frontends.terminal.repl import Repl
from codelet.providers import open_provider
from codelet.providers.protocol import ProviderOptions
from codelet.loop.session import Session
from codelet.settings import Settings

async def greet(session, name):
    if not name:
        raise UsageError("greet whom?")
    if name == "nobody":
        await asyncio.sleep(60)
    if name == "fault":
        return [][0]
    return f"Hello {name}, for the {session.turns + 1}. turn"

class Greeting(Extension):
    commands = (Command("greet", "say hello to somebody", greet, "NAME"),)

async def main():
    provider = open_provider(sys.argv[1], ProviderOptions(), "auto")
    session = Session(provider, workspace=Path.cwd(), extensions=[Greeting()])
    return await Repl(session, Settings()).run()

sys.exit(asyncio.run(main()))
"""


def test_it_is_a_command_like_any_other(tmp_path: Path, repo: Path, home: Path) -> None:
    program = (sys.executable, "-c", PROGRAM, recording(tmp_path, step("An answer.")))
    with Terminal(cwd=repo, home=home, command=program, rows=60) as terminal:
        terminal.wait_for(STATUS)
        assert "Hello world, for the 1. turn" in ask(terminal, "/greet  world ", "Hello world")
        ask(terminal, "/greet", "✗ greet whom?")
        ask(terminal, "/greet fault", "✗ /greet failed: IndexError: list index out of range")
        ask(terminal, "/help greet", "/greet NAME  say hello to somebody")
        ask(terminal, "/gret you", "mean /greet?")
        terminal.type("/gre")
        terminal.wait_for("say hello to somebody")
        terminal.type("et nobody")
        terminal.key("enter")
        terminal.settle()
        terminal.key("esc")
        terminal.settle()
        assert "An answer." in ask(terminal, "go", "An answer.", "1 step")
        terminal.line("/exit")
        assert terminal.wait_exit() == 0
