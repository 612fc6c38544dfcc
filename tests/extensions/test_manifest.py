"""The rows of codelet's own extensions say what the extensions have, which are made at their first use only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codelet.extensions.base import OpenedWith, extension_of
from codelet.extensions.diagnostics import KNOWN
from codelet.extensions.hooks import Hook
from codelet.extensions.machine_status import Machine
from codelet.extensions.manifest import OPTIONAL_TOOLS, ROWS, Listed, ManifestRow, turned_on
from codelet.extensions.plans import Plans
from codelet.extensions.profiles.profile import MEMORY_TOOLS
from codelet.extensions.tasks import Tasks
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.safety.audit import AuditLog
from codelet.safety.sandbox import Sandbox
from codelet.settings import Settings
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.extensions.conftest import Open


@pytest.fixture
def with_all(open_session: Open, tmp_path: Path) -> Session:
    """A session that has every row's extension."""
    safeguards = Safeguards(sandbox=Sandbox(tmp_path), audit=AuditLog(tmp_path / "audit"))
    for name in ("skills/one/SKILL.md", "commands/one.md"):
        path = tmp_path / ".claude" / name
        path.parent.mkdir(parents=True)
        path.write_text("---\nname: one\ndescription: one\n---\n")
    hooks = (Hook(event="Stop", command="true"),)
    given = OpenedWith(
        settings=Settings(
            log=str(tmp_path / "log"), plan=True, home=tmp_path, hooks=hooks, web=True, checkers=(KNOWN["ruff"],)
        )
    )
    session, _ = open_session(*turned_on(given), safeguards=safeguards, tools=None)
    return session


def listed(session: Session, row: ManifestRow) -> Listed:
    return next(
        each for each in session.extensions if isinstance(each, Listed) and each.label == row.made.split(":")[1]
    )


@pytest.mark.parametrize("row", [row for row in ROWS if not row.is_eager], ids=lambda row: row.made)
def test_a_row_says_what_its_extension_has(row: ManifestRow, with_all: Session) -> None:
    place = listed(with_all, row)
    made = place.wake()
    assert f"codelet.extensions.{row.made}" == f"{type(made).__module__}:{type(made).__qualname__}"
    if row.tools:
        assert [each.schema() for each in place.tools] == [each.schema() for each in made.tools]
        assert {each.touched({}) for each in (*made.tools, *place.tools)} == {()}
    assert [each.name for each in place.commands] == [each.name for each in made.commands]
    assert [reminder(each) for each in place.reminders] == [reminder(each) for each in made.reminders]
    assert [part.key for part in place.parts] == [part.key for part in made.parts]
    assert [guard.in_subsessions for guard in place.guards] == [guard.in_subsessions for guard in made.guards]


async def test_lists_of_their_tools_are_whole(open_session: Open, with_all: Session, tmp_path: Path) -> None:
    given = OpenedWith(settings=Settings(home=tmp_path, web=True), search=lambda words, most: [])
    session, _ = open_session(*turned_on(given), tools=None)
    own = (each.wake() if isinstance(each, Listed) else each for each in session.extensions)
    found = {tool.name for each in own for tool in each.tools}
    assert found == OPTIONAL_TOOLS
    assert OPTIONAL_TOOLS - {"fetch"} == MEMORY_TOOLS


def reminder(source: Any) -> list[object]:
    return [getattr(source, name) for name in ("name", "zone", "late", "off", "instructs")]


def test_a_guard_is_made_at_the_first_call_or_by_something_else_before() -> None:
    made_before = {"Profiles", "Audit", "EventLog", "Plans", "Hooks", "Mcp"}
    guards = [row for row in ROWS if row.guard and row.made.split(":")[1] not in made_before]
    assert len(guards) == 4 and all("call" in row.wakes for row in guards)


async def test_nothing_is_made_before_its_use(open_session: Open) -> None:
    session, provider = open_session(*turned_on(OpenedWith(settings=Settings())), tools=None)
    provider.answers.append(Answer())
    await turn(session)
    assert made(session) == set()
    await session.run_command("plan")
    assert made(session) == {"Plans"}
    provider.answers.extend([Answer("", [("plan", {"plan": "[ ] look"})]), Answer()])
    await turn(session)
    assert made(session) == {"Plans", "Recall", "FileHistory", "Statistics"}


async def test_it_is_made_once_and_closed(open_session: Open, tmp_path: Path) -> None:
    session, _ = open_session(*turned_on(OpenedWith(settings=Settings())), tools=None)
    assert extension_of(session, Plans) is extension_of(session, Plans)
    assert extension_of(session, Tasks) is not None
    assert extension_of(session, Machine) is not None
    bare, _ = open_session(provider=ScriptedProvider())
    assert extension_of(bare, Machine) is None


def made(session: Session) -> set[str]:
    return {each.label for each in session.extensions if isinstance(each, Listed) and each.awake is not None}
