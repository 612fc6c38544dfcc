"""/rewind, /undo and /diff in the real REPL, and files that someone else changed."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.recorded import STATUS, Start, ask, bash, step


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, object]]:
    return ("edit", {"path": path, "edits": [{"old": old, "new": new}]})


def read(path: str) -> tuple[str, dict[str, object]]:
    return ("read", {"path": path})


def test_back_to_before_a_prompt_with_files_and_conversation(start: Start, repo: Path) -> None:
    cart = repo / "cart.py"
    cart.write_text("price = 1\nname = 'old'\n")
    paste = "".join(f"line {number} of what was pasted\n" for number in range(12))
    terminal = start(
        step("", read("cart.py")),
        step("", edit("cart.py", "price = 1", "price = 2"), ("write", {"path": "new/made.txt", "content": "new\n"})),
        step("First done."),
        step("", edit("cart.py", "'old'", "'new'"), bash("echo built > built.txt")),
        step("Second done."),
        step("Asked again."),
        arguments=("--yes",),
        rows=40,
    )
    terminal.wait_for(STATUS)
    terminal.type(f"\x1b[200~{paste}\x1b[201~")
    terminal.wait_for("[pasted #1, 12 lines]")
    ask(terminal, " change the price", "First done.", STATUS)
    ask(terminal, "rename it", "Second done.", STATUS)
    shown = ask(terminal, "/diff", "edited")
    assert "cart.py  +2 -2" in shown and "new/made.txt  new file" in shown
    assert "2 files" in shown and "1 command" in shown

    terminal.key("esc")
    terminal.settle(0.15)
    terminal.key("esc")
    terminal.wait_for("Rewind to before")
    text = terminal.settle(0.25)
    assert "rename it  cart.py" in text and "cart.py, new/made.txt" in text
    terminal.key("down")
    terminal.settle(0.25)
    terminal.key("enter")
    terminal.wait_for("Conversation and files")
    text = terminal.settle(0.25)
    assert "cart.py  +2 -2 undone" in text and "made.txt  new file" in text
    assert re.search(r"commands are not undone: bash echo built > built\.txt", text)
    terminal.key("enter")
    terminal.wait_for("rewound to")
    assert cart.read_text() == "price = 1\nname = 'old'\n"
    assert not [*(repo / "new").iterdir()] and (repo / "built.txt").exists()
    line = terminal.settle(0.25).rpartition("rewound to")[2]
    assert "› [pasted #1, 12 lines] change the price" in line, "a folded paste comes back folded"
    terminal.key("enter")
    terminal.wait_for("Asked again.")
    assert terminal.text.count("line 11 of what was pasted") == 0


def test_what_somebody_else_changed_is_shown_and_stays_until_yes(start: Start, repo: Path) -> None:
    cart = repo / "cart.py"
    cart.write_text("price = 1\n")
    terminal = start(
        step("", read("cart.py")),
        step("", edit("cart.py", "price = 1", "price = 2")),
        step("Done."),
        step("Next."),
        arguments=("--yes",),
        rows=40,
    )
    terminal.wait_for(STATUS)
    ask(terminal, "/undo", "no file changes")
    ask(terminal, "/undo everything", "not everything")
    ask(terminal, "/rewind", "no prompt")
    ask(terminal, "go", "Done.", STATUS)
    cart.write_text("price = 2\nmine = True\n")
    terminal.line("/undo")
    terminal.wait_for("keep it")
    text = terminal.settle(0.25)
    assert re.search(r"cart\.py changed .*command", text) and "- mine = True" in text
    terminal.key("enter")
    terminal.wait_for("cart.py not restored")
    assert cart.read_text() == "price = 2\nmine = True\n"

    terminal.line("/rewind 1 files")
    terminal.wait_for("cancel")
    terminal.settle(0.25)
    terminal.key("esc")
    terminal.wait_for("nothing was changed")
    assert cart.read_text() == "price = 2\nmine = True\n"
    terminal.settle(0.15)
    terminal.line("/undo")
    terminal.until(lambda: terminal.text.count("keep it") and "esc cancel" in terminal.text)
    terminal.settle(0.25)
    terminal.key("down")
    terminal.settle(0.1)
    terminal.key("enter")
    terminal.wait_for("restored: cart.py")
    assert cart.read_text() == "price = 1\n"
    ask(terminal, "and now", "Next.")
    ask(terminal, "/context all", "these files back")
    ask(terminal, "/rewind 9", "no 9 prompts")
    ask(terminal, "/rewind both sides", "not sides")
    ask(terminal, "/diff nothing.py", "not changed nothing.py")


def test_a_prompt_is_listed_and_comes_back_as_it_was_typed(start: Start) -> None:
    """Command output that was sent with it is no part of its words, and goes with the next prompt."""
    terminal = start(step("One."), step("Two."))
    ask(terminal, "!echo from-the-shell", "from-the-shell", "1 output to send")
    ask(terminal, "what is it", "One.", STATUS)
    assert '"what is it"' in ask(terminal, "/fork", "as fork 1") + ask(terminal, "/fork list", "tokens:")
    terminal.line("/rewind")
    terminal.wait_for("Rewind to before")
    assert re.search(r"1 \d\d:\d\d what is it\n", terminal.settle(0.25))
    terminal.key("enter")
    terminal.wait_for("rewound to")
    assert "› what is it\n  ask · 1 output to send" in terminal.settle(0.25)
    terminal.key("enter")
    terminal.wait_for("Two.")
    assert "to send" not in terminal.settle(0.25)


def test_a_key_that_was_typed_is_shown_nowhere_again(start: Start) -> None:
    key = "sk-ant-api03-" + "Zz9" * 30
    terminal = start(step("One."), step("Two."), rows=40, columns=160, env={"ANTHROPIC_API_KEY": key})
    terminal.wait_for(STATUS)
    ask(terminal, f"use {key} please", "One.", STATUS)
    ask(terminal, "/fork", "as fork 1")
    told = [ask(terminal, "/fork list", 'tokens: "use')]
    terminal.line("/rewind")
    terminal.wait_for("Rewind to before")
    told.append(terminal.settle(0.2).rpartition("Rewind to before")[2])
    terminal.key("esc")
    terminal.wait_for("nothing was changed")
    told.append(ask(terminal, "/redo", "again: use", "Two.", STATUS))
    for each in told:
        assert "use [" in each and "Zz9Zz9" not in each, each
