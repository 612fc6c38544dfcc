"""Plans in a session: the tool, the reminder, the command, and what keeps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.api import settings_from
from codelet.errors import UsageError
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder, restore
from codelet.extensions.base import Extension, OpenedWith
from codelet.extensions.manifest import turned_on
from codelet.extensions.plans import PLANNING
from codelet.loop.session import Session
from codelet.messages import Message, reminder_type
from codelet.opening import turn_of
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Yes
from codelet.safety.verdict import Question
from tests.context.scripted import Answer, ScriptedProvider, compactions, fill, turn
from tests.extensions.conftest import Open

PLAN = "Goal: ship\n[>] read the tests\n[ ] write the parser\n[ ] publish"


def planned(text: str = PLAN) -> list[Answer]:
    return [Answer("", [("plan", {"plan": text})]), Answer()]


def told(messages: list[Message]) -> str:
    return next(((message["content"] or "") for message in messages if reminder_type(message) == "plan"), "")


def results(seen: list[events.Event]) -> list[events.ToolResult]:
    return [event for event in seen if isinstance(event, events.ToolResult)]


async def test_plans_kept_with_the_context_revised_when_steps_fail(open_session: Open) -> None:
    session, provider = open_session(tools=None)
    provider.answers.extend(planned())
    (result,) = results(await turn(session))
    assert result.status == "done" and result.text.startswith("[0 of 3 done]\n[marks: ")
    assert result.display == "ship\n1. [>] read the tests\n2. [ ] write the parser\n3. [ ] publish"
    assert not told(provider.sent[0].tail)
    assert "\nship\n1. [>] read the tests\n" in told(provider.sent[1].tail)
    assert "failed" not in told(provider.sent[1].tail)
    provider.answers.extend(planned("[x] read the tests: 12\n[!] write the parser: no grammar\n[ ] publish"))
    (result,) = results(await turn(session))
    assert result.text == "[1 of 3 done]", "the marks are explained once"
    assert "2 failed (no grammar)" in told(provider.sent[-1].tail)
    provider.answers.extend(planned("[x] read the tests: 12\n[>] take another parser\n[ ] publish"))
    await turn(session)
    assert "failed" not in told(provider.sent[-1].tail)
    assert [each.status() for each in session.extensions if each.status()] == ["plan 1/3"]


async def test_a_plan_that_is_done_is_no_plan_in_hand(open_session: Open) -> None:
    """The prompts after it are about something else; the plan itself stays where it can be looked up."""
    session, provider = open_session(tools=None)
    provider.answers.extend(planned("Goal: ship\n[x] read the tests: 12\n[x] publish"))
    titles = [event.title for event in await turn(session) if isinstance(event, events.ToolCallStarted)]
    assert titles == ["2 of 2 done"], "the goal stands in what is shown below it"
    done = told(provider.sent[-1].tail)
    assert "All 2 steps" in done and "ship" in done
    assert "in hand" not in done and "read the tests" not in done
    provider.answers.extend(planned(""))
    (shown,) = results(await turn(session))
    assert shown.text == "ship\n1. [x] read the tests: 12\n2. [x] publish\n[2 of 2 done]"


@pytest.mark.parametrize(
    "given, answer",
    [
        ("", "no plan"),
        ("only words", "no step"),
        ("\n".join(f"[ ] step {n}" for n in range(51)), "51 steps, at most 50"),
    ],
)
async def test_what_is_no_plan_is_told(open_session: Open, given: str, answer: str) -> None:
    session, provider = open_session(tools=None)
    provider.answers.extend(planned(given))
    (result,) = results(await turn(session))
    assert result.status == "failed" and answer in result.text
    assert "no plan" in await session.run_command("plan")


async def test_an_empty_call_shows_the_plan_and_an_unchanged_one_nothing(open_session: Open) -> None:
    session, provider = open_session(tools=None)
    calls = [("plan", {"plan": PLAN}), ("plan", {}), ("plan", {"plan": PLAN})]
    provider.answers.extend([Answer("", calls), Answer()])
    first, second, third = results(await turn(session))
    assert second.text.startswith("ship\n1. [>] read the tests\n")
    assert (first.display != "", second.display, third.display) == (True, "", "")


async def test_the_user_sees_and_edits_it_and_the_model_is_told(open_session: Open) -> None:
    session, provider = open_session(tools=None)
    provider.answers.extend(planned())
    await turn(session)
    assert (await session.run_command("plan", "add  tell  people")).split("\n")[-1] == "4. [ ] tell people"
    await turn(session)
    assert "4. [ ] tell people" in told(provider.sent[-1].tail)
    for wrong in ("drop 9", "add", "add  ", "clear all"):
        with pytest.raises(UsageError, match=r"it takes add TEXT, clear, approve"):
            await session.run_command("plan", wrong)
    with pytest.raises(UsageError, match="no plan waits"):
        await session.run_command("plan", "approve")
    await session.run_command("plan", "clear")
    await turn(session)
    assert told(provider.sent[-1].tail) == ""


async def test_it_is_offered_unless_the_user_chose_the_tools(open_session: Open) -> None:
    def names(session: Session) -> list[str]:
        return list(session.toolbox.tools)

    assert "plan" in names(open_session(tools=None)[0])
    assert "plan" not in names(open_session()[0])
    assert "plan" not in names(open_session(tools=())[0])


async def test_it_survives_compactions_a_switch_and_goes_with_the_conversation(open_session: Open) -> None:
    session, provider = open_session(tools=None)
    provider.answers.extend(planned())
    await turn(session)
    wanted = await session.run_command("plan")
    done = 0
    for round_ in range(5):
        provider.answers.extend(Answer("x" * 4000) for _ in range(5))
        for number in range(5):
            await turn(session, f"prompt {round_}.{number}: " + "words about the parser " * 200)
        done += len(compactions([event async for event in session.compact()], "done"))
    assert done == 5
    session.models.switch(other := ScriptedProvider(model="scripted/other"))
    await turn(session)
    assert wanted in told(other.sent[-1].tail)
    session.clear()
    await turn(session)
    assert told(other.sent[-1].tail) == ""


async def test_it_is_kept_by_the_export_as_the_document_has_it(open_session: Open) -> None:
    session, provider = open_session(tools=None)
    provider.answers.extend(planned("Goal: ship\n[x] read: 12\n[!] write: no\n[ ] publish"))
    await turn(session)
    snapshot = from_json(to_json(Recorder().snapshot(session), mask=None))
    assert snapshot.plan == {
        "goal": "ship",
        "steps": [
            {"id": 1, "description": "read", "status": "Completed", "result": "12"},
            {"id": 2, "description": "write", "status": "Failed", "result": "no"},
            {"id": 3, "description": "publish", "status": "Pending", "result": None},
        ],
        "current_step": 1,
        "status": "Failed",
    }
    again, provider = open_session(tools=None)
    provider.answers.extend(planned())
    await turn(again)
    restore(again, snapshot)
    assert Recorder(snapshot).snapshot(again).plan == snapshot.plan
    await turn(again)
    assert "2 failed (no)" in told(provider.sent[-1].tail)
    restore(again, snapshot.replace(plan=None))
    assert "no plan" in await again.run_command("plan")
    assert Recorder().snapshot(again).plan is None


async def test_what_another_program_wrote_into_it_stays_while_it_is_not_changed(open_session: Open) -> None:
    session, _ = open_session(tools=None)
    foreign: Any = {"goal": "g", "current_step": 7, "status": "odd", "title": 1, "steps": [
        {"id": 9, "description": "a  b", "status": "Pending", "result": None, "owner": "x"}]}  # fmt: skip
    snapshot = Recorder().snapshot(session).replace(plan=foreign)
    restore(session, snapshot)
    assert Recorder(snapshot).snapshot(session).plan == foreign
    await session.run_command("plan", "add b")
    changed = Recorder(snapshot).snapshot(session).plan
    assert changed is not None and [step["description"] for step in changed["steps"]] == ["a b", "b"]


def planning() -> Extension:
    (found,) = (
        each for each in turned_on(OpenedWith(settings=settings_from({"plan": True}))) if each.label == "PlanFirst"
    )
    return found


async def test_nothing_is_changed_before_the_plan_is_approved(open_session: Open, tmp_path: Path) -> None:
    asked: list[Question] = []
    answers = [Yes(False, "smaller steps"), Yes(True)]

    async def ask(question: Question) -> Yes:
        asked.append(question)
        return answers.pop(0)

    session, provider = open_session(planning(), tools=None, ask=ask, policy=Policy(tmp_path, "auto-edit"))
    write = ("write", {"path": "a.txt", "content": "a"})
    provider.answers.extend(
        [
            Answer("", [write, ("bash", {"command": "touch b.txt"}), ("bash", {"command": "ls"})]),
            Answer("", [("plan", {"plan": PLAN})]),
            Answer("", [("plan", {"plan": f"{PLAN}\n[ ] rest"}), write]),
            Answer(),
        ]
    )
    seen = results(await turn(session))
    assert [each.status for each in seen] == ["refused", "refused", "done", "refused", "done", "done"]
    assert "smaller steps" in seen[3].text
    assert [(each.tool, each.asks) for each in asked] == [("plan", "approve this plan")] * 2
    assert "4. [ ] rest" in asked[1].shown
    assert sorted(path.name for path in session.workspace.iterdir()) == ["a.txt"]
    assert PLANNING in told(provider.sent[0].tail)
    assert PLANNING not in told(provider.sent[-1].tail)
    assert "1. [>] read the tests" in told(provider.sent[-1].tail)


async def test_the_user_approves_by_the_command(open_session: Open) -> None:
    session, provider = open_session(planning(), tools=None)
    with pytest.raises(UsageError, match="no plan"):
        await session.run_command("plan", "approve")
    await session.run_command("plan", "add look around")
    assert [each.status() for each in session.extensions if each.status()] == ["planning"]
    await session.run_command("plan", "approve")
    provider.answers.extend([Answer("", [("write", {"path": "a.txt", "content": "a"})]), Answer()])
    assert [each.status for each in results(await turn(session))] == ["done"]


async def test_where_nobody_can_approve_it_the_answer_ends_with_the_plan(open_session: Open, tmp_path: Path) -> None:
    session, provider = open_session(planning(), tools=None, policy=Policy(tmp_path))
    provider.answers.extend([Answer("", [("plan", {"plan": PLAN})]), Answer("That is it.")])
    seen = [event async for event in turn_of(session, "go")]
    said = "".join(event.delta for event in seen if isinstance(event, events.Text))
    assert said == "That is it.\n\nship\n1. [>] read the tests\n2. [ ] write the parser\n3. [ ] publish"
    assert isinstance(seen[-1], events.TurnEnd)
    assert PLANNING in told(provider.sent[0].tail)
    assert session.toolbox.approvals.refused == []


async def test_chosen_tools_gain_the_plan_where_a_plan_is_wanted_first(open_session: Open) -> None:
    session, provider = open_session(planning())
    await turn(session)
    assert json.loads(provider.sent[0].tools)[-1]["function"]["name"] == "plan"
    session, provider = open_session(planning(), tools=())
    await turn(session)
    assert provider.sent[0].tools == "[]"


async def test_a_long_session_names_it_once_a_request(open_session: Open) -> None:
    session, provider = open_session(tools=None)
    provider.answers.extend(planned())
    await turn(session)
    await fill(session, provider, 2)
    for sent in provider.sent[2:]:
        assert sum(reminder_type(message) == "plan" for message in (*sent.stable, *sent.tail)) == 1
