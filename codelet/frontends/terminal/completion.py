"""Completion of /commands at the start of the line and of @files anywhere, in the workspace and by paths out of it."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History, InMemoryHistory

from codelet.system.git import run_git
from codelet.system.text import clean

if TYPE_CHECKING:
    from codelet.loop.session import Session

_FILES = 20_000
_SHOWN = 50
_FRESH_SECONDS = 5.0
_WALK_SECONDS = 1.0
_MENTION = re.compile(r"(?:^|(?<=[\s(\"'`]))@(?:\"([^\"\n]*)|([^\s\"'`]*))$")
_QUOTED = re.compile(r"[\s'`]")
"""Characters that need quotes in a name after @."""
_NEVER = frozenset('"\n')
"""A name with one of these cannot be written after @."""
_ELSEWHERE = re.compile(r"(?:/|~[^/]*/|\.\./)")
_COMMAND = re.compile(r"/\S*(?: \S*)?$")
"""A command's name, or its first argument."""
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache", "target"})


Points = Callable[[str], int]
Ranks = Callable[[str], Awaitable[Points]]


def no_points(path: str) -> int:
    """Score all files alike."""
    return 0


def wants_completion(text: str) -> bool:
    """Return whether a command or a file name ends at the cursor."""
    return bool(_COMMAND.match(text) or _MENTION.search(text))


class ReplCompleter(Completer):
    """Completes commands and files.

    `commands` lists names, help, and first arguments. Files are those of `workspace`, read in a thread. `ranks` scores
    files for a text: of equal matches the higher score comes first.
    """

    def __init__(
        self,
        workspace: Path,
        commands: Callable[[], Sequence[tuple[str, str, Sequence[str]]]] = list,
        ranks: Ranks | None = None,
    ) -> None:
        self._files = FileList(workspace)
        self._commands = commands
        self._ranks = ranks

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Complete commands; files need the asynchronous method."""
        text = document.text_before_cursor
        if not _COMMAND.match(text):
            return
        typed, blank, word = text.partition(" ")
        for name, help_text, words in self._commands():
            if not blank and f"/{name}".startswith(typed):
                yield Completion(f"/{name}", start_position=-len(text), display_meta=help_text)
            elif blank and typed == f"/{name}":
                yield from (Completion(each, start_position=-len(word)) for each in words if each.startswith(word))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Complete commands or files."""
        for completion in self.get_completions(document, complete_event):
            yield completion
        mention = _MENTION.search(document.text_before_cursor)
        if mention is None:
            return
        before = document.text_before_cursor[: mention.start()]
        typed = mention[2] if mention[1] is None else mention[1]
        if _ELSEWHERE.match(typed):
            found = await asyncio.to_thread(_entries, self._files.workspace, typed)
        else:
            points = no_points if self._ranks is None else await self._ranks(before)
            found = best_matches(await self._files.read(), typed, points)
        for path in found:
            named = path
            if mention[1] is not None or _QUOTED.search(path):  # a folder's quote stays open
                named = f'"{path}' if path.endswith("/") else f'"{path}"'
            yield Completion(named, start_position=1 - len(mention[0]), display=clean(path))


def ranks_of(session: Session) -> Ranks:
    """Score files by what the session has read and changed; their imports are read in a thread."""

    async def ranks(typed: str) -> Points:
        from codelet.context.relations import FileRelations

        records = list(session.conversation.calls)
        relations = await asyncio.to_thread(FileRelations, records, typed, session.workspace)
        return relations.points

    return ranks


def best_matches(paths: Iterable[str], typed: str, points: Points = no_points) -> list[str]:
    """Return the best matches: by start of name, start of path, substring, then letters in order.

    Of equal matches the one with more `points` comes first.
    """
    wanted = typed.lower()
    letters = re.compile(".*".join(map(re.escape, wanted)))
    ranked = []
    for path in paths:
        lower = path.lower()
        name = lower.rstrip("/").rpartition("/")[2]
        if not wanted or name.startswith(wanted):
            rank = 0
        elif lower.startswith(wanted):
            rank = 1
        elif wanted in lower:
            rank = 2
        elif letters.search(lower):
            rank = 3
        else:
            continue
        ranked.append((rank, -points(path), path.count("/"), len(path), path))
    return [path for *_, path in sorted(ranked)[:_SHOWN]]


class FileList:
    """The files of a workspace, from git or a bounded walk; cached for a few seconds."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self._paths: list[str] = []
        self._read_at = -_FRESH_SECONDS
        self._lock = asyncio.Lock()

    async def read(self) -> list[str]:
        """Return at most 20,000 paths, relative to the workspace."""
        async with self._lock:
            if time.monotonic() - self._read_at >= _FRESH_SECONDS:
                listed = await self._from_git()
                if listed is None:
                    listed = await asyncio.to_thread(_walk, self.workspace)
                self._paths = [path for path in listed if _NEVER.isdisjoint(path)]
                self._read_at = time.monotonic()
            return self._paths

    async def _from_git(self) -> list[str] | None:
        """Return tracked and untracked files; None without git or a repository."""
        arguments = ("-z", "--cached", "--others", "--exclude-standard", "--", ".")
        answer = await run_git(self.workspace, "ls-files", *arguments, timeout=3.0, limit=4 << 20)
        if answer is None or answer.exit_code != 0:
            return None
        names = answer.stdout.decode("utf-8", "replace").split("\0")
        return list(dict.fromkeys(name for name in names[:_FILES] if name))


def _entries(workspace: Path, typed: str) -> list[str]:
    """Return matches in a folder outside the workspace; folders end in a slash."""
    folder, _, begun = typed.rpartition("/")
    try:
        with os.scandir(workspace / Path(f"{folder}/").expanduser()) as entries:
            fitting = [each for each in entries if each.name.startswith(begun) and (begun or each.name[0] != ".")]
            named = (f"{folder}/{each.name}{'/' if each.is_dir() else ''}" for each in fitting)
            return sorted(path for path in named if _NEVER.isdisjoint(path))[:_SHOWN]
    except (OSError, RuntimeError, ValueError):  # not there, closed, no one's home, no path
        return []


def _walk(workspace: Path) -> list[str]:
    """Walk the folder, bounded in number and time."""
    found: list[str] = []
    end = time.monotonic() + _WALK_SECONDS
    for folder, folders, files in os.walk(workspace):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        base = Path(folder).relative_to(workspace)
        found.extend((base / name).as_posix() for name in sorted(files))
        if len(found) >= _FILES or time.monotonic() > end:
            break
    return found[:_FILES]


def history(path: Path | None, expand: Callable[[str], str], complain: Callable[[str], None]) -> History:
    """Return the history for the arrows and the search: in memory, or with the user's file."""
    if path is None:
        return InMemoryHistory()
    from codelet.frontends.terminal.history_file import HistoryFile

    return HistoryFile(path, expand, complain)
