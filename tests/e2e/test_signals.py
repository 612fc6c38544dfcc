"""Signals to a one-shot run, and a pipe that stays silent."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from tests.e2e.conftest import KEYS, Codelet
from tests.support.program import CODELET, descendants, environment, processes_with, start, stop
from tests.support.script import Call, Reply, Stop
from tests.support.waiting import PATIENCE, Neighbour, at_rest, until

SLEEP = f"sleep 4712.{os.getpid()}"
EXITS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


@pytest.mark.parametrize("number", EXITS)
def test_a_signal_while_a_tool_runs_kills_the_tool_and_prints_the_partial_result(codelet: Codelet, number: int):
    call = Call("b", "bash", {"command": f"(setsid {SLEEP} &); {SLEEP}"})
    codelet.server.script = [Reply("I will wait. ", calls=[call])]
    arguments = [*codelet.arguments, "-p", "go", "--yes", "--output-format", "json"]
    child = start(*arguments, cwd=codelet.cwd, home=codelet.home, env=KEYS)
    try:
        until(lambda: len(processes_with(SLEEP.split()[1])) >= 2)
        with Neighbour() as clock:
            child.send_signal(number)
            out, err = child.communicate(timeout=PATIENCE)
        assert clock.passed < 3
    finally:
        stop(child)
    assert child.returncode == EXITS[number], err
    assert b"Traceback" not in err
    result = json.loads(out)
    assert (result["exit"], result["partial"], result["result"]) == (EXITS[number], True, "I will wait. ")
    until(lambda: not processes_with(SLEEP.split()[1]))


@pytest.mark.parametrize("number", EXITS)
@pytest.mark.parametrize("after", [None, 3])
def test_a_signal_while_the_model_speaks(codelet: Codelet, number: int, after: int | None):
    codelet.server.script = [Reply(["I think", " that"], fault=Stop("stall", after))]
    child = start(*codelet.arguments, "-p", "go", cwd=codelet.cwd, home=codelet.home, env=KEYS)
    try:
        request = codelet.server.wait_for(1)
        if after:
            assert request.started.wait(PATIENCE)
        at_rest(child.pid)
        until(lambda: not descendants(child.pid), "the end of git")
        child.send_signal(number)
        out, err = child.communicate(timeout=PATIENCE)
    finally:
        stop(child)
    assert child.returncode == EXITS[number], err
    assert b"Traceback" not in err
    assert out.startswith(b"I think that" if after else b"")
    assert request.gone.wait(PATIENCE)


@pytest.mark.parametrize("feeder", ["exec sleep 3600", "exec yes", "exec cat /dev/zero"])
@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
def test_a_pipe_that_never_ends_is_left_at_the_time_limit(codelet: Codelet, feeder: str, output_format: str):
    with subprocess.Popen(["sh", "-c", feeder], stdout=subprocess.PIPE) as fed:
        arguments = ["-p", "what is it?", "--timeout", "1", "--output-format", output_format]
        done = codelet(*arguments, stdin=fed.stdout, measure=True)
        fed.kill()
    assert done.exit == 4
    assert codelet.server.requests == []
    assert done.peak_kib < 60_000
    if output_format == "text":
        assert (done.out, done.err.count("\n")) == ("", 1)
        assert "--timeout" in done.err
        return
    said = json.loads(done.out)
    assert (said["partial"], said["exit"], said["result"]) == (True, 4, "")
    assert "--timeout" in said["error"]
    assert said.get("reason", "limit") == "limit"


def test_what_the_pipe_takes_counts_against_the_time_limit(codelet: Codelet):
    codelet.server.script = [Reply("never seen", fault=Stop("stall", after=0))]
    with subprocess.Popen(["sh", "-c", "sleep 2; echo news"], stdout=subprocess.PIPE) as fed, Neighbour() as clock:
        done = codelet("-p", "what is it?", "--timeout", "4", stdin=fed.stdout)
    assert done.exit == 4, done.err
    assert clock.waited > 3.5
    assert clock.passed < 5.9


def test_a_pipe_that_stalls_after_its_beginning_is_named_too(codelet: Codelet):
    codelet.server.script = [Reply("seen")]
    with subprocess.Popen(["sh", "-c", "echo begun; sleep 3"], stdout=subprocess.PIPE) as fed:
        done = codelet("-p", "what is it?", stdin=fed.stdout)
    assert (done.exit, done.out) == (0, "seen\n")
    assert "stdin" in done.err


def test_a_silent_pipe_is_named_and_then_read_to_its_end(codelet: Codelet):
    codelet.server.script = [Reply("seen")]
    command = [*CODELET, *codelet.arguments, "-p", "what is it?"]
    pipe = subprocess.PIPE
    clean = environment(codelet.home, KEYS)
    child = subprocess.Popen(command, cwd=codelet.cwd, env=clean, stdin=pipe, stdout=pipe, stderr=pipe)
    assert child.stderr
    assert child.stdin
    try:
        with Neighbour() as clock:
            line = child.stderr.readline().decode()
        assert clock.waited > 1.5
        assert clock.passed < 6
        assert "stdin" in line
        assert "/dev/null" in line
        assert codelet.server.requests == []
        out, err = child.communicate(b"late news", timeout=PATIENCE)
    finally:
        child.kill()
        child.communicate()
    assert (child.returncode, out, err) == (0, b"seen\n", b"")
    assert "late news" in codelet.server.requests[0].body.decode()
