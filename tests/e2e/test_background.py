"""Commands in the background, from the program's outside: used, named and ended at its end, whatever end that is."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.e2e.conftest import KEYS, Codelet
from tests.support.amount import amount
from tests.support.program import processes_with, start
from tests.support.script import Call, Reply, Stop
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

_SERVE = """import http.server as h, sys
class Server(h.ThreadingHTTPServer):
    allow_reuse_address = True
s = Server(('127.0.0.1', int(sys.argv[1])), h.SimpleHTTPRequestHandler)
print('listening', flush=True)
s.serve_forever()
"""
WAYS = (
    "exec python3 serve.py {port} {mark}",
    "setsid python3 serve.py {port} {mark} & wait",
    "trap '' TERM INT; python3 serve.py {port} {mark}; sleep 600 {mark}",
    "(setsid setsid python3 serve.py {port} {mark} &); sleep 600.{mark}",
    "python3 serve.py {port} {mark} | cat",
)
"""How a server is started: as it is, in another session, deaf to signals, as an orphan, in a pipe."""


@pytest.fixture
def mark() -> Iterator[str]:
    """A number that stands in the command lines of one test's processes alone."""
    chosen = f"7{os.getpid()}{random.randrange(10**6):06}"
    yield chosen
    for pid in processes_with(chosen):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def bash(number: int, command: str, **more: Any) -> Call:
    return Call(f"call-{number}", "bash", {"command": command, **more})


def answered(request: Any) -> list[str]:
    """What the tools said in the last step."""
    messages = request.json["messages"]
    last = max(place for place, message in enumerate(messages) if message["role"] == "assistant")
    return [message["content"] for message in messages[last:] if message["role"] == "tool"]


def served(codelet: Codelet) -> None:
    (codelet.cwd / "serve.py").write_text(_SERVE)


@pytest.mark.parametrize("form", ["text", "stream-json"])
def test_a_server_is_started_used_read_and_ended(codelet: Codelet, form: str) -> None:
    """Two of them: one the model ends, one goes with the run, which says so."""
    served(codelet)
    port, other = free_port(), free_port()
    codelet.server.script = [
        Reply(calls=[bash(1, f"python3 serve.py {port}", background=True),
                     bash(2, f"python3 serve.py {other}", background=True)]),
        Reply(calls=[bash(3, "wait %1 for listening"), bash(4, "wait %2 for listening")]),
        Reply(calls=[bash(5, f"curl -s http://127.0.0.1:{port}/app.py")]),
        Reply(calls=[bash(6, "jobs %1")]),
        Reply(calls=[bash(7, "kill %1"), bash(8, f"curl -s http://127.0.0.1:{port}/")]),
        Reply("done"),
    ]  # fmt: skip
    done = codelet("-p", "go", "--yes", "--output-format", form)
    assert done.exit == 0, done.err
    requests = codelet.server.requests
    assert "listening" in answered(requests[2])[0]
    assert "def " in answered(requests[3])[0] or "print" in answered(requests[3])[0]
    assert '"GET /app.py HTTP/1.1" 200' in answered(requests[4])[0]
    ended, refused = answered(requests[5])
    assert "[%1 was ended" in ended and "[exit code 7]" in refused
    named = f"codelet: stopped background task 2: python3 serve.py {other}"
    assert [line for line in done.complaints if "background task" in line] == [named]
    assert not is_open(port) and not is_open(other)
    if form != "text":
        assert done.lines()[-1]["result"] == "done"


def test_kill_9_ends_them_too(codelet: Codelet, mark: str) -> None:
    served(codelet)
    ports = [free_port() for _ in WAYS]
    lines = [way.format(port=port, mark=mark) for way, port in zip(WAYS, ports, strict=True)]
    codelet.server.script = [
        Reply(calls=[bash(number, line, background=True) for number, line in enumerate(lines)]),
        Stop("stall", None),
    ]
    child = start(*codelet.arguments, "-p", "go", "--yes", cwd=codelet.cwd, home=codelet.home, env=KEYS)
    until(lambda: all(map(is_open, ports)), "the start of the servers")
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)
    until(lambda: not processes_with(mark), "the end of what was started")
    assert not any(map(is_open, ports))


def test_random_starts_stops_interrupts_and_ends_leave_no_process_and_no_port(codelet: Codelet, mark: str) -> None:
    served(codelet)
    chance = random.Random(os.environ.get("PYTEST_RANDOM_SEED", "5"))
    for _ in range(amount(3, 200)):
        ports: list[int] = []
        steps: list[Any] = []
        for number in range(chance.randint(1, 4)):
            calls = []
            for place in range(chance.randint(1, 3)):
                task = chance.randint(1, 4)
                port = free_port()
                command = chance.choice(WAYS).format(port=port, mark=mark)
                ports.append(port)
                calls.append(
                    chance.choice(
                        [
                            bash(10 * number + place, command, background=True),
                            bash(10 * number + place, command, background=True),
                            bash(10 * number + place, f"kill %{task}"),
                            bash(10 * number + place, f"wait %{task} for listening", timeout=0.3),
                            bash(10 * number + place, f"wait %{task}", timeout=0.1),
                            bash(10 * number + place, "jobs"),
                        ]
                    )
                )
            steps.append(Reply(calls=calls))
        end = chance.choice(["exit", "interrupt", signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
        codelet.server.script = [*steps, Reply("done") if end == "exit" else Stop("stall", None)]
        codelet.server.requests.clear()
        child = start(*codelet.arguments, "-p", "go", "--yes", cwd=codelet.cwd, home=codelet.home, env=KEYS)
        if end != "exit":
            wanted = chance.randint(1, len(steps) + (end != "interrupt"))
            codelet.server.wait_for(wanted)
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGINT if end == "interrupt" else int(end))
        child.communicate(timeout=60)
        told = f"{[getattr(step, 'calls', step) for step in steps]} then {end}"
        until(lambda: not processes_with(mark), f"the end of all processes of {told}")
        assert not any(map(is_open, ports)), told


def test_a_crash_leaves_them_interrupted_in_the_export(codelet: Codelet, mark: str) -> None:
    codelet.server.script = [
        Reply(calls=[bash(1, f"touch here; echo up; sleep 600 {mark}", background=True)]),
        Stop("stall", None),
        Reply("I see."),
        Reply("Well."),
    ]
    words = ["-p", "go", "--yes", "--export", "work.json"]
    child = start(*codelet.arguments, *words, cwd=codelet.cwd, home=codelet.home, env=KEYS)
    work = codelet.cwd / "work.json"

    def tasks() -> list[dict[str, Any]]:
        return json.loads(work.read_bytes())["active_tasks"] if work.exists() else []

    until(tasks, "the save of the task")
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=30)
    assert tasks()[0]["status"] == "Running"
    shown = codelet("-p", "/tasks", "--resume", "work.json")
    assert shown.out.startswith("%1 ") and mark in shown.out
    again = codelet("-p", "and now?", "--resume", "work.json", "--export", "work.json")
    assert again.exit == 0, again.err
    *told, newest = map(str, codelet.server.requests[-1].json["messages"])
    assert "and now?" in newest
    assert any("%1 " in each and mark in each for each in told)
    assert tasks()[0]["status"] == "Interrupted"
    until(lambda: not processes_with(mark), "the end of the task")
    refused = codelet("-p", "/tasks run 1", "--resume", "work.json")
    assert "refused" in refused.out and refused.exit == 6
    allowed = codelet("-p", "/tasks run 1", "--resume", "work.json", "--yes")
    assert "up\n[%2 runs " in allowed.out
    assert "task 2: " in allowed.err


def test_the_terminal_names_them_at_the_end_and_says_when_one_is_over(codelet: Codelet, mark: str) -> None:
    codelet.server.script = [
        Reply(calls=[bash(1, f"sleep 600.{mark}", background=True),
                     bash(2, "until [ -e go ]; do sleep 0.05; done", background=True)]),
        Reply("both run"),
    ]  # fmt: skip
    with codelet.terminal("--yes") as terminal:
        terminal.line("go")
        terminal.wait_for("both run")
        terminal.settle()
        terminal.wait_for("2 tasks")
        (codelet.cwd / "go").touch()
        terminal.until(lambda: "1 task" in terminal.text, "the row that is shown anew while nobody types")
        terminal.line("/tasks")
        terminal.wait_for("%2 completed, exit code 0")
        terminal.settle()
        terminal.line("exit")
        terminal.wait_for("stopped background task 1: ")
        assert terminal.wait_exit() == 0
    until(lambda: not processes_with(mark), "the end of the task")
