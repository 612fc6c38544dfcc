"""No key of the environment comes out of a session that was made to echo it, whatever the way and the sink."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Codelet
from tests.support.recorded import Start, step
from tests.support.script import Call, Reply
from tests.support.server import ModelServer

KEY = "sk-proj-Zk4x9Qw7eR7tY2uIoP5aS8dF1gH3jK6lXcVbNmQ2"
PASSWORD = "hunter2-and-a-long-tail"
ENVIRONMENT = {
    "OPENAI_API_KEY": KEY,
    "DATABASE_URL": f"postgres://me:{PASSWORD}@localhost/db",
    "HARMLESS": f"copy of {KEY} here",
}
_FROM_FILE = "cat CLAUDE.md"
INSTRUCTIONS = f"OPENAI_API_KEY={KEY}\n"
WAYS = {
    "the child's environment": "env; set; export -p; cat /proc/self/environ",
    "a file that holds it": _FROM_FILE,
    "base64": f"{_FROM_FILE} | base64 -w0",
    "wrapped base64": f"{_FROM_FILE} | base64",
    "hexadecimal": f"{_FROM_FILE} | od -An -v -tx1 | tr -d ' \\n'",
    "reversed": f"{_FROM_FILE} | rev",
    "one piece of it": f"{_FROM_FILE} | cut -c 20-60",
    "standard error": f"{_FROM_FILE} >&2; exit 3",
    "a copy": f"{_FROM_FILE} > stolen.txt; cat stolen.txt",
    "a slow stream": f'{_FROM_FILE} | grep KEY | while read -rn 3 part; do printf %s "$part"; sleep 0.01; done',
}


def pieces(secret: str) -> set[str]:
    """Every run of 14 characters of the secret, in the spellings that a command gives it."""
    data = secret.encode()
    spellings = [secret, secret[::-1], data.hex()]
    spellings += [base64.b64encode(b"\0" * n + data).decode()[4:-4] for n in range(3)]
    return {text[at : at + 14] for text in spellings for at in range(8, len(text) - 14)}


PIECES = pieces(KEY) | pieces(PASSWORD)


def found_in(text: str) -> list[str]:
    """The text around each piece of a secret, also with line ends in it."""
    texts = (text, text.replace("\\n", "").replace("\n", ""))
    places = [(one, one.find(piece)) for one in texts for piece in PIECES if piece in one]
    return sorted({one[max(at - 200, 0) : at + 100] for one, at in places})[:2]


def told(server: ModelServer) -> str:
    """The text that the model received, without its own words."""
    own: list[Any] = [m for r in server.requests for m in r.json["messages"] if m["role"] != "assistant"]
    return json.dumps(own)


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_ten_ways_and_every_format(codelet: Codelet, model_server: ModelServer, output: str) -> None:
    (codelet.cwd / "CLAUDE.md").write_text(INSTRUCTIONS)
    (codelet.cwd / f"name-{KEY}.txt").write_text("x\n")
    (codelet.cwd / "note.txt").write_text(f"password {PASSWORD}\n")
    calls = [Call(f"c{n}", "bash", {"command": command}) for n, command in enumerate(WAYS.values())]
    calls += [
        Call("read", "read", {"path": "note.txt"}),
        Call("grep", "grep", {"pattern": "password"}),
        Call("find", "find", {"pattern": "name-*"}),
        Call("missing", "read", {"path": f"{KEY}/no"}),
        Call("write", "write", {"path": "made.txt", "content": f"{KEY}\n"}),
        Call("unknown", f"tool_{KEY[8:]}", {}),
    ]
    said = [f"The key is {KEY[:9]}", KEY[9:30], KEY[30:], f" and {PASSWORD[:7]}", PASSWORD[7:], " indeed."]
    model_server.script = [
        Reply(text=said, reasoning=said, calls=calls, usage=None),
        Reply(text=said, usage=None),
    ]
    audit = codelet.cwd.parent / "audit.jsonl"
    arguments = ("-p", "go", "--yes", "--output-format", output, "--audit", str(audit))
    done = codelet(*arguments, env=ENVIRONMENT)
    assert done.exit == 0, done.err
    assert len(model_server.requests) == 2
    assert "[masked OPENAI_API_KEY]" in done.out
    assert not found_in(done.out)
    assert not found_in(done.err)
    assert "[masked OPENAI_API_KEY]" in told(model_server)
    assert not found_in(told(model_server))
    recorded = audit.read_text()
    assert recorded.count('"kind":"execution"') == len(calls)
    assert not found_in(recorded)


def test_it_is_not_in_a_childs_environment(codelet: Codelet, model_server: ModelServer) -> None:
    model_server.script = [
        Reply(calls=[Call("c", "bash", {"command": "env > seen.txt"})]),
        Reply(text="done"),
    ]
    assert codelet("-p", "go", "--yes", env=ENVIRONMENT).exit == 0
    seen = (codelet.cwd / "seen.txt").read_text()
    assert "PATH=" in seen
    assert not found_in(seen)
    assert "HARMLESS" not in seen


def test_an_error_line_is_masked(codelet: Codelet, model_server: ModelServer) -> None:
    done = codelet("-p", "go", "--model", f"nothing/{KEY}", env=ENVIRONMENT)
    assert done.exit != 0
    assert done.err
    assert not found_in(done.err)


def test_raw_shows_it(codelet: Codelet, model_server: ModelServer) -> None:
    """Each way works: without the mask the model gets the key."""
    (codelet.cwd / "CLAUDE.md").write_text(INSTRUCTIONS)
    ways = [command for way, command in WAYS.items() if way != "the child's environment"]
    model_server.script = [
        Reply(calls=[Call(f"c{number}", "bash", {"command": command}) for number, command in enumerate(ways)]),
        Reply(text=f"The key is {KEY}."),
    ]
    done = codelet("-p", "go", "--yes", "--raw", env=ENVIRONMENT)
    assert KEY in done.out
    answers = [m["content"] for m in model_server.requests[-1].json["messages"] if m["role"] == "tool"]
    assert [way for way, answer in zip(ways, answers, strict=True) if not found_in(answer)] == []


def test_the_repl_masks_too(start: Start, repo: Path) -> None:
    (repo / "README.md").write_text(f"{KEY}\n")
    command = f"echo {KEY} > copy.txt"
    terminal = start(
        step(f"I know {KEY}.", ("bash", {"command": command}), ("read", {"path": "README.md"})),
        step("Done."),
        env=ENVIRONMENT,
        rows=60,
        columns=120,
    )
    terminal.wait_for("% of ")
    terminal.line("go")
    terminal.wait_for("Run this command?")
    terminal.settle()
    terminal.type("y")
    terminal.wait_for("Done.")
    terminal.wait_for("% of ")
    for line in ("!cat README.md", "/diff", "/context", "/permissions", "/nothing"):
        terminal.line(line)
        terminal.settle(0.5)
    assert "[masked OPENAI_API_KEY]" in terminal.scrollback
    assert not found_in(terminal.raw.decode("utf-8", "replace"))
    assert not found_in(terminal.scrollback)
    assert (repo / "copy.txt").read_text() == f"{KEY}\n"
