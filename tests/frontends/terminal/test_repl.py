"""The REPL in a terminal: prompts, turns, commands, typed-ahead text, leaving."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyte
import pytest

from codelet.errors import EXIT_DONE
from codelet.frontends.terminal.repl import PARTING
from tests.support.program import CODELET, descendants, lives, processes_with
from tests.support.recorded import STATUS, Start, ask, bash, step
from tests.support.terminal import Terminal
from tests.support.waiting import Neighbour, until

SLOW = step("Words that come one by one " * 100, pace=60)


def test_a_turn(start: Start) -> None:
    terminal = start(step("Hello **there**.\n\n- one\n- two\n"), step("Again."))
    assert "codelet" in terminal.text.split("\n")[0]
    assert "recorded" in terminal.text.split("\n")[0]
    terminal.line("say hello")
    terminal.wait_for("1 step")
    terminal.wait_for(STATUS)
    text = terminal.settle()
    assert "› say hello\n" in text
    assert "Hello there.\n\n• one\n• two\n" in text
    assert "1.2k in (1k cached) · 40 out" in text
    assert text.count("Hello") == 1
    terminal.line("and again")
    terminal.wait_for("Again.")
    terminal.key("ctrl-d")
    assert terminal.wait_exit() == 0


@pytest.mark.parametrize("word", ["exit", "quit", "/exit", "/quit", "/q"])
def test_words_that_leave(start: Start, word: str) -> None:
    terminal = start()
    terminal.wait_for(STATUS)
    terminal.line(word)
    assert terminal.wait_exit() == 0


def in_a_command(start: Start, *following: dict[str, Any]) -> Terminal:
    """A session whose first turn runs an endless command."""
    terminal = start(step("I wait.", bash("sleep 60")), *following, arguments=("--yes",))
    terminal.wait_for(STATUS)
    terminal.line("hello")
    terminal.wait_for("sleep 60")
    return terminal


def test_ctrl_d_right_behind_a_stop_leaves(start: Start) -> None:
    """The turn is not quite over then, and no prompt is there that could take the key."""
    terminal = in_a_command(start)
    terminal.type("\x03\x04")
    assert terminal.wait_exit() == 0


def test_a_line_right_behind_a_stop_is_the_next_prompt(start: Start) -> None:
    """Lines queued before the stop are given back; lines entered after it are sent."""
    terminal = in_a_command(start, step("And on."))
    terminal.type("\x03go on\r")
    terminal.wait_for("And on.")
    terminal.line("exit")
    assert terminal.wait_exit() == 0


def test_a_line_before_a_stop_is_given_back(start: Start) -> None:
    terminal = in_a_command(start)
    terminal.type("exit\r\x03\r")
    terminal.wait_for('type "continue"')
    terminal.wait_for("› exit")
    terminal.settle(0.3)
    terminal.key("enter")
    assert terminal.wait_exit() == 0


def test_ctrl_d_before_a_stop_does_not_leave(start: Start) -> None:
    terminal = in_a_command(start)
    terminal.type("\x04\x03")
    terminal.wait_for('type "continue"')
    terminal.line("exit")
    assert terminal.wait_exit() == 0


def test_ctrl_c_clears_then_leaves(start: Start) -> None:
    terminal = start()
    terminal.wait_for(STATUS)
    terminal.type("half a thought")
    terminal.wait_for("half a thought")
    terminal.key("ctrl-c")
    terminal.wait_for("half a thought", gone=True)
    terminal.key("ctrl-c")
    terminal.wait_for("Ctrl-C again")
    terminal.wait_for("Ctrl-C again", gone=True)
    terminal.key("ctrl-c")
    terminal.wait_for("Ctrl-C again")
    terminal.key("ctrl-c")
    assert terminal.wait_exit() == 130


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("during", ["prompt", "turn", "tool", "question"])
def test_signals_end_it_cleanly(start: Start, number: signal.Signals, status: int, during: str) -> None:
    command = ("bash", {"command": "touch held.txt; sleep 613"})
    arguments = ("--yes",) if during == "tool" else ()
    terminal = start(SLOW if during == "turn" else step("Look.", command), arguments=arguments)
    terminal.wait_for(STATUS)
    children: list[int] = []
    if during != "prompt":
        terminal.line("go")
        terminal.wait_for({"turn": "come one", "tool": "sleep 613", "question": "No, and stop"}[during])
    if during == "tool":
        terminal.until(lambda: descendants(terminal.pid))
        children = descendants(terminal.pid)
    terminal.signal(number)
    assert terminal.wait_exit() == status
    until(lambda: not any(map(lives, children)))
    assert terminal.raw.rfind(b"\x1b[?25h") >= terminal.raw.rfind(b"\x1b[?25l")
    assert terminal.raw.rfind(b"\x1b[?2004l") >= terminal.raw.rfind(b"\x1b[?2004h")


def test_a_closed_terminal_ends_it(start: Start) -> None:
    terminal = start(SLOW)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come one")
    terminal.child.ptyproc.fileobj.close()
    terminal.child.ptyproc.closed = True
    until(lambda: not terminal.child.isalive(), "its end without a terminal")
    assert terminal.child.exitstatus == 129


def test_the_terminal_is_left_as_it_was(start: Start) -> None:
    import termios

    terminal = start(SLOW)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come one")
    terminal.key("esc")
    terminal.wait_for("stopped")
    terminal.wait_for(STATUS)
    terminal.key("ctrl-d")
    terminal.wait_exit()
    local = termios.tcgetattr(terminal.child.child_fd)[3]
    assert local & termios.ECHO
    assert local & termios.ICANON
    assert local & termios.ISIG


@pytest.mark.long
def test_commands(start: Start, repo: Path) -> None:
    terminal = start(step("One.", reasoning="Thinking\nhard about it."), step("Two."), rows=60)
    terminal.wait_for(STATUS)

    listed = ask(terminal, "/help", "/context", "/help all").rstrip().splitlines()
    assert "/uncompact" not in "".join(listed) and len(listed) <= 25, (
        "what to know first, on one screen with the prompt"
    )
    ask(terminal, "/help all", "conversation\n", "/compact undo", "Ctrl-R")
    assert "/diff" not in ask(terminal, "/help context", "/context tools", "# Context"[2:])
    ask(terminal, "/help sessions", "Sessions on disk")
    ask(terminal, "/uncompact", "compaction")
    ask(terminal, "/compact undo", "compaction")
    ask(terminal, "first prompt", "One.", "1 step")
    assert "› first prompt\n" in terminal.scrollback and "\n\nOne." in terminal.scrollback
    ask(terminal, "/usage", "1 turn", "1.2k tokens in", "40 tokens out")
    ask(terminal, "/usage now", "/usage takes no")
    ask(terminal, "/help compact", "/compact [--preview] ", "[20k|30%] [INSTRUCTIONS]")
    ask(terminal, "/help compcat", "mean /compact?")
    ask(terminal, "/context foo", "number, not foo")
    ask(terminal, "/context 99", "no message 99")
    ask(terminal, "/rewind 99", "no 99 prompts")
    ask(terminal, "/clear x", "/clear takes no")
    ask(terminal, "/model two words", "takes one name")
    ask(terminal, "/export --nothing", "no --nothing")
    ask(terminal, "/ help", "after the /")
    ask(terminal, "!", "after the !")
    ask(terminal, "/zzz", "no command /zzz")
    ask(terminal, "/plan", "no plan")
    ask(terminal, "/tasks", "no command was started")
    ask(terminal, "/context", "system prompt", "first prompt", "One.", "used, 2%")
    ask(terminal, "/tools", "grep", "execute", "regular expression")
    ask(terminal, "/permissions", "mode   ask")
    ask(terminal, "/mode auto-edit", "mode auto-edit")
    ask(terminal, "/mode nonsense", "no mode nonsense")
    ask(terminal, "/model", "model: recorded (recording")
    ask(terminal, "/model replay:/nowhere.json", "no such recording")
    ask(terminal, "/contxt", "mean /context?")
    ask(terminal, "/undo", "no file changes")
    ask(terminal, "continue", "nothing to continue")
    (repo / "new.txt").write_text("x\n")
    ask(terminal, "/diff", "new.txt")
    terminal.line("/rewind 1")
    terminal.wait_for("rewound to")
    assert "› first prompt" in terminal.settle().rpartition("rewound to")[2]
    terminal.key("enter")
    terminal.wait_for("Two.")
    terminal.wait_for(STATUS)
    terminal.line("/clear")
    terminal.wait_for("conversation cleared")
    terminal.line("/rewind")
    terminal.wait_for("no prompt to")


def test_a_blank_row_stands_before_each_answer(start: Start) -> None:
    terminal = start(step("One."), step("Two."), step("Three."))
    for prompt, answer in (("first", "One."), ("second", "Two."), ("third", "Three.")):
        terminal.wait_for(STATUS)
        terminal.line(prompt)
        terminal.wait_for(answer)
        terminal.settle(0.15)
    rows = terminal.scrollback.split("\n")
    for answer in ("One.", "Two.", "Three."):
        assert rows[rows.index(answer) - 1] == "" and rows[rows.index(answer) - 2] != ""


@pytest.mark.parametrize("words", [("fix the test",), ("fix", "the", "test")])
def test_a_prompt_on_the_command_line_opens_the_session_with_it(start: Start, words: tuple[str, ...]) -> None:
    terminal = start(step("Looking."), step("Again."), arguments=words)
    terminal.wait_for("› fix the test")
    terminal.wait_for("Looking.")
    terminal.wait_for(STATUS)
    terminal.line("more")
    terminal.wait_for("Again.")


def test_a_first_prompt_is_the_models_whatever_it_begins_with(start: Start, repo: Path) -> None:
    terminal = start(step("I see."), arguments=("!touch made.txt",))
    terminal.wait_for("I see.")
    assert not (repo / "made.txt").exists()


def test_a_prompt_with_a_format_is_one_shot_on_a_terminal_too(start: Start) -> None:
    terminal = start(step("Short."), arguments=("say it", "--output-format", "json"), ready='"result": "Short."')
    assert terminal.wait_exit() == 0


def test_a_path_is_no_command(start: Start) -> None:
    terminal = start(step("I see."))
    terminal.wait_for(STATUS)
    terminal.line("/etc/passwd is what?")
    terminal.wait_for("I see.")


def test_escape_stops_and_continue_goes_on(start: Start) -> None:
    terminal = start(SLOW)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come one")
    with Neighbour() as clock:
        terminal.key("esc")
        terminal.wait_for("■ stop")
    assert clock.passed < 1.0
    terminal.wait_for('type "continue"')
    terminal.wait_for(STATUS)
    terminal.line("continue")
    terminal.until(lambda: terminal.scrollback.count("Words that come") >= 2)
    terminal.key("ctrl-c")
    terminal.wait_for(STATUS)


@pytest.mark.parametrize("sequence", ["\x1b[A", "\x1b[1;5C", "\x1bb", "\x1b[I", "\x1bOB"])
def test_other_keys_do_not_stop(start: Start, sequence: str) -> None:
    terminal = start(step("Words that come " * 12 + "and THE END.", pace=20))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come")
    terminal.type(sequence)
    terminal.wait_for("THE END.")
    assert "stopped" not in terminal.scrollback


def test_a_newcomers_words_are_answered_without_the_model(start: Start) -> None:
    terminal = start(step("To the model."), rows=50)
    terminal.wait_for(STATUS)
    sheet = ask(terminal, "?", "Ctrl-D").split("\n")
    rows = [row for row in sheet if row.startswith("  ") and STATUS not in row]
    assert 10 <= len(rows) <= 16, rows
    assert any("Shift-Tab" in row for row in rows)
    ask(terminal, "help", "/model ")
    for name, meant in {
        "vim": "--edit-mode vi", "login": "API_KEY", "hotkeys": "? shows",
        "settings": "config.toml", "config": "config.toml", "tree": "/fork", "terminal-setup": "Alt-Enter",
    }.items():  # fmt: skip
        ask(terminal, f"/{name}", f"no command /{name}:", meant)
    assert "To the model." not in terminal.scrollback
    ask(terminal, "help me", "To the model.")


def test_ctrl_d_says_first_how_to_keep_a_conversation_that_is_worth_it(start: Start, tmp_path: Path) -> None:
    terminal = start(*(step(f"Answer {turn}.") for turn in range(6)))
    terminal.wait_for(STATUS)
    for turn in range(4):
        ask(terminal, f"prompt {turn}", f"Answer {turn}.", STATUS)
    terminal.key("ctrl-d")
    terminal.wait_for(PARTING)
    terminal.type("prompt")
    terminal.wait_for(PARTING, gone=True)
    terminal.type(" 4\r")
    terminal.wait_for("Answer 4.")
    terminal.wait_for(STATUS)
    ask(terminal, f"/export {tmp_path}/kept.json", "saved in", STATUS)
    terminal.key("ctrl-d")
    assert terminal.wait_exit() == EXIT_DONE
    assert PARTING not in terminal.text


def test_the_start_names_the_instructions_in_force(start: Start, repo: Path, home: Path) -> None:
    (repo / "AGENTS.md").write_text("Be brief.\n")
    (home / ".claude").mkdir()
    (home / ".claude" / "CLAUDE.md").write_text("Be kind.\n")
    terminal = start(step("Hi."))
    terminal.wait_for(STATUS)
    assert "~/.claude/CLAUDE.md · AGENTS.md\n" in terminal.text


def test_typed_ahead_text_waits_in_the_editor(start: Start) -> None:
    terminal = start(step("Some words that come " * 6, pace=40), step("Second answer."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come")
    terminal.type("next thing")
    terminal.wait_for("› next thing")
    terminal.wait_for("1 step")
    terminal.wait_for(STATUS)
    assert terminal.settle().rpartition("1 step")[2].count("› next thing") == 1
    terminal.type(" now")
    terminal.key("enter")
    terminal.wait_for("Second answer.")
    assert "› next thing now" in terminal.text


def test_enter_queues_and_is_sent_at_the_end(start: Start) -> None:
    terminal = start(step("Some words that come " * 20, pace=40), step("Second answer."), step("Third answer."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come")
    terminal.line("the second")
    terminal.wait_for("queued: the second")
    terminal.line("the third")
    terminal.wait_for("queued: the third")
    terminal.wait_for("Third answer.")
    text = terminal.settle()
    assert text.index("› the second") < text.index("Second answer.") < text.index("› the third")
    assert "queued" not in text
    terminal.wait_for(STATUS)
    terminal.key("up")
    terminal.settle()
    assert terminal.text.count("› the third") == 2, "queued lines are in the history too"


def test_escape_gives_queued_text_back(start: Start) -> None:
    terminal = start(SLOW, step("Second answer."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come")
    terminal.line("the second")
    terminal.wait_for("queued: the second")
    terminal.type("and more")
    terminal.wait_for("› and more")
    terminal.key("esc")
    terminal.wait_for(STATUS)
    after = terminal.settle().rpartition("stopped")[2]
    assert "› the second" in after
    assert "  and more" in after
    assert "Second answer." not in after


@pytest.mark.parametrize("running", [True, False])
def test_lines_at_once_are_a_paste_and_send_nothing(start: Start, running: bool) -> None:
    """As a terminal pastes that does not mark it."""
    terminal = start(SLOW if running else step("Never asked."), rows=20)
    terminal.wait_for(STATUS)
    if running:
        terminal.line("go")
        terminal.wait_for("come")
    terminal.type("".join(f"pasted line {number}\r" for number in range(12)))
    terminal.wait_for("[pasted #1, 12 lines]")
    text = terminal.settle(0.1, 0.6)
    assert "queued" not in text and "Never asked." not in text


def test_many_lines_and_long_pastes(start: Start) -> None:
    terminal = start(step("One."), step("Two."), rows=50)
    terminal.wait_for(STATUS)
    for part in ("first\x1b\r", "second\n", "third\\\r", "fourth"):
        terminal.type(part)
        terminal.settle(0.1)
    terminal.key("enter")
    terminal.wait_for("One.")
    terminal.wait_for(STATUS)
    pasted = "\n".join(f"pasted line {number}" for number in range(30))
    terminal.type(f"\x1b[200~{pasted}\x1b[201~ what is it?")
    terminal.wait_for("[pasted #1, 30 lines] what is it?")
    terminal.key("enter")
    terminal.wait_for("Two.")
    terminal.wait_for(STATUS)
    terminal.line("/context")
    terminal.wait_for("first second third fourth")
    terminal.wait_for("pasted line 0 pasted line 1")


def test_history_and_its_search_stay_in_memory(start: Start, home: Path) -> None:
    terminal = start(step("One."), step("Two."))
    terminal.wait_for(STATUS)
    terminal.line("a remarkable prompt")
    terminal.wait_for("One.")
    terminal.wait_for(STATUS)
    terminal.type("\x12remark")
    terminal.settle()
    terminal.key("enter")
    terminal.key("enter")
    terminal.wait_for("Two.")
    terminal.key("ctrl-d")
    terminal.wait_exit()
    assert list(home.rglob("*")) == []


@pytest.mark.parametrize(
    ("prompt", "told", "line"),
    [
        ("/help mode", "show the mode, or set it", ""),
        ("/plan add write tests", "1. [ ] write tests", ""),
        ("/export kept.json", "· /export runs with Enter", "/export kept.json"),
        ("/contxt", "✗ there is no command /contxt; did you mean /context?", "/contxt"),
        ("/etc/hosts", "One.", ""),
        (" /help", "One.", ""),
        ("/ usage", "One.", ""),
        ("!touch made", "One.", ""),
    ],
)
def test_a_command_as_the_first_prompt(start: Start, repo: Path, prompt: str, told: str, line: str) -> None:
    """It runs as with -p, or waits for Enter; what a file might begin with neither writes nor runs anything."""
    terminal = start(step("One."), arguments=(prompt,), columns=120)
    terminal.wait_for(STATUS)
    terminal.wait_for(told)
    terminal.until(lambda: terminal.text.split("\n")[-2].rstrip() == f"› {line}".rstrip(), "the prompt, with the line")
    assert ("One." in terminal.scrollback) == (told == "One.")
    assert not (repo / "kept.json").exists() and not (repo / "made").exists()


def test_a_command_of_the_user_goes_along(start: Start, repo: Path) -> None:
    terminal = start(step("I saw it."), columns=160, rows=40)
    terminal.wait_for(STATUS)
    terminal.line("!echo from-the-shell; exit 3")
    terminal.wait_for("exit 3")
    terminal.wait_for("1 output")
    terminal.line("what was that?")
    terminal.wait_for("I saw it.")
    terminal.wait_for(STATUS)
    assert "to send" not in terminal.settle().rpartition("I saw it.")[2]
    terminal.line("/context")
    terminal.wait_for("$ echo from-the-shell; exit 3 from-the-shell [exit code 3] what was that?")


def test_escape_stops_a_command_of_the_user(start: Start) -> None:
    terminal = start(step("I saw it."), columns=160)
    terminal.wait_for(STATUS)
    mark = f"614{os.getpid()}"
    terminal.line(f"!echo be''gun; sleep {mark}")  # so that its echo is not taken for its output
    terminal.wait_for("begun")
    terminal.key("esc")
    terminal.wait_for("1 output")
    assert not processes_with(mark)
    terminal.line("well?")
    terminal.wait_for("I saw it.")
    terminal.wait_for(STATUS)
    terminal.line("/context")
    terminal.wait_for(f"$ echo be''gun; sleep {mark} begun [stopped by the user] well?")


def test_a_command_of_the_user_that_a_signal_ended(start: Start) -> None:
    terminal = start(step("I saw it."), columns=160)
    terminal.wait_for(STATUS)
    terminal.line("!echo be''gun; kill -TERM $$")
    terminal.wait_for("✗ ended by SIGTERM")
    terminal.wait_for("1 output")
    terminal.line("well?")
    terminal.wait_for("I saw it.")
    terminal.wait_for(STATUS)
    terminal.line("/context")
    terminal.wait_for("$ echo be''gun; kill -TERM $$ begun [ended by signal 15] well?")


def test_completion(start: Start, repo: Path) -> None:
    (repo / "deep").mkdir()
    (repo / "deep" / "remarkable_name.py").write_text("x\n")
    (repo / "ignored_name.log").write_text("x\n")
    (repo / ".gitignore").write_text("*.log\n")
    terminal = start(step("One."), rows=30)
    terminal.wait_for(STATUS)
    terminal.type("/perm")
    terminal.wait_for("rules that allow")
    terminal.key("tab")
    terminal.wait_for("› /permissions")
    terminal.key("ctrl-c")
    terminal.type("/theme col")
    terminal.wait_for("colour-blind")
    terminal.key("tab")
    terminal.wait_for("› /theme colour-blind")
    terminal.key("ctrl-c")
    terminal.type("look at @remark")
    terminal.wait_for("deep/remarkable_name.py")
    terminal.key("tab")
    terminal.wait_for("› look at @deep/remarkable_name.py")
    terminal.key("ctrl-c")
    terminal.type("look at @name")
    terminal.wait_for("deep/remarkable_name.py")
    assert "ignored" not in terminal.settle()


def test_the_external_editor(start: Start, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/name\nstty -a < /dev/tty > {tmp_path}/modes\necho from the editor > "$1"\n'
    )
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    terminal = start(step("One."), env={"EDITOR": str(editor), "VISUAL": None})
    terminal.wait_for(STATUS)
    terminal.type("before\x18\x05")
    terminal.wait_for("› from the editor")
    terminal.key("enter")
    terminal.wait_for("One.")
    assert not Path((tmp_path / "name").read_text().strip()).exists()
    modes = (tmp_path / "modes").read_text().replace(";", " ").split()
    assert {"echo", "icanon", "isig", "icrnl"} <= set(modes), "the editor gets a terminal in its usual state"


def test_an_editor_of_the_repository_is_not_started(start: Start, repo: Path) -> None:
    (repo / "bin").mkdir()
    for editor in (repo / "editor", repo / "bin" / "editor-of-the-repository"):
        editor.write_text('#!/bin/sh\ntouch ran\necho replaced > "$1"\n')
        editor.chmod(0o755)
    search = f"{repo / 'bin'}{os.pathsep}{os.environ['PATH']}"
    for setting in ({"EDITOR": "./editor"}, {"VISUAL": str(repo / "editor")}, {"EDITOR": "editor-of-the-repository"}):
        terminal = start(env={"EDITOR": None, "VISUAL": None, "PATH": search} | setting)
        terminal.wait_for(STATUS)
        terminal.type("kept\x18\x05")
        terminal.wait_for("folder could supply")
        terminal.wait_for("› kept")
        assert not (repo / "ran").exists()


def test_shift_tab_goes_through_the_modes(start: Start) -> None:
    terminal = start()
    for mode in ("ask", "auto-edit", "auto", "read-only", "ask · planning", "ask"):
        terminal.wait_for(f"  {mode} ·")
        terminal.type("\x1b[Z")


def test_plan_mode_is_a_mode_that_can_be_chosen(start: Start, repo: Path) -> None:
    change = ("write", {"path": "new.txt", "content": "x"})
    steps = (step("One.", change), step("Refused."), step("Two.", change), step("Done."))
    terminal = start(*steps, arguments=("--mode", "auto-edit"))
    terminal.wait_for(STATUS)
    terminal.line("/mode plan")
    terminal.wait_for("auto-edit · planning")
    assert "✗" not in ask(terminal, "/mode", "mode plan: nothing changes")
    assert "✗" not in terminal.text
    terminal.line("write it")
    terminal.wait_for("Refused.")
    assert not (repo / "new.txt").exists()
    terminal.line("/mode auto-edit")
    terminal.until(lambda: "planning" not in terminal.text.rsplit("auto-edit", 1)[-1])
    terminal.line("write it")
    terminal.wait_for("Done.")
    assert (repo / "new.txt").exists()


def test_a_queued_command_waits_no_more_once_it_runs(start: Start, tmp_path: Path) -> None:
    slow, program = tmp_path / "slow", tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nwhile [ -e {slow} ]; do sleep 0.05; done\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    terminal = start(step("One."), env={"PATH": f"{program.parent}:{os.environ['PATH']}"})
    ask(terminal, "hello", "One.", STATUS)
    slow.touch()
    terminal.line("/diff git")
    terminal.wait_for("› /diff git")
    terminal.line("/theme dark")
    terminal.wait_for("queued: /theme dark")
    slow.unlink()
    terminal.wait_for("the theme is dark")
    assert "queued:" not in terminal.settle(0.3)


def test_a_text_in_columns_continues_below_itself(start: Start) -> None:
    terminal = start()
    terminal.wait_for(STATUS)
    rows = re.search(r"\n(safe +)reads[^\n]*\n( +)\S", ask(terminal, "/profile", "drops it"))
    assert rows is not None and len(rows[1]) == len(rows[2])


def test_one_key_shows_the_keys_on_an_empty_line(start: Start) -> None:
    terminal = start(step("An answer."))
    terminal.wait_for(STATUS)
    terminal.type("?")
    terminal.wait_for("Ctrl-D, Ctrl-C twice")
    ask(terminal, "is it?", "An answer.", STATUS)
    terminal.type(" ?")
    terminal.wait_for("›  ?")
    terminal.settle()


@pytest.mark.parametrize(
    ("line", "told"), [(" /status", "a / acts only"), (" /xylophone solo", ""), (" !true", "a ! acts")]
)
def test_a_space_sends_what_would_act_to_the_model(start: Start, line: str, told: str) -> None:
    terminal = start(step("It came."))
    terminal.wait_for(STATUS)
    shown = ask(terminal, line, "It came.", STATUS)
    assert told in shown and "✗" not in shown


def test_it_starts_without_argparse() -> None:
    """Parsing the usual command line and the prompt import none of it."""
    names = "cli, frontends.arguments, frontends.terminal.repl, frontends.terminal.slash_commands.command_list"
    code = f"import sys, codelet.{names.replace(', ', ', codelet.')}; print('argparse' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"False\n"


class _ErasedPlaces(pyte.Screen):
    """The cursor when everything below was erased."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []
        super().__init__(80, 24)

    def erase_in_display(self, how: int = 0, *arguments: object, **options: object) -> None:
        if how == 0:
            self.places.append((self.cursor.x, self.cursor.y))
        super().erase_in_display(how, *arguments, **options)


def test_the_line_on_top_of_a_cleared_screen_is_not_erased_from_its_first_column(start: Start) -> None:
    """tmux would scroll it into its history: the prompt appeared twice."""
    terminal = start(step("First."), step("Second."))
    terminal.wait_for(STATUS)
    ask(terminal, "one", "First.", STATUS)
    terminal.type("\x0c")
    terminal.settle(0.25)
    ask(terminal, "two", "Second.", STATUS)
    screen = _ErasedPlaces()
    pyte.ByteStream(screen).feed(terminal.raw)
    assert any(row == 0 for _, row in screen.places) and (0, 0) not in screen.places


@pytest.mark.parametrize("columns", [80, 200])
def test_a_resize_keeps_the_text_whole(start: Start, columns: int) -> None:
    words = " ".join(f"word{number}" for number in range(120))
    terminal = start(step(words, pace=15), columns=columns, rows=30)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("word20")
    terminal.resize(columns + 20, 30)
    terminal.wait_for("word60")
    terminal.resize(columns, 30)
    terminal.wait_for("1 step")
    terminal.wait_for(STATUS)
    found = re.findall(r"word\d+", terminal.scrollback)
    assert found == words.split()


def test_suspend_and_go_on(tmp_path: Path, repo: Path, home: Path) -> None:
    """Ctrl-Z under a shell with job control: the shell gets its terminal, `fg` gives it back."""
    recording = tmp_path / "recording.json"
    steps = [step("Words that come " * 20 + "THE END.", pace=20)]
    recording.write_text(json.dumps({"version": 1, "steps": steps}))
    shell = ("bash", "--norc", "--noprofile", "-i")
    with Terminal(cwd=repo, home=home, command=shell, env={"PS1": "shell: "}) as terminal:
        terminal.wait_for("shell:")
        terminal.line(f"{' '.join(CODELET)} --model replay:{recording}")
        terminal.wait_for(STATUS)
        terminal.line("go")
        terminal.wait_for("come")
        terminal.type("\x1a")
        terminal.wait_for("Stopped")
        terminal.settle(0.2)
        terminal.line("stty -a | grep -o ' .\\?echo '; stty -a | grep -o '.\\?icanon'")
        assert terminal.settle().count("-echo") == 0
        assert "-icanon" not in terminal.text
        terminal.line("fg")
        terminal.wait_for("THE END.")
        terminal.wait_for(STATUS)
        terminal.type("typed")
        terminal.wait_for("› typed")
        terminal.type("\x1a")
        terminal.until(lambda: terminal.scrollback.count("Stopped") >= 2)
        terminal.line("fg")
        terminal.settle(0.5)
        assert "› typed" in terminal.text.rpartition("Stopped")[2]
        terminal.key("ctrl-c")
        terminal.key("ctrl-d")
        terminal.settle(0.5)
        terminal.line("echo over $?")
        terminal.wait_for("over 0")


def test_no_color(start: Start) -> None:
    terminal = start(step("# Title\n\n`code`\n\n```python\nx = 'y'\n```\n"), env={"NO_COLOR": "1"})
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("1 step")
    terminal.settle()
    assert not re.search(rb"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d)(?:;\d+)*m", terminal.raw)


def test_an_old_encoding_breaks_nothing(start: Start) -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    terminal = start(step("Grüße, 你好 ✓\n\n- one\n"), env=env)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("* one")
    assert "Gr??e" in terminal.text
    terminal.wait_for("1 step")
    terminal.key("ctrl-d")
    assert terminal.wait_exit() == 0


def test_it_needs_a_terminal_on_both_sides(tmp_path: Path, repo: Path, home: Path) -> None:
    shell = ("bash", "--norc", "--noprofile", "-c")
    with Terminal(f"{' '.join(CODELET)} --model replay:x.json | cat", cwd=repo, home=home, command=shell) as terminal:
        terminal.wait_for("needs a terminal")


def test_keys_typed_while_it_starts_are_not_lost(start: Start) -> None:
    terminal = start(step("One."), ready="")
    terminal.pump(0.2)
    terminal.line("an early prompt")
    terminal.wait_for("› an early prompt")
    terminal.settle(0.5)
    if "One." not in terminal.scrollback:  # typed before raw mode: it waits in the editor
        terminal.key("enter")
    terminal.wait_for("One.")


@pytest.mark.parametrize("wait", [0.05, 0.1, 0.2])
def test_an_arrow_with_an_early_escape_stops_nothing(start: Start, wait: float) -> None:
    terminal = start(SLOW, step("Second answer."))
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come")
    terminal.line("the second")
    terminal.wait_for("queued: the second")
    terminal.type("\x1b")
    time.sleep(wait)  # clock: the line to the terminal is slow
    terminal.type("[A")
    terminal.wait_for("queued: the second", gone=True)
    terminal.wait_for("› the second")
    terminal.key("enter")
    terminal.wait_for("queued: the second")
    assert "stop" not in terminal.scrollback.replace("esc stop", "")


def test_a_failed_turn_says_why_and_keeps_what_was_queued(start: Start) -> None:
    terminal = start(step("Some words that come " * 20, pace=30), columns=200)
    terminal.wait_for(STATUS)
    terminal.line("go")
    terminal.wait_for("come")
    terminal.line("more")
    terminal.wait_for("queued: more")
    terminal.line("kept")
    terminal.wait_for("the recording")
    terminal.wait_for("holds 1 step")
    terminal.wait_for(STATUS)
    assert "› kept" in terminal.settle().rpartition("holds 1 step")[2]


@pytest.mark.needs("git")
def test_a_repository_of_another_owner_is_named_before_the_first_prompt(start: Start) -> None:
    terminal = start(env={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}, columns=120)
    terminal.wait_for("another owner")
    terminal.key("ctrl-d")
    assert terminal.wait_exit() == 0


def test_an_audit_file_without_its_end_is_no_success(start: Start, repo: Path) -> None:
    terminal = start(arguments=("--audit", "audit.jsonl"))
    terminal.wait_for(STATUS)
    (repo / "audit.jsonl").unlink()
    terminal.line("/exit")
    assert terminal.wait_exit() == 5
    assert "deleted or replaced" in terminal.scrollback
