"""Notices about reminders: instruction files not sent whole, a repository that git does not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.context.reminders.instructions import Instructions
from codelet.context.reminders.sources import GitStatus
from codelet.events import Notices
from tests.support import repo


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def remarks(workspace: Path, **files: str | bytes) -> list[str]:
    for name, content in files.items():
        path = workspace / f"{name}.md"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    notices = Notices()
    read = Instructions(workspace, notices)
    read.text()
    found = notices.take()
    read.text()
    assert notices.take() == [], "each is said once"
    return found


@pytest.mark.parametrize(
    ("files", "named", "word"),
    [
        ({"CLAUDE": "word " * 20_000}, "CLAUDE.md", "40,000"),
        ({"CLAUDE": "@a.md @b.md", "a": "a " * 19_000, "b": "b " * 22_000}, "b.md", "40,000"),
        ({"CLAUDE": "Größe".encode("latin-1")}, "CLAUDE.md", "UTF-8"),
        ({"CLAUDE": "@a.md\n@b.md\n@c.md\n"} | dict.fromkeys("abc", "x " * 19_000), "CLAUDE.md", "80,000"),
    ],
    ids=["long", "import", "latin-1", "beyond the total"],
)
def test_a_file_that_is_not_sent_whole_is_named_once(
    workspace: Path, files: dict[str, str | bytes], named: str, word: str
) -> None:
    line = next(each for each in remarks(workspace, **files) if str(workspace / named) in each)
    assert word in line and "\n" not in line


@pytest.mark.parametrize("text", ["Rule", "é" * 39_990, "\ufeffRule"])
def test_a_file_that_is_sent_whole_is_not_named(workspace: Path, text: str | bytes) -> None:
    assert remarks(workspace, CLAUDE=text) == []


def test_another_text_is_named_again(workspace: Path) -> None:
    notices = Notices()
    read = Instructions(workspace, notices)
    for text in ("a " * 30_000, "b " * 30_000):
        (workspace / "CLAUDE.md").write_text(text)
        read.text()
        assert len(notices.take()) == 1


@pytest.mark.needs("git")
async def test_git_status_names_a_repository_of_another_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notices = Notices()
    source = GitStatus(repo.plain(tmp_path / "r"), notices)
    await source.begin()
    assert notices.take() == []
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    await source.begin()
    assert "dubious ownership" in (await source.text() or "")
    [line] = notices.take()
    assert line.endswith(f"git config --global --add safe.directory {tmp_path / 'r'}")
    await source.begin()
    assert notices.take() == []
