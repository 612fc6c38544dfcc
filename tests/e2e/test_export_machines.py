"""Two processes hand one session over in mid-work, through a real Redis."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet.errors import SessionHeld
from codelet.export.decode import from_json
from codelet.export.store_target import open_place
from tests.e2e.conftest import KEYS, Codelet
from tests.e2e.test_export import LOOK, keep, said
from tests.e2e.test_export_repl import WIDE, leave
from tests.export.redis_server import RedisServer
from tests.support.program import start, stop
from tests.support.recorded import ask
from tests.support.script import Reply, Stop
from tests.support.waiting import PATIENCE, Neighbour, at_rest, until

pytestmark = pytest.mark.needs("redis-server")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis", password="open-sesame-please")
    yield server
    server.close()


def address(server: RedisServer) -> str:
    return f"redis://:open-sesame-please@127.0.0.1:{server.port}/0/work?lease=1s"


def is_free(url: str) -> bool:
    """Whether nobody holds the session any more."""
    place, _, name = url.partition("?")[0].rpartition("/")
    try:
        open_place(place).lock(name).release()
    except SessionHeld:
        return False
    return True


def in_mid_work(codelet: Codelet, url: str) -> subprocess.Popen[bytes]:
    """A process whose second step hangs."""
    later = [Reply("It prints hello."), Reply("It is Python.")]
    codelet.server.script = [Reply("Looking.", calls=[LOOK]), Stop("stall", None), *later]
    child = start(*codelet.arguments, "-p", "what is it?", *keep(url), cwd=codelet.cwd, home=codelet.home, env=KEYS)
    codelet.server.wait_for(2)
    at_rest(child.pid)
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_session_is_handed_over_in_mid_work(codelet: Codelet, redis: RedisServer, number: signal.Signals):
    url = address(redis)
    child = in_mid_work(codelet, url)
    try:
        held = codelet("-p", "continue", *keep(url))
        assert (held.exit, held.out, len(held.complaints)) == (2, "", 1), held.err
        assert str(child.pid) in held.err
        assert "sesame" not in held.err
    finally:
        _, err = stop(child, number)
    assert b"Traceback" not in err
    assert b"sesame" not in err
    if number == signal.SIGKILL:
        until(lambda: is_free(url), "the end of its lease")
    more = codelet("-p", "continue", *keep(url))
    assert (more.exit, more.out) == (0, "It prints hello.\n"), more.err
    assert said(codelet.server.requests[2]) == said(codelet.server.requests[1])
    last = codelet("-p", "and the language?", *keep(url))
    assert (last.exit, last.out) == (0, "It is Python.\n"), last.err


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_redis_that_hangs_can_be_left(codelet: Codelet, redis: RedisServer, form: str):
    codelet.server.script = lambda request: (redis.signal(signal.SIGSTOP), Reply("The answer."))[1]
    arguments = [*codelet.arguments, "-p", "go", *keep(address(redis)), "--output-format", form]
    child = start(*arguments, cwd=codelet.cwd, home=codelet.home, env=KEYS)
    try:
        codelet.server.wait_for(1).done.wait(PATIENCE)
        at_rest(child.pid)
        with Neighbour() as clock:
            for _ in range(2):
                child.send_signal(signal.SIGTERM)
                time.sleep(0.3)  # clock: so that two signals do not become one
            out, err = child.communicate(timeout=PATIENCE)
        assert clock.passed < 5
    finally:
        stop(child)
        redis.signal(signal.SIGCONT)
    assert child.returncode == 143, err
    assert b"The answer." in out
    assert b"before the session was saved" in out + err
    assert b"Traceback" not in err
    if form == "json":
        result = json.loads(out)
        assert (result["result"], result["partial"], result["exit"]) == ("The answer.", False, 143)


@pytest.mark.long
def test_a_redis_that_hangs_does_not_hang_the_prompt(codelet: Codelet, redis: RedisServer):
    url = address(redis)
    codelet.server.script = lambda request: Reply(f"Answer {request.number + 1}.")
    with codelet.terminal(*keep(url), **WIDE) as terminal:
        ask(terminal, "one", "Answer 1.")
        terminal.settle(0.5)
        redis.signal(signal.SIGSTOP)
        ask(terminal, "two", "Answer 2.")
        with Neighbour() as clock:
            ask(terminal, "three", "Answer 3.")
            ask(terminal, "/usage", "3 turns")
        assert clock.passed < 5
        time.sleep(5.5)  # clock: its patience with the store is 5 s
        ask(terminal, "four", "Answer 4.")
        terminal.wait_for("no answer")
        terminal.settle(0.3)
        assert terminal.text.count("no answer") == 1
        redis.signal(signal.SIGCONT)
        leave(terminal)
        assert "sesame" not in terminal.scrollback
    stored = open_place(url.replace("/work?lease=1s", "")).load("work")
    assert stored is not None
    answers = [m["content"] for m in from_json(stored.data).messages if m["role"] == "assistant"]
    assert answers == [f"Answer {number}." for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("way", ["waited for", "ctrl-c", "SIGTERM"])
def test_a_redis_that_hangs_at_the_exit(codelet: Codelet, redis: RedisServer, way: str):
    url = address(redis)
    codelet.server.script = lambda request: Reply(f"Answer {request.number + 1}.")
    with codelet.terminal(*keep(url), **WIDE) as terminal:
        ask(terminal, "one", "Answer 1.")
        terminal.settle(0.5)
        redis.signal(signal.SIGSTOP)
        ask(terminal, "two", "Answer 2.")
        terminal.settle(0.3)
        if way == "SIGTERM":
            terminal.signal(signal.SIGTERM)
        else:
            terminal.line("/exit")
        terminal.wait_for("ctrl-c leaves")
        if way == "waited for":
            redis.signal(signal.SIGCONT)
            assert terminal.wait_exit() == 0
            assert "redis://" in terminal.text
            return
        if way == "SIGTERM":
            terminal.signal(signal.SIGTERM)
        else:
            terminal.type("\x03")
        assert terminal.wait_exit() == (143 if way == "SIGTERM" else 2)
        assert "Traceback" not in terminal.text
    redis.signal(signal.SIGCONT)


def test_a_redis_that_dies_costs_no_answer(codelet: Codelet, redis: RedisServer):
    url = address(redis)
    codelet.server.script = lambda request: (redis.kill(), Reply("The answer."))[1]
    done = codelet("-p", "go", *keep(url))
    assert (done.exit, done.out) == (2, "The answer.\n"), done.err
    assert "cannot be reached" in done.err
    assert "sesame" not in done.err
    redis.start()
    codelet.server.script = lambda request: Reply("Again.")
    again = codelet("-p", "go", *keep(url))
    assert (again.exit, again.out) == (0, "Again.\n"), again.err


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_redis_that_hangs_at_the_end_of_a_one_shot(
    codelet: Codelet, redis: RedisServer, form: str, number: signal.Signals
):
    codelet.server.script = lambda request: (redis.signal(signal.SIGSTOP), Reply("The answer."))[1]
    arguments = [*codelet.arguments, "-p", "go", "--output-format", form, *keep(address(redis))]
    child = start(*arguments, cwd=codelet.cwd, home=codelet.home, env=KEYS)
    try:
        codelet.server.wait_for(1)
        time.sleep(1.5)  # clock: so that it has come to the store
        assert child.poll() is None, "it waits for the store"
        with Neighbour() as clock:
            child.send_signal(number)
            out, err = child.communicate(timeout=PATIENCE)
        assert clock.passed < 5
    finally:
        redis.signal(signal.SIGCONT)
        child.kill()
    status = {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    unsaved = "stopped before the session was saved for the last time"
    assert child.returncode == status
    if form == "text":
        assert out == b"The answer.\n"
        assert err.decode().splitlines()[-1] == f"codelet: {unsaved}"
    else:
        whole = json.loads(out)
        assert (whole["result"], whole["partial"], whole["exit"]) == ("The answer.", False, status)
        assert whole["error"].endswith(f"; {unsaved}")
