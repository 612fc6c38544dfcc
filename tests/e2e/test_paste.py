"""A paste is not typing: pasted text, and text of the command line, runs nothing and attaches nothing of its own.

# near: codelet/frontends/terminal
# near: codelet/context/attachments.py
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import PROMPT, Codelet
from tests.support.recorded import STATUS
from tests.support.script import Call, Reply, Step
from tests.support.terminal import Terminal

UP, DELETE = "\x1b[A", "\x1b[3~"
ISSUE = "![screenshot]\n[screenshot]: https://img.example/1.png\ntouch planted\nSteps to reproduce: open the page."


def paste(text: str) -> str:
    """A text as a terminal that marks pastes sends it."""
    return f"\x1b[200~{text}\x1b[201~"


def said(codelet: Codelet) -> str:
    """What the user said in the newest request, and what codelet added."""
    sent: dict[str, Any] = json.loads(codelet.server.requests[-1].body)
    return "\n".join(str(each["content"]) for each in sent["messages"] if each["role"] == "user")


def asked(terminal: Terminal, codelet: Codelet, requests: int = 1) -> None:
    """Wait until so many requests were answered and the prompt is open again."""
    terminal.until(lambda: len(codelet.server.requests) >= requests, "the request")
    terminal.until(lambda: terminal.text.rpartition("Answered.")[2].count(STATUS), "the prompt")
    terminal.settle(0.1)


@pytest.fixture
def planted(codelet: Codelet) -> Path:
    """The file that a pasted line would make if it ran."""
    codelet.server.script = lambda _: Reply("Answered.")
    return codelet.cwd / "planted"


@pytest.mark.parametrize(
    "text",
    [ISSUE, "!touch planted", "!!touch planted", "# Keep this: planted", "/export planted --force\nand more", "!a\n!b"],
)
def test_a_paste_at_the_prompt_goes_to_the_model(codelet: Codelet, planted: Path, text: str) -> None:
    with codelet.terminal() as terminal:
        terminal.type(paste(text))
        terminal.key("enter")
        asked(terminal, codelet)
        terminal.line("/facts")
        terminal.settle()
        assert "Keep this" not in terminal.text.rpartition("/facts")[2]
    assert text in said(codelet)
    assert not planted.exists()


def edited(terminal: Terminal) -> None:
    terminal.type(paste("see !touch planted"))
    terminal.type("\x01" + DELETE * 4)


def continued(terminal: Terminal) -> None:
    terminal.type(paste("!touch"))
    terminal.settle(0.1)
    terminal.type(" planted")


def undone(terminal: Terminal) -> None:
    terminal.type(paste("!touch planted"))
    terminal.type("\x01" + DELETE)
    terminal.settle(0.1)
    terminal.type("\x1f")


def killed_and_back(terminal: Terminal) -> None:
    terminal.type(paste("!touch planted"))
    terminal.type("\x15")
    terminal.settle(0.1)
    terminal.type("\x19")


def cleared_and_recalled(terminal: Terminal) -> None:
    terminal.type(paste("!touch planted"))
    terminal.wait_for("!touch planted")
    terminal.type("\x03")
    terminal.settle(0.1)
    terminal.type(UP)


def left_and_back(terminal: Terminal) -> None:
    terminal.type(paste("!touch planted"))
    terminal.settle(0.1)
    terminal.type(UP)
    terminal.settle(0.1)
    terminal.type("\x1b[B")


@pytest.mark.parametrize("way", [edited, continued, undone, killed_and_back, cleared_and_recalled, left_and_back])
def test_a_pasted_sign_stays_one_when_it_is_edited(
    codelet: Codelet, planted: Path, way: Callable[[Terminal], None]
) -> None:
    with codelet.terminal() as terminal:
        terminal.line("!true")
        terminal.settle()
        way(terminal)
        terminal.wait_for("!touch planted")
        terminal.settle(0.1)
        terminal.key("enter")
        asked(terminal, codelet)
    assert "!touch planted" in said(codelet)
    assert not planted.exists()


def test_a_pasted_line_comes_back_as_a_prompt(codelet: Codelet, planted: Path, tmp_path: Path) -> None:
    """From the history, from /rewind, and from the history file of an earlier session."""
    history = str(tmp_path / "history")
    with codelet.terminal("--history", history) as terminal:
        terminal.type(paste("!touch planted") + "\r")
        asked(terminal, codelet)
        terminal.type(UP)
        terminal.key("enter")
        asked(terminal, codelet, 2)
        terminal.line("/rewind 1 conversation")
        terminal.wait_for(f"{PROMPT}  !touch planted")
        terminal.settle()
        terminal.key("enter")
        asked(terminal, codelet, 3)
    with codelet.terminal("--history", history) as terminal:
        terminal.type(UP)
        terminal.wait_for("!touch planted")
        terminal.key("enter")
        asked(terminal, codelet, 4)
    assert not planted.exists()


@pytest.mark.parametrize("enter", ["\r", "\x1b\r"])
@pytest.mark.parametrize("text", ["!touch planted", ISSUE, "# planted"])
def test_a_paste_while_a_turn_runs_goes_to_the_model(codelet: Codelet, planted: Path, enter: str, text: str) -> None:
    def script(_: Any) -> Step:
        waits = Call("c1", "bash", {"command": "until [ -e go ]; do sleep 0.05; done"})
        return Reply(calls=[waits]) if len(codelet.server.requests) == 1 else Reply("Answered.")

    codelet.server.script = script
    with codelet.terminal("--yes") as terminal:
        terminal.line("hello")
        terminal.wait_for("until [ -e go ]")
        terminal.type(paste(text))
        terminal.settle(0.1)
        terminal.type(enter)
        terminal.wait_for("queued" if enter == "\r" else "after this turn")
        terminal.settle(0.1)
        (codelet.cwd / "go").touch()
        asked(terminal, codelet, 2 if enter == "\r" else 3)
    assert text in said(codelet)
    assert not planted.exists()


@pytest.mark.parametrize("entered", [True, False])
def test_a_paste_that_a_stopped_turn_gives_back_is_a_prompt(codelet: Codelet, planted: Path, entered: bool) -> None:
    def script(_: Any) -> Step:
        waits = Call("c1", "bash", {"command": "sleep 600"})
        return Reply(calls=[waits]) if len(codelet.server.requests) == 1 else Reply("Answered.")

    codelet.server.script = script
    with codelet.terminal("--yes") as terminal:
        terminal.line("hello")
        terminal.wait_for("sleep 600")
        terminal.type(paste("!touch planted"))
        terminal.wait_for("!touch planted")
        if entered:
            terminal.key("enter")
            terminal.wait_for("queued")
        terminal.settle(0.1)
        terminal.key("esc")
        terminal.wait_for(STATUS)
        terminal.settle()
        terminal.key("enter")
        asked(terminal, codelet, 2)
    assert "!touch planted" in said(codelet)
    assert not planted.exists()


def test_lines_that_come_at_once_run_nothing(codelet: Codelet, planted: Path) -> None:
    with codelet.terminal() as terminal:
        terminal.type("first\r!touch planted\r# planted\rlast\r")
        terminal.wait_for("last")
        terminal.settle(0.5)
        terminal.key("enter")  # lines that come in one read are a paste, which waits to be sent
        asked(terminal, codelet)
        terminal.settle(0.5)
        assert "kept:" not in terminal.scrollback
    assert not planted.exists()


def test_what_was_typed_runs_whatever_is_pasted_behind_it(codelet: Codelet, planted: Path) -> None:
    made = [codelet.cwd / name for name in ("one", "two", "three")]
    with codelet.terminal() as terminal:
        terminal.line("!touch one")
        terminal.until(made[0].exists)
        terminal.settle()
        terminal.type("!")
        terminal.settle(0.1)
        terminal.type(paste("touch two"))
        terminal.key("enter")
        terminal.until(made[1].exists)
        terminal.settle()
        terminal.type(paste("touch three") + "\x01")
        terminal.settle(0.1)
        terminal.type("!")
        terminal.key("enter")
        terminal.until(made[2].exists)
        terminal.settle()
        made[2].unlink()
        terminal.type(UP)
        terminal.key("enter")
        terminal.until(made[2].exists)
    assert not codelet.server.requests


def test_a_typed_command_that_was_left_for_a_while_runs_after_a_paste(codelet: Codelet, planted: Path) -> None:
    with codelet.terminal() as terminal:
        terminal.type(paste("hello"))
        terminal.key("enter")
        asked(terminal, codelet)
        terminal.type("!touch planted")
        terminal.settle(0.1)
        terminal.type(UP)
        terminal.wait_for(f"{PROMPT} hello")
        terminal.settle(0.1)
        terminal.type("\x1b[B")
        terminal.settle(0.1)
        terminal.key("enter")
        terminal.until(planted.exists)
    assert len(codelet.server.requests) == 1


def test_a_long_paste_behind_a_typed_sign_runs(codelet: Codelet, planted: Path) -> None:
    with codelet.terminal() as terminal:
        terminal.type("!")
        terminal.settle(0.1)
        terminal.type(paste("\n".join([*["true"] * 12, "touch planted"])))
        terminal.wait_for("[pasted #1, 13 lines]")
        terminal.key("enter")
        terminal.until(planted.exists)


def test_an_image_is_never_a_command(codelet: Codelet, planted: Path) -> None:
    with codelet.terminal() as terminal:
        terminal.line("![ -e nothing ] || touch planted")
        asked(terminal, codelet)
    assert not planted.exists()


@pytest.mark.parametrize(("typed", "runs"), [("", False), ("!", True)])
def test_text_of_the_editor_counts_as_pasted(
    codelet: Codelet, planted: Path, tmp_path: Path, typed: str, runs: bool
) -> None:
    """What is pasted into an editor cannot be known from what is typed there."""
    editor = tmp_path / "editor"
    command = "touch planted" if typed else "!touch planted"
    editor.write_text(f"#!/bin/sh\nprintf '%s' '{command}' >>\"$1\"\n")
    editor.chmod(0o755)
    with codelet.terminal(env={"VISUAL": str(editor)}) as terminal:
        terminal.type(typed)
        terminal.settle(0.1)
        terminal.type("\x18\x05")
        terminal.wait_for("!touch planted")
        terminal.settle()
        terminal.key("enter")
        if runs:
            terminal.until(planted.exists)
        else:
            asked(terminal, codelet)
    assert planted.exists() == runs


@pytest.fixture
def secrets(codelet: Codelet, planted: Path) -> Codelet:
    """A workspace and a home with secrets."""
    (codelet.cwd / ".env").write_text("PASSWORD=hunter2\n")
    (codelet.cwd / "small.txt").write_text("a needle\n")
    (codelet.home / ".aws").mkdir()
    (codelet.home / ".aws" / "credentials").write_text("aws canary\n")
    return codelet


NAMES = "Crash: compare @~/.aws/credentials and @.env with @small.txt please"


def held(codelet: Codelet) -> tuple[bool, ...]:
    """Which of the files' texts were sent: the credentials, .env, the small one."""
    body = codelet.server.requests[-1].body
    return tuple(text in body for text in (b"aws canary", b"hunter2", b"a needle"))


@pytest.mark.parametrize("way", ["paste", "argument", "recalled"])
def test_a_path_that_was_not_typed_attaches_no_secret(secrets: Codelet, way: str) -> None:
    with secrets.terminal(*([NAMES] if way == "argument" else []), columns=120) as terminal:
        if way != "argument":
            terminal.type(paste(NAMES))
            terminal.key("enter")
        asked(terminal, secrets)
        if way == "recalled":
            terminal.type(UP)
            terminal.key("enter")
            asked(terminal, secrets, 2)
        assert terminal.scrollback.count("is not attached") == (4 if way == "recalled" else 2)
    assert held(secrets) == (False, False, True)
    assert NAMES in said(secrets)


@pytest.mark.parametrize(("answers", "sent"), [(("\r", "\r"), (False, False, True)), (("\x1b[B\r",) * 2, (True,) * 3)])
def test_a_secret_that_was_typed_is_asked_about(
    secrets: Codelet, answers: tuple[str, ...], sent: tuple[bool, ...]
) -> None:
    with secrets.terminal(columns=120) as terminal:
        terminal.line(NAMES)
        for number, (path, answer) in enumerate(zip((".aws/credentials?", ".env?"), answers, strict=True)):
            terminal.wait_for(path)
            terminal.settle(0.4)  # Enter does not count right after the question came
            assert not secrets.server.requests, f"question {number}"
            terminal.type(answer)
        asked(terminal, secrets)
    assert held(secrets) == sent
