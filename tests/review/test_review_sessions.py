"""Sessions of reviews next to another one: its rules and guards apply to them, its conversation does not."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import CodeletError, ToolError
from codelet.extensions.base import Extension, Guard, GuardedCall, OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.frontends.terminal.slash_commands.review_change import reviewers_beside
from codelet.loop.meter import Limits
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.review.findings import Report
from codelet.review.packing import planned
from codelet.review.repeats import Repeats
from codelet.review.review_run import ReviewOptions, ReviewRun
from codelet.review.reviewed_change import Wanted, change_from_git
from codelet.safety import Policy
from codelet.safety.audit import AuditLog
from codelet.settings import Settings
from tests.review.conftest import DOUBLED
from tests.support.reviews import found, model
from tests.support.script import Call, Reply, Step
from tests.support.server import ModelServer, Recorded
from tests.support.sessions import provider_of

Opened = Callable[..., Session]
WHY = "no file is read before the ticket is open"


class Closed(Extension, Guard):
    """Refuses every call, like a guard that cannot reach its server."""

    def __init__(self) -> None:
        self.guards = (self,)
        self.asked: list[str] = []

    async def before(self, call: GuardedCall) -> None:
        self.asked.append(call.described)
        raise ToolError(WHY)


@pytest.fixture
async def open_session(changed: Path, server: ModelServer) -> AsyncIterator[Opened]:
    """Opens a session in the repository whose model reads a file and finds one bug."""

    def answer(request: Recorded) -> Step:
        done = any(message["role"] == "tool" for message in request.messages)
        return Reply(found(DOUBLED)) if done else Reply(calls=[Call("c1", "read", {"path": "app.py"})])

    server.script = model(answer)
    opened: list[Session] = []

    def begin(*extensions: Extension, **options: Any) -> Session:
        more = [*turned_on(OpenedWith(settings=Settings())), *extensions]
        opened.append(Session(provider_of(server), workspace=changed, extensions=more, **options))
        return opened[-1]

    yield begin
    for session in opened:
        await session.close()


async def reported(session: Session, server: ModelServer) -> Report:
    """Reviews the last commit next to the session."""
    change = await change_from_git(Wanted(kind="commits", name="HEAD~1..HEAD"), session.workspace)
    spending, open_reviewer = reviewers_beside(session, change, lambda: provider_of(server))
    options, name = ReviewOptions(repeats=Repeats(files=change.files), jobs=1), session.provider.model
    run = ReviewRun(change, planned(change.files), options, spending, open_reviewer, model=lambda: name)
    error = None
    try:
        async with aclosing(run.steps()) as steps:
            async for _ in steps:
                pass
    except CodeletError as caught:
        error = caught
    spending.settle()
    return run.report(error)


async def review(session: Session, server: ModelServer) -> set[str]:
    """The same, where all goes well: what came of the calls."""
    assert [each.title for each in (await reported(session, server)).findings] == [DOUBLED["title"]]
    return {each["content"] for one in server.requests for each in one.messages if each["role"] == "tool"}


async def test_a_guard_stands_there_too(open_session: Opened, server: ModelServer, tmp_path: Path) -> None:
    guard = Closed()
    session = open_session(guard, safeguards=Safeguards(audit=AuditLog(tmp_path / "audit.jsonl")))
    told = await review(session, server)
    assert told and all(WHY in each for each in told)
    assert set(guard.asked) == {"read app.py"}
    audited = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert {(each["tool"], each["action"]) for each in audited if each["kind"] == "verdict"} == {("read", "deny")}
    assert "end" not in {each["kind"] for each in audited}, "the second session has not ended this one's log"


async def test_what_counts_counts_one_session(open_session: Opened, server: ModelServer) -> None:
    session = open_session()
    assert all("return w * h * 2" in each for each in await review(session, server))
    assert "read" not in await session.run_command("stats", "")


async def test_so_do_the_rules(open_session: Opened, server: ModelServer, changed: Path) -> None:
    told = await review(open_session(policy=Policy(changed, deny=["read(app.py)"])), server)
    assert told and all("rule read(app.py)" in each for each in told)


async def test_what_it_uses_is_the_sessions_and_held_by_its_limits(open_session: Opened, server: ModelServer) -> None:
    free = open_session()
    report = await reported(free, server)
    assert (report.error, report.requests) == (None, 3)
    assert free.usage == report.usage and free.usage.output > 0
    held = open_session(limits=Limits(max_tokens=free.usage.output // 3 - 1))
    cut = await reported(held, server)
    assert cut.error is not None and "(--max-tokens)" in cut.error and cut.partial
    before = len(server.requests)
    again = await reported(held, server)
    assert again.error is not None and "(--max-tokens)" in again.error
    assert len(server.requests) == before, "what was used before counts"
