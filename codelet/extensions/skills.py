"""Skills, after agentskills.io: folders of instructions that the model reads when a task needs them.

The head of the conversation has the name and the description of each. The tool `skill` gives the text of one, which no
compaction cuts, and its other files. `/skills` lists them, `/NAME` has the model use one.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.context.reminders import Source
from codelet.errors import ToolError, UsageError
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
from codelet.messages import Message
from codelet.system.text import clean, one_line
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_NAME = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,63}")
_FILE = "SKILL.md"
_MOST = 200
_LARGEST = 256 << 10
_HEAD = 16 << 10
_LONGEST_DESCRIPTION = 1_024
_LONGEST_HELP = 100
_CATALOG = 8_000
"""Characters of the list in the conversation's head; of a small budget it takes two %."""
_MOST_FILES = 50


class Skill(UserFile, kw_only=True):
    """One skill, known by its SKILL.md. Only the user calls a `hidden` one."""

    hidden: bool

    def body(self) -> str:
        """The instructions, with the folder that their paths start from. Raises FileFault."""
        body = clean(split_front(read_text_file(self.path, _LARGEST, within=self.project))[1]).strip()
        more = ", ".join(islice(self._files(), _MOST_FILES))
        files = prompt.SKILL_FILES.format(files=more, name=self.name) if more else ""
        return prompt.SKILL_BODY.format(name=self.name, folder=self.path.parent, body=body, files=files)

    def file(self, name: str) -> str:
        """One of its other files. Raises FileFault."""
        path, folder = self.path.parent / name, self.path.parent.resolve()
        if not path.resolve().is_relative_to(folder):
            raise FileFault(1, "is outside the skill's folder")
        return read_text_file(path, _LARGEST, within=self.project)

    def _files(self) -> Iterator[str]:
        """Yield the names of the other files in the skill's folder."""
        for folder, inner, files in os.walk(self.path.parent):
            inner[:] = sorted(name for name in inner if not name.startswith((".", "__")))
            for name in sorted(files):
                if name != _FILE:
                    yield os.path.relpath(os.path.join(folder, name), self.path.parent)


def find_skills(folders: Sequence[OwnFolder]) -> tuple[list[Skill], list[str]]:
    """Return the skills in these folders, the first of each name, and the errors in other files."""
    paths = ((path, folder.project) for folder in folders for path in sorted(folder.path.glob(f"*/{_FILE}")))
    return read_all(paths, _skill, _MOST)


def _skill(path: Path, project: Path | None) -> Skill:
    front, _ = split_front(read_text_file(path, _HEAD, within=project, cut=True))
    if front is None:
        raise FileFault(1, "has no front matter between two lines of three dashes")
    fields = fields_of(front)
    description = one_line(fields.get("description", ""), _LONGEST_DESCRIPTION)
    if not description:
        raise FileFault(1, "has no description, which the model needs to choose a skill")
    names = [name for name in (fields.get("name", ""), path.parent.name.lower()) if _NAME.fullmatch(name)]
    if not names:
        raise FileFault(1, "has no name of small letters, digits and -")
    return Skill(
        name=names[0],
        description=description,
        path=path,
        project=project,
        ignored=tuple(name for name in IGNORED if name in fields),
        hidden=fields.get("disable-model-invocation", "").lower() in ("true", "yes"),
    )


class Skills(Extension, Source):
    """The skills of one session. If the user chose the tools, the model has neither the tool nor the list."""

    name = "skills"
    zone = "head"

    def __init__(self, given: OpenedWith) -> None:
        async def skill(context: ToolContext, progress: Progress, *, name: str = "", file: str = "") -> ToolOutput:
            found = self._named(name)
            try:
                text = await asyncio.to_thread(found.file, file) if file else await asyncio.to_thread(found.body)
            except FileFault as fault:
                raise ToolError(f"skill: {fault.at(file or found.path)}") from None
            self._used(found)
            return ToolOutput(text)

        skill.__doc__ = prompt.SKILL_TOOL
        self.tools = (tool(skill, title=lambda arguments: " ".join(filter(None, map(str, arguments.values())))),)
        self.reminders = (self,)
        self.commands = (Command("skills", "the skills, and the errors in their files", self._shown),)
        self._folders = given.folders("skills")
        self._offers = given.settings.tools is None
        self._skills, self._problems = find_skills(self._folders)
        self._prompts: list[str] = []
        self._pinned: set[str] = set()
        self._session: SessionView

    def attach(self, session: SessionView) -> None:
        self._session = session

    def offered(self) -> Sequence[Tool]:
        return self.tools if self._offers else ()

    def commands_now(self) -> Sequence[Command]:
        own = (self._command(each) for each in self._skills if each.name != "skills")
        return (*self.commands, *own)

    async def begin(self) -> None:
        """A turn begins: read the list again."""
        self._skills, self._problems = await asyncio.to_thread(find_skills, self._folders)

    async def text(self) -> str | None:
        """The list for the model; descriptions as long as there is room, then names only."""
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
            key = self._text_of_skill(message, ids)
            if key and key not in self._pinned:
                self._pinned.add(key)
                try:
                    session.compactor.pin(number)
                except UsageError as error:
                    session.notices.say(f"a skill's text is not kept whole: {error}")

    def _text_of_skill(self, message: Message, ids: set[str]) -> str:
        """Return what a message is known by that holds the text of a skill; empty for any other."""
        if message["role"] == "tool":
            return message["tool_call_id"] if message["tool_call_id"] in ids else ""
        content = message["content"] or ""
        return next((each for each in self._prompts if message["role"] == "user" and content.startswith(each)), "")

    def _named(self, name: str) -> Skill:
        found = next((each for each in self._skills if each.name == name.strip().removeprefix("/")), None)
        if found is None:
            raise ToolError(f"there is no skill {name!r}; there are {', '.join(each.name for each in self._skills)}")
        return found

    def _used(self, skill: Skill) -> None:
        skill.report_ignored(f"skill {skill.name}", self._session.notices)

    def _command(self, skill: Skill) -> Command:
        about = one_line(skill.description, _LONGEST_HELP)
        return Command(skill.name, about, partial(self._prompt, skill), "[TEXT]", prompts=True)

    async def _prompt(self, skill: Skill, session: SessionView, argument: str) -> str:
        """The prompt that has the model use a skill."""
        try:
            body = await asyncio.to_thread(skill.body)
        except FileFault as fault:
            raise UsageError(fault.at(skill.path)) from None
        self._used(skill)
        text = prompt.USE_SKILL.format(name=skill.name, text=argument or prompt.SKILL_ALONE, body=body)
        self._prompts.append(session.mask(text))
        return text

    async def _shown(self, session: SessionView, argument: str) -> str:
        await self.begin()
        lines = []
        for each in self._skills:
            hidden = " (only you call it)" if each.hidden else ""
            lines.append(f"/{each.name}: {one_line(each.description, _LONGEST_HELP)}{hidden}\n  {each.path}")
        wrong = [f"not usable: {problem}" for problem in self._problems]
        return "\n".join([*lines, *wrong]) or "there are no skills"
