"""Skills: listed in the head, read by a tool, kept whole by compaction, called by the user."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codelet import prompt
from codelet.errors import CodeletError
from codelet.extensions.base import OpenedWith, OwnFolder
from codelet.extensions.manifest import turned_on
from codelet.extensions.prompt_files import Skill, find_skills
from codelet.frontends.command_prompt import run_command
from codelet.loop.session import Session
from codelet.messages import reminder_type
from codelet.settings import Settings
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.extensions.conftest import Open

BODY = "Read `scripts/fill.py` first.\nThen fill the form."
Opened = Callable[..., tuple[Session, ScriptedProvider]]


def write(folder: Path, name: str, front: str = "", body: str = BODY) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{front or f'name: {name}{chr(10)}description: Fill {name} forms.'}\n---\n\n{body}\n")
    return path


@pytest.fixture
def opened(open_session: Open, tmp_path: Path) -> Opened:
    """Opens a session as the command line does, with the folder `home` as the user's home."""

    def begin(**settings: Any) -> tuple[Session, ScriptedProvider]:
        chosen = Settings(home=tmp_path / "home", own_folder=tmp_path / "home/.config/codelet", **settings)
        given = OpenedWith(settings=chosen, workspace=tmp_path / "work")
        return open_session(*turned_on(given), bare=True, workspace_at=tmp_path)

    (tmp_path / "work").mkdir()
    return begin


def skills_in(provider: ScriptedProvider, request: int = -1) -> str:
    sent = provider.sent[request]
    return "".join(str(each["content"]) for each in sent.stable if reminder_type(each) == "skills")


def tools_in(provider: ScriptedProvider) -> list[str]:
    return [each["function"]["name"] for each in json.loads(provider.sent[-1].tools)]


async def test_the_head_lists_them_and_the_tool_reads_one(opened: Opened, tmp_path: Path) -> None:
    path = write(tmp_path / "home/.agents/skills", "pdf")
    (path.parent / "scripts").mkdir()
    (path.parent / "scripts/fill.py").write_text("print('filled')")
    session, provider = opened()
    calls = [("skill", {"name": "pdf"}), ("skill", {"name": "pdf", "file": "scripts/fill.py"}), ("skill", {})]
    provider.answers.extend([Answer("", calls), Answer("done")])
    await turn(session)
    assert "- pdf: Fill pdf forms." in skills_in(provider, 0) and prompt.SKILLS in skills_in(provider, 0)
    assert BODY not in skills_in(provider, 0)
    assert tools_in(provider)[-1] == "skill"
    body, file, none = (str(each["content"]) for each in session.messages if each["role"] == "tool")
    assert BODY in body and str(path.parent) in body and "scripts/fill.py" in body.rpartition("]")[0]
    assert file == "print('filled')"
    assert "pdf" in none and sorted(each.status for each in session.conversation.calls) == ["done", "done", "failed"]


async def test_a_file_outside_the_folder_is_refused(opened: Opened, tmp_path: Path) -> None:
    path = write(tmp_path / "home/.claude/skills", "pdf")
    (tmp_path / "home/secret").write_text("key")
    (path.parent / "link").symlink_to(tmp_path / "home/secret")
    session, provider = opened()
    files = ["../../../secret", str(tmp_path / "home/secret"), "link", "missing", "."]
    provider.answers.extend([Answer("", [("skill", {"name": "pdf", "file": file}) for file in files]), Answer()])
    await turn(session)
    assert {each.status for each in session.conversation.calls} == {"failed"}
    assert not any("key" in str(each["content"]) for each in session.messages)


async def test_its_text_survives_a_compaction(opened: Opened, tmp_path: Path) -> None:
    text = "\n".join(f"Rule {number}: never touch table {number * 7919}." for number in range(300))
    write(tmp_path / "home/.agents/skills", "rules", body=text)
    write(tmp_path / "home/.agents/skills", "more", body=text.replace("table", "index"))
    session, provider = opened()
    provider.answers.extend([Answer("", [("skill", {"name": "rules"})]), Answer("ok"), Answer("ok")])
    await turn(session)
    asked = await run_command(session, "/more please")
    await turn(session, asked)
    for number in range(12):
        provider.answers.append(Answer(f"A long answer, number {number}. " * 200))
        await turn(session, f"prompt {number}")
    assert [event async for event in session.compact()]
    assert session.compactor.count == 1
    whole = "\n".join(str(each["content"]) for each in session.messages)
    assert text in whole and text.replace("table", "index") in whole


async def test_one_is_called_by_its_name(opened: Opened, tmp_path: Path) -> None:
    path = write(tmp_path / "home/.agents/skills", "pdf", "name: pdf\ndescription: d\nallowed-tools: Bash\nmodel: x")
    hidden = "name: quiet\ndescription: Only by hand.\ndisable-model-invocation: true"
    write(tmp_path / "home/.agents/skills", "quiet", hidden)
    session, provider = opened()
    provider.answers.append(Answer())
    asked = await run_command(session, "/pdf the tax form")
    assert asked is not None and asked.startswith("Use the skill pdf: the tax form") and BODY in asked
    [note] = session.notices.take()
    assert "allowed-tools" in note and "model" in note
    await run_command(session, "/pdf again")
    assert session.notices.take() == []
    assert BODY in (await run_command(session, "/quiet") or "")
    await turn(session)
    assert "- pdf" in skills_in(provider) and "quiet" not in skills_in(provider)
    listed = await session.run_command("skills")
    assert str(path) in listed and "/quiet" in listed
    path.unlink()
    with pytest.raises(CodeletError, match=r"SKILL\.md"):
        await run_command(session, "/pdf")


async def test_the_list_is_the_same_until_a_skill_changes(opened: Opened, tmp_path: Path) -> None:
    write(tmp_path / "home/.agents/skills", "pdf")
    session, provider = opened()
    provider.answers.extend([Answer(), Answer(), Answer()])
    await turn(session)
    await turn(session)
    assert skills_in(provider, 0) == skills_in(provider, 1)
    write(tmp_path / "home/.agents/skills", "docx")
    await turn(session)
    assert "docx" in skills_in(provider) and "docx" in session.commands


async def test_a_long_list_goes_on_with_names(opened: Opened, tmp_path: Path) -> None:
    for number in range(205):
        write(tmp_path / "home/.agents/skills", f"s{number:03}", f"description: {'long words ' * 20}")
    session, provider = opened()
    provider.answers.append(Answer())
    await turn(session)
    text = skills_in(provider)
    assert len(text) < 11_000 and "s000: long" in text and "s199" in text and "s199: long" not in text
    assert len(session.commands.keys() & {f"s{number:03}" for number in range(205)}) == 200
    assert "200" in (await session.run_command("skills")).splitlines()[-1]


async def test_without_a_skill_nothing_is_there(opened: Opened, tmp_path: Path) -> None:
    session, provider = opened()
    (tmp_path / "home/.agents/skills").mkdir(parents=True)
    others = [opened(), opened(skills="off"), opened(bare=True)]
    write(tmp_path / "home/.agents/skills", "pdf")
    others += [opened(skills="off"), opened(bare=True)]
    for each, model in [(session, provider), *others]:
        model.answers.append(Answer())
        await turn(each)
        assert (model.sent[0].tools, model.sent[0].stable) == (provider.sent[0].tools, provider.sent[0].stable)
        assert "skills" not in each.commands
    chosen, model = opened(tools=("read",))
    model.answers.append(Answer())
    await turn(chosen)
    assert "skill" not in tools_in(model) and skills_in(model) == "" and "pdf" in chosen.commands


async def test_a_projects_are_read_only_if_it_is_trusted(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for place in (".agents", "work/.agents", "work/.claude", "work/.codelet"):
        write(tmp_path / place / "skills", place.replace("/", "-").replace(".", ""))
    outside = write(tmp_path / "outside", "evil")
    (tmp_path / "work/.agents/skills/evil").symlink_to(outside.parent)
    write(tmp_path / "home/.claude/skills", "mine")
    session, _ = opened()
    names = {"agents", "work-agents", "work-claude", "work-codelet", "evil", "mine"}
    assert session.commands.keys() & names == {"mine"}
    session, _ = opened(trusted=True)
    assert session.commands.keys() & names == names - {"evil"}
    assert "evil" in await session.run_command("skills")


@pytest.mark.parametrize(
    ("front", "name"),
    [
        ("name: other\ndescription: d", "other"),
        ("name: Not A Name\ndescription: d", "folder"),
        ("description: Use when: a colon is there", "folder"),
        ("name: other", None),
        ("description: ''", None),
    ],
)
def test_what_is_read_leniently(tmp_path: Path, front: str, name: str | None) -> None:
    write(tmp_path, "Folder", front)
    found, problems = find_skills([OwnFolder(tmp_path)])
    assert [each.name for each in found] == ([] if name is None else [name])
    assert len(problems) == (name is None)


def test_of_two_with_one_name_the_first_counts_and_bad_files_are_named(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", "x"), write(tmp_path / "b", "x")
    (tmp_path / "a/none").mkdir()
    (tmp_path / "a/none/SKILL.md").write_text("no front matter")
    found, problems = find_skills([OwnFolder(tmp_path / "a"), OwnFolder(tmp_path / "b")])
    assert [each.path for each in found] == [first] and second.exists()
    assert len(problems) == 1 and "none" in problems[0]


def test_the_standards_own_reader_agrees(tmp_path: Path) -> None:
    from skills_ref import read_properties, validate

    forms = {
        "pdf-forms": "name: pdf-forms\ndescription: Fill forms.\nlicense: MIT",
        "data": "name: data\ndescription: >-\n  Look at\n  tables.\nmetadata:\n  author: me",
        "quoted": "name: \"quoted\"\ndescription: 'It''s fine: really'\ncompatibility: needs python",
    }
    for name, front in forms.items():
        path = write(tmp_path, name, front)
        assert validate(path.parent) == []
        theirs = read_properties(path.parent)
        [ours] = [each for each in find_skills([OwnFolder(tmp_path)])[0] if each.name == name]
        assert (ours.name, ours.description) == (theirs.name, theirs.description.strip())
    assert isinstance(ours, Skill)
