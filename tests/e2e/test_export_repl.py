"""A REPL session that is kept: the exit line, resume, pins, /rewind and `continue` after it, /export and /import."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import KEYS, Codelet
from tests.e2e.test_export import keep, left_over, said, saved
from tests.support.program import CODELET
from tests.support.recorded import ask
from tests.support.script import Call, Reply, Stop
from tests.support.terminal import Terminal

LOOK = Call("look", "read", {"path": "app.py"})
WIDE = {"columns": 140, "rows": 45}


def but_time(path: Path) -> dict[str, Any]:
    """The document without the time at which it was saved."""
    document = saved(path)
    del document["timestamp"]
    return document


def leave(terminal: Terminal) -> None:
    terminal.settle(0.15)
    terminal.line("/exit")
    assert terminal.wait_exit() == 0


def test_a_session_is_left_and_taken_up_again(codelet: Codelet):
    codelet.server.script = [Reply("Looking.", calls=[LOOK]), Reply("It prints hello."), Reply("Python.")]
    path = codelet.cwd / "work.json"
    with codelet.terminal("--export", "work.json", **WIDE) as terminal:
        ask(terminal, "what is it?", "It prints hello.")
        terminal.wait_for("2 steps")
        listing = saved(path)["messages"]
        place = next(number for number, message in enumerate(listing) if message["role"] == "tool")
        ask(terminal, f"/pin {place}", "stays verbatim")
        leave(terminal)
        assert "codelet --session work.json" in terminal.text
    first = but_time(path)
    assert first["pins"] == [place - 1, place]
    assert left_over(codelet.cwd) == []

    # Opened and left without a turn: the same document.
    with codelet.terminal("--resume", "work.json", "--export", "again.json", **WIDE) as terminal:
        assert "resumed work.json" in terminal.text
        leave(terminal)
    assert but_time(codelet.cwd / "again.json") == first

    with codelet.terminal(*keep("work.json"), **WIDE) as terminal:
        ask(terminal, "/context", "pinned")
        ask(terminal, "/rewind 1", "rewound to")
        terminal.settle(0.15)
        terminal.line(" which language?")  # the prompt that was taken back stands in the editor
        terminal.wait_for("Python.")
        leave(terminal)
    assert said(codelet.server.requests[2]) == [("user", "what is it? which language?")]
    assert saved(path)["session_id"] == first["session_id"]
    assert saved(path)["token_usage"]["turns"] == 2


def test_an_interrupted_turn_survives_a_kill(codelet: Codelet):
    codelet.server.script = [
        Reply("First."),
        Reply("Looking.", calls=[LOOK]),
        Reply(["Half", " an answer"], fault=Stop("stall", 3)),
        Reply("A whole answer."),
    ]
    path = codelet.cwd / "work.json"
    with codelet.terminal("--export", "work.json", **WIDE) as terminal:
        ask(terminal, "one", "First.")
        ask(terminal, "two", "Half an")
        terminal.key("esc")
        terminal.wait_for("stopped")
        terminal.settle(0.5)
        terminal.signal(signal.SIGKILL)
        terminal.wait_exit()
    interruption = saved(path)["interruption"]
    kept = [message["content"] for message in interruption["messages"]]
    assert [text for text in kept if "<system-reminder>" not in text] == ["one", "First."]

    with codelet.terminal(*keep("work.json"), **WIDE) as terminal:
        assert "unfinished" in terminal.text
        ask(terminal, "continue", "A whole answer.")
        ask(terminal, "/rewind 1", "rewound to")
        terminal.settle(0.15)
        terminal.key("ctrl-c")
        leave(terminal)
    assert said(codelet.server.requests[3]) == said(codelet.server.requests[2])
    texts = [message["content"] for message in saved(path)["messages"]]
    assert [text for text in texts if "<system-reminder>" not in text] == ["one", "First."]
    assert saved(path).get("interruption") is None


def test_export_and_import_by_command(codelet: Codelet):
    codelet.server.script = lambda request: Reply(f"Answer {request.number + 1}.")
    (codelet.cwd / "bad.json").write_text("{}")
    with codelet.terminal(**WIDE) as terminal:
        ask(terminal, "one", "Answer 1.")
        ask(terminal, "/export kept.json", "saved in kept.json")
        ask(terminal, "two", "Answer 2.")
        ask(terminal, "/export kept.json", "already exists")
        ask(terminal, "/import bad.json", "has no version")
        ask(terminal, "/import", "/resume FILE")
        ask(terminal, "/import kept.json", "resumed kept.json")
        ask(terminal, "three", "Answer 3.")
        ask(terminal, "/export kept.json --force", "saved in kept.json")
        ask(terminal, "/export kept too.json", "codelet --resume 'kept too.json'")
        ask(terminal, "/export page.html", "in page.html")
        leave(terminal)
        assert "codelet: saved" not in terminal.text
    page = (codelet.cwd / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "Answer 3." in page
    assert said(codelet.server.requests[2]) == [("user", "one"), ("assistant", "Answer 1."), ("user", "three")]
    document = saved(codelet.cwd / "kept.json")
    assert len(document["timeline"]) == 2
    assert document["last_known_environment"]["git_branch"] == "main"
    assert (codelet.cwd / "bad.json").read_text() == "{}"
    assert left_over(codelet.cwd) == []


def test_a_save_that_fails_is_told_and_ends_with_2(codelet: Codelet):
    codelet.server.script = [Reply("word " * 4_000)]
    command = ("bash", "-c", 'ulimit -f 8; export PYTHONDONTWRITEBYTECODE=1; exec "$@"', "bash", *CODELET)
    with codelet.terminal("--export", "work.json", command=command, **WIDE) as terminal:
        ask(terminal, "go", "1 step")
        ask(terminal, "/usage", "not saved")
        terminal.settle(0.15)
        terminal.line("/exit")
        assert terminal.wait_exit() == 2
    assert json.loads((codelet.cwd / "work.json").read_text())["messages"]


def test_a_signal_leaves_the_session_saved_and_the_lock_free(codelet: Codelet):
    codelet.server.script = [Reply("Looking.", calls=[LOOK]), Reply(["Half ", "an answer "], fault=Stop("stall", 3))]
    path = codelet.cwd / "my work.json"
    with codelet.terminal("--export", "my work.json", "--export-every", "9", **WIDE) as terminal:
        ask(terminal, "go", "Half an")
        terminal.signal(signal.SIGTERM)
        assert terminal.wait_exit() == 143
        assert "codelet --session 'my work.json'" in terminal.text
    assert saved(path)["interruption"]["messages"] == []
    assert saved(path)["tool_stats"]["total_calls"] == 1
    assert left_over(codelet.cwd) == []
    codelet.server.requests.clear()
    refused = Terminal(
        *codelet.arguments, "--export", "my work.json", cwd=codelet.cwd, home=codelet.home, env=KEYS, **WIDE
    )
    with refused as terminal:
        assert terminal.wait_exit() == 2
        assert "already exists" in terminal.text


LONG = "\n".join(f"- point {number}" for number in range(60)) + "\n\nThat is **all**."


@pytest.mark.parametrize("columns", [80, 120])
def test_what_goes_on_shows_where_it_was_left(codelet: Codelet, columns: int):
    plan = Call("plan", "plan", {"plan": "Goal: tidy up\n- [x] look\n- [ ] act"})
    codelet.server.script = [Reply("First.", calls=[plan]), Reply(LONG), Reply("On.")]
    codelet("-p", "\n".join(["what is there?", *(f"line {number}" for number in range(20))]), "--export", "work.json")
    with codelet.terminal("--resume", "work.json", columns=columns, rows=60) as terminal:
        terminal.wait_for("resumed work.json")
        shown = terminal.settle(0.2).split("resumed work.json")[0]
        assert "› what is there?" in shown and "line 3" in shown and "line 19" not in shown
        assert "… 13 more lines" in shown
        assert "• point 59" in shown and "point 20" not in shown and "That is all." in shown
        assert re.search(r"… \d+ lines above \(ctrl-o\)", shown)
        assert "tidy up" in shown and "act" in shown
        assert shown.index("what is there?") < shown.index("point 59") < shown.index("tidy up")
        terminal.type("\x0f")
        terminal.wait_for("point 20")


def test_an_import_shows_where_it_was_left_and_a_pipe_does_not(codelet: Codelet):
    codelet.server.script = [Reply("The old answer."), Reply("The new answer."), Reply("Piped.")]
    codelet("-p", "the old words", "--export", "work.json")
    with codelet.terminal(columns=80, rows=40) as terminal:
        ask(terminal, "something", "The new answer.", "1 step")
        shown = ask(terminal, "/resume work.json", "resumed work.json")
        assert "› the old words" in terminal.scrollback and "The old answer." in shown
        assert "fork 1" in shown
    piped = codelet("-p", "and now?", "--resume", "work.json")
    assert piped.out == "Piped.\n"


def test_an_unfinished_one_shows_its_prompt(codelet: Codelet):
    codelet.server.script = [Stop("stall", None)]
    with codelet.terminal("--export", "work.json", columns=80, rows=40) as terminal:
        terminal.line("the last words")
        terminal.until(lambda: len(codelet.server.requests) == 1)
        terminal.key("esc")
        terminal.wait_for("stopped")
        leave(terminal)
    with codelet.terminal("--resume", "work.json", columns=80, rows=40) as terminal:
        terminal.wait_for("resumed work.json")
        assert "› the last words" in terminal.settle(0.2)
