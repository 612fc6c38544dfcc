"""git's own variables where they cannot be honoured: /review shares its process with a session."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.system.git import run_git
from codelet.system.git.variables import check_no_variables, honour_variables
from tests.support import repo

pytestmark = pytest.mark.needs("git")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return repo.plain(tmp_path / "r")


def test_without_such_variables_there_is_nothing_to_refuse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_INDEX_FILE", f"{folder}/.git/index")
    monkeypatch.setenv("GIT_DIR", f"{folder}/.git")
    check_no_variables(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("GIT_INDEX_FILE", ".git/index.lock"), ("GIT_INDEX_FILE", "../index"), ("GIT_OBJECT_DIRECTORY", ".git/objects/x")],
)
def test_another_index_or_other_objects_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=name):
        check_no_variables(folder)


async def test_what_is_honoured_ends_with_the_task(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of the process, a session's look at git, goes on without the variables."""
    (folder / ".git" / "other").write_bytes(b"")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/other")

    async def files() -> bytes:
        answer = await run_git(folder, "ls-files")
        return b"" if answer is None else answer.stdout

    async def honouring() -> bytes:
        honour_variables(folder)
        return await files()

    assert await asyncio.create_task(honouring()) == b""
    assert await files() == b"README.md\napp.py\n"
