"""Completion after @: names in quotes if needed, and paths outside the workspace."""

from __future__ import annotations

from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from codelet.frontends.terminal.completion import ReplCompleter, wants_completion


async def offered(folder: Path, line: str) -> list[str]:
    """The lines that the completions make of a line."""
    assert wants_completion(line)
    found = ReplCompleter(folder).get_completions_async(Document(line), CompleteEvent())
    return [line[: len(line) + each.start_position] + each.text async for each in found]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("work/it's.txt", "work/a b/two words.txt", 'work/quo"te.txt', "work/new\nline.txt", "work/plain.py"):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x\n")
    (tmp_path / "home" / "my notes").mkdir(parents=True)
    (tmp_path / "home" / "my notes" / "todo.md").write_text("x\n")
    (tmp_path / "home" / ".hidden").write_text("x\n")
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        ("see @pl", ["see @plain.py"]),
        ("see @it", ['see @"it\'s.txt"']),
        ("see @two", ['see @"a b/two words.txt"']),
        ('see @"a b/tw', ['see @"a b/two words.txt"']),
        ('see @"pl', ['see @"plain.py"']),
        ("see @quo", []),
        ("see @new", []),
        ("see @~/", ['see @"~/my notes/']),
        ('see @"~/my notes/', ['see @"~/my notes/todo.md"']),
        ("see @~/.h", ["see @~/.hidden"]),
        ("see @../ho", ["see @../home/"]),
        ("see @../nowhere/", []),
        ("see @~nobody-here/", []),
    ],
)
async def test_a_completed_name_is_whole(files: Path, line: str, lines: list[str]) -> None:
    assert await offered(files, line) == lines
