"""gitStatus and environment: the model's surroundings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codelet.context.reminders import Environment, GitStatus, describe
from codelet.prompt import GIT_CHANGES
from tests.support import repo as repositories
from tests.support.repo import git

pytestmark = pytest.mark.needs("git")
CHANGED = GIT_CHANGES.format(changes="").removeprefix("\n")


async def git_status(folder: Path) -> str | None:
    """The reminder's text at the start of a turn."""
    status = GitStatus(folder)
    await status.begin()
    return await status.text()


async def test_where_nothing_changed_there_is_the_branch_and_its_distance(repo: Path, tmp_path: Path):
    (repo / "sub").mkdir()
    whole = repositories.with_submodule(tmp_path / "whole")
    repositories.write(whole, {"part/part.txt": "changed\n"})
    folders = {
        repo: "main",
        repo / "sub": "main",
        repositories.unborn(tmp_path / "unborn"): "main (no commit yet)",
        repositories.detached(tmp_path / "detached"): "detached HEAD",
        repositories.with_upstream(tmp_path / "clone", ahead=2, behind=3): (
            "main, upstream origin/main: 2 ahead, 3 behind"
        ),
        whole: "main",  # what changed in a submodule is not looked at
        repositories.worktree(tmp_path / "linked"): "side",
    }
    for folder, branch in folders.items():
        assert await git_status(folder) == f"Branch: {branch}\nWorking tree: clean"


async def test_each_kind_of_change_in_gits_short_form(repo: Path):
    repositories.commit(repo, {"old name.txt": "same\n" * 9, "gone.txt": "x\n", "staged.txt": "x\n"})
    git(repo, "mv", "old name.txt", "new name.txt")
    git(repo, "rm", "-q", "gone.txt")
    repositories.write(repo, {"app.py": "changed\n", "staged.txt": "y\n", "fresh.txt": "", "new folder/x": ""})
    git(repo, "add", "staged.txt")
    repositories.write(repo, {"staged.txt": "z\n"})
    status = await git_status(repo)
    assert status is not None
    head, _, changes = status.partition(CHANGED)
    assert head == "Branch: main\n"
    assert set(changes.splitlines()) == {
        " M app.py",
        "D  gone.txt",
        "R  old name.txt -> new name.txt",
        "MM staged.txt",
        "?? fresh.txt",
        "?? new folder/",
    }


async def test_an_unmerged_file(repo: Path):
    git(repo, "checkout", "-q", "-b", "side")
    repositories.commit(repo, {"app.py": "theirs\n"})
    git(repo, "checkout", "-q", "main")
    repositories.commit(repo, {"app.py": "ours\n"})
    with pytest.raises(Exception, match="merge"):
        git(repo, "merge", "side")
    assert await git_status(repo) == f"Branch: main\n{CHANGED}UU app.py"


async def test_no_repository_no_git_and_a_broken_one(tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert await git_status(empty) is None
    assert await git_status(tmp_path / "missing") is None
    (repo / ".git" / "HEAD").write_bytes(b"\0")
    assert await git_status(repo) is None
    monkeypatch.setenv("PATH", str(empty))
    assert await git_status(tmp_path) is None


async def test_a_name_with_a_line_end_stays_on_its_line(repo: Path):
    repositories.write(repo, {"a\nBranch: other\t\x1b[1m.txt": "x", "größe → 1.txt": "x"})
    status = await git_status(repo)
    assert status is not None
    assert "?? a\\nBranch: other\\t\\x1b[1m.txt" in status.splitlines()
    assert "?? größe → 1.txt" in status.splitlines()


def test_a_listing_that_was_cut_says_that_there_is_more():
    entries = [b"# branch.oid abc", b"# branch.head main"]
    entries += [b"1 .M N... 100644 100644 100644 a b file%d.txt" % number for number in range(30)]
    assert describe(b"\0".join(entries) + b"\0").endswith("\n… and 10 more")
    assert describe(b"\0".join(entries)[:-3], complete=False).endswith("\n… and 9+ more")
    assert describe(b"1 .M N...\x002 R. x\0u\0").endswith("clean"), "entries that are cut short are passed over"


async def test_the_environment_has_a_date_and_no_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHELL", "/bin/zsh")
    environment = Environment(tmp_path, lambda: "Commands: none.")
    text = await environment.text()
    assert "\nCommands: none.\n" in text
    assert f"Working directory: {tmp_path}" in text
    assert "Shell: /bin/zsh" in text
    assert f"Date: {time.strftime('%Y-%m-%d')}" in text
    assert time.strftime("%H:%M") not in text.replace(str(tmp_path), "")
    assert await environment.text() == text
