"""Why git does not read a repository, in words: another owner, borrowed objects, a broken HEAD."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.system.git import why_not_read
from tests.support import repo

pytestmark = pytest.mark.needs("git")


async def test_a_readable_repository_and_none_have_no_reason(tmp_path: Path) -> None:
    assert await why_not_read(tmp_path) is None
    assert await why_not_read(repo.plain(tmp_path / "r")) is None


@pytest.mark.parametrize("language", ["C", "de_DE.UTF-8"])
async def test_a_repository_of_another_owner_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    folder = repo.plain(tmp_path / "r")
    monkeypatch.setenv("LC_ALL", language)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own way to try its check without another user
    why = await why_not_read(folder)
    assert why is not None and "\n" not in why
    assert why.endswith(f"git config --global --add safe.directory {folder}")


async def test_borrowed_objects_are_named(tmp_path: Path) -> None:
    origin = repo.plain(tmp_path / "origin")
    repo.git(tmp_path, "clone", "-q", "--shared", str(origin), "clone")
    assert "alternates" in (await why_not_read(tmp_path / "clone") or "")


async def test_a_repository_that_is_not_whole_is_named(tmp_path: Path) -> None:
    folder = repo.plain(tmp_path / "r")
    (folder / ".git" / "HEAD").write_text("nonsense\n")
    assert await why_not_read(folder)
