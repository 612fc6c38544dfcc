"""Events of the session itself: a plan, a mode, and a file's texts before and after a call; and events as JSON."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path

from codelet import events
from codelet.loop.toolbox import Safeguards
from codelet.safety import Policy
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer as Reply
from codelet.safety.verdict import Question
from codelet.usage import Usage
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.extensions.conftest import Open
from tests.extensions.conftest import open_session as open_session

PLAN = "fix it\n[x] read: two bugs\n[>] mend"


async def test_a_new_plan_is_an_event(open_session: Open) -> None:
    answers = deque([Answer("a", [("plan", {"plan": PLAN})]), Answer("b", [("plan", {"plan": PLAN})]), Answer()])
    session, _ = open_session(provider=ScriptedProvider(answers=answers), tools=None)
    plans = [each for each in await turn(session, "go") if isinstance(each, events.PlanChanged)]
    assert [each.as_dict() for each in plans] == [
        {
            "type": "plan",
            "goal": "fix it",
            "steps": [
                {"description": "read", "status": "completed", "result": "two bugs"},
                {"description": "mend", "status": "in progress", "result": ""},
            ],
        }
    ]
    await session.run_command("plan", "clear")
    assert session.take_reported() == [events.PlanChanged(goal="", steps=())]


async def test_a_mode_that_an_answer_switches_is_an_event(open_session: Open, tmp_path: Path) -> None:
    async def ask(question: Question) -> Reply:
        return Reply(True, mode=True)

    answers = deque([Answer("a", [("write", {"path": "a.txt", "content": "a\n"})]), Answer()])
    session, _ = open_session(provider=ScriptedProvider(answers=answers), policy=Policy(tmp_path), ask=ask)
    seen = await turn(session, "go")
    assert [each.mode for each in seen if isinstance(each, events.ModeChanged)] == ["auto-edit"]
    assert session.take_reported() == []


async def test_the_texts_of_a_change_go_with_the_question_and_the_result(open_session: Open, tmp_path: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Reply:
        asked.append(question)
        return Reply(True)

    file = tmp_path / "a.txt"
    file.write_text("one\nhunter2-hunter2\n")
    edits = [{"old": "one", "new": "two"}]
    answers = deque(
        [
            Answer("a", [("read", {"path": "a.txt"})]),
            Answer("b", [("edit", {"path": "a.txt", "edits": edits}), ("edit", {"path": "a.txt", "edits": edits})]),
            Answer("c", [("write", {"path": "large.txt", "content": "x" * 300_000})]),
            Answer(),
        ]
    )
    guards = Safeguards(masker=Masker({"TEST_API_KEY": "hunter2-hunter2"}))
    session, _ = open_session(
        provider=ScriptedProvider(answers=answers), policy=Policy(tmp_path), ask=ask, safeguards=guards
    )
    results = [each for each in await turn(session, "go") if isinstance(each, events.ToolResult)]
    changes = [(each.name, each.status, each.change) for each in results]
    made = changes[1][2]
    assert made is not None and made.path == str(file)
    assert made.before is not None and made.before.startswith("one\n") and made.after.startswith("two\n")
    assert "hunter2" not in made.before + made.after
    assert asked[0].change == made
    assert [each[1:] for each in changes[2:]] == [("failed", None), ("done", None)]  # the large one is left out
    assert "change" not in results[1].as_dict()


def test_every_event_becomes_plain_json() -> None:
    report = events.UsageReport(usage=Usage(), context=1, window=2)
    assert report.as_dict()["usage"] is None
    known = report.replace(usage=Usage(output=3)).as_dict()
    assert known["usage"]["output"] == 3
    end = events.TurnEnd("done", 1, Usage(), None, (events.Cut(what="stdin", bytes=2, read=1),))
    assert json.loads(json.dumps(end.as_dict()))["cut"] == [{"what": "stdin", "bytes": 2, "read": 1}]
