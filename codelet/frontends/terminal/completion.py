"""Completion of /commands at the start of the line and of @files anywhere, in the workspace and by paths out of it."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from codelet.system.git import run_git
from codelet.system.text import clean

if TYPE_CHECKING:
    from codelet.call_record import CallRecord

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


def wants_completion(text: str) -> bool:
    """Return whether a command or a file name ends at the cursor."""
    return bool(_COMMAND.match(text) or _MENTION.search(text))


class ReplCompleter(Completer):
    """Completes commands and files.

    `commands` lists names, help, and first arguments. Files are those of `workspace`; of equal matches, those that the
    calls in `records` have worked on come first.
    """

    def __init__(
        self,
        workspace: Path,
        commands: Callable[[], Sequence[tuple[str, str, Sequence[str]]]] = list,
        records: Callable[[], Iterable[CallRecord]] = list,
    ) -> None:
        self._workspace, self._commands, self._records = workspace, commands, records
        self._files: list[str] = []
        self._read_at = -_FRESH_SECONDS
        self._lock = asyncio.Lock()

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
        typed = mention[2] if mention[1] is None else mention[1]
        if _ELSEWHERE.match(typed):
            found = await asyncio.to_thread(_entries, self._workspace, typed)
        else:
            from codelet.context.relations import FileRelations

            before, records = document.text_before_cursor[: mention.start()], list(self._records())
            relations = await asyncio.to_thread(FileRelations, records, before, self._workspace)
            found = _best_matches(await self._listed(), typed, relations.points)
        for path in found:
            named = path
            if mention[1] is not None or _QUOTED.search(path):  # a folder's quote stays open
                named = f'"{path}' if path.endswith("/") else f'"{path}"'
            yield Completion(named, start_position=1 - len(mention[0]), display=clean(path))

    async def _listed(self) -> list[str]:
        """Return at most 20,000 files, relative to the workspace: from git or a bounded walk, at most seconds old."""
        async with self._lock:
            if time.monotonic() - self._read_at >= _FRESH_SECONDS:
                arguments = ("-z", "--cached", "--others", "--exclude-standard", "--", ".")
                answer = await run_git(self._workspace, "ls-files", *arguments, timeout=3.0, limit=4 << 20)
                if answer is not None and answer.exit_code == 0:
                    names = answer.stdout.decode("utf-8", "replace").split("\0")
                    listed = list(dict.fromkeys(filter(None, names[:_FILES])))
                else:
                    listed = await asyncio.to_thread(_walk, self._workspace)
                self._files = [path for path in listed if _NEVER.isdisjoint(path)]
                self._read_at = time.monotonic()
            return self._files


def _best_matches(paths: Iterable[str], typed: str, points: Callable[[str], int]) -> list[str]:
    """Return the best matches: by start of name, start of path, substring, then letters in order.

    Of equal matches the one with more `points` comes first.
    """
    wanted = typed.lower()
    letters = re.compile(".*".join(map(re.escape, wanted)))
    ranked = []
    for path in paths:
        lower = path.lower()
        starts_name = lower.rstrip("/").rpartition("/")[2].startswith(wanted)
        fits = (starts_name, lower.startswith(wanted), wanted in lower, letters.search(lower) is not None)
        if True in fits:
            ranked.append((fits.index(True), -points(path), path.count("/"), len(path), path))
    return [path for *_, path in sorted(ranked)[:_SHOWN]]


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
