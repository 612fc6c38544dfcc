"""The commands that show and hold what the model is sent, in a terminal."""

from __future__ import annotations

from pathlib import Path

from tests.support.recorded import STATUS, Start, ask, step


def test_pin_drop_and_reminders(start: Start, repo: Path) -> None:
    (repo / "CLAUDE.md").write_text("Use tabs.\n")
    terminal = start(
        step("Looking.", ("read", {"path": "CLAUDE.md"})), step("Done."), step("Again."), columns=140, rows=60
    )
    terminal.wait_for(STATUS)

    ask(terminal, "/pin 3", "there is no message 3")
    ask(terminal, "/why", "nothing was compacted yet")
    ask(terminal, "/uncompact", "no compaction to take back")
    ask(terminal, "/compact", "nothing to compact")
    ask(terminal, "/reminders", "nothing was told")
    ask(terminal, "the first prompt", "Done.", "2 steps")
    listing = ask(terminal, "/context", "the first prompt", "calls read", "compacted at")
    lines = [line.split() for line in listing.split("\n") if line[:5].strip().isdigit() and "reminder" not in line]
    assert "instruction files" in listing
    numbers = {words[2]: words[0] for words in lines}
    ask(terminal, f"/pin {numbers['user']}", "stays word for word: user,", "tokens: the first prompt")
    whole = ask(terminal, f"/context {int(numbers['tool']) - 1}", "calls read", "path: CLAUDE.md")
    assert "Looking." in whole
    assert "Use tabs." in ask(terminal, f"/context {numbers['tool']}", "· tool ·")
    ask(terminal, "/context 99", "there is no message 99; /context lists")
    ask(terminal, "/context one", "takes nothing, all, or a message's number: one is none")
    assert "floor" in listing and ", reminders " in listing and ", pinned " not in listing
    assert ", pinned " in ask(terminal, "/context", "pinned")
    ask(terminal, f"/unpin {numbers['user']}", "no longer pinned")
    ask(terminal, f"/unpin {numbers['user']}", "is not pinned; /context marks those that are")
    ask(terminal, "/reminders claudemd maybe", "switched on or off: maybe is neither")
    assert "system-reminder" not in terminal.scrollback
    ask(terminal, "/pin x", "name one message by its number")
    ask(terminal, "/pin 0", "is the reminder")
    gone = ask(terminal, f"/drop {numbers['tool']}", "are gone", "tool,", "Use tabs.")
    assert "calls read" not in ask(terminal, "/context", "the first prompt")
    assert "messages" in gone
    ask(terminal, "/reminders", "claudeMd", "tokens", "sent")
    ask(terminal, "/reminders", "plan", "a tool")
    ask(terminal, "/reminders claudemd", "Use tabs.")
    ask(terminal, "/reminders claudemd off", "claudeMd is off")
    ask(terminal, "one more", "Again.", "1 step")
    assert "instruction files" not in ask(terminal, "/context", "one more")
    ask(terminal, "/reminders nothing", "there is no reminder nothing")


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
    terminal.wait_for("was compacted: the next request")
    terminal.settle(0.1)
    terminal.line("/uncompact")
    terminal.wait_for("taken back: ")
    assert "waiting" not in terminal.settle()
    terminal.line("/compact keep what was said of long.txt")
    terminal.wait_for("as you asked")
    terminal.line("/compact --nonsense")
    terminal.wait_for("or --preview")
