"""The audit file of real runs: its records, two writers, a killed one, and the verifier's command."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from codelet.safety.audit import AuditLog
from tests.e2e.conftest import KEYS, Codelet
from tests.safety.test_sandbox import path_for, way_works
from tests.support.program import CODELET, start, stop
from tests.support.script import Call, Reply
from tests.support.server import ModelServer, Recorded
from tests.support.waiting import PATIENCE, until


def executions(path: Path) -> dict[str, int]:
    """The number of calls that each session has recorded, in the order of their start."""
    counts: dict[str, int] = {}
    for line in path.read_bytes().splitlines()[:-1] if path.exists() else ():  # the last may be half written
        record = json.loads(line)
        counts[record["session"]] = counts.get(record["session"], 0) + (record["kind"] == "execution")
    return counts


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_verdict_answer_call_and_change_is_in_it(codelet: Codelet, model_server: ModelServer) -> None:
    calls = [
        Call("a", "read", {"path": "app.py"}),
        Call("b", "edit", {"path": "app.py", "edits": [{"old": "hello", "new": "bye"}]}),
        Call("c", "bash", {"command": "make nothing"}),
        Call("d", "bash", {"command": "touch never"}),
        Call("e", "read", {"path": "missing"}),
    ]
    model_server.script = [Reply(calls=calls), Reply(text="done")]
    done = codelet("-p", "go", "--mode", "auto-edit", "--allow", "bash(make *)", "--audit", "audit.jsonl")
    assert done.exit == 6
    path = codelet.cwd / "audit.jsonl"
    found = records(path)
    found[1:-1] = sorted(found[1:-1], key=lambda one: str(one["call"]))  # c, d and e run side by side
    assert [(one["kind"], one.get("call")) for one in found] == [
        ("start", None),
        ("verdict", "a"),
        ("execution", "a"),
        ("verdict", "b"),
        ("change", "b"),
        ("execution", "b"),
        ("verdict", "c"),
        ("execution", "c"),
        ("verdict", "d"),
        ("approval", "d"),
        ("verdict", "e"),
        ("execution", "e"),
        ("end", None),
    ]
    assert found[1]["arguments"] == {"path": "app.py"}
    assert found[4]["diff"].splitlines()[-2:] == ["-print('hello')", "+print('bye')"]
    assert (found[7]["status"], found[11]["status"]) == ("failed", "failed")
    assert (found[6]["action"], found[6]["rule"]) == ("allow", "bash(make *)")
    assert (found[8]["action"], found[9]["outcome"]) == ("ask", "nobody to ask")
    assert path.stat().st_mode & 0o777 == 0o600
    whole = codelet("audit", "verify", "audit.jsonl")
    assert whole.exit == 0
    assert "13 records, whole" in whole.out


def test_an_interrupted_call_is_in_it(codelet: Codelet, model_server: ModelServer) -> None:
    model_server.script = [Reply(calls=[Call("a", "bash", {"command": "touch begun; sleep 60"})])]
    child = start(*codelet.arguments, "-p", "go", "--yes", "--audit", "a", cwd=codelet.cwd, home=codelet.home, env=KEYS)
    until((codelet.cwd / "begun").exists)
    stop(child, signal.SIGINT)
    assert [one["kind"] for one in records(codelet.cwd / "a")][-2:] == ["execution", "end"]
    assert records(codelet.cwd / "a")[-2]["status"] == "interrupted"


def test_the_verifier_says_where(codelet: Codelet) -> None:
    path = codelet.cwd / "audit.jsonl"
    log = AuditLog(path)
    for number in range(9_998):
        log.record("execution", call=str(number), tool="bash", status="done")
    log.close()
    whole = codelet("audit", "verify", "audit.jsonl", "--json")
    assert whole.exit == 0
    assert json.loads(whole.out)["records"] == 10_000
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4_000] + lines[4_001:]))
    broken = codelet("audit", "verify", "audit.jsonl")
    assert broken.exit == 5
    assert broken.out.startswith("line 4001: ") and "record 4000" in broken.out
    assert codelet("audit", "verify", "nowhere").exit == 2
    assert codelet("audit", "verify", "audit.jsonl", "--expect", "0").exit == 5


def test_two_writers_and_a_kill_do_no_harm(codelet: Codelet, model_server: ModelServer) -> None:
    calls = [Call(f"c{number}", "bash", {"command": f"echo {number}"}) for number in range(600)]

    def script(request: Recorded) -> Reply:
        if b"tool_call_id" in request.body:
            return Reply(text="x")
        return Reply(calls=calls if b"be killed" in request.body else calls[:60])

    model_server.script = script
    path = codelet.cwd / "audit.jsonl"

    def begin(prompt: str) -> Any:
        arguments = (*codelet.arguments, "-p", prompt, "--audit", "audit.jsonl")
        return start(*arguments, cwd=codelet.cwd, home=codelet.home, env=KEYS)

    victim = begin("be killed")
    until(lambda: any(executions(path).values()), "a call of the session to kill")
    first, second = begin("go"), begin("go")
    until(lambda: len(executions(path)) == 3, "the start of the others")
    stop(victim, signal.SIGKILL)
    for child in (first, second):
        child.communicate(timeout=PATIENCE)
        assert child.returncode == 0
    assert codelet("-p", "go", "--audit", "audit.jsonl").exit == 0
    assert codelet("audit", "verify", "audit.jsonl").exit == 5
    done = codelet("audit", "verify", "audit.jsonl", "--json", "--open")
    report = json.loads(done.out)
    assert done.exit == 0, report
    assert len(report["unclosed"]) == 1
    kinds = [one["kind"] for one in records(path)]
    assert kinds.count("end") == 3
    assert kinds.count("execution") > 3 * 60


@pytest.mark.needs("prlimit")
@pytest.mark.parametrize("size", [300, 600])
def test_a_full_disk_stops_the_call(codelet: Codelet, model_server: ModelServer, size: int) -> None:
    """With room for the first record or for none: a call whose verdict cannot be recorded does not run."""
    model_server.script = [Reply(calls=[Call("a", "bash", {"command": "touch made"})]), Reply(text="done")]
    command = ("env", "PYTHONDONTWRITEBYTECODE=1", "prlimit", f"--fsize={size}", *CODELET)
    done = codelet("-p", "go", "--yes", "--audit", "audit.jsonl", command=command)
    assert done.exit == 5
    assert "the audit file" in done.err
    assert "cannot be written" in done.err
    assert "Traceback" not in done.err
    assert not (codelet.cwd / "made").exists()


@pytest.mark.parametrize("way", ["deleted", "replaced"])
def test_a_file_that_is_taken_away_stops_the_calls(codelet: Codelet, model_server: ModelServer, way: str) -> None:
    wait = "touch begun; for i in $(seq 600); do [ -e go ] && break; sleep 0.05; done"
    commands = (wait, "touch made")
    model_server.script = [
        *(Reply(calls=[Call(str(n), "bash", {"command": command})]) for n, command in enumerate(commands)),
        Reply(text="done"),
    ]
    child = start(*codelet.arguments, "-p", "go", "--yes", "--audit", "a", cwd=codelet.cwd, home=codelet.home, env=KEYS)
    until((codelet.cwd / "begun").exists)
    if way == "replaced":  # as an editor saves
        (codelet.cwd / "b").write_bytes((codelet.cwd / "a").read_bytes())
        (codelet.cwd / "b").replace(codelet.cwd / "a")
    else:
        (codelet.cwd / "a").unlink()
    (codelet.cwd / "go").touch()
    error = child.communicate(timeout=PATIENCE)[1].decode()
    assert child.returncode == 5, error
    assert "the audit file" in error
    assert "deleted or replaced" in error
    assert "Traceback" not in error
    assert not (codelet.cwd / "made").exists()


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_missing_end_is_no_success(codelet: Codelet, model_server: ModelServer, output: str) -> None:
    """The file is removed before the record that closes it: the exit status says so, and what a format writes of it."""
    (codelet.cwd / "one.txt").write_text("1")

    def step(recorded: Recorded) -> Reply:
        if recorded.number == 0:
            return Reply(calls=[Call("a", "read", {"path": "one.txt"})])
        (codelet.cwd / "a").unlink()
        return Reply("done")

    model_server.script = step
    done = codelet("-p", "go", "--audit", "a", "--output-format", output)
    assert done.exit == 5, done.err
    assert done.err.count("deleted or replaced") == (output == "text")
    if output != "text":
        result = json.loads(done.out.splitlines()[-1])
        assert (result["exit"], result["result"]) == (5, "done")
        assert "deleted or replaced" in result["error"]


def test_only_a_regular_file_will_do(codelet: Codelet, model_server: ModelServer) -> None:
    model_server.script = [Reply(calls=[Call("a", "bash", {"command": "touch made"})]), Reply(text="done")]
    done = codelet("-p", "go", "--yes", "--audit", "/dev/full")
    assert done.exit == 2
    assert "no regular file" in done.err
    assert not (codelet.cwd / "made").exists()


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
def test_no_tool_and_no_confined_command_changes_it(
    codelet: Codelet, model_server: ModelServer, tmp_path: Path, way: str
) -> None:
    way_works(way)
    calls = [
        Call("a", "bash", {"command": "echo bad; : > audit.jsonl"}),
        Call("b", "bash", {"command": "rm -f audit.jsonl; mv audit.jsonl other; truncate -s 0 audit.jsonl"}),
        Call("c", "write", {"path": "audit.jsonl", "content": "x"}),
        Call("d", "edit", {"path": "./audit.jsonl", "edits": [{"old": "start", "new": "begin"}]}),
    ]
    model_server.script = [Reply(calls=calls), Reply(text="done")]
    codelet("-p", "go", "--mode", "auto", "--audit", "audit.jsonl", env={"PATH": path_for(way, tmp_path)})
    found = records(codelet.cwd / "audit.jsonl")
    assert [one["call"] for one in found if one["kind"] == "verdict"] == ["a", "b", "c", "d"]
    assert [one["action"] for one in found if one["kind"] == "verdict"][2:] == ["deny", "deny"]
    assert codelet("audit", "verify", "audit.jsonl").exit == 0
