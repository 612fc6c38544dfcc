"""Commands in Markdown files: `/NAME` sends a file's text as the prompt, with what was typed after the name in it.

`$ARGUMENTS`, `$1` and `${2:-default}` are replaced. A shell command in the text, as in !`git diff`, runs as a call of
the tool bash: judged, asked about, audited; what it prints takes its place. Files named `@path` are attached.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import PromptRefused, UsageError
from codelet.events import ToolResult
from codelet.extensions.base import Command, Extension, OpenedWith, OwnFolder
from codelet.extensions.front_matter import (
    IGNORED,
    FileFault,
    UserFile,
    fields_of,
    read_all,
    read_text_file,
    split_front,
)
from codelet.system.text import clean, one_line

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_NAME = re.compile(r"[a-z0-9_:.-]*[a-z][a-z0-9_:.-]*")
_SHELL = re.compile(r"!`([^`\n]+)`")
_ARGUMENT = re.compile(r"\$(?:ARGUMENTS|@|([1-9])(?![0-9])|\{([1-9])(?::-([^}\n]*))?\})")
_MOST = 500
_LARGEST = 64 << 10
_DEEPEST = 4
_LONGEST_HELP = 100


class FileCommand(UserFile, kw_only=True):
    """One command. `hint` shows what may be typed."""

    hint: str


def find_commands(folders: Sequence[OwnFolder]) -> tuple[list[FileCommand], list[str]]:
    """Return the commands in these folders, the first of each name, and the errors in other files."""
    names: dict[Path, str] = {}
    projects: list[tuple[Path, Path | None]] = []
    for folder in folders:
        depths = ("/".join(["*"] * depth) for depth in range(_DEEPEST))
        for path in sorted(each for above in depths for each in folder.path.glob(f"{above}/*.md".lstrip("/"))):
            names[path] = ":".join(path.relative_to(folder.path).with_suffix("").parts).lower()
            projects.append((path, folder.project))

    def read(path: Path, project: Path | None) -> FileCommand:
        if not _NAME.fullmatch(names[path]):
            raise FileFault(1, f"{names[path]!r}: a name has letters, digits, -, _ and . only")
        front, body = split_front(read_text_file(path, _LARGEST, within=project))
        fields = fields_of(front or "")
        return FileCommand(
            name=names[path],
            description=one_line(fields.get("description") or body.strip().partition("\n")[0], _LONGEST_HELP),
            path=path,
            project=project,
            ignored=tuple(each for each in IGNORED if each in fields),
            hint=one_line(fields.get("argument-hint", ""), _LONGEST_HELP) or "[TEXT]",
        )

    return read_all(projects, read, _MOST)


class FileCommands(Extension):
    """The commands of one session: listed when it begins and after each turn, and read when they are used."""

    def __init__(self, given: OpenedWith) -> None:
        self._folders = given.folders("commands")
        self._found: list[FileCommand] = []

    def attach(self, session: SessionView) -> None:
        self._session = session
        self._look()

    async def between_turns(self) -> None:
        self._look()

    def _look(self) -> None:
        self._found, problems = find_commands(self._folders)
        for problem in problems:
            self._session.notices.say(f"not usable: {problem}", once=problem)

    def commands_now(self) -> Sequence[Command]:
        return [
            Command(each.name, each.description, partial(self._prompt, each), each.hint, prompts=True)
            for each in self._found
        ]

    async def _prompt(self, command: FileCommand, session: SessionView, argument: str) -> str:
        """Return the prompt of a command. Raises CodeletError."""
        try:
            body = clean(split_front(read_text_file(command.path, _LARGEST, within=command.project))[1]).strip()
        except FileFault as fault:
            raise UsageError(fault.at(command.path)) from None
        command.report_ignored(f"/{command.name}", session.notices)
        texts = _SHELL.split(body)
        parts = [with_arguments(text, argument) for text in texts]
        for place in range(1, len(parts), 2):
            parts[place] = await _output(session, command.name, parts[place])
        if argument and not any(map(_ARGUMENT.search, texts)):
            parts.append(f"\n\nARGUMENTS: {argument}")
        text = "".join(parts).strip()
        if not text:
            raise UsageError(f"{command.path}:1: has no text to send")
        return text


def with_arguments(text: str, argument: str) -> str:
    """Return the text with its placeholders replaced by the arguments, or by their defaults."""
    try:
        words = shlex.split(argument)
    except ValueError:
        words = argument.split()

    def value(found: re.Match[str]) -> str:
        number = int(found[1] or found[2] or 0)
        if not number:
            return argument
        return words[number - 1] if number <= len(words) else found[3] or ""

    return _ARGUMENT.sub(value, text)


async def _output(session: SessionView, name: str, command: str) -> str:
    """Return the output of a shell command in a text. Raises PromptRefused if it was not run."""
    result: ToolResult | None = None
    async with aclosing(session.run_tool("bash", {"command": command})) as seen:
        async for event in seen:
            result = event if isinstance(event, ToolResult) else result
    assert result is not None
    if result.status == "refused" or result.ended is None:
        raise PromptRefused(f"/{name} was not sent: {command}: {result.text}")
    return result.text
