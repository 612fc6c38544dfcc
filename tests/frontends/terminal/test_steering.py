"""Lines typed during a turn reach the model with the next step, or wait; commands that only look act immediately."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.recorded import Start, ask, bash, step
from tests.support.script import Call, HttpError, Reply
from tests.support.server import ModelServer
from tests.support.terminal import Terminal

WAITS = Call("call_1", "bash", {"command": "while [ ! -e go ]; do sleep 0.05; done; echo went"})
STATUS = "% of "


class Running:
    """The REPL in a turn whose only call waits for a file, which `go_on` makes."""

    def __init__(self, server: ModelServer, repo: Path, home: Path, wire: str) -> None:
        base = server.openai if wire == "openai" else server.anthropic
        keys = {"OPENAI_API_KEY": "key", "ANTHROPIC_API_KEY": "key"}
        words = ("--model", f"{wire}/scripted", "--api-base", base, "--yes")
        self.terminal = Terminal(*words, cwd=repo, home=home, env=keys)
        self.server, self._file = server, repo / "go"

    def begin(self) -> Terminal:
        self.terminal.wait_for(STATUS)
        self.terminal.line("begin")
        self.terminal.wait_for("while [ ! -e go ]")
        return self.terminal

    def go_on(self) -> None:
        self._file.touch()

    def said(self, number: int) -> list[str]:
        """The user messages after a request's first prompt, without reminders."""
        found = []
        for message in self.server.wait_for(number).messages:
            content = message.get("content") if message.get("role") == "user" else None
            parts = content if isinstance(content, list) else [{"text": content or ""}]
            found += [part["text"] for part in parts if part.get("text")]
        bare = (re.sub(r"<system-reminder>.*?</system-reminder>", "", text, flags=re.DOTALL).strip() for text in found)
        return [text for text in bare if text]


@pytest.fixture(params=["openai", "anthropic"])
def running(request: pytest.FixtureRequest, model_server: ModelServer, repo: Path, home: Path) -> Iterator[Running]:
    model_server.script = [Reply("Look.", calls=[WAITS]), Reply("Seen."), Reply("Later seen.")]
    with ExitStack() as stack:
        run = Running(model_server, repo, home, request.param)
        stack.enter_context(run.terminal)
        yield run


def test_a_line_reaches_the_model_with_its_next_step(running: Running) -> None:
    terminal = running.begin()
    terminal.line("only the newest file please")
    terminal.wait_for("queued: only the newest file please")
    running.go_on()
    terminal.wait_for("Seen.")
    text = terminal.settle()
    assert running.said(2) == ["begin", "only the newest file please"]
    assert text.index("› only the newest file please") < text.index("Seen.")
    assert "queued" not in text
    assert len(running.server.requests) == 2, "it is not sent once more behind the turn"


def test_a_line_begins_a_turn_everywhere(running: Running) -> None:
    """For /usage, /context and /rewind, which can go back to before it."""
    terminal = running.begin()
    terminal.line("now the newest file")
    terminal.wait_for("queued: now the newest file")
    running.go_on()
    terminal.wait_for("Seen.")
    terminal.wait_for(STATUS)
    assert "2 turns" in ask(terminal, "/usage", "2 turns")
    listing = ask(terminal, "/context all", "now the newest file", "1 turn ago")
    rows = listing.split("\n")
    assert ["ago" in row for row in rows if "begin" in row] == [True]
    assert ["ago" in row for row in rows if "now the newest file" in row] == [False]
    terminal.line("/rewind")
    terminal.wait_for("Rewind to before")
    listed = terminal.settle().rpartition("Rewind to before")[2]
    assert re.findall(r" ([12]) \d\d:\d\d (\S+)", listed) == [("1", "now"), ("2", "begin")]
    terminal.key("esc")
    terminal.wait_for("nothing was changed")
    ask(terminal, "/rewind 1 conversation", "rewound to")
    terminal.type("\x05\x15")
    terminal.line("another way")
    terminal.wait_for("Later seen.")
    assert running.said(3) == ["begin", "another way"]
    assert "went" in running.server.requests[2].body.decode(), "the call and its result are still there"


def test_alt_enter_keeps_a_line_for_the_end(running: Running) -> None:
    terminal = running.begin()
    terminal.type("and then the docs\x1b\r")
    terminal.wait_for("after this turn: and then the docs")
    running.go_on()
    terminal.wait_for("Later seen.")
    assert running.said(2) == ["begin"]
    assert running.said(3) == ["begin", "and then the docs"]


def test_up_takes_a_line_back(running: Running) -> None:
    terminal = running.begin()
    terminal.line("not this")
    terminal.wait_for("queued: not this")
    terminal.key("up")
    terminal.wait_for("queued: not this", gone=True)
    terminal.type("\x15")
    running.go_on()
    terminal.wait_for("Seen.")
    terminal.settle()
    assert running.said(2) == ["begin"] and len(running.server.requests) == 2


def test_what_only_looks_acts_at_once_and_a_command_is_not_overtaken(running: Running) -> None:
    terminal = running.begin()
    terminal.line("/usage")
    terminal.wait_for("1 turn")
    terminal.line("/mode auto-edit")
    terminal.wait_for("mode auto-edit:")
    terminal.line("!echo behind $((40 + 2))")
    terminal.wait_for("queued: !echo")
    terminal.line("/clear")
    terminal.wait_for("queued: /clear")
    terminal.line("behind it")
    terminal.wait_for("queued: behind it")
    assert len(running.server.requests) == 1 and "auto-edit" in terminal.text
    running.go_on()
    terminal.wait_for("behind 42")
    terminal.wait_for("Later seen.")
    assert running.said(2) == ["begin"]
    assert [text.split("\n")[0] for text in running.said(3)] == ["behind it"], "the conversation was cleared before"


def test_input_survives_a_resize_an_error_and_an_interrupt(running: Running) -> None:
    running.server.script = [Reply("Look.", calls=[WAITS]), HttpError(400, "no such thing")]
    terminal = running.begin()
    terminal.line("steered words")
    terminal.wait_for("queued: steered words")
    terminal.type("half a line")
    terminal.wait_for("half a line")
    terminal.resize(60, 20)
    terminal.type(" more")
    terminal.wait_for("half a line more")
    running.go_on()
    terminal.wait_for("with status 400")
    terminal.wait_for(STATUS)
    text = terminal.settle()
    assert text.count("› half a line more") == 1 and text.count("› steered words") == 1
    assert running.said(2) == ["begin", "steered words"], "it stands in the list, and on the screen"


def test_an_interrupt_gives_back_what_the_model_has_not_read(running: Running) -> None:
    terminal = running.begin()
    terminal.line("not sent yet")
    terminal.wait_for("queued: not sent yet")
    terminal.key("esc")
    terminal.wait_for("stopped")
    terminal.wait_for(STATUS)
    assert "› not sent yet" in terminal.settle()
    assert len(running.server.requests) == 1


@pytest.mark.parametrize("key", ["\x1b", "\x03"], ids=["esc", "ctrl-c"])
def test_a_key_that_comes_with_enter_stops_the_turn(running: Running, key: str) -> None:
    terminal = running.terminal
    terminal.wait_for(STATUS)
    terminal.settle(0.1)
    terminal.type(f"begin\r{key}")
    terminal.wait_for("stopped")
    terminal.wait_for(STATUS)


def test_the_line_and_the_state_stay_while_a_turn_runs(running: Running) -> None:
    terminal = running.begin()
    terminal.until(lambda: "ask --yes · context" in terminal.text)
    assert terminal.text.split("\n")[-2].startswith("›")
    terminal.type("\x1b[Z")
    terminal.wait_for("  auto-edit --yes ·")


def test_the_line_and_the_row_below_it_never_change_places(start: Start) -> None:
    """Idle, while a turn streams, at a question, in a list, and with another size."""
    steps = (step("Words that come. " * 12, bash("touch made.txt"), pace=60), step("Done."))
    terminal = start(*steps, step("Again. " * 12, pace=60), columns=90, rows=30)
    terminal.wait_for(STATUS)
    wrong: list[str] = []

    def look_until(happened: Callable[[], bool], what: str) -> None:
        def looked() -> bool:
            rows = terminal.text.split("\n")
            states = [place for place, row in enumerate(rows) if row.startswith("  ask · ")]
            lines = [place for place, row in enumerate(rows) if row == "›"]
            if states and (states[-1] != len(rows) - 1 or any(line > states[-1] for line in lines)):
                wrong.append(terminal.text)
            return happened()

        terminal.until(looked, what)

    terminal.line("go")
    look_until(lambda: "touch made" in terminal.text and "enter confirm" in terminal.text, "the question")
    assert "›" not in terminal.text.split("\n")[-4:], "no line is open below a question"
    terminal.settle(0.7)
    terminal.key("enter")
    look_until(lambda: "2 steps" in terminal.text and STATUS in terminal.text, "the end")
    terminal.settle(0.1)
    terminal.line("/rewind")
    look_until(lambda: "esc cancel" in terminal.text, "the list")
    terminal.settle(0.3)
    terminal.key("esc")
    look_until(lambda: "nothing was changed" in terminal.text, "the end of the list")
    terminal.settle(0.1)
    terminal.line("again")
    look_until(lambda: "Again. Again." in terminal.text, "the second turn")
    look_until(lambda: terminal.text.count("1 step") > 0, "its end")
    assert wrong == []


def test_a_line_that_was_sent_does_not_wait_below_the_next_question(
    model_server: ModelServer, repo: Path, home: Path
) -> None:
    second = Call("call_2", "bash", {"command": "touch second"})
    model_server.script = [Reply(calls=[WAITS]), Reply("I look.", calls=[second]), Reply("Seen.")]
    base = ("--model", "openai/scripted", "--api-base", model_server.openai)
    with Terminal(*base, cwd=repo, home=home, env={"OPENAI_API_KEY": "key"}) as terminal:
        terminal.wait_for(STATUS)
        terminal.line("begin")
        terminal.wait_for("while [ ! -e go ]")
        terminal.line("please look")
        terminal.wait_for("queued: please look")
        terminal.type("y")
        terminal.wait_for("1 s")
        (repo / "go").touch()
        terminal.wait_for("touch second")
        assert "queued" not in terminal.settle(0.3)
