"""Files that differ between two commits, read from a repository's objects."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.system.git.objects import LARGEST_FILE, MOST_FILES, FileChange, FileChanges, changed_files, head_of
from tests.support.repo import commit, git, write

pytestmark = pytest.mark.needs("git")


async def test_added_removed_and_changed_files_with_both_their_texts(repo: Path):
    first = commit(repo, {"a.txt": "one\n", "deep/er/b.txt": "b\n", "gone.txt": "x\n", "same.txt": "same\n"})
    (repo / "gone.txt").unlink()
    commit(repo, {"a.txt": "two\n", "deep/er/c.bin": b"\0\xff", "big": b"." * (LARGEST_FILE + 1)})
    found = await changed_files(repo, first)
    assert found == FileChanges(
        (
            FileChange(path="a.txt", change="changed", before=b"one\n", after=b"two\n"),
            FileChange(path="big", change="added", before=None, after=None),
            FileChange(path="gone.txt", change="removed", before=b"x\n", after=None),
            FileChange(path="deep/er/c.bin", change="added", before=None, after=b"\0\xff"),
        ),
        complete=True,
    )
    assert await changed_files(repo, "HEAD", "HEAD") == FileChanges((), complete=True)
    backwards = await changed_files(repo, "HEAD", first)
    assert backwards is not None and {file.path: file.change for file in backwards.files}["gone.txt"] == "added"


async def test_a_file_that_became_a_folder_is_both(repo: Path):
    first = commit(repo, {"x": "file\n"})
    (repo / "x").unlink()
    commit(repo, {"x/y": "inside\n"})
    found = await changed_files(repo, first)
    assert found is not None
    assert [(file.path, file.change) for file in found.files] == [("x", "removed"), ("x/y", "added")]


async def test_too_many_files_are_said_to_be_more(repo: Path):
    first = commit(repo, {})
    commit(repo, {f"many/{number}": "x" for number in range(MOST_FILES + 1)})
    found = await changed_files(repo, first)
    assert found is not None and (len(found.files), found.complete) == (MOST_FILES, False)


@pytest.mark.parametrize("revision", ["nowhere", "HEAD~99", "deadbeef", "--output=x", "HEAD:a.txt", ""])
async def test_what_is_no_commit_is_told_in_a_line(repo: Path, revision: str):
    commit(repo, {"a.txt": "a\n"})
    with pytest.raises(UsageError, match="there is no commit"):
        await changed_files(repo, revision)


async def test_without_a_repository_there_is_nothing(tmp_path: Path):
    assert await changed_files(tmp_path, "HEAD") is None and head_of(tmp_path) is None


async def test_a_repository_that_leads_to_another_one_is_not_looked_at(repo: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    commit(other, {"secret": "x"})
    write(repo, {".git/objects/info/alternates": f"{other}/.git/objects\n"})
    assert await changed_files(repo, "HEAD") is None


async def test_variables_that_lead_elsewhere_are_not_followed(repo: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_DIR", str(repo / "nowhere"))
    assert await changed_files(repo, "HEAD") is None


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
    commit(repo, {"a.txt": "2"})
    before = running_git()
    assert await changed_files(repo, first) is not None
    assert running_git() <= before


def test_where_head_points(repo: Path):
    assert (head_of(repo) or "").startswith("branch ")
    git(repo, "checkout", "-q", "--detach")
    assert (head_of(repo) or "").startswith("detached at ")
