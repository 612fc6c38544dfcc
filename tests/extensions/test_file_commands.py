"""Commands in Markdown files: found, filled in, their shell commands judged like any call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import EXIT_REFUSED, CodeletError, PromptRefused
from codelet.extensions.base import OpenedWith, OwnFolder
from codelet.extensions.manifest import turned_on
from codelet.extensions.prompt_files import find_commands, with_arguments
from codelet.frontends.command_prompt import run_command
from codelet.loop.session import Session
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Given
from codelet.safety.verdict import Question
from codelet.settings import Settings
from tests.context.scripted import Answer, turn
from tests.extensions.conftest import Open


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def opened(open_session: Open, tmp_path: Path) -> Callable[..., Session]:
    """Opens a session as the command line does, with `home` as the user's home; nobody can be asked."""

    def begin(*, trusted: bool = False, **options: Any) -> Session:
        settings = Settings(home=tmp_path / "home", own_folder=tmp_path / "home/own", trusted=trusted)
        given = OpenedWith(settings=settings, workspace=tmp_path)
        options = {"policy": Policy(tmp_path)} | options
        return open_session(*turned_on(given), bare=True, **options)[0]

    return begin


@pytest.mark.parametrize(
    ("text", "argument", "wanted"),
    [
        ("fix $ARGUMENTS now", "a 'b c'", "fix a 'b c' now"),
        ("$1 then $2.", "a 'b c' d", "a then b c."),
        ("$2|${2:-main}|${1:-main}", "a", "|main|a"),
        ("$@ for $10 and ${x} and $HOME", "a", "a for $10 and ${x} and $HOME"),
        ("$1", "it's", "it's"),
        ("$1", "$2 $ARGUMENTS", "$2"),
    ],
)
def test_what_was_typed_takes_the_place_of(text: str, argument: str, wanted: str) -> None:
    assert with_arguments(text, argument) == wanted


async def test_a_file_is_a_command(opened: Callable[..., Session], tmp_path: Path) -> None:
    front = "---\ndescription: Fix an issue\nargument-hint: NUMBER [branch]\nallowed-tools: Bash(git:*)\n---\n"
    write(tmp_path / "home/.claude/commands", "Fix.md", f"{front}Fix issue $1 on ${{2:-main}}.\n")
    write(tmp_path / "home/own/commands", "git/commit_all.md", "Write a commit message.\nShort.")
    session = opened()
    fix, commit = session.commands["fix"], session.commands["git:commit_all"]
    assert (fix.help, fix.arguments, fix.prompts) == ("Fix an issue", "NUMBER [branch]", True)
    assert commit.help == "Write a commit message."
    assert await run_command(session, "/fix 7") == "Fix issue 7 on main."
    [note] = session.notices.take()
    assert "allowed-tools" in note
    assert await run_command(session, "/git:commit_all") == "Write a commit message.\nShort."
    asked = await run_command(session, "/GIT:commit_all in German")
    assert asked is not None and asked.endswith("Short.\n\nARGUMENTS: in German")


async def test_files_may_change_while_the_session_runs(open_session: Open, tmp_path: Path) -> None:
    folder = tmp_path / "home/.claude/commands"
    path = write(folder, "one.md", "one")
    given = OpenedWith(settings=Settings(home=tmp_path / "home"), workspace=tmp_path)
    session, provider = open_session(*turned_on(given))
    path.write_text("changed")
    write(folder, "two.md", "two")
    assert await run_command(session, "/one") == "changed"
    provider.answers.append(Answer())
    await turn(session)
    assert await run_command(session, "/two") == "two"
    path.unlink()
    with pytest.raises(CodeletError, match=r"one\.md"):
        await run_command(session, "/one")


async def test_its_shell_commands_are_judged(opened: Callable[..., Session], tmp_path: Path) -> None:
    folder = tmp_path / "home/.claude/commands"
    write(folder, "look.md", "Branch: !`echo on-$1 && false`\nEnd.")
    write(folder, "write.md", "Now !`touch $1`.")
    policy = Policy(tmp_path, yes=True)
    asked = await run_command(opened(policy=policy), "/look main")
    assert asked is not None and "on-main" in asked and asked.endswith("End.") and "`" not in asked
    refusing = opened()
    with pytest.raises(PromptRefused) as refused:
        await run_command(refusing, "/write made")
    assert refused.value.exit_status == EXIT_REFUSED
    assert refusing.toolbox.approvals.refused and not (tmp_path / "made").exists()
    questions: list[Question] = []

    async def ask(question: Question) -> Given:
        questions.append(question)
        return Given(allow=len(questions) > 1)

    person = opened(ask=ask)
    with pytest.raises(PromptRefused):
        await run_command(person, "/write made")
    assert await run_command(person, "/write 'made; touch more'") is not None
    assert [each.arguments["command"] for each in questions] == ["touch made", "touch made; touch more"]
    assert (tmp_path / "made").exists() and (tmp_path / "more").exists()
    assert person.conversation.messages[:] == [], "they are calls of the user's"


async def test_a_session_without_bash_runs_none(opened: Callable[..., Session], tmp_path: Path) -> None:
    write(tmp_path / "home/.claude/commands", "look.md", "!`echo hello`")
    with pytest.raises(PromptRefused):
        await run_command(opened(tools=[]), "/look")


async def test_a_projects_are_read_only_if_it_is_trusted(opened: Callable[..., Session], tmp_path: Path) -> None:
    for place in (".claude", ".codelet", ".agents"):
        write(tmp_path / place / "commands", f"{place[1:]}.md", "text")
    write(tmp_path, "outside.md", "evil")
    (tmp_path / "link").mkdir()
    project = tmp_path / "project"
    (project / ".claude/commands").mkdir(parents=True)
    (project / ".claude/commands/evil.md").symlink_to(tmp_path / "outside.md")
    assert not opened().commands.keys() & {"claude", "codelet", "agents"}
    assert opened(trusted=True).commands.keys() & {"claude", "codelet", "agents"} == {"claude", "codelet"}
    found, problems = find_commands([OwnFolder(project / ".claude/commands", project)])
    assert found == [] and len(problems) == 1


def test_what_is_no_command_is_named_and_there_is_an_end(tmp_path: Path) -> None:
    write(tmp_path, "no name.md", "x")
    write(tmp_path, "7.md", "x")
    write(tmp_path, "large.md", "x" * 65_537)
    write(tmp_path, "a/b/c/d/deep.md", "x")
    (tmp_path / "bad.md").write_bytes(b"\xff")
    write(tmp_path, "readme.txt", "x")
    found, problems = find_commands([OwnFolder(tmp_path)])
    assert found == [] and len(problems) == 4
    for number in range(502):
        write(tmp_path / "many", f"c{number}.md", "x")
    found, problems = find_commands([OwnFolder(tmp_path / "many")])
    assert len(found) == 500 and len(problems) == 1


async def test_of_two_the_users_counts_and_codelets_own_before_it(
    opened: Callable[..., Session], tmp_path: Path
) -> None:
    write(tmp_path / "home/own/commands", "same.md", "first")
    write(tmp_path / "home/.claude/commands", "same.md", "second")
    write(tmp_path / "home/.claude/commands", "plan.md", "mine")
    session = opened()
    assert await run_command(session, "/same") == "first"
    assert session.commands["plan"].prompts is False
