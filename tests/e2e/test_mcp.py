"""MCP servers in whole runs: the prefix that was sent, one shots, settings, and what is left of a killed codelet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from codelet.context.tokens import estimate_text
from tests.e2e.conftest import KEYS, Codelet
from tests.support.program import CODELET, environment
from tests.support.script import Call, Reply
from tests.support.server import Recorded
from tests.support.waiting import until

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"


def servers(folder: Path, **arguments: list[str]) -> str:
    """A file that lists servers by name, each with its arguments."""
    file = folder / "servers.json"
    tables = {name: {"command": sys.executable, "args": [str(SERVER), *given]} for name, given in arguments.items()}
    file.write_text(json.dumps({"mcpServers": tables}))
    return str(file)


def done(request: Recorded) -> Reply:
    return Reply("done")


def head(request: Recorded) -> dict[str, Any]:
    """What stands before the messages in a request."""
    body: dict[str, Any] = json.loads(request.body)
    return {key: value for key, value in body.items() if key not in ("messages", "input")}


def messages(request: Recorded) -> list[Any]:
    body = json.loads(request.body)
    found: list[Any] = body.get("messages") or body["input"]
    return found


def test_a_server_that_is_late_changes_nothing_that_was_sent(codelet_on_each_wire: Codelet, tmp_path: Path) -> None:
    codelet = codelet_on_each_wire
    call = Call("c1", "mcp_find", {"query": "echo"})
    again = Call("c2", "mcp_call", {"name": "mcp__late__echo", "arguments": {"text": "hi"}})
    slow = Call("c0", "bash", {"command": f"touch {tmp_path / 'go'}; sleep 2"})  # clock: the server answers
    codelet.server.script = [Reply(calls=[each]) for each in (slow, call, again)] + [Reply("done")]
    file = servers(tmp_path, late=["--until", str(tmp_path / "go")])
    ended = codelet("-p", "go", "--bare", "--yes", "--mcp", file, "--output-format", "json")
    assert ended.exit == 0, ended.err
    requests = codelet.server.requests
    assert len(requests) == 4 and b"echo: hi" in requests[3].body
    assert all(head(each) == head(requests[0]) for each in requests)
    for before, after in pairwise(requests):
        said, more = list(map(plain, messages(before))), list(map(plain, messages(after)))
        assert more[: len(said)] == said
    assert b"mcp__late" not in requests[0].body
    assert json.loads(ended.out)["mcp"] == [{"name": "late", "state": "ready", "tools": 14, "error": None}]


def plain(message: Any) -> Any:
    """A message without the mark of a cache, which moves on."""
    text = json.dumps(message)
    return json.loads(text.replace(', "cache_control": {"type": "ephemeral"}', ""))


def test_a_one_shot_says_what_it_lacks(codelet: Codelet, tmp_path: Path) -> None:
    codelet.server.script = done
    file = servers(tmp_path, good=[], bad=["--no-such-option"])
    ended = codelet("-p", "go", "--mcp", file, "--output-format", "json")
    listed = {each["name"]: each for each in json.loads(ended.out)["mcp"]}
    assert (ended.exit, listed["good"]["state"], listed["bad"]["state"]) == (0, "ready", "failed")
    assert "--no-such-option" in listed["bad"]["error"]
    told = codelet("-p", "go", "--mcp", file)
    assert (told.exit, told.out) == (0, "done\n") and "bad" in told.err


def test_a_call_without_anyone_to_ask_needs_a_rule(codelet: Codelet, tmp_path: Path) -> None:
    file = servers(tmp_path, test=[])
    calls = Reply(calls=[Call("c1", "mcp__test__echo", {"text": "hi"})])
    codelet.server.script = lambda request: done(request) if b'"tool_calls"' in request.body else calls
    for rules, status in (((), 6), (("--allow", "mcp__test__echo"), 0), (("--allow", "mcp__test"), 0)):
        assert codelet("-p", "go", "--mcp", file, *rules).exit == status, rules


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "JSON"),
        ("[]", "mcpServers"),
        ('{"mcpServers": {"x": {}}}', "command or a url"),
        ('{"mcpServers": {"x": {"command": "a", "url": "http://b"}}}', "command or a url"),
        ('{"mcpServers": {"x": {"url": "ftp://b"}}}', "http"),
        ('{"mcpServers": {"x": {"type": "sse", "url": "http://b"}}}', "sse"),
        ('{"mcpServers": {"x": {"command": "a", "env": {"T": "${NOT_SET_HERE}"}}}}', "NOT_SET_HERE"),
        ('{"mcpServers": {"x": {"url": "http://b", "headers": {"A": "b\\nc"}}}}', "headers.A"),
        ('{"mcpServers": {"a.b": {"command": "a"}, "a_b": {"command": "a"}}}', "a_b"),
        ('{"mcpServers": {"' + "x" * 40 + '": {"command": "a"}}}', "name"),
        (json.dumps({"mcpServers": {f"s{number}": {"command": "a"} for number in range(17)}}), "17"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(codelet: Codelet, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    ended = codelet("-p", "go", "--mcp", str(tmp_path / "bad.json"))
    assert ended.exit == 2 and len(ended.complaints) == 1 and says in ended.err
    assert codelet.server.requests == []


def test_servers_come_from_the_users_file_and_never_from_a_repository(codelet: Codelet, tmp_path: Path) -> None:
    codelet.server.script = done
    witness = tmp_path / "started"
    table = {"command": "/bin/sh", "args": ["-c", f"touch {witness}; cat"]}
    (codelet.cwd / ".mcp.json").write_text(json.dumps({"mcpServers": {"planted": table}}))
    assert codelet("-p", "go", "--trust").exit == 0 and not witness.exists()
    (codelet.cwd / ".codelet").mkdir()
    (codelet.cwd / ".codelet" / "config.toml").write_text("[mcp_servers.planted]\ncommand = 'sh'\n")
    refused = codelet("-p", "go", "--trust")
    assert refused.exit == 2 and "mcp_servers" in refused.err
    (codelet.cwd / ".codelet" / "config.toml").unlink()
    settings = codelet.home / ".config" / "codelet" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"mcp_direct = 0\n[mcp_servers.own]\ncommand = {sys.executable!r}\nargs = [{str(SERVER)!r}]\n")
    assert codelet("-p", "go").exit == 0
    assert b"mcp_find" in codelet.server.requests[-1].body
    checked = codelet("mcp", "check", "--json")
    assert json.loads(checked.out)["mcp"][0]["state"] == "ready" and checked.exit == 0
    settings.write_text("[mcp_servers.own]\ncomand = 'x'\n")
    wrong = codelet("-p", "go")
    assert wrong.exit == 2 and "comand" in wrong.err


IMPORTED = """
import os, sys
leave = os._exit

def told(status):
    print(*(name for name in sys.modules if ".mcp" in name), file=sys.stderr, flush=True)
    leave(status)

os._exit = told
from codelet.cli import main
main()
"""


def test_without_servers_nothing_is_imported_and_no_byte_is_sent(codelet: Codelet, tmp_path: Path) -> None:
    codelet.server.script = done
    without = codelet("-p", "go", "--bare", command=(sys.executable, "-c", IMPORTED))
    assert (without.exit, without.err.strip()) == (0, "")
    assert b"mcp" not in codelet.server.requests[0].body
    file = servers(tmp_path, test=["--tools", "27"])
    with_servers = codelet("-p", "go", "--bare", "--mcp", file, command=(sys.executable, "-c", IMPORTED))
    assert "codelet.extensions.mcp.client" in with_servers.err
    before, after = (estimate_text(str(head(each)["tools"])) for each in codelet.server.requests)
    assert after - before < 300, "two tools stand for 41"
    rest = [{key: value for key, value in head(each).items() if key != "tools"} for each in codelet.server.requests]
    assert rest[0] == rest[1]


def test_no_server_outlives_codelet(codelet: Codelet, tmp_path: Path) -> None:
    log = tmp_path / "log"
    file = servers(tmp_path, test=["--log", str(log)])
    codelet.server.script = [Reply(calls=[Call("c1", "mcp__test__hang", {})])]
    words = [*CODELET, *codelet.arguments, "-p", "go", "--yes", "--mcp", file]
    child = subprocess.Popen(words, cwd=codelet.cwd, env=environment(codelet.home, KEYS), stdin=subprocess.DEVNULL)
    until(lambda: log.exists() and '"hang"' in log.read_text(), "the call")
    assert processes(str(log))
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    until(lambda: not processes(str(log)), "the end of the server")


def processes(word: str) -> list[int]:
    """The processes on whose command line a word stands."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if word.encode() in words and b"--mcp" not in words:
            found.append(int(entry.name))
    return found
