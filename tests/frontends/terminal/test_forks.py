"""Conversations that are put aside: `/clear`, `/fork`, `/import`, and what of files and tasks a return has to say."""

# near: codelet/frontends/terminal/slash_commands/conversations.py

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from codelet.prompt import PUT_BACK
from tests.support.recorded import STATUS, ask
from tests.support.script import Call, Reply, Step, Tokens
from tests.support.server import ModelServer, Recorded
from tests.support.terminal import Terminal

RESTORED = PUT_BACK.partition("{")[0]


def write(name: str, content: str) -> Call:
    return Call(f"call_{name}_{content}", "write", {"path": name, "content": content})


class Forked:
    """The REPL on a server that answers with `call`, once it is set, and else with words."""

    def __init__(self, terminal: Terminal, server: ModelServer) -> None:
        self.terminal = terminal
        self.server = server
        self.call: Call | None = None
        self._turns = 0
        server.script = self._answer

    def _answer(self, request: Recorded) -> Step:
        calls, self.call = [self.call] if self.call else [], None
        return Reply("So it is.", calls=calls, usage=Tokens(1_000, output=10))

    def clear_line(self) -> None:
        """Take out the prompt that a rewind put into the editor."""
        self.terminal.settle(0.2)
        self.terminal.type("\x05\x15")

    def say(self, text: str) -> str:
        """Send a prompt and wait for the end of its turn; the last request's text."""
        self._turns += 1
        self.terminal.line(text)
        self.terminal.until(lambda: len(re.findall(r"(?m)^\d+ steps? ·", self.terminal.scrollback)) >= self._turns)
        self.terminal.settle(0.1)
        return self.server.requests[-1].body.decode()


@pytest.fixture(params=[80, 120])
def forked(request: pytest.FixtureRequest, model_server: ModelServer, repo: Path, home: Path) -> Iterator[Forked]:
    words = ("--model", "openai/scripted", "--api-base", model_server.openai, "--yes")
    with ExitStack() as opened:
        terminal = opened.enter_context(
            Terminal(*words, cwd=repo, home=home, env={"OPENAI_API_KEY": "k"}, columns=request.param, rows=50)
        )
        terminal.wait_for(STATUS)
        yield Forked(terminal, model_server)


def test_what_was_cleared_comes_back(forked: Forked) -> None:
    terminal = forked.terminal
    forked.say("the first words")
    ask(terminal, "/pin 1", "message 1 stays")
    ask(terminal, "/clear", "conversation cleared", "/fork 1 brings")
    assert "1k in" in terminal.text, "usage totals are kept"
    ask(terminal, "/fork 1", "returned to fork 1")
    assert "pinned" in ask(terminal, "/context", "the first words")
    assert "the first words" in forked.say("and more")
    assert "2k in" in terminal.settle(0.2)


def test_numbers_never_swap(forked: Forked) -> None:
    terminal = forked.terminal
    forked.say("common ground")
    ask(terminal, "/fork", "as fork 1")
    forked.say("the second way")
    ask(terminal, "/fork 1", "returned to fork 1", "fork 2\n")
    assert "the second way" not in forked.say("the first way")
    ask(terminal, "/fork 1", "is fork 1")
    ask(terminal, "/fork 2", "returned to fork 2", "fork 1\n")
    sent = forked.say("on and on")
    assert "the second way" in sent and "the first way" not in sent
    ask(terminal, "/new", "/fork 2 brings")
    rows = [line.split() for line in ask(terminal, "/fork list", "tokens:").split("\n") if "tokens:" in line]
    assert [(row[1], row[3], row[-1]) for row in rows] == [("1", "2", 'way"'), ("2", "3", 'on"')]
    sent = forked.say("from nothing")
    assert "on and on" not in sent and "common ground" not in sent
    ask(terminal, "/clear", "/fork 3 brings")
    ask(terminal, "/fork 1", "returned to fork 1")
    assert "the first way" in forked.say("back again")


@pytest.mark.parametrize("how", ["/clear", "/rewind 1"])
def test_a_fork_is_there_from_an_empty_conversation(forked: Forked, how: str) -> None:
    terminal = forked.terminal
    forked.say("the first words")
    ask(terminal, "/fork", "as fork 1")
    terminal.line(how)
    terminal.wait_for("conversation cleared" if how == "/clear" else "rewound to before")
    forked.clear_line()
    ask(terminal, "/fork 1", "returned to fork 1")
    assert "the first words" in forked.say("and more")


def test_clearing_nothing_keeps_nothing(forked: Forked) -> None:
    assert "/fork" not in ask(forked.terminal, "/clear", "conversation cleared").split("\n\n")[1]
    ask(forked.terminal, "/fork list", "no forks")


def test_a_task_that_runs_is_the_same_one_in_a_fork(forked: Forked) -> None:
    forked.call = Call("serve", "bash", {"command": "sleep 300", "background": True})
    forked.say("please serve")
    ask(forked.terminal, "/fork", "as fork 1")
    forked.say("something else")
    ask(forked.terminal, "/fork 1", "returned to fork 1")
    sent = forked.say("how is it?")
    told = sent[sent.rindex("type:tasks") :]
    assert "%1 running" in told and "%2" not in told and "interrupted" not in told
    assert "interrupted" not in ask(forked.terminal, "/tasks", "sleep 300").lower()


def test_a_task_that_ended_meanwhile_has_ended_in_a_fork_too(forked: Forked) -> None:
    forked.call = Call("serve", "bash", {"command": "sleep 300", "background": True})
    forked.say("please serve")
    ask(forked.terminal, "/fork", "as fork 1")
    forked.say("something else")
    ask(forked.terminal, "/tasks stop 1", "%1")
    ask(forked.terminal, "/fork 1", "returned to fork 1")
    sent = forked.say("how is it?")
    told = sent[sent.rindex("type:tasks") :]
    assert "%1" in told and "%1 running" not in told and "interrupted" not in told


def test_a_fork_whose_edits_were_rewound_says_so(forked: Forked, repo: Path) -> None:
    terminal = forked.terminal
    forked.call = write("made.txt", "new\n")
    forked.say("make it")
    assert (repo / "made.txt").exists()
    ask(terminal, "/fork", "as fork 1")
    ask(terminal, "/rewind 1 both", "rewound to")
    assert not (repo / "made.txt").exists()
    forked.clear_line()
    assert RESTORED not in forked.say("something else"), "this conversation claims nothing of it"
    ask(terminal, "/fork 1", "returned to fork 1", "restored since")
    assert RESTORED in forked.say("and now?")
    forked.say("and then?")
    ask(terminal, "/clear", "/fork 1 brings")
    assert "restored since" not in ask(terminal, "/fork 1", "returned to fork 1"), "the model knows it"


def test_going_back_to_before_it_was_told_tells_it_again(forked: Forked, repo: Path) -> None:
    terminal = forked.terminal
    forked.call = write("made.txt", "new\n")
    forked.say("make it")
    ask(terminal, "/undo", "restored: made.txt")
    assert RESTORED in forked.say("why?")
    told = ask(terminal, "/rewind 1 conversation", "rewound to")
    assert "made.txt" in told
    forked.clear_line()
    assert RESTORED in forked.say("how?")
    ask(terminal, "/rewind 2 conversation", "rewound to")
    forked.clear_line()
    assert RESTORED not in forked.say("something else")


def test_an_import_keeps_what_was_there(forked: Forked, repo: Path) -> None:
    terminal = forked.terminal
    forked.say("the first words")
    ask(terminal, "/export kept.json", "saved in kept.json")
    forked.say("the second words")
    ask(terminal, "/import kept.json", "resumed kept.json", "/fork 1 returns")
    assert "the second words" not in forked.say("and more")
    ask(terminal, "/fork 1", "returned to fork 1", "fork 2\n")
    assert "the second words" in forked.say("and on")
