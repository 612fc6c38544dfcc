"""A `git status` that is begun before anybody waits for it: one question, and none left when nobody wants it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from codelet.system.git import STATUS, begin_status, end_ahead, run_git
from tests.support.repo import git
from tests.support.waiting import until


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In front of git stands a program that notes each call, and waits for ever where `held` is."""
    folder = tmp_path / "front"
    folder.mkdir()
    script = folder / "git"
    script.write_text(
        f'#!/bin/sh\necho "$$" >> "{folder}/calls"\n'
        f'while [ -e "{folder}/held" ]; do sleep 0.02; done\nexec "{shutil.which("git")}" "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "calls"


async def test_what_is_begun_answers_the_same_question_once(repo: Path, calls: Path) -> None:
    begin_status(repo)
    answer = await run_git(repo, "status", *STATUS)
    assert answer is not None and b"# branch.head main" in answer.stdout
    assert len(calls.read_text().split()) == 1
    await run_git(repo, "status", *STATUS)
    assert len(calls.read_text().split()) == 2, "it answers for one moment, not for a later one"


def test_what_nobody_asked_for_is_ended(repo: Path, calls: Path) -> None:
    calls.with_name("held").touch()
    begin_status(repo)
    until(lambda: calls.exists() and calls.read_text().endswith("\n"))
    end_ahead()
    with pytest.raises(ProcessLookupError):
        os.kill(int(calls.read_text()), 0)


def test_a_repository_that_names_programs_is_not_asked_ahead(repo: Path, calls: Path) -> None:
    git(repo, "config", "filter.own.clean", "touch ran")
    calls.unlink(missing_ok=True)
    begin_status(repo)
    end_ahead()
    assert not calls.exists()
