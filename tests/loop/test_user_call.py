"""A call that the user asks for: judged and noted like the model's, and none of it in the list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet.events import ToolCallStarted, ToolProgress, ToolResult
from codelet.loop.toolbox import Safeguards
from codelet.safety import Policy
from codelet.safety.audit import AuditLog
from codelet.tools.tool import ToolContext
from tests.support.sessions import MakeSession


async def called(session: Any, name: str, **arguments: Any) -> tuple[ToolCallStarted, ToolResult]:
    context = ToolContext(session.workspace, None)
    begun, *between, ended = [event async for event in session.run_tool(name, arguments, context)]
    assert all(isinstance(event, ToolProgress) for event in between)
    assert isinstance(begun, ToolCallStarted) and isinstance(ended, ToolResult)
    assert begun.id == ended.id and begun.name == ended.name == name and begun.arguments == arguments
    return begun, ended


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def noted(audit: Path) -> list[str]:
    """The kinds of record that the audit holds of the call."""
    return [one["kind"] for one in map(json.loads, audit.read_text().splitlines()) if "call" in one]


async def test_a_change_is_made_and_noted_and_the_list_knows_nothing(
    make_session: MakeSession, repo: Path, audit: Path
) -> None:
    session = make_session(safeguards=Safeguards(audit=AuditLog(audit)))
    begun, ended = await called(session, "write", path="sub/new.txt", content="made\n")
    assert "sub/new.txt" in begun.title
    assert (ended.status, (repo / "sub" / "new.txt").read_text()) == ("done", "made\n")
    assert 0 <= ended.seconds < 600 and ended.display
    assert session.messages == []
    assert noted(audit) == ["verdict", "change", "execution"]
    assert session.toolbox.touched.names == ["sub"]


async def test_what_only_reads_is_no_change(make_session: MakeSession, audit: Path) -> None:
    session = make_session(safeguards=Safeguards(audit=AuditLog(audit)))
    _, ended = await called(session, "bash", command="echo said; exit 3")
    assert ended.status == "failed" and "said" in ended.text
    assert noted(audit) == ["verdict", "execution"]


async def test_what_is_denied_does_not_run(make_session: MakeSession, repo: Path, audit: Path) -> None:
    session = make_session(safeguards=Safeguards(audit=AuditLog(audit)), policy=Policy(repo, deny=["write"], yes=True))
    _, ended = await called(session, "write", path="new.txt", content="made\n")
    assert ended.status == "refused" and ended.text
    assert not (repo / "new.txt").exists()
    assert noted(audit) == ["verdict"]


@pytest.mark.parametrize(
    "arguments", [{"path": "new.txt"}, {"path": "gone/../../../etc/x", "content": "x"}], ids=["form", "place"]
)
async def test_what_cannot_be_done_is_a_failure_with_its_reason(
    make_session: MakeSession, repo: Path, arguments: dict[str, Any]
) -> None:
    session = make_session()
    _, ended = await called(session, "write", **arguments)
    assert ended.status in ("failed", "refused") and ended.text
    assert not (repo / "new.txt").exists()


async def test_a_tool_that_is_not_there_is_named(make_session: MakeSession) -> None:
    _, ended = await called(make_session(), "nothing")
    assert ended.status == "failed"
    assert "nothing" in ended.text
