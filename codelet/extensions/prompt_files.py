"""Skills and commands in Markdown files: `/NAME` sends the text of one as the prompt.

A skill, after agentskills.io, is a folder of instructions that the model reads when a task needs them. The head of the
conversation has the name and the description of each; the tool `skill` gives the text, which no compaction cuts, and
the other files. In a command `$ARGUMENTS`, `$1` and `${2:-default}` are replaced. A shell command in it, as in !`git
diff`, runs as a call of the tool bash: judged, asked about, audited; its output takes its place.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from codelet import prompt
from codelet.context.reminders import Source
from codelet.errors import PromptRefused, ToolError, UsageError
from codelet.events import Notices, ToolResult
from codelet.extensions.base import Command, Extension, OpenedWith, OwnFolder
from codelet.extensions.front_matter import FileFault, fields_of, read_text_file, split_front
from codelet.record import Record
from codelet.system.text import clean, one_line
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_SKILL_NAME = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,63}")
_COMMAND_NAME = re.compile(r"[a-z0-9_:.-]*[a-z][a-z0-9_:.-]*")
_SKILLS = ("*/SKILL.md",)
_COMMANDS = ("*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md")
_MOST_SKILLS, _MOST_COMMANDS = 200, 500
_LARGEST_SKILL, _LARGEST_COMMAND = 256 << 10, 64 << 10
_HEAD = 16 << 10
_IGNORED = ("allowed-tools", "disallowed-tools", "model", "hooks", "agent", "context")
"""Fields that grant rights or choose models elsewhere: here the user's settings do that."""
_LONGEST_DESCRIPTION, _LONGEST_HELP = 1_024, 100
_CATALOG = 8_000
"""Characters of the list in the conversation's head; of a small budget it takes two %."""
_MOST_FILES = 50
_SHELL = re.compile(r"!`([^`\n]+)`")
_ARGUMENT = re.compile(r"\$(?:ARGUMENTS|@|([1-9])(?![0-9])|\{([1-9])(?::-([^}\n]*))?\})")


class PromptFile(Record, kw_only=True):
    """A command: `path` is its file, `project` the project that brings it, `hint` shows what may be typed.

    `ignored` are its fields that codelet does not use.
    """

    name: str
    description: str
    path: Path
    project: Path | None
    ignored: tuple[str, ...]
    hint: str = "[TEXT]"

    def body(self) -> str:
        """Return the text below the front matter. Raises FileFault."""
        return clean(split_front(read_text_file(self.path, _LARGEST_SKILL, within=self.project))[1]).strip()

    def report_ignored(self, notices: Notices) -> None:
        """Notify the user once of the fields that codelet does not use."""
        if self.ignored:
            text = f"/{self.name}: codelet does not use its {' and '.join(self.ignored)}"
            notices.say(text, once=f"/{self.name}")


class Skill(PromptFile, kw_only=True):
    """A skill, known by its SKILL.md. Only the user calls a `hidden` one."""

    hidden: bool

    def body(self) -> str:
        """Return the instructions, with the folder that their paths start from. Raises FileFault."""
        more = ", ".join(islice(self._files(), _MOST_FILES))
        files = prompt.SKILL_FILES.format(files=more, name=self.name) if more else ""
        return prompt.SKILL_BODY.format(name=self.name, folder=self.path.parent, body=super().body(), files=files)

    def file(self, name: str) -> str:
        """Return one of its other files. Raises FileFault."""
        path, folder = self.path.parent / name, self.path.parent.resolve()
        if not path.resolve().is_relative_to(folder):
            raise FileFault(1, "is outside the skill's folder")
        return read_text_file(path, _LARGEST_SKILL, within=self.project)

    def _files(self) -> Iterator[str]:
        """Yield the names of the other files in the skill's folder."""
        for folder, inner, files in os.walk(self.path.parent):
            inner[:] = sorted(name for name in inner if not name.startswith((".", "__")))
            for name in sorted(files):
                if name != self.path.name:
                    yield os.path.relpath(os.path.join(folder, name), self.path.parent)


NamedFile = TypeVar("NamedFile", bound=PromptFile)


def _found(
    folders: Sequence[OwnFolder], patterns: Sequence[str], most: int, read: Callable[[Path, OwnFolder], NamedFile]
) -> tuple[list[NamedFile], list[str]]:
    """Return the files in these folders, the first of each name, at most `most`, and the errors in others."""
    found: dict[str, NamedFile] = {}
    problems: list[str] = []
    for folder in folders:
        for path in sorted(each for pattern in patterns for each in folder.path.glob(pattern)):
            try:
                each = read(path, folder)
            except FileFault as fault:
                problems.append(fault.at(path))
                continue
            if len(found) == most and each.name not in found:
                return list(found.values()), [*problems, f"{path}: there are more than {most}"]
            found.setdefault(each.name, each)
    return list(found.values()), problems


def find_skills(folders: Sequence[OwnFolder]) -> tuple[list[Skill], list[str]]:
    """Return the skills in these folders, and the errors in other files."""

    def read(path: Path, folder: OwnFolder) -> Skill:
        front, _ = split_front(read_text_file(path, _HEAD, within=folder.project, cut=True))
        if front is None:
            raise FileFault(1, "has no front matter between two lines of three dashes")
        fields = fields_of(front)
        description = one_line(fields.get("description", ""), _LONGEST_DESCRIPTION)
        if not description:
            raise FileFault(1, "has no description, which the model needs to choose a skill")
        names = [name for name in (fields.get("name", ""), path.parent.name.lower()) if _SKILL_NAME.fullmatch(name)]
        if not names:
            raise FileFault(1, "has no name of small letters, digits and -")
        return Skill(
            name=names[0],
            description=description,
            path=path,
            project=folder.project,
            ignored=tuple(name for name in _IGNORED if name in fields),
            hidden=fields.get("disable-model-invocation", "").lower() in ("true", "yes"),
        )

    return _found(folders, _SKILLS, _MOST_SKILLS, read)


def find_commands(folders: Sequence[OwnFolder]) -> tuple[list[PromptFile], list[str]]:
    """Return the commands in these folders, and the errors in other files."""

    def read(path: Path, folder: OwnFolder) -> PromptFile:
        name = ":".join(path.relative_to(folder.path).with_suffix("").parts).lower()
        if not _COMMAND_NAME.fullmatch(name):
            raise FileFault(1, f"{name!r}: a name has letters, digits, -, _ and . only")
        front, body = split_front(read_text_file(path, _LARGEST_COMMAND, within=folder.project))
        fields = fields_of(front or "")
        return PromptFile(
            name=name,
            description=one_line(fields.get("description") or body.strip().partition("\n")[0], _LONGEST_HELP),
            path=path,
            project=folder.project,
            ignored=tuple(each for each in _IGNORED if each in fields),
            hint=one_line(fields.get("argument-hint", ""), _LONGEST_HELP) or "[TEXT]",
        )

    return _found(folders, _COMMANDS, _MOST_COMMANDS, read)


class PromptFiles(Extension, Source):
    """The skills and commands of one session: listed when it begins and with each prompt, and read when they are used.

    If the user chose the tools, the model has neither the tool nor the list of skills.
    """

    name = "skills"
    zone = "head"

    def __init__(self, given: OpenedWith) -> None:
        async def skill(context: ToolContext, progress: Progress, *, name: str = "", file: str = "") -> ToolOutput:
            found = next((each for each in self._skills if each.name == name.strip().removeprefix("/")), None)
            if found is None:
                known = ", ".join(each.name for each in self._skills)
                raise ToolError(f"there is no skill {name!r}; there are {known}")
            try:
                text = await asyncio.to_thread(found.file, file) if file else await asyncio.to_thread(found.body)
            except FileFault as fault:
                raise ToolError(f"skill: {fault.at(file or found.path)}") from None
            found.report_ignored(self._session.notices)
            return ToolOutput(text)

        skill.__doc__ = prompt.SKILL_TOOL
        self._skill_folders, self._command_folders = given.folders("skills"), given.folders("commands")
        self._offers = given.settings.tools is None
        self._read()
        if self._skills or self._problems:
            self.tools = (tool(skill, title=lambda arguments: " ".join(filter(None, map(str, arguments.values())))),)
            self.reminders = (self,)
            self.commands = (Command("skills", "the skills, and the errors in their files", self._shown),)
        else:
            self._skill_folders = []
        self._prompts: list[str] = []
        self._pinned: set[str] = set()
        self._session: SessionView

    def attach(self, session: SessionView) -> None:
        self._session = session
        self._report()

    async def prompted(self, text: str) -> None:
        await asyncio.to_thread(self._read)
        self._report()

    def _read(self) -> None:
        """Read the lists."""
        self._skills, self._problems = find_skills(self._skill_folders)
        self._commands, self._unusable = find_commands(self._command_folders)

    def _report(self) -> None:
        """Notify the user once of each file that is no command."""
        for problem in self._unusable:
            self._session.notices.say(f"not usable: {problem}", once=problem)

    def offered(self) -> Sequence[Tool]:
        return self.tools if self._offers else ()

    def commands_now(self) -> Sequence[Command]:
        files = (each for each in (*self._skills, *self._commands) if each.name != "skills" or not self.commands)
        own = (
            Command(each.name, one_line(each.description, _LONGEST_HELP), partial(self._prompt, each), each.hint, True)
            for each in files
        )
        return (*self.commands, *own)

    async def text(self) -> str | None:
        """Return the list for the model; descriptions as long as there is room, then names only."""
        listed = [each for each in self._skills if not each.hidden] if self._offers else []
        if not listed:
            return None
        room = min(_CATALOG, 4 * self._session.compactor.share_of("core") * 2 // 5)
        lines: list[str] = []
        for each in listed:
            lines.append(f"- {each.name}: {each.description}")
            room -= len(lines[-1]) + 1
            if room < 0:
                rest = [each.name for each in listed[len(lines) - 1 :]]
                lines[-1] = prompt.MORE_SKILLS.format(names=", ".join(rest))
                self._session.notices.say(f"the model gets only the names of {len(rest)} skills", once="skills")
                break
        return "\n".join([prompt.SKILLS, *lines])

    async def compacting(self, reason: str) -> None:
        """Pin the texts of skills that are in the conversation, each once: the user may unpin it."""
        session, names = self._session, {each.name for each in self._skills}
        ids = {each.id for each in session.conversation.calls if each.tool == "skill" and each.title in names}
        for number, message in enumerate(session.conversation.sent()):
            key, content = "", message["content"] or ""
            if message["role"] == "tool" and message["tool_call_id"] in ids:
                key = message["tool_call_id"]
            elif message["role"] == "user":
                key = next((each for each in self._prompts if content.startswith(each)), "")
            if key and key not in self._pinned:
                self._pinned.add(key)
                try:
                    session.compactor.pin(number)
                except UsageError as error:
                    session.notices.say(f"a skill's text is not kept whole: {error}")

    async def _prompt(self, file: PromptFile, session: SessionView, argument: str) -> str:
        """Return the prompt that a file makes. Raises CodeletError."""
        try:
            body = await asyncio.to_thread(file.body)
        except FileFault as fault:
            raise UsageError(fault.at(file.path)) from None
        file.report_ignored(session.notices)
        if isinstance(file, Skill):
            text = prompt.USE_SKILL.format(name=file.name, text=argument or prompt.SKILL_ALONE, body=body)
            self._prompts.append(session.mask(text))
            return text
        texts = _SHELL.split(body)
        parts = [with_arguments(text, argument) for text in texts]
        for place in range(1, len(parts), 2):
            parts[place] = await _output(session, file.name, parts[place])
        if argument and not any(map(_ARGUMENT.search, texts)):
            parts.append(f"\n\nARGUMENTS: {argument}")
        text = "".join(parts).strip()
        if not text:
            raise UsageError(f"{file.path}:1: has no text to send")
        return text

    async def _shown(self, session: SessionView, argument: str) -> str:
        await asyncio.to_thread(self._read)
        lines = []
        for each in self._skills:
            hidden = " (only you call it)" if each.hidden else ""
            lines.append(f"/{each.name}: {one_line(each.description, _LONGEST_HELP)}{hidden}\n  {each.path}")
        wrong = [f"not usable: {problem}" for problem in self._problems]
        return "\n".join([*lines, *wrong]) or "there are no skills"


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
