"""The commands that show and hold what the model is sent, in a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.moments import asks_for_narrative
from tests.support.recorded import STATUS, Start, ask, step
from tests.support.script import Reply, Step, Stop, Tokens
from tests.support.server import ModelServer, Recorded
from tests.support.terminal import Terminal


def test_pin_drop_and_reminders(start: Start, repo: Path) -> None:
    (repo / "CLAUDE.md").write_text("Use tabs.\n")
    terminal = start(
        step("Looking.", ("read", {"path": "CLAUDE.md"})), step("Done."), step("Again."), columns=140, rows=60
    )
    terminal.wait_for(STATUS)

    ask(terminal, "/pin 3", "no message 3")
    ask(terminal, "/why", "nothing was compacted")
    ask(terminal, "/uncompact", "no compaction")
    ask(terminal, "/compact", "nothing to compact")
    ask(terminal, "/reminders", "0 sent  on")
    ask(terminal, "the first prompt", "Done.", "2 steps")
    listing = ask(terminal, "/context", "the first prompt", "calls read", "compacts at")
    listing = ask(terminal, "/context all", "calls read", "compacts at")
    lines = [line.split() for line in listing.split("\n") if line[:5].strip().isdigit() and "reminder" not in line]
    assert "reminder claudeMd" in listing
    numbers = {words[2]: words[0] for words in lines}
    ask(terminal, f"/pin {numbers['user']}", "stays verbatim: user,", "tokens: the first prompt")
    whole = ask(terminal, f"/context {int(numbers['tool']) - 1}", "calls read", "path: CLAUDE.md")
    assert "Looking." in whole
    assert "Use tabs." in ask(terminal, f"/context {numbers['tool']}", "· tool ·")
    ask(terminal, "/context 99", "no message 99")
    ask(terminal, "/context one", "number, not one")
    assert "fixed" in listing and ", reminders " in listing and ", pinned " not in listing
    assert ", pinned " in ask(terminal, "/context all", "pinned")
    ask(terminal, f"/unpin {numbers['user']}", "no longer pinned")
    ask(terminal, f"/unpin {numbers['user']}", "is not pinned")
    ask(terminal, "/reminders claudemd maybe", "not maybe")
    assert "system-reminder" not in terminal.scrollback
    ask(terminal, "/pin x", "its number")
    ask(terminal, "/pin 0", "is the reminder")
    call = int(numbers["tool"]) - 1
    ask(terminal, f"/pin {call}", f"message {call} stays verbatim")
    ask(terminal, f"/drop {numbers['tool']}", f"message {call} is pinned: /pin off {call}")
    assert "pinned" in ask(terminal, "/context", "calls read")
    ask(terminal, f"/unpin {call}", "no longer pinned")
    gone = ask(terminal, f"/drop {numbers['tool']}", "removed messages", "tool,", "Use tabs.")
    assert "calls read" not in ask(terminal, "/context", "the first prompt")
    assert "messages" in gone
    ask(terminal, "/reminders", "claudeMd", "tokens", "sent")
    ask(terminal, "/reminders", "plan")
    ask(terminal, "/reminders claudemd", "Use tabs.")
    ask(terminal, "/reminders claudemd off", "claudeMd: off")
    ask(terminal, "one more", "Again.", "1 step")
    assert "claudeMd" not in ask(terminal, "/context", "one more")
    ask(terminal, "/reminders nothing", "no reminder nothing")


def test_compact_preview_undo_and_why(start: Start, repo: Path) -> None:
    (repo / "long.txt").write_text("".join(f"line {number} of the file\n" for number in range(900)))
    read = ("read", {"path": "long.txt"})
    steps = [part for number in range(6) for part in (step(f"Reading {number}.", read), step(f"Done {number}."))]
    terminal = start(*steps, columns=140, rows=60, arguments=("--window", "64000"))
    for number in range(6):
        terminal.wait_for(STATUS)
        terminal.line(f"prompt number {number}")
        terminal.wait_for(f"Done {number}.")
        terminal.settle(0.1)
    terminal.line("/compact --preview")
    terminal.wait_for("would be compacted")
    terminal.settle(0.1)
    terminal.line("/compact")
    terminal.wait_for("as you asked")
    terminal.wait_for("· compacted: ")
    terminal.settle(0.1)
    terminal.line("/why")
    terminal.wait_for("was compacted: ")
    terminal.settle(0.1)
    terminal.line("/uncompact")
    terminal.wait_for("undid the ")
    assert "waiting" not in terminal.settle()
    terminal.line("/compact keep what was said of long.txt")
    terminal.until(lambda: terminal.text.count("as you asked") + terminal.text.count("compacted:") > 1)
    terminal.settle(0.3)
    for wrong in ("/compact --nonsense", "/compact -5k", "/compact --preview -20%"):
        ask(terminal, wrong, "✗ /compact takes")
        assert "compacting" not in terminal.settle(0.1).rpartition(wrong)[2]


@pytest.mark.parametrize("command", ["/rewind 1", "/redo"])
def test_going_back_says_what_pins_go(start: Start, command: str) -> None:
    terminal = start(step("First."), step("Second."))
    terminal.wait_for(STATUS)
    ask(terminal, "the first prompt", "First.", "1 step")
    ask(terminal, "/pin 2", "stays verbatim: assistant,")
    ask(terminal, command, "1 pinned message")


def test_a_compaction_and_an_aside_that_are_stopped_say_so(
    model_server: ModelServer, repo: Path, home: Path, tmp_path: Path
) -> None:
    said = " ".join(f"word{number}" for number in range(1_500))

    def answer(request: Recorded) -> Step:
        beside = "A side question" in request.body.decode()
        return Stop("stall", None) if asks_for_narrative(request) or beside else Reply(said)

    model_server.script = answer
    arguments = ("--model", "openai/scripted", "--api-base", model_server.openai, "--narrative", "on")
    with Terminal(*arguments, cwd=repo, home=home, env={"OPENAI_API_KEY": "k"}, columns=120) as terminal:
        for number in range(6):
            terminal.wait_for(STATUS)
            ask(terminal, f"prompt {number}", "1 step")
        count = len(model_server.requests)
        terminal.line("/compact")
        terminal.wait_for("compacting")
        terminal.until(lambda: len(model_server.requests) > count)
        terminal.key("esc")
        terminal.wait_for("· not compacted: stopped")
        ask(terminal, "/uncompact", "no compaction")
        terminal.line("/btw what is left?")
        terminal.wait_for("not added")
        terminal.until(lambda: "A side question" in model_server.requests[-1].body.decode())
        terminal.key("esc")
        terminal.wait_for("· stopped; ")


def test_a_handoff_that_is_asked_for_ahead_has_a_row(
    model_server: ModelServer, repo: Path, home: Path, tmp_path: Path
) -> None:
    said = " ".join(f"word{number}" for number in range(1_000))

    def answer(request: Recorded) -> Step:
        if asks_for_narrative(request):
            return Reply("Goal: go on", usage=Tokens(total_input=14_000, output=1_000))
        size = len(request.body) // 4
        return Reply(said, usage=Tokens(total_input=size, output=2_000))

    model_server.script = answer
    arguments = ("--model", "openai/scripted", "--api-base", model_server.openai, "--narrative", "on")
    with Terminal(
        *arguments, "--budget", "20000", cwd=repo, home=home, env={"OPENAI_API_KEY": "k"}, columns=80
    ) as terminal:
        for number in range(12):
            terminal.wait_for(STATUS)
            terminal.line(f"prompt {number}")
            terminal.until(lambda turn=number: terminal.scrollback.count("1 step ·") > turn)
            if "handoff" in terminal.settle(0.1):
                break
        assert re.search(r"· handoff .*15k ", terminal.scrollback)
