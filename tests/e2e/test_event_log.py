"""`--log FILE`: what a session did, in JSON lines, without keys; the same figures in the JSON result and an export."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from codelet.providers.choice.breaker import FAILURES, PAUSE
from tests.e2e.conftest import Codelet
from tests.support.script import Call, HttpError, Reply

READ = Call("c1", "read", {"path": "app.py"})
KEY = "sk-proj-" + "Ab3" * 14


def logged(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_the_log_tells_requests_tools_retries_and_refusals_without_keys(codelet: Codelet, tmp_path: Path) -> None:
    calls = [READ, Call("c2", "write", {"path": "b.txt", "content": KEY}), Call("c3", "bash", {"command": f"ls {KEY}"})]
    codelet.server.script = [HttpError(503, "busy", retry_after=0), Reply(calls=calls), Reply("the answer")]
    file = tmp_path / "run.jsonl"
    words = ("-p", "go", "--log", str(file), "--output-format", "json", "--mode", "read-only")
    done = codelet(*words, "--log-level", "debug", env={"ACME_API_KEY": KEY})
    assert done.exit == 6, done.err
    lines = logged(file)
    names = [line["event"] for line in lines]
    assert names[0] == "session_start" and names[-1] == "session_end" and names.count("request") == 2
    assert all(line["time"].endswith("Z") and line["session"] == lines[0]["session"] for line in lines)
    assert file.stat().st_mode & 0o777 == 0o600 and KEY not in file.read_text()
    [retry] = [line for line in lines if line["event"] == "retry"]
    assert (retry["level"], retry["attempt"]) == ("warning", 2) and "busy" in retry["reason"]
    tools = {line["tool"]: line for line in lines if line["event"] == "tool"}
    assert tools["read"]["status"] == "done" and tools["read"]["seconds"] >= 0
    assert (tools["write"]["level"], tools["write"]["status"]) == ("warning", "refused")
    refused = [line for line in lines if line["event"] == "verdict" and line["level"] == "warning"]
    assert [line["tool"] for line in refused] == ["write"] and "read-only" in refused[0]["reason"]
    assert lines[-1]["requests"] == 2 and lines[-1]["retries"] == 1 and lines[-1]["request_seconds"] >= 0
    metrics: Any = done.json()["metrics"]
    assert (metrics["requests"], metrics["retries"], metrics["compactions"]) == (2, 1, 0)
    assert metrics["by_tool"]["write"]["denials"] == 1 and metrics["by_tool"]["read"]["calls"] == 1


def test_a_level_leaves_out_what_is_below_it_and_a_second_run_appends(codelet: Codelet, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    codelet.server.script = lambda request: Reply("the answer")
    for _ in range(2):
        assert codelet("-p", "go", "--log", str(file)).exit == 0
    names = [line["event"] for line in logged(file)]
    assert names.count("session_start") == names.count("session_end") == 2 and "step" not in names
    codelet.server.script = lambda request: HttpError(401, "no")
    quiet = tmp_path / "quiet.jsonl"
    assert codelet("-p", "go", "--log", str(quiet), "--log-level", "error").exit == 3
    [only] = logged(quiet)
    assert (only["event"], only["level"], only["reason"]) == ("turn_end", "error", "failed") and "no" in only["error"]


def test_a_circuit_that_opens_is_a_warning(codelet: Codelet, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    codelet.server.script = lambda request: HttpError(503, "busy", retry_after=0)
    assert codelet("-p", "go", "--log", str(file), "--log-level", "warning").exit == 3
    [opened] = [line for line in logged(file) if line["event"] == "circuit_open"]
    assert (opened["level"], opened["model"]) == ("warning", "openai/scripted")
    assert opened["failures"] >= FAILURES and 0 < opened["wait"] <= PAUSE


def test_a_log_that_cannot_be_written_is_told(codelet: Codelet, tmp_path: Path) -> None:
    codelet.server.script = [Reply("the answer")]
    for place in (tmp_path, tmp_path / "missing" / "x"):
        done = codelet("-p", "go", "--log", str(place))
        assert (done.exit, done.out) == (2, "") and str(place) in done.err
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert codelet("-p", "go", "--log", str(fifo)).exit == 2
    full = codelet("-p", "go", "--log", "/dev/full")
    assert (full.exit, full.out) == (0, "the answer\n"), full.err
    assert full.err.count("/dev/full") == full.err.count(os.strerror(errno.ENOSPC)) == 1
    assert not codelet.server.requests[1:]


@pytest.mark.parametrize("option", ["--log", "--audit", "--record", "--facts", "--export"])
@pytest.mark.parametrize("exists", [True, False])
def test_no_file_that_an_option_names_is_reached_through_a_link(
    codelet: Codelet, tmp_path: Path, option: str, exists: bool
) -> None:
    outside, link = tmp_path / "outside", codelet.cwd / "kept"
    if exists:
        outside.touch()
    link.symlink_to(outside)
    codelet.server.script = lambda request: Reply("the answer")
    done = codelet("-p", "go", option, "kept")
    assert (done.exit, done.out) == (2, ""), done.err
    assert (len(done.complaints) == 1 and "link" in done.err) or option in ("--record", "--export")
    assert outside.exists() is exists and (not exists or outside.read_bytes() == b"")


def test_the_log_goes_into_no_other_file(codelet: Codelet, tmp_path: Path) -> None:
    codelet.server.script = lambda request: Reply("the answer")
    other = codelet.cwd / "app.py"
    for text in (other.read_text(), "alias ls=true\n", '{"time": 1}\n'):
        other.write_text(text)
        done = codelet("-p", "go", "--log", "app.py")
        assert (done.exit, other.read_text()) == (2, text), done.err
    empty = tmp_path / "empty"
    empty.touch()
    assert codelet("-p", "go", "--log", str(empty)).exit == 0 and logged(empty)
    with (tmp_path / "errors").open("wb") as stream:
        done = codelet("-p", "go", "--log", "/dev/stdout", stdout=stream.fileno())
    assert done.exit == 0 and '"event": "session_start"' in (tmp_path / "errors").read_text()


def test_a_recording_that_becomes_a_link_meanwhile_is_not_followed(codelet: Codelet, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(before := b'{"steps": [\n]}\n')
    command = Call("c1", "bash", {"command": f"rm tape.json && ln -s {outside} tape.json"})
    codelet.server.script = [Reply(calls=[command]), Reply("done")]
    done = codelet("-p", "go", "--record", "tape.json", "--yes", "--sandbox", "off")
    assert done.exit == 3, done.err
    assert outside.read_bytes() == before


def test_no_tool_writes_the_log(codelet: Codelet) -> None:
    write = Call("c1", "write", {"path": "run.jsonl", "content": "forged\n"})
    codelet.server.script = [Reply(calls=[write]), Reply("done")]
    done = codelet("-p", "go", "--log", "run.jsonl", "--yes")
    assert done.exit == 6
    assert "forged" not in [line["event"] for line in logged(codelet.cwd / "run.jsonl")]


@pytest.mark.parametrize("calls", [[], [READ]])
def test_an_export_has_the_figures_also_of_a_run_without_calls(
    codelet: Codelet, tmp_path: Path, calls: list[Call]
) -> None:
    codelet.server.script = [*([Reply(calls=calls)] if calls else []), Reply("the answer")]
    file = tmp_path / "session.json"
    assert codelet("-p", "go", "--export", str(file)).exit == 0
    saved = json.loads(file.read_text())
    assert saved["metrics"]["requests"] == 1 + len(calls) and saved["metrics"]["request_seconds"] > 0
    assert saved["approvals"] == [] and list(saved["metrics"]["by_tool"]) == [call.name for call in calls]
