"""A git that somebody ends is told as that: not as a folder without a repository, not as one without changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codelet.context.reminders import GitStatus
from codelet.errors import UsageError
from codelet.frontends.command_prompt import TextScreen
from codelet.frontends.commands.doctor import git_found
from codelet.frontends.terminal.slash_commands.file_changes import diff
from codelet.review.reviewed_change import Wanted, change_from_git
from codelet.system.git import run_git
from tests.support.sessions import MakeSession

ENDED = "git was ended by signal 9"


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In front of git stands a program that is killed at once, but for `git version`."""
    folder = tmp_path / "front"
    folder.mkdir()
    script = folder / "git"
    script.write_text('#!/bin/sh\ncase " $* " in *" version "*) echo git version 2.0; exit;; esac\nkill -9 $$\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


async def test_each_that_asks_says_so(repo: Path, ended: Path, make_session: MakeSession) -> None:
    answer = await run_git(repo, "status")
    assert answer is not None
    assert (answer.exit_code, answer.broken_off) == (-9, ENDED)
    status = GitStatus(repo)
    await status.begin()
    assert ENDED in (await status.text() or "")
    screen = TextScreen()
    with pytest.raises(UsageError, match=ENDED):
        await diff(screen, make_session(), "git")
    found = await git_found(repo)
    assert found.state == "warn" and ENDED in found.detail
    with pytest.raises(UsageError, match=ENDED):
        await change_from_git(Wanted(kind="uncommitted"), repo)


async def test_what_git_itself_says_is_told(repo: Path, make_session: MakeSession) -> None:
    session = make_session()
    (repo / ".git" / "index").write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="index"):
        await diff(TextScreen(), session, "git")
    (repo / ".git").rename(repo / "no longer git")
    with pytest.raises(UsageError, match="git repository"):
        await diff(TextScreen(), session, "git")
