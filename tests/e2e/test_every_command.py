"""Every command of /help in one session, with right and wrong arguments; strace sees that it writes nothing unnamed."""

# near: codelet/frontends/terminal/slash_commands

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.conftest import KEYS, Codelet
from tests.e2e.test_nothing_on_disk import offences, strace, warm_up
from tests.support.program import CODELET
from tests.support.script import Call, Reply
from tests.support.server import Recorded
from tests.support.terminal import KEYS as KEYBOARD
from tests.support.terminal import Terminal

STATUS = "% of "
CHANGE = "make fresh.txt"
INIT = "AGENTS.md"
# What a line asks before it is done, and the key that answers.
ASKED = {
    "/model": ("Choose a model", "esc"),
    "/rewind": ("esc cancel", "esc"),
    "/init": ("AGENTS.md?", "y"),
}
# In this order: what is typed, and what of the answer has to come. Together they have every command of /help.
ROWS = [
    ("/help", "/help all"), ("/help usage", "tokens and cost"), ("/help nothing", "there is no command /nothing"),
    ("/keys", "Ctrl-D"), ("/keys x", "takes no argument"), ("help", "/help all"),
    ("/mcp", "No MCP servers"),
    ("first words", "Answer 1"),
    ("second words", "Answer 2"),
    ("/status", "2 turns"), ("/usage", "2 turns"), ("/usage now", "takes no argument"),
    ("/model", "scripted"), ("/model two words", "takes one name"), ("/model nobody/x", "nobody"),
    ("/mode auto-edit", "mode auto-edit"), ("/mode nonsense", "there is no mode nonsense"),
    ("/help mode", "set it: ask, auto-edit, auto, read-only"),
    ("/permissions", "auto-edit"), ("/permissions x", "takes no argument"),
    ("/context", "second words"), ("/context foo", "foo"), ("/context all", "second words"),
    ("/context 2", "message 2"), ("/context 999", "there is no message 999"),
    ("/pin 2", "stays verbatim"), ("/pin 999", "no message 999"), ("/pin x", "by its number"),
    ("/unpin 2", "no longer pinned"), ("/unpin 2", "is not pinned"), ("/unpin x", "by its number"),
    ("/compact --preview", "compact"), ("/compact --nothing", "takes a size"), ("/compact -5k", "takes a size"),
    ("/compact 1k", "compact"),
    ("/why", "compacted"), ("/why 77", "takes no argument"),
    ("/uncompact", "compaction"), ("/uncompact x", "takes no argument"),
    ("/drop 999", "no message 999"), ("/drop x", "by its number"),
    ("/reminders", "environment"), ("/reminders nothing off", "there is no reminder"),
    ("/reminders gitStatus maybe", "maybe"), ("/reminders gitStatus on", "gitStatus: on"),
    ("/tools", "execute"), ("/tools x", "takes no argument"),
    ("/undo", "no file changes"), (CHANGE, "Answer 3"),
    ("/diff", "fresh.txt new file"), ("/diff fresh.txt", "a line of the model"),
    ("/diff x", "has not changed x"),
    ("/undo everything", "not everything"), ("/undo", "restored: fresh.txt"),
    ("/undo overwrite", "no file changes"),
    ("/continue", "nothing to continue"), ("/continue x", "takes no argument"),
    ("/copy", "clipboard"), ("/copy 99", "answers so far"), ("/copy x", "takes a number"),
    ("/btw is it so?", "Answer 4"), ("/btw", "takes a question"),
    ("/fork", "kept as fork 1"), ("/fork 7", "there is no fork 7"), ("/fork list", '"make fresh.txt"'),
    ("/fork 1", "returned to fork 1"),
    ("/export {export}", "saved in"), ("/export --nothing", "there is no --nothing"), ("/export {export}", "--force"),
    ("/import {export}", "resumed"), ("/import /nowhere.json", "nowhere"), ("/import", "name a saved session"),
    ("/resume {folder}", "name a saved session"), ("/resume {export}", "resumed"),
    ("/review fix", "name a finding"), ("/review fix 7", "name a finding"), ("/review --nothing", "--nothing"),
    ("/effort", "effort:"), ("/effort nonsense", "there is no effort"),
    ("/theme plain", "the theme is plain"), ("/theme", "the theme is plain"), ("/theme pink", "there is no theme pink"),
    ("/init x", "takes no argument"), ("/init", "Answer 5"), ("/undo", "restored: AGENTS.md"),
    ("!echo in a $((6 * 7))", "in a 42"), ("!", "right after the !"), ("!!exit 3", "exit 3"),
    ("/facts add the port is 8443", "kept"), ("/facts", "8443"), ("/facts nonsense", "use of /facts"),
    ("/plan add write tests", "write tests"), ("/plan", "write tests"), ("/plan done 9", "add TEXT, clear, approve"),
    ("/tasks", "background"), ("/tasks stop 9", "9"),
    ("/tasks stop", "it takes the number of a task"),
    ("/profile", "pair"), ("/profile nobody", "nobody"),
    ("/stats", "requests"), ("/stats x", "takes no argument"),
    ("/env", "Memory"), ("/env x", "takes no argument"),
    ("#a fact of mine", "kept"),
    ("/redo", "Answer 6"), ("/redo x", "takes no argument"),
    ("/rewind", "nothing was changed"), ("/rewind 1 files", "no file changes"),
    ("/rewind 1", "rewound to before"),
    ("/rewind 99x", "not 99x"), ("/rewind 99", "there are no 99 prompts"),
    ("/clear", "conversation cleared"), ("/clear x", "takes no argument"),
    ("/exit x", "takes no argument"), ("/nothing", "there is no command"),
    ("/u", "did you mean /undo?"),
]  # fmt: skip


def answer(terminal: Terminal, line: str, expected: str = "") -> str:
    """What comes of a line, up to the next prompt."""
    terminal.type("\x15")  # what a command left in the line goes
    terminal.type(line)  # once it is drawn, it comes in one read with no other line: that would be a paste
    drawn = "".join(line.split())
    terminal.until(
        lambda: "".join(terminal.text.split()).rpartition("›")[2].startswith(drawn), f"{line} in the line editor"
    )
    terminal.key("enter")
    if line in ASKED:
        question, key = ASKED[line]
        terminal.until(
            lambda: question in terminal.text and "enter confirm" in terminal.text, f"the question of {line}"
        )
        terminal.settle(0.1)  # a key that comes while the question is drawn answers nothing
        terminal.type(KEYBOARD.get(key, key))
        terminal.wait_for("enter confirm", gone=True)
    said: list[str] = []

    def is_answered() -> bool:
        rows = terminal.text.split("\n")
        if STATUS not in rows[-1] or f"› {line}" in rows[-2:]:  # the line editor is not there yet, or not left
            return False
        said[:] = [terminal.scrollback.rpartition(f"› {line}\n")[2]]
        return expected in " ".join(said[0].split())

    terminal.until(is_answered, f"{expected!r} as the answer to {line}")
    return said[0]


@pytest.mark.timeout(900)
@pytest.mark.needs("strace", "git")
@pytest.mark.long
def test_every_command_and_nothing_written_that_was_not_named(codelet: Codelet, tmp_path: Path) -> None:
    warm_up(codelet)
    command, trace = strace(tmp_path)
    kept = tmp_path / "kept" / "kept.json"
    kept.parent.mkdir()
    answers = iter(range(1, 100))
    changes = {
        CHANGE: Call("c1", "write", {"path": "fresh.txt", "content": "a line of the model\n"}),
        INIT: Call("c2", "write", {"path": "AGENTS.md", "content": "Run the tests.\n"}),
    }

    def reply(request: Recorded) -> Reply:
        wanted = next((words for words in changes if words in request.body.decode()), "")
        return Reply(calls=[changes.pop(wanted)]) if wanted else Reply(f"Answer {next(answers)}")

    codelet.server.script = reply
    before = sorted(codelet.home.rglob("*")), sorted(codelet.cwd.rglob("*"))
    words = (*codelet.arguments, "--compact", "off")
    size = {"columns": 100, "rows": 50}
    with Terminal(
        *words, cwd=codelet.cwd, home=codelet.home, env=KEYS, command=(*command, *CODELET), **size
    ) as terminal:
        terminal.wait_for(STATUS)
        for line, expected in ROWS:
            said = answer(terminal, line.format(export=kept, folder=kept.parent), expected)
            assert "a bug" not in said, f"{line}: {said}"
        listed = answer(terminal, "/help all", "Ctrl-D")
        terminal.type("\x15")
        terminal.line("exit")
        assert terminal.wait_exit() == 0
    newest = codelet.server.requests[-1].body.decode()
    assert "second words" in newest
    assert "is it so" not in newest, "what was asked beside the conversation is not in it"
    commands = set(re.findall(r"^  (/[a-z]+)(?= |$)", listed, re.MULTILINE))
    assert commands <= {line.split()[0] for line, _ in ROWS}, "a command of /help has no row here"
    assert "/exit" in commands
    found = offences(trace.read_text())  # ftruncate names no file: the one that it cuts was opened for writing before
    named = str(kept.parent), "fresh.txt", "AGENTS.md", "ftruncate("
    written = [line for line in found if not any(name in line for name in named)]
    assert written == []
    assert (sorted(codelet.home.rglob("*")), sorted(codelet.cwd.rglob("*"))) == before
    assert [file.name for file in kept.parent.iterdir()] == ["kept.json"]
