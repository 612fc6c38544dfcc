"""Names of commits to ids, and what a name that stands for none leads to."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.system.git.revisions import EMPTY_TREE, pair_of, since_branch
from tests.support import repo


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, list[str]]:
    """main with two commits, and a branch `side` off the first one with one more, checked out."""
    folder = repo.plain(tmp_path / "r")
    first = repo.git(folder, "rev-parse", "HEAD")
    second = repo.commit(folder, {"a": "2\n"})
    repo.git(folder, "checkout", "-q", "-b", "side", first)
    return folder, [first, second, repo.commit(folder, {"b": "3\n"})]


async def test_ranges_commits_and_merge_bases(history: tuple[Path, list[str]]) -> None:
    folder, (first, second, third) = history
    assert await pair_of(folder, "main..side") == (second, third)
    assert await pair_of(folder, "main...side") == (first, third)
    assert await pair_of(folder, "main..") == (second, third)
    assert await pair_of(folder, "side") == (first, third)
    assert await pair_of(folder, "main~1") == (EMPTY_TREE, first)
    assert await since_branch(folder, "main") == (first, third)


@pytest.mark.parametrize(
    "words",
    [
        *("nope", "main..nope", "nope..main", "nope...side", "main~99", "deadbeef"),
        *("--all", "--output=x", "main:a", "", "a" * 40),
    ],
)
async def test_a_name_of_no_commit_is_an_error(history: tuple[Path, list[str]], words: str) -> None:
    with pytest.raises(UsageError, match="no commit"):
        await pair_of(history[0], words)


async def test_branches_without_a_common_commit(history: tuple[Path, list[str]]) -> None:
    folder, _ = history
    repo.git(folder, "checkout", "-q", "--orphan", "alone")
    repo.commit(folder, {"c": "1\n"})
    with pytest.raises(UsageError, match="in common"):
        await since_branch(folder, "main")
    with pytest.raises(UsageError, match="follows no other"):
        await since_branch(folder, None)


async def test_a_shallow_clone_says_so(history: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, _ = history
    repo.git(tmp_path, "clone", "-q", "--depth", "1", f"file://{folder}", "clone")
    with pytest.raises(UsageError, match="shallow"):
        await pair_of(tmp_path / "clone", "HEAD")


async def test_no_repository_and_a_detached_head(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(UsageError, match="git repository"):
        await pair_of(tmp_path / "none", "HEAD")
    with pytest.raises(UsageError, match="on no branch"):
        await since_branch(repo.detached(tmp_path / "r"), None)
