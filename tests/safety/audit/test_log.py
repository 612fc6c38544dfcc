"""The audit file: whole after use, two writers and a kill; every tampering is found at its place."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.safety.audit import AuditError, AuditLog, AuditReport, canonical, record_hash, verify
from tests.support.amount import FULL
from tests.support.program import CODELET
from tests.support.waiting import PATIENCE, until

RECORDS = 10_000
TAMPERINGS = 200


def written(path: Path, count: int) -> list[bytes]:
    log = AuditLog(path)
    for number in range(count - 2):
        log.record("execution", tool="bash", command=f"ls {number} é", exit=0)
    log.close()
    return path.read_bytes().split(b"\n")[:-1]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    return written(tmp_path_factory.mktemp("audit") / "audit.jsonl", RECORDS)


def report_of(path: Path, lines: list[bytes]) -> AuditReport:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return verify(path)


def test_a_long_file_is_whole(tmp_path: Path, lines: list[bytes]) -> None:
    report = report_of(tmp_path / "a", lines)
    assert (report.records, report.problems, report.unclosed) == (RECORDS, (), ())
    assert json.loads(lines[-1])["hash"] == report.last_hash


def tampered(lines: list[bytes], source: random.Random) -> tuple[list[bytes], int]:
    """The lines after one tampering, and the line (from 1) where it should be found."""
    at = source.randrange(len(lines))
    kind = source.choice(["change", "remove", "add", "move"])
    if kind == "change":
        line = lines[at]
        where = source.randrange(len(line))
        changed = line[:where] + bytes([line[where] ^ 1]) + line[where + 1 :]
        return [*lines[:at], changed.replace(b"\n", b"?"), *lines[at + 1 :]], at + 1
    if kind == "remove":
        return lines[:at] + lines[at + 1 :], at + 1
    if kind == "add":
        return [*lines[:at], source.choice(lines), *lines[at:]], at + 1
    to = source.choice([place for place in range(len(lines)) if place != at])
    rest = lines[:at] + lines[at + 1 :]
    return [*rest[:to], lines[at], *rest[to:]], min(at, to) + 1


def test_random_tamperings_are_found_where_they_are(tmp_path: Path, lines: list[bytes]) -> None:
    source = random.Random(11)
    part = lines[:120]
    for _ in range(TAMPERINGS):
        changed, line = tampered(part, source)
        report = report_of(tmp_path / "a", changed)
        if not report.problems:
            # The end was cut off: the missing closing record says so.
            assert line == len(part)
            continue
        assert report.problems[0][0] in (line, line + 1), (line, report.problems[:2])


def test_tamperings_of_the_long_file(tmp_path: Path, lines: list[bytes]) -> None:
    source = random.Random(5)
    for _ in range(3):
        changed, line = tampered(lines, source)
        report = report_of(tmp_path / "a", changed)
        found = [line for line, _ in report.problems] or ([len(lines)] if report.unclosed else [])
        assert found
        assert found[0] in (line, line + 1)


def test_one_change_is_one_problem(tmp_path: Path, lines: list[bytes]) -> None:
    changed = [*lines[:50], lines[50].replace(b"ls 49", b"rm 49"), *lines[51:100]]
    report = report_of(tmp_path / "a", changed)
    assert [(line, what.partition(":")[0]) for line, what in report.problems] == [(51, "changed")]


def test_each_tampering_is_told_with_its_line_and_the_records_that_do_not_follow(
    tmp_path: Path, lines: list[bytes]
) -> None:
    part = lines[:20]
    moved = [*part[:3], *part[4:9], part[3], *part[9:]]
    spaced = json.dumps(json.loads(part[4]), sort_keys=True).encode()
    untyped = canonical({**json.loads(part[4]), "n": "5"})
    for changed, expected in (
        ([*part[:5], *part[6:]], [(6, ["7", "5"])]),
        ([*part[:5], *part[8:]], [(6, ["9", "5"])]),
        ([*part[:5], part[2], *part[5:]], [(6, ["3", "5"]), (7, ["6", "3"])]),
        (moved, [(4, ["5", "3"]), (9, ["4", "9"]), (10, ["10", "4"])]),
        ([*part[:4], spaced, *part[5:]], [(5, [])]),
        ([*part[:4], untyped, *part[5:]], [(5, []), (6, ["6", "4"])]),
        ([*part[:4], b"[1]", *part[4:]], [(5, [])]),
        ([*part[:4], b"", *part[4:]], [(5, [])]),
    ):
        report = report_of(tmp_path / "a", changed)
        found = [(line, re.findall(r"\d+", what)) for line, what in report.problems]
        assert found == expected
        assert report.last_hash == json.loads(changed[-1])["hash"]


def test_who_closed_and_who_did_not_is_told_by_session(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"")
    assert verify(path) == AuditReport(0, (), "0" * 64, ())
    first, second = AuditLog(path), AuditLog(path)
    second.record("execution")
    first.close()
    first.close()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [record["kind"] for record in records] == ["start", "start", "execution", "end"]
    assert [record["n"] for record in records] == [1, 2, 3, 4]
    assert [record["previous"] for record in records] == ["0" * 64, *(record["hash"] for record in records[:3])]
    assert verify(path).unclosed == (records[1]["session"],)
    second.close()
    assert (verify(path).records, verify(path).unclosed) == (5, ())
    with path.open("ab") as file:
        file.write(b'{"half')
    problems = verify(path).problems
    assert [line for line, _ in problems] == [6]
    with pytest.raises(UsageError, match="cannot read"):
        verify(tmp_path / "missing")


def test_a_writer_goes_on_behind_a_long_last_line_and_a_half_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    for size in (1, 70_000, 200_000):
        log.record("execution", text="x" * size)
        again = AuditLog(path)
        again.close()
    assert verify(path).problems == ()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    AuditLog(path).close()
    assert path.read_bytes().startswith(whole), "only the end of the line was missing"
    assert verify(path).problems == ()
    path.write_bytes(whole[:30])
    AuditLog(path).close()
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert kinds == ["start", "end"]
    assert (verify(path).problems, verify(path).records) == ((), 2)


def test_what_cannot_be_recorded_is_an_error_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room, why in ((0, "File too large"), (20, "the disk is full")):
        log = AuditLog(path)
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, hard))
        try:
            with pytest.raises(AuditError, match=f"cannot be written: {why}") as failed:
                log.record("execution", text="x" * 100)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert failed.value.exit_status == 5
        assert path.read_bytes()[: len(before)] == before
        assert len(path.read_bytes()) == len(before) + room
        with pytest.raises(AuditError, match=why):
            log.record("execution")
        with pytest.raises(AuditError, match=why):
            log.close()
    AuditLog(path).close()
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == ["start", "start", "start", "end"]
    assert verify(path).problems == () and len(verify(path).unclosed) == 2


def test_what_is_recorded_stands_there_as_json_can_hold_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.record("execution", path=Path("a/b"), items=("x", 1, 1.5, None, True), nested={1: ["y"]})
    log.close()
    record = json.loads(path.read_text().splitlines()[1])
    assert {name: record[name] for name in ("path", "items", "nested")} == {
        "path": "a/b", "items": ["x", 1, 1.5, None, True], "nested": {"1": ["y"]}
    }  # fmt: skip
    assert 0 < record["time"] == round(record["time"], 3)


def test_audit_trail_is_broken_by_a_change_with_its_own_hash_made_anew(tmp_path: Path, lines: list[bytes]) -> None:
    record = json.loads(lines[50])
    record["command"] = "rm 49"
    record["hash"] = record_hash(record)
    changed = [*lines[:50], canonical(record), *lines[51:100]]
    report = report_of(tmp_path / "a", changed)
    assert [line for line, _ in report.problems] == [52]


def test_a_file_without_its_beginning_is_told(tmp_path: Path, lines: list[bytes]) -> None:
    assert [line for line, _ in report_of(tmp_path / "a", lines[3:10]).problems] == [1]


def test_a_cut_end_is_seen(tmp_path: Path, lines: list[bytes]) -> None:
    assert len(report_of(tmp_path / "a", lines[:-1]).unclosed) == 1
    (tmp_path / "a").write_bytes(b"\n".join(lines))
    assert verify(tmp_path / "a").problems[0][0] == len(lines)


WRITER = (
    "import sys\n"
    "from pathlib import Path\n"
    "from codelet.safety.audit import AuditLog\n"
    "log = AuditLog(Path(sys.argv[1]))\n"
    "for number in range(int(sys.argv[2])):\n"
    "    log.record('execution', text='x' * (number % 50), writer=sys.argv[3])\n"
    "log.close()\n"
)


def start_writer(path: Path, count: int, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(count), name])


def test_two_writers_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    writers = [start_writer(path, 300, name) for name in ("a", "b")]
    assert [writer.wait(PATIENCE) for writer in writers] == [0, 0]
    report = verify(path)
    assert (report.records, report.problems, report.unclosed) == (604, (), ())


def test_a_killed_writer_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(3):
        writer = start_writer(path, 1_000_000, "killed")
        size = path.stat().st_size if path.exists() else 0
        until(lambda size=size: path.exists() and path.stat().st_size >= size + 2_000)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    assert start_writer(path, 5, "after").wait(PATIENCE) == 0
    report = verify(path)
    assert report.problems == ()
    assert len(report.unclosed) == 3


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_half_a_line_is_recovered_from(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "audit.jsonl"
    written(path, 10)
    path.write_bytes(path.read_bytes()[:-cut])
    written(path, 5)
    report = verify(path)
    assert report.problems == ()
    assert (report.records, len(report.unclosed)) == ((15, 0) if cut == 1 else (14, 1))


def test_a_half_line_does_not_part_the_chain(tmp_path: Path) -> None:
    """No rewrite of earlier records keeps the last hash, not even one with new hashes."""
    path = tmp_path / "audit.jsonl"
    first = written(path, 5)
    with path.open("ab") as file:
        file.write(b'{"call":')
    written(path, 3)
    assert b"call" not in path.read_bytes()
    rest = path.read_bytes().split(b"\n")[len(first) : -1]
    assert verify(path).problems == ()
    records = [json.loads(line) for line in first]
    records[2]["command"] = "another one"
    previous, anew = "0" * 64, []
    for record in records:
        record |= {"n": len(anew) + 1, "previous": previous}
        previous = record["hash"] = record_hash(record)
        anew.append(canonical(record))
    report = report_of(path, anew + rest)
    assert [line for line, _ in report.problems] == [len(first) + 1]


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_what_never_ends_is_not_verified(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.jsonl"
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    command = [*CODELET, "audit", "verify", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and str(path) in done.stderr


def test_what_is_no_audit_file_is_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("my notes\n")
    with pytest.raises(UsageError, match="no audit file"):
        AuditLog(notes)
    assert notes.read_text() == "my notes\n"
    (tmp_path / "link").symlink_to("absent")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "missing/x", "."):
        with pytest.raises(UsageError):
            AuditLog(tmp_path / name)
    assert not (tmp_path / "absent").exists(), "no link is followed"


@pytest.mark.parametrize(
    "patience",
    [{"patience": 0.1}, pytest.param({}, marks=pytest.mark.skipif(not FULL, reason="waits ten seconds"))],
)
def test_a_lock_that_a_stranger_keeps_is_told(tmp_path: Path, patience: dict[str, float]) -> None:
    path = tmp_path / "audit.jsonl"
    with path.open("w") as stranger:
        fcntl.flock(stranger, fcntl.LOCK_EX)
        with pytest.raises(AuditError, match=f"lock for {patience.get('patience', 10):g} s"):
            AuditLog(path, **patience)
    assert path.read_bytes() == b""


def test_a_lock_that_is_let_go_in_time_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    hold = (
        "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True)"
    )
    words = [sys.executable, "-c", f"{hold}; sys.stdin.read()", str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdin is not None and stranger.stdout is not None
        assert stranger.stdout.readline() == b"held\n"
        threading.Timer(0.2, stranger.stdin.close).start()
        AuditLog(path, patience=PATIENCE).close()
    assert verify(path).problems == ()


def test_the_file_is_for_its_owner_and_holds_no_key(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.record("execution", command="curl -H 'Authorization: Bearer abcdefgh12345678'", nested={"a": ["x\ud800"]})
    log.close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert "abcdefgh12345678" not in path.read_text()
    assert verify(path).problems == ()
    AuditLog(path).record("x", hash="y", n=9, previous="z")
    assert verify(path).problems == (), "the record's own fields count"


def test_the_command_line_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: list[bytes]) -> None:
    from codelet.frontends.commands.checks import run_verify
    from codelet.frontends.parsers import build_parser

    parser = build_parser(["audit"])
    path = tmp_path / "a"
    last = report_of(path, lines[:20]).last_hash
    assert run_verify(parser.parse_args(["audit", "verify", str(path), "--expect", last, "--open"])) == 0
    assert run_verify(parser.parse_args(["audit", "verify", str(path), "--expect", last])) == 5
    assert run_verify(parser.parse_args(["audit", "verify", str(path), "--expect", "x"])) == 5
    report_of(path, lines[:5] + lines[6:20])
    assert run_verify(parser.parse_args(["audit", "verify", str(path)])) == 5
    assert "line 6: a line was" in capsys.readouterr().out


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_file_that_is_cut_while_a_session_writes_ends_it(tmp_path: Path, kept: int) -> None:
    """Wiped, cut to its first line, or cut in the middle: nothing more is recorded that would hide it."""
    path = tmp_path / "a"
    log = AuditLog(path)
    for number in range(4):
        log.record("execution", tool="bash", number=number)
    path.write_bytes(cut := b"".join(path.read_bytes().splitlines(keepends=True)[:kept]))
    for act in (lambda: log.record("execution", tool="bash", number=4), log.close):
        with pytest.raises(AuditError, match="cut or rewritten"):
            act()
    assert path.read_bytes() == cut


def test_a_file_that_was_written_anew_ends_the_session(tmp_path: Path) -> None:
    """Also where another session's record of the same length takes the place of the last."""
    path, other = tmp_path / "a", tmp_path / "b"
    log = AuditLog(path)
    AuditLog(other)
    path.write_bytes(other.read_bytes())
    with pytest.raises(AuditError, match="cut or rewritten"):
        log.close()


def test_two_sessions_in_turn_miss_nothing_of_each_other(tmp_path: Path) -> None:
    first, second = AuditLog(tmp_path / "a"), AuditLog(tmp_path / "a")
    for log in (first, second, second, first):
        log.record("execution", tool="bash")
    second.close()
    first.close()
    report = verify(tmp_path / "a")
    assert (report.records, report.problems, report.unclosed) == (8, (), ())


@pytest.mark.parametrize("line", ['{"n": 1e308, "hash": "x"}', '{"n": true, "hash": "' + "0" * 64 + '"}', "{}"])
def test_what_only_looks_like_a_record_is_no_audit_file(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a"
    path.write_text(line + "\n")
    with pytest.raises(UsageError, match="no audit file"):
        AuditLog(path)
    assert path.read_text() == line + "\n"
