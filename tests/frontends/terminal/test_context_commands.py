"""The commands that show and hold what the model is sent, in a terminal."""

from __future__ import annotations

from pathlib import Path

from tests.frontends.terminal.conftest import Start, step

STATUS = "% of "


def test_pin_drop_and_reminders(start: Start, repo: Path) -> None:
    (repo / "CLAUDE.md").write_text("Use tabs.\n")
    terminal = start(
        step("Looking.", ("read", {"path": "CLAUDE.md"})), step("Done."), step("Again."), columns=140, rows=60
    )
    terminal.wait_for(STATUS)

    def ask(line: str, *expected: str) -> str:
        terminal.line(line)
        for text in expected:
            terminal.wait_for(text)
        return terminal.settle(0.15).rpartition(f"› {line}")[2]

    ask("/pin 3", "there is no message 3")
    ask("/why", "nothing was compacted yet")
    ask("/uncompact", "no compaction to take back")
    ask("/compact", "nothing to compact")
    ask("/reminders", "nothing was told")
    ask("the first prompt", "Done.", "2 steps")
    listing = ask("/context", "the first prompt", "calls read", "compacted at")
    lines = [line.split() for line in listing.split("\n") if line[:5].strip().isdigit() and "reminder" not in line]
    numbers = {words[2]: words[0] for words in lines}
    ask(f"/pin {numbers['user']}", "stays word for word")
    assert "floor" in listing and ", reminders " in listing and ", pinned " not in listing
    assert ", pinned " in ask("/context", "pinned")
    ask(f"/unpin {numbers['user']}", "no longer pinned")
    ask(f"/unpin {numbers['user']}", "is not pinned; /context marks those that are")
    ask("/reminders claudemd maybe", "switched on or off: maybe is neither")
    assert "system-reminder" not in terminal.scrollback
    ask("/pin x", "name one message by its number")
    ask("/pin 0", "is the reminder")
    gone = ask(f"/drop {numbers['tool']}", "are gone")
    assert "calls read" not in ask("/context", "the first prompt")
    assert "messages" in gone
    ask("/reminders", "claudeMd", "tokens", "sent")
    ask("/reminders claudemd", "Use tabs.")
    ask("/reminders claudemd off", "claudeMd is off")
    ask("one more", "Again.", "1 step")
    assert "reminder claudeMd" not in ask("/context", "one more")
    ask("/reminders nothing", "there is no reminder nothing")


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
