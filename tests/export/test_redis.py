"""Redis: leases, time to live, two machines, a server that dies."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from codelet.errors import ExportError, SaveConflict, SessionHeld, StoreUnreachable
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.encode import to_json
from codelet.export.live import read_export
from codelet.export.saver import Saver
from codelet.export.store_target import is_url, open_place, open_target
from codelet.export.stores.store import Store
from codelet.frontends.commands.session_commands import add_arguments, run_sessions
from codelet.redis_store.redis import RedisLease, parse_address
from codelet.redis_store.scripts import lock_key, session_key
from tests.export import material
from tests.export.redis_server import RedisServer
from tests.support.program import ROOT
from tests.support.waiting import until

pytestmark = pytest.mark.needs("redis-server")


def parts(number: int) -> list[bytes]:
    return [to_json(material.numbered(number), mask=None)]


def hold(store: Store, name: str) -> RedisLease:
    lease = store.lock(name)
    assert isinstance(lease, RedisLease)
    return lease


def hold_once_free(store: Store, name: str) -> RedisLease:
    def held() -> RedisLease | None:
        with suppress(SessionHeld):
            return hold(store, name)
        return None

    return until(held, "the end of the lease")


def test_a_lease_expires_when_its_holder_is_gone_and_the_old_holder_saves_nothing(redis_server: RedisServer) -> None:
    store = open_place(f"{redis_server.url}?lease=1")
    old = hold(store, "lease")
    first = store.save("lease", parts(1), lease=old, expected=None)
    new = hold_once_free(store, "lease")
    assert not old.renew()
    with pytest.raises(SaveConflict, match="in use by"):
        store.save("lease", parts(2), lease=old, expected=first)
    store.save("lease", parts(3), lease=new, expected=first)
    new.release()
    with pytest.raises(SaveConflict, match="another process changed it"):
        store.save("lease", parts(4), lease=old, expected=first)
    stored = store.load("lease")
    assert stored is not None
    assert stored.data == parts(3)[0]


def test_releasing_an_expired_lease_does_not_release_the_next_holders(redis_server: RedisServer) -> None:
    store = open_place(f"{redis_server.url}?lease=1")
    old = hold(store, "release")
    new = hold_once_free(store, "release")
    old.release()
    with pytest.raises(SessionHeld):
        store.lock("release")
    new.release()


async def test_a_quiet_session_keeps_its_lease(redis_server: RedisServer) -> None:
    saver = await Saver.open(open_target(f"{redis_server.url}/quiet?lease=1"), mask=None)
    await asyncio.sleep(2.2)  # clock: twice as long as its lease
    with pytest.raises(SessionHeld):
        open_place(redis_server.url).lock("quiet")
    saver.save(material.numbered(1))
    await saver.close()
    assert saver.notices.take() == []


def test_what_is_not_saved_again_is_gone_after_its_time_to_live(redis_server: RedisServer) -> None:
    for ttl, expected in (("3s", 3_000), ("0", -1), ("30d", 30 * 86_400_000)):
        store = open_place(f"{redis_server.url}?ttl={ttl}")
        lease = store.lock(f"ttl-{expected}")
        store.save(f"ttl-{expected}", parts(1), lease=lease, expected=None)
        lease.release()
        with redis.Redis(port=redis_server.port) as client:
            left = client.pttl(f"codelet:{{ttl-{expected}}}:session")
        assert left == expected or expected - 2_000 < left <= expected


def test_very_many_sessions_are_asked_for_at_once(redis_server: RedisServer) -> None:
    def reads(client: redis.Redis) -> int:
        return int(client.info("stats")["total_reads_processed"])

    with redis.Redis(port=redis_server.port, db=3) as client:
        client.flushdb()
        with client.pipeline(transaction=False) as together:
            for number in range(3_000):
                together.hset(session_key(f"n{number}"), mapping={"size": number, "saved": number})
            together.execute()
        before = reads(client)
        entries = open_place(f"redis://127.0.0.1:{redis_server.port}/3").entries()
        assert [entry.name for entry in entries] == [f"n{number}" for number in reversed(range(3_000))]
        assert reads(client) - before < 300
        client.flushdb()


def test_a_save_whose_answer_was_lost_is_not_taken_for_somebody_elses(redis_server: RedisServer) -> None:
    """The script ran, but its answer never came: the next save must find its own work and go on."""
    store = open_place(redis_server.url)
    lease = store.lock("lost")
    before = store.save("lost", parts(1), lease=lease, expected=None)
    store.save("lost", parts(2), lease=lease, expected=before)  # made, but the caller never learns its revision
    after = store.save("lost", parts(3), lease=lease, expected=before)
    assert store.revision("lost") == after
    lease.release()


MACHINE = """
import asyncio, sys
from codelet.errors import ExportError
from codelet.export.live import read_export
from codelet.export.saver import Saver
from codelet.export.document import Document
from codelet.messages import user

async def main(url, letter):
    try:
        resumed = await read_export(url)
        snapshot, revision = resumed.snapshot, resumed.revision
    except ExportError:
        snapshot, revision = Document(timestamp=0.0, token_count=0, messages=()), None
    from codelet.export.store_target import open_target
    saver = await Saver.open(open_target(url), mask=None, resumed=revision)
    for number in range(5):
        snapshot = snapshot.replace(messages=(*snapshot.messages, user(f"{letter}{number}")))
        saver.save(snapshot)
        await saver.settle()
    if letter != "A":
        await saver.close()
    print("saved", flush=True)
    await asyncio.to_thread(sys.stdin.readline)  # its lease is renewed meanwhile

asyncio.run(main(*sys.argv[1:]))
"""


def test_distributed_session_store_hands_a_session_over_in_mid_work(redis_server: RedisServer) -> None:
    """The first dies with its work saved; once its lease has expired the second goes on where it was."""
    url = f"{redis_server.url}/handover?lease=1"
    words = [sys.executable, "-c", MACHINE, url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def second_machine() -> subprocess.CompletedProcess[str]:
        return subprocess.run([*words, "B"], cwd=ROOT, input="\n", capture_output=True, text=True, check=False)

    with subprocess.Popen([*words, "A"], cwd=ROOT, **pipes) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == "saved\n"
            early = second_machine()
            assert f"process {first.pid} on" in early.stderr
        finally:
            first.kill()
    until(lambda: (done := second_machine()).returncode == 0 and done, "the end of the lease")
    stored = open_place(redis_server.url).load("handover")
    assert stored is not None
    assert [m["content"] for m in from_json(stored.data).messages] == [f"{m}{n}" for m in "AB" for n in range(5)]


@pytest.mark.parametrize("durable", [True, False])
async def test_a_server_that_is_killed_and_restarted_loses_no_work_silently(tmp_path: Path, durable: bool) -> None:
    server = RedisServer(tmp_path / "data", durable=durable)
    try:
        saver = await Saver.open(open_target(f"{server.url}/work"), mask=None)
        saver.save(material.numbered(1, 300_000))
        await saver.settle()
        saver.save(material.numbered(2, 3_000_000))
        server.kill()
        await saver.settle()
        saver.save(material.numbered(3, 3_000_000))
        await saver.settle()
        told = saver.notices.take()
        assert saver.problem is not None
        assert told
        assert all("\n" not in line for line in told)
        server.start()
        saver.save(material.numbered(4, 3_000_000))
        await saver.close()
        assert saver.problem is None
        assert saver.target.name == "work"
        resumed = await read_export(f"{server.url}/work")
        assert resumed.snapshot == material.numbered(4, 3_000_000)
    finally:
        server.close()


async def test_a_server_that_stays_away_is_an_error_at_the_end(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "data")
    try:
        saver = await Saver.open(open_target(f"{server.url}/work"), mask=None)
    finally:
        server.close()
    saver.save(material.numbered(1))
    with pytest.raises(ExportError, match="cannot be reached"):
        await saver.close()


async def test_somebody_elses_work_after_a_restart_is_not_overwritten(tmp_path: Path) -> None:
    """The server forgot all, another machine began anew under the name: both keep their work."""
    server = RedisServer(tmp_path / "data")
    try:
        saver = await Saver.open(open_target(f"{server.url}/work"), mask=None)
        saver.save(material.numbered(1))
        await saver.settle()
        server.kill()
        server.start()
        other = open_place(server.url)
        lease = other.lock("work")
        other.save("work", parts(50), lease=lease, expected=None)
        saver.save(material.numbered(2))
        await saver.close()
        assert len(saver.notices.take()) == 1
        assert (await read_export(f"{server.url}/work")).snapshot == material.numbered(50)
        assert (await read_export(saver.target.shown)).snapshot == material.numbered(2)
    finally:
        server.close()


async def test_passwords_are_used_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = RedisServer(tmp_path / "data", password="hunter2hunter2")
    try:
        address = f"127.0.0.1:{server.port}/0/x"
        saver = await Saver.open(open_target(f"redis://:hunter2hunter2@{address}"), mask=None)
        saver.save(Document(timestamp=1.0, token_count=1, messages=()))
        await saver.close()
        assert "hunter2" not in saver.target.shown
        for wrong in (f"redis://:wrong-word@{address}", f"redis://{address}"):
            with pytest.raises(ExportError) as caught:
                await read_export(wrong)
            assert "wrong-word" not in str(caught.value)
            assert "hunter2" not in str(caught.value)
            assert "CODELET_REDIS_PASSWORD" in str(caught.value)
        monkeypatch.setenv("CODELET_REDIS_PASSWORD", "hunter2hunter2")
        assert (await read_export(f"redis://{address}")).snapshot.token_count == 1
    finally:
        server.close()


def test_addresses() -> None:
    whole = parse_address("rediss://me:p%40ss@[::1]:7000/3/my-work.1?ttl=12h&lease=90", {})
    assert (whole.tls, whole.user, whole.password, whole.host, whole.port) == (True, "me", "p@ss", "::1", 7000)
    assert (whole.database, whole.name, whole.ttl, whole.lease) == (3, "my-work.1", 43_200, 90)
    assert whole.shown == "rediss://[::1]:7000/3"
    bare = parse_address("redis://host/work", {"CODELET_REDIS_PASSWORD": "x"})
    assert (bare.host, bare.port, bare.database, bare.name, bare.password) == ("host", 6379, 0, "work", "x")
    for wrong in ("redis://h:99999/x", "redis://h/0/a/b", "redis://h/a b", "redis://h/a?x=1", "redis://h/a?ttl=soon"):
        with pytest.raises(ExportError):
            parse_address(wrong, {})
    for wrong in ("redis:user:PASS@h/1", "REDIS://user:a/PASS@h/1", "redis://h/1#PASS", "redis://:a#PASS@h/1"):
        assert is_url(wrong)
        with pytest.raises(ExportError) as caught:
            parse_address(wrong, {})
        assert "PASS" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", "abc"),
        ("size", "9" * 5_000),
        ("saved", "x"),
        ("saved", "nan"),
        ("saved", "inf"),
        ("saved", "-1e18"),
        ("revision", b"\xff\xfe"),
    ],
)
def test_one_broken_value_hides_no_other_session(
    redis_server: RedisServer, capsys: pytest.CaptureFixture[str], field: str, value: str | bytes
) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    store = open_place(redis_server.url)
    for number, name in enumerate(("good", "bad")):
        lease = store.lock(name)
        store.save(name, parts(number), lease=lease, expected=None)
        lease.release()
    with redis.Redis.from_url(redis_server.url) as client:
        client.hset(session_key("bad"), field, value)
        client.set(session_key("text"), "x")
        client.rpush(lock_key("text"), "x")
        client.hset(b"codelet:{\xff\x1b}:session", mapping={"size": 1, "saved": 1})
    options = argparse.ArgumentParser()
    add_arguments(options)
    assert run_sessions(options.parse_args(["list", redis_server.url, "--json"])) == 0
    rows = {row["name"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert run_sessions(options.parse_args(["list", redis_server.url])) == 0
    assert run_sessions(options.parse_args(["prune", redis_server.url, "--older-than", "1d"])) == 0
    assert "kept: " in capsys.readouterr().err
    assert rows["good"]["messages"] >= 0
    assert "something else" in rows["text"]["problem"]
    assert rows["codelet:{\\xff\x1b}:session"]["problem"].endswith("UTF-8")
    assert ("problem" in rows["bad"]) == (field != "revision")


def test_without_the_extra_one_line_says_how_to_install_it() -> None:
    script = (
        "import sys; sys.modules['redis'] = None\n"
        "from codelet.export.store_target import open_target\n"
        "from codelet.errors import ExportError\n"
        "try: open_target('redis://127.0.0.1/x')\n"
        "except ExportError as error: print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    [line] = result.stdout.splitlines()
    assert line.startswith("redis://") and line.endswith("pip install 'codelet-repl[redis]'")
    assert result.stderr == ""


def test_nobody_there_is_one_line() -> None:
    with pytest.raises(StoreUnreachable, match="cannot be reached") as caught:
        open_place("redis://127.0.0.1:1/0").entries()
    assert "\n" not in str(caught.value)


def test_no_module_imports_the_store_by_name_and_paths_do_not_load_it() -> None:
    script = (
        "import sys\n"
        "from codelet.export.store_target import open_target\n"
        "import codelet.export.live, codelet.export.saver, codelet.frontends.exporting\n"
        "import codelet.frontends.commands.session_commands\n"
        "open_target('work.json')\n"
        "before = [name for name in sys.modules if name.startswith(('codelet.redis_store', 'redis'))]\n"
        "store = open_target('redis://localhost/work').store\n"
        "print(before, type(store).__module__)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[] codelet.redis_store.redis\n"
