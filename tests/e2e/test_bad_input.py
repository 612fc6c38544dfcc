"""Bad input and bad surroundings: one line on stderr, the right exit code, no traceback, no hang."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import KEYS, Codelet, Wire
from tests.support import repo as repositories
from tests.support.amount import FULL
from tests.support.program import CODELET, Finished, environment, run
from tests.support.script import Body, Call, HttpError, Insert, Reply, Stop, StreamError, Tokens, redirect
from tests.support.server import ModelServer, closed_port, deaf_port
from tests.support.waiting import PATIENCE


def assert_one_line(done: Finished, status: int) -> str:
    """Exactly one line on stderr, no traceback, this exit status; the line."""
    assert done.exit == status, done.err
    assert "Traceback" not in done.err
    assert len(done.complaints) == 1, done.err
    assert "\x1b" not in done.err
    return done.complaints[0]


@pytest.mark.parametrize("prompt", ["", "   ", "\n\t"])
def test_an_empty_prompt(codelet: Codelet, prompt: str):
    assert "prompt" in assert_one_line(codelet("-p", prompt), 2)
    assert codelet.server.requests == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-flag"],
        ["--max-turns", "none"],
        ["--max-turns", "0"],
        ["--timeout", "-1"],
        ["--max-tokens", "0"],
        ["--output-format", "xml"],
        ["--tools", "read,telepathy"],
        ["--allow", "write(("],
        ["--api-base", "not an address"],
        ["--transport", "pigeon"],
    ],
)
def test_wrong_flags(codelet: Codelet, arguments: list[str]):
    assert assert_one_line(codelet("-p", "go", *arguments), 2)
    assert codelet.server.requests == []


def test_no_prompt_and_nothing_on_stdin(codelet: Codelet):
    assert "prompt" in assert_one_line(codelet(), 2)
    assert codelet.server.requests == []


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(codelet: Codelet, closed: str):
    codelet.server.script = [Reply("fine")]
    done = run(f'exec "$@" {closed}', "bash", *CODELET, *codelet.arguments, "-p", "go", **_bash(codelet))
    # Without a stdout nothing is asked at all: the answer would have nowhere to go.
    assert done.exit == (5 if " >&-" in f" {closed}" else 0), done.err
    assert done.out == ("" if " >&-" in f" {closed}" else "fine\n")
    assert "Traceback" not in done.err


def test_no_model_and_no_key_says_what_to_do(tmp_path: Path, home: Path):
    done = run("-p", "go", cwd=tmp_path, home=home)
    line = assert_one_line(done, 2)
    assert "--model" in line
    assert "API_KEY" in line


def test_a_hundred_megabytes_on_stdin_in_bounded_memory(codelet: Codelet, tmp_path: Path):
    codelet.server.script = [Reply("much", usage=Tokens(48_000)), Reply("little")]
    big = tmp_path / "big.log"
    line = b"2026-01-02 03:04:05 INFO something happened again and nobody looked\n"
    with big.open("wb") as file:
        for _ in range(100):
            file.write(line * (1_000_000 // len(line)))
    with big.open("rb") as file:
        done = codelet("-p", "what went wrong?", stdin=file, measure=True)
    assert done.exit == 5 and done.out == "much\n"
    assert len(done.complaints) == 3 and all(word in done.err for word in ("cut", "partial", "--allow-cut")), done.err
    assert done.peak_kib < 60_000
    assert len(codelet.server.requests[0].body) < 600_000
    pipe = subprocess.Popen(["cat", str(big)], stdout=subprocess.PIPE)
    done = codelet("-q", "--allow-cut", "-p", "what went wrong?", stdin=pipe.stdout, measure=True)
    assert pipe.stdout
    pipe.stdout.close()
    assert pipe.wait(10) == 0, "the pipe is read to its end"
    assert "bytes" in assert_one_line(done, 0)
    assert done.peak_kib < 60_000


@pytest.mark.parametrize(
    ("wire", "raw"),
    [
        ("openai", b"one\0two\n"),
        ("openai", b"\x80" * 1000),
        ("openai/responses", b"caf\xe9 \xff\xfe\0\n"),
        ("anthropic", os.urandom(5000)),
    ],
)
def test_nul_and_invalid_utf8_on_stdin(codelet: Codelet, wire: Wire, raw: bytes):
    codelet.wire = wire
    codelet.server.script = [Reply("ok")]
    done = codelet("-p", "look", stdin=raw)
    assert "stdin" in assert_one_line(done, 0)
    body = codelet.server.requests[0].body.decode("utf-8")
    assert "\0" not in body
    assert "\\u0000" not in body
    assert "\\ud" not in body.lower()


def test_invalid_utf8_in_the_prompt(codelet: Codelet):
    codelet.server.script = [Reply("ok")]
    command = [*CODELET, *codelet.arguments, "-p", b"caf\xe9?"]
    clean = environment(codelet.home, KEYS)
    done = subprocess.run(
        command, cwd=codelet.cwd, env=clean, stdin=subprocess.DEVNULL, capture_output=True, timeout=30
    )
    assert done.returncode in (0, 2), done.stderr
    assert b"Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    if done.returncode == 0:
        codelet.server.requests[0].body.decode("utf-8")


def test_a_reader_that_leaves_early(codelet: Codelet):
    codelet.server.script = [Reply(["one line\n"] * 20_000)]
    script = '"$@" | head -n 1; echo "status ${PIPESTATUS[0]}" >&2'
    done = run(script, "bash", *CODELET, *codelet.arguments, "-p", "go", **_bash(codelet))
    assert done.out == "one line\n"
    noted = done.complaints
    assert len(noted) == 1, done.err
    assert noted[0] in ("status 0", "status 141")


def _bash(codelet: Codelet) -> dict[str, object]:
    return {"command": ("bash", "-c"), "cwd": codelet.cwd, "home": codelet.home, "env": KEYS}


def test_a_full_disk_under_stdout(codelet: Codelet):
    codelet.server.script = [Reply("x" * 100)]
    script = '"$@" > /dev/full'
    done = run(script, "bash", *CODELET, *codelet.arguments, "-p", "go", **_bash(codelet))
    assert done.exit not in (0, None)
    assert "Traceback" not in done.err
    assert len(done.complaints) == 1, done.err


def test_no_home(codelet: Codelet):
    codelet.server.script = [Reply("fine")]
    done = codelet("-p", "go", env={"HOME": None})
    assert (done.exit, done.out, done.err) == (0, "fine\n", "")


def test_a_home_that_is_not_there_or_cannot_be_read(codelet: Codelet):
    codelet.server.script = lambda request: Reply("fine")
    for home in ("/nonexistent/home", "/dev/null"):
        done = codelet("-p", "go", env={"HOME": home})
        assert (done.exit, done.out) == (0, "fine\n"), done.err
        assert "Traceback" not in done.err


def test_no_git_program(codelet: Codelet, tmp_path: Path):
    codelet.server.script = [Reply("fine")]
    programs = tmp_path / "programs"
    programs.mkdir()
    done = codelet("-p", "go", env={"PATH": str(programs)})
    assert (done.exit, done.out) == (0, "fine\n")
    assert "Traceback" not in done.err
    assert len(done.complaints) <= 1, done.err


@pytest.mark.needs("git")
@pytest.mark.parametrize("state", ["unborn", "detached", "with_upstream", "with_submodule", "worktree"])
def test_every_state_of_a_repository(codelet: Codelet, tmp_path: Path, state: str):
    codelet.server.script = [Reply("fine")]
    folder = getattr(repositories, state)(tmp_path / state)
    done = codelet("-p", "go", cwd=folder)
    assert (done.exit, done.out, done.err) == (0, "fine\n", "")
    assert "gitStatus" in codelet.server.requests[0].body.decode()


def test_a_folder_that_is_no_repository(codelet: Codelet, tmp_path: Path):
    codelet.server.script = [Reply("fine")]
    folder = tmp_path / "empty"
    folder.mkdir()
    done = codelet("-p", "go", cwd=folder)
    assert (done.exit, done.out, done.err) == (0, "fine\n", "")


def test_a_broken_repository(codelet: Codelet):
    codelet.server.script = [Reply("fine")]
    (codelet.cwd / ".git" / "HEAD").write_bytes(b"\0garbage")
    done = codelet("-p", "go")
    assert (done.exit, done.out) == (0, "fine\n"), done.err
    assert "Traceback" not in done.err


def test_a_vanished_directory(codelet: Codelet, tmp_path: Path):
    codelet.server.script = [Reply("fine")]
    folder = tmp_path / "going"
    folder.mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    done = run(script, str(folder), *CODELET, *codelet.arguments, "-p", "go", **_bash(codelet))
    assert "folder" in assert_one_line(done, 2)


def test_a_directory_that_vanishes_during_the_turn(codelet: Codelet, tmp_path: Path):
    folder = tmp_path / "going"
    folder.mkdir()

    def script(request):
        if request.number == 0:
            shutil.rmtree(folder)
            return Reply(calls=[Call("r", "read", {"path": "x"}), Call("g", "grep", {"pattern": "x"})])
        return Reply("gone")

    codelet.server.script = script
    done = codelet("-p", "go", cwd=folder)
    assert (done.exit, done.out) == (0, "gone\n"), done.err
    assert "Traceback" not in done.err


def test_an_address_without_its_path_is_told_where_it_may_be(codelet: Codelet):
    codelet.server.script = lambda request: HttpError(404, "Not Found")
    for base, hint in ((codelet.server.base, f"{codelet.server.base}/v1?"), (codelet.server.openai, None)):
        done = codelet("-p", "go", "--api-base", base)
        line = assert_one_line(done, 3)
        assert "check --model and --api-base" in line
        assert "/v1?" not in line if hint is None else hint in line


def test_a_local_server_that_does_not_run_is_named(tmp_path: Path, home: Path):
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 8080)) == 0:
            pytest.skip("something listens on llama.cpp's port here")
    done = run("-p", "go", "--model", "llamafile/x", cwd=tmp_path, home=home, env={"CODELET_RETRIES": "0"})
    assert done.exit == 3
    assert "whether llama.cpp runs" in done.err


def test_an_unknown_model(codelet: Codelet):
    codelet.server.script = [HttpError(404, "The model `scripted` does not exist", "model_not_found")]
    assert "scripted" in assert_one_line(codelet("-p", "go"), 3)
    assert len(codelet.server.requests) == 1


def test_a_model_name_that_no_provider_knows(tmp_path: Path, home: Path):
    done = run("-p", "go", "--model", "no-such-vendor/no-such-model", cwd=tmp_path, home=home)
    assert done.exit in (2, 3)
    assert_one_line(done, done.exit)
    assert "no-such-vendor" in done.err


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key(codelet_on_each_wire: Codelet, status: int):
    codelet = codelet_on_each_wire
    codelet.server.script = [HttpError(status, "Incorrect API key provided: test-key")]
    line = assert_one_line(codelet("-p", "go"), 3)
    assert f"{codelet.wire.partition('/')[0].upper()}_API_KEY" in line
    assert "test-key" not in line
    assert len(codelet.server.requests) == 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"])
def test_a_dead_endpoint(codelet: Codelet, address: str):
    base = address.format(port=closed_port())
    done = codelet("-p", "go", "--api-base", base, env={"CODELET_RETRIES": "1"})  # the pauses grow
    *retries, last = done.complaints
    if "invalid" in base:  # no server on this machine, so there is a price, and nobody knows it
        assert "openai/scripted" in retries.pop(0)
    assert (done.exit, len(retries)) == (3, 1)
    assert base.split("/")[2].split(":")[0] in last
    assert all("again" in line for line in retries), done.err
    assert "Traceback" not in done.err


FAULTS = {
    "cut": Reply(["the begin", "ning ", "of it"], fault=Stop("cut", 4)),
    "reset": Reply(["the begin", "ning ", "of it"], fault=Stop("reset", 4)),
    "half-closed": Reply(["the begin", "ning ", "of it"], fault=Stop("half_close", 4)),
    "no finish marker": Reply(["the begin", "ning ", "of it"], fault=Stop("clean_end", 4)),
    "bad JSON": Reply(["the begin", "ning ", "of it"], fault=Insert(b"data: {nonsense\n\n", 4)),
    "bad UTF-8": Reply(["the begin", "ning ", "of it"], fault=Insert(b'data: {"a": "\xff\xfe"\n\n', 4)),
    "not an object": Reply(["the begin", "ning ", "of it"], fault=Insert(b"data: [1, 2]\n\n", 4)),
    "error event": Reply(["the begin", "ning ", "of it"], fault=StreamError("out of cards", "api_error", 4)),
}


def breaks() -> list[tuple[str, str]]:
    """Each fault on a wire; with `--full` on each."""
    wires = ("openai", "anthropic", "openai/responses")
    each = [(wires[place % len(wires)], name) for place, name in enumerate(FAULTS)]
    return [(wire, name) for wire in wires for name in FAULTS] if FULL else each


@pytest.mark.parametrize(("wire", "name"), breaks())
def test_a_stream_that_breaks_keeps_the_partial_text_and_is_a_failure(
    model_server: ModelServer, repo: Path, home: Path, wire: str, name: str
):
    codelet = Codelet(model_server, repo, home, wire)
    reply = FAULTS[name]
    if codelet.wire == "openai/responses" and reply.fault is not None:  # its first pieces of text come later
        reply = dataclasses.replace(reply, fault=dataclasses.replace(reply.fault, after=6))
    codelet.server.script = lambda request: reply
    retries = None if FULL else "1"  # all of them are waited for, a quarter of a minute
    done = codelet("-p", "go", "--output-format", "json", env={"CODELET_RETRIES": retries})
    assert done.exit == 3, (done.out, done.err)
    assert "Traceback" not in done.err
    result = done.json()
    assert (result["exit"], result["partial"]) == (3, True)
    assert result["error"]
    assert "the begin" in str(result["result"])


@pytest.mark.parametrize(
    "step",
    [
        Body(b"<html><h1>Welcome to the hotel Wi-Fi</h1></html>"),
        Body(b"{}", "application/json"),
        Body(b"\xff\xfe\x00garbage", "text/event-stream"),
        redirect("http://127.0.0.1:9/elsewhere"),
        HttpError(400, "bad request"),
        HttpError(500, body=b"<html>oops</html>", content_type="text/html", retry_after=0),
        HttpError(413, "too large"),
        Stop("cut"),
        Stop("reset"),
    ],
    ids=lambda step: f"{type(step).__name__}-{getattr(step, 'status', getattr(step, 'how', ''))}",
)
def test_answers_that_are_no_stream(codelet_on_each_wire: Codelet, step: object):
    codelet = codelet_on_each_wire
    codelet.server.script = lambda request: step
    done = codelet("-p", "go", env={"CODELET_RETRIES": "1"})
    assert done.exit == 3, (done.out, done.err)
    assert "Traceback" not in done.err
    assert done.complaints
    assert len(done.complaints[-1]) < 400
    assert len(codelet.server.requests) <= 2


def test_an_endless_line_is_bounded(codelet: Codelet):
    codelet.server.script = [Reply("x", fault=Insert(b"data: " + b"a" * 80_000_000, 1))]
    done = codelet("-p", "go", measure=True)
    assert done.exit == 3, done.err
    assert "Traceback" not in done.err
    assert done.peak_kib < 100_000


@pytest.mark.parametrize("after", [None, 0, 4])
def test_a_stalled_stream_ends_at_the_time_limit(codelet_on_each_wire: Codelet, after: int | None):
    codelet = codelet_on_each_wire
    codelet.server.script = [Reply(["the begin", "ning ", "of it"], fault=Stop("stall", after))]
    done = codelet("-p", "go", "--timeout", "1.5")
    assert done.exit == 4, done.err
    assert "Traceback" not in done.err
    assert codelet.server.requests[0].gone.wait(PATIENCE)


def test_what_the_pipe_took_of_the_time_limit_is_not_told_as_the_limit(codelet: Codelet):
    codelet.server.script = [Reply("x", fault=Stop("stall", 0))]
    line = "(sleep 0.4; echo slow) | " + '"$@"'
    done = codelet("-p", "go", "--timeout", "1.5", command=("bash", "-c", line, "bash", *CODELET))
    assert done.exit == 4 and "1.5 s" in done.complaints[-1] and "--timeout" in done.complaints[-1]


@pytest.mark.parametrize("after", [None, 0, 4])
def test_a_stalled_stream_ends_at_its_deadline(codelet_on_each_wire: Codelet, after: int | None):
    """Without --timeout: the deadlines for the first token and between chunks."""
    codelet = codelet_on_each_wire
    at = 5 if after and codelet.wire == "openai/responses" else after  # its first piece of text comes later
    codelet.server.script = lambda request: Reply(["the begin", "ning of it"], fault=Stop("stall", at))
    deadlines = {"CODELET_FIRST_TOKEN_TIMEOUT": "1", "CODELET_CHUNK_TIMEOUT": "1", "CODELET_RETRIES": "0"}
    done = codelet("-p", "go", env=deadlines)
    assert done.exit == 3, done.err
    assert "Traceback" not in done.err
    assert len(done.complaints) == (2 if after else 1), done.err
    assert "partial" in done.complaints[0] or not after
    assert done.out.startswith("the begin" if after else "")
    assert codelet.server.requests[0].gone.wait(PATIENCE)


def test_an_endpoint_that_does_not_take_the_connection(codelet: Codelet):
    with deaf_port() as port:
        base = f"http://127.0.0.1:{port}/v1"
        deadlines = {"CODELET_CONNECT_TIMEOUT": "1", "CODELET_RETRIES": "0"}
        done = codelet("-p", "go", "--api-base", base, env=deadlines)
    assert "127.0.0.1" in assert_one_line(done, 3)


def _write_then_answer(size: int) -> list[Reply]:
    write = Call("w", "write", {"path": "app.py", "content": "x = 1\n" * size})
    return [Reply(calls=[Call("r", "read", {"path": "app.py"})]), Reply(calls=[write]), Reply("It failed.")]


def test_a_disk_that_fills_while_a_tool_writes_leaves_the_old_file(codelet: Codelet, tmp_path: Path):
    """A file size limit: the write fails half way, as it does on a full disk."""
    codelet.server.script = _write_then_answer(20_000)
    before = sorted(path.name for path in codelet.cwd.iterdir())
    arguments = [*codelet.arguments, "-p", "go", "--yes", "--output-format", "stream-json"]
    small_files = 'ulimit -f 16; export PYTHONDONTWRITEBYTECODE=1; exec "$@"'
    done = run(small_files, "bash", *CODELET, *arguments, **_bash(codelet))
    assert done.exit == 0, done.err
    statuses = [event["status"] for event in done.lines() if event["type"] == "tool_result"]
    assert statuses == ["done", "failed"]
    assert (codelet.cwd / "app.py").read_text() == "print('hello')\n"
    assert sorted(path.name for path in codelet.cwd.iterdir()) == before


def test_a_file_system_without_room_leaves_the_old_file(codelet: Codelet, tmp_path: Path):
    codelet.server.script = _write_then_answer(20_000)
    small = tmp_path / "small"
    small.mkdir()
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    inside = 'mount -t tmpfs -o size=64k tmpfs "$0" && cd "$0" && echo old > app.py && '
    probe = subprocess.run([*mount, inside + "true", str(small)], capture_output=True)
    if probe.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    arguments = [*codelet.arguments, "-p", "go", "--yes", "--output-format", "stream-json"]
    look = '"$@"; echo "status $?"; cat app.py; ls -A'
    options = _bash(codelet) | {"command": (*mount, inside + look, str(small))}
    done = run(sys.executable, "-m", "codelet", *arguments, **options)
    *events, status, content, listing = done.out.splitlines()
    assert (status, content, listing) == ("status 0", "old", "app.py"), done.err
    assert '"failed"' in "".join(events)
