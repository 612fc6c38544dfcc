"""Where HEAD points, and which repositories are not looked at."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from codelet.system.git.objects import head_of
from codelet.system.git.revisions import pair_of
from tests.support.repo import commit, git, write

pytestmark = pytest.mark.needs("git")


def test_without_a_repository_there_is_nothing(tmp_path: Path):
    assert head_of(tmp_path) is None


def test_a_repository_that_leads_to_another_one_is_not_looked_at(repo: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    commit(other, {"secret": "x"})
    assert head_of(repo) is not None
    write(repo, {".git/objects/info/alternates": f"{other}/.git/objects\n"})
    assert head_of(repo) is None


def test_variables_that_lead_elsewhere_are_not_followed(repo: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_DIR", str(repo / "nowhere"))
    assert head_of(repo) is None


def running_git() -> set[str]:
    """The children of this process, of whichever test, that are git."""
    found = set()
    for task in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for child in task.read_text().split():
            with suppress(OSError):  # it ended meanwhile
                if Path(f"/proc/{child}/comm").read_text().strip() == "git":
                    found.add(child)
    return found


async def test_no_process_stays_behind(repo: Path):
    first = commit(repo, {"a.txt": "1"})
    second = commit(repo, {"a.txt": "2"})
    before = running_git()
    assert await pair_of(repo, "HEAD") == (first, second)
    assert running_git() <= before


def test_where_head_points(repo: Path):
    assert (head_of(repo) or "").startswith("branch ")
    git(repo, "checkout", "-q", "--detach")
    assert (head_of(repo) or "").startswith("detached at ")
