"""A turn stopped at named moments, by each key: the list is valid, typed text is kept, the terminal is restored."""

from __future__ import annotations

import termios
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from codelet.errors import EXIT_DONE
from codelet.messages import unpaired
from tests.support.recorded import STATUS
from tests.support.script import Call, HttpError, Reply, Step, Stop
from tests.support.server import ModelServer
from tests.support.terminal import Terminal

KEYS = {"esc": "\x1b", "ctrl-c": "\x03", "esc as CSI u": "\x1b[27u"}
LATER = "This comes later."


@dataclass(frozen=True)
class Moment:
    """The model's answers, the text on screen before the key, and the text typed before it."""

    script: Sequence[Step]
    shown: str
    typed: str = ""
    kept: str = ""
    asks: bool = False


def stalled(*pieces: str) -> Reply:
    """An answer that stops in its middle and says nothing more."""
    return Reply([*pieces, LATER], fault=Stop("stall", after=len(pieces) + 1))


def runs(*commands: str) -> Reply:
    return Reply("Look.", calls=[Call(f"c{at}", "bash", {"command": each}) for at, each in enumerate(commands)])


MOMENTS = {
    "before the answer": Moment([Reply("x", fault=Stop("stall", after=None))], "waiting for the model"),
    "thinking": Moment([Reply(LATER, reasoning="Hm.", fault=Stop("stall", after=2))], "thinking"),
    "in a sentence": Moment([stalled("Words that ", "come ")], "Words that"),
    "in a code block": Moment([stalled("```python\n", "x = 1\n")], "x = 1"),
    "in a table": Moment([stalled("| a | b |\n|---|---|\n", "| 1 | 2 |\n")], "| a"),
    "while a command runs": Moment([runs("sleep 600")], "sleep 600"),
    "after some output": Moment([runs("seq 7 9; sleep 600")], "  9"),
    "a command that ignores signals": Moment([runs("trap '' INT TERM HUP; echo on; sleep 600")], "  on"),
    "two commands": Moment([runs("sleep 600", "sleep 601")], "sleep 60"),
    "in the second step": Moment([runs("true"), stalled("Then ")], "Then"),
    "at a question": Moment([runs("touch made")], "No, and stop", asks=True),
    "waiting to try again": Moment([HttpError(503, "busy", retry_after=40)], "try 2 of"),
    "with a line that waits": Moment([runs("sleep 600")], "queued: more words", "more words\r", "more words"),
    "with half a line": Moment([stalled("Words ")], "› half a line", "half a line", "half a line"),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", MOMENTS)
def test_a_turn_stops_there(model_server: ModelServer, repo: Path, home: Path, name: str, key: str) -> None:
    moment = MOMENTS[name]
    model_server.script = [*moment.script, Reply("And on."), Reply("And on.")]
    words = ("--model", "openai/scripted", "--api-base", model_server.openai, *(() if moment.asks else ("--yes",)))
    with Terminal(*words, cwd=repo, home=home, env={"OPENAI_API_KEY": "key"}) as terminal:
        terminal.wait_for(STATUS)
        terminal.line("begin")
        if moment.typed:
            terminal.wait_for("esc stops")
            terminal.type(moment.typed)
        terminal.wait_for(moment.shown)
        terminal.settle(0.1, 0.6)
        terminal.type(KEYS[key])
        terminal.wait_for("■ stopped")
        terminal.wait_for(STATUS)
        assert f"› {moment.kept}".rstrip() in terminal.settle(0.2)
        terminal.type("\x15")
        terminal.line("what now?")
        terminal.wait_for("And on.")
        terminal.wait_for(STATUS)
        assert LATER not in terminal.scrollback and not (repo / "made").exists()
        last = model_server.requests[-1].json["messages"]
        assert unpaired(last) == [] and any("what now?" in str(each.get("content")) for each in last)
        terminal.settle(0.1)
        terminal.key("ctrl-d")
        assert terminal.wait_exit() == EXIT_DONE
        flags = termios.tcgetattr(terminal.child.child_fd)[3]
        assert flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG
