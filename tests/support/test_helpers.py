"""Repositories, the child process runner and the terminal: what the other tests lean on must hold."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import repo as repositories
from tests.support.program import descendants, processor_seconds, run, start, stop
from tests.support.terminal import Terminal
from tests.support.waiting import Neighbour, Work, at_rest, until

PYTHON = (sys.executable, "-c")


@pytest.mark.needs("git")
def test_repositories_are_in_the_state_that_their_name_says(tmp_path: Path):
    git = repositories.git
    assert git(repositories.unborn(tmp_path / "unborn"), "symbolic-ref", "--short", "HEAD") == "main"
    assert git(repositories.detached(tmp_path / "detached"), "branch", "--show-current") == ""
    upstream = repositories.with_upstream(tmp_path / "up", ahead=2, behind=1)
    assert git(upstream, "rev-list", "--left-right", "--count", "HEAD...@{u}").split() == ["2", "1"]
    assert git(repositories.with_submodule(tmp_path / "outer"), "submodule", "status").endswith("part (heads/main)")
    assert git(repositories.worktree(tmp_path / "tree"), "branch", "--show-current") == "side"
    many = repositories.many_files(tmp_path / "many", 250, changed=3)
    assert len(git(many, "status", "--porcelain").splitlines()) == 3


def test_the_runner_reports_exit_output_and_peak_memory(tmp_path: Path):
    script = "import sys; x = bytearray(80_000_000); print(sys.stdin.read()); sys.exit(7)"
    done = run(script, cwd=tmp_path, command=PYTHON, stdin=b"hello", measure=True)
    assert (done.exit, done.out) == (7, "hello\n")
    assert 80_000 < done.peak_kib < 110_000
    small = run("pass", cwd=tmp_path, command=PYTHON, measure=True)
    assert small.peak_kib < 20_000


def test_the_runner_kills_what_does_not_end(tmp_path: Path):
    done = run("import time; time.sleep(3600)", cwd=tmp_path, command=PYTHON, timeout=0.5)
    assert done.exit is None


def test_the_environment_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    script = "import os; print(sorted(os.environ))"
    done = run(script, cwd=tmp_path, home=tmp_path, command=PYTHON, env={"LANG": None, "EXTRA": "1"})
    assert "OPENAI_API_KEY" not in done.out
    assert "EXTRA" in done.out
    assert "'LANG'" not in done.out


def test_descendants_and_processor_time_of_a_live_process(tmp_path: Path):
    script = "import subprocess, time; sum(range(3_000_000)); subprocess.run(['sleep', '30'])"
    child = start(script, cwd=tmp_path, command=PYTHON)
    try:
        assert len(until(lambda: descendants(child.pid))) == 1
        assert 0.01 < processor_seconds(child.pid) < 10
    finally:
        stop(child)


def test_the_terminal_draws_the_screen_and_sends_keys(tmp_path: Path):
    script = "print('\\x1b[2J\\x1b[3;5Hhere'); print(input().upper()); print('bye')"
    with Terminal(script, cwd=tmp_path, command=PYTHON) as terminal:
        terminal.wait_for("here")
        assert terminal.text.splitlines()[2] == "    here"
        terminal.line("shout")
        terminal.wait_for("SHOUT")
        assert terminal.wait_exit() == 0


def test_at_rest_waits_until_a_process_has_done_what_it_has_to_do(tmp_path: Path):
    script = "import time\nwhile time.process_time() < 0.4: pass\ntime.sleep(3600)"
    child = start(script, cwd=tmp_path, command=PYTHON)
    try:
        at_rest(child.pid)
        assert processor_seconds(child.pid) >= 0.4
    finally:
        stop(child)


def test_a_neighbour_counts_no_more_than_the_clock_and_work_what_is_worked(tmp_path: Path):
    script = "import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(0.4)"
    with Work() as work, Neighbour() as clock:
        run(script, cwd=tmp_path, command=PYTHON)
    assert 0.05 < clock.passed <= clock.waited * 1.05
    assert clock.waited >= 0.7
    assert 0.3 <= work.seconds < 3


def test_a_wait_returns_what_happened():
    found: list[int] = []
    assert until(lambda: found, meanwhile=lambda: found.append(1)) == [1]
