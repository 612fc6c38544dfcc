"""The values that hold now, as a hand-over has them: offered once its compaction is made, kept on a yes alone."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.context.narrative import INSTRUCTION
from codelet.extensions.memory.held_values import MOST_OFFERED, values_in
from codelet.loop.session import Session
from codelet.messages import assistant, text_of, tool_call
from codelet.providers.protocol import Request
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Said
from codelet.safety.verdict import Question
from tests.context.scripted import TOOLS, Answer, ScriptedProvider, fill, turn
from tests.extensions.memory.conftest import Remembering, called, reminded

HAND_OVER = (
    "Goal: change src/part3/mod.py\n"
    "Value that holds now: never touch port 9003\n"
    "Values that hold now (supersedes 9001): src/part2/mod.py is next\n"
    "Next step: run part7"
)
VALUES = ["never touch port 9003", "src/part2/mod.py is next"]


class Person:
    """Answers every question the same way, and keeps what was asked."""

    def __init__(self, *, allow: bool) -> None:
        self.allow = allow
        self.asked: list[Question] = []

    async def __call__(self, question: Question) -> Said:
        self.asked.append(question)
        return Said(self.allow)


def hands_over(request: Request) -> Answer | None:
    """The hand-over, where one is asked for."""
    return Answer(HAND_OVER) if INSTRUCTION[:40] in text_of(request.messages[-1]) else None


def opened(remembering: Remembering, tmp_path: Path, ask: Person | None, **flags: Any) -> tuple[Session, Any]:
    """A session whose tools may run, that has a person to ask or nobody, and whose hand-overs have values."""
    options = {
        "provider": ScriptedProvider(script=hands_over),
        "window": 40_000,
        "tools": TOOLS,
        "policy": Policy(tmp_path, mode="auto-edit", yes=flags.pop("yes", False)),
        "ask": ask,
    }
    return remembering(options, narrative="on", **flags)


async def compacted(session: Session) -> list[events.Event]:
    async with aclosing(session.compact("mind the ports")) as stream:
        return [event async for event in stream]


def kept(session: Session) -> list[str]:
    """The facts that an export would have."""
    part = next(part for each in session.extensions for part in each.parts if part.key == "facts")
    saved = part.save()
    return list(saved) if isinstance(saved, tuple) else []


def notes(seen: list[events.Event]) -> list[str]:
    return [event.text for event in seen if isinstance(event, events.Note)]


async def test_a_yes_keeps_them_as_facts_and_the_model_is_told(remembering: Remembering, tmp_path: Path):
    person = Person(allow=True)
    session, provider = opened(remembering, tmp_path, person)
    await fill(session, provider, 5)
    assert person.asked == [] and kept(session) == []
    seen = await compacted(session)
    [question] = person.asked
    assert (question.tool, question.asks) == ("facts", "keep what holds now")
    assert question.shown == "- never touch port 9003\n- src/part2/mod.py is next"
    assert notes(seen)[-1] == "2 facts kept; /facts lists them"
    assert kept(session) == VALUES
    assert session.toolbox.approvals.history[-1].outcome == "yes"
    await turn(session)
    assert "You noted with remember; check what may have changed:\n- never touch port 9003" in reminded(
        provider.sent[-1]
    )
    await fill(session, provider, 5)
    await compacted(session)
    assert len(person.asked) == 1, "they are known"


async def test_a_no_keeps_nothing_and_is_not_asked_again(remembering: Remembering, tmp_path: Path):
    person = Person(allow=False)
    session, provider = opened(remembering, tmp_path, person)
    for _ in range(2):
        await fill(session, provider, 5)
        seen = await compacted(session)
        assert any(isinstance(event, events.Compaction) and event.phase == "done" for event in seen)
        assert len(person.asked) == 1
        assert kept(session) == [] and notes(seen) == []


@pytest.mark.parametrize("yes", [False, True], ids=["nobody is there", "--yes"])
async def test_without_a_yes_of_a_person_nothing_is_kept(remembering: Remembering, tmp_path: Path, yes: bool):
    session, provider = opened(remembering, tmp_path, Person(allow=True) if yes else None, yes=yes)
    await fill(session, provider, 5)
    seen = await compacted(session)
    assert "Value that holds now: never touch port 9003" in text_of(session.messages[0])
    assert kept(session) == [] and notes(seen) == []
    await turn(session)
    assert "remember" not in called(provider.sent[-1])


async def test_they_are_asked_about_when_the_turn_is_done(remembering: Remembering, tmp_path: Path):
    person = Person(allow=True)
    session, provider = opened(remembering, tmp_path, person)
    seen = await fill(session, provider, 4)
    for _ in range(30):
        seen = await fill(session, provider, 1, lines=200)
        if person.asked:
            break
    assert kept(session) == VALUES
    assert isinstance(seen[-1], events.TurnEnd) and seen[-1].reason == "done"
    told = [index for index, event in enumerate(seen) if isinstance(event, events.Note)]
    assert told[-1] == len(seen) - 2


async def test_of_a_compaction_that_came_to_nothing_none_are_offered(remembering: Remembering, tmp_path: Path):
    person = Person(allow=True)
    session, provider = opened(remembering, tmp_path, person)
    await fill(session, provider, 5)
    session.compactor.reform = lambda made: [*made, assistant(None, [tool_call("x", "look", "{}")])]
    stopped = [event for event in await compacted(session) if isinstance(event, events.Compaction)][-1]
    assert stopped.phase == "stopped" and person.asked == []


async def test_the_question_names_the_file_that_they_would_be_written_to(remembering: Remembering, tmp_path: Path):
    person = Person(allow=True)
    session, provider = opened(remembering, tmp_path, person, facts=str(tmp_path / "team.facts"))
    await fill(session, provider, 5)
    await compacted(session)
    assert person.asked[0].asks == "keep what holds now, and in team.facts"
    assert "never touch port 9003" in await session.run_command("facts")


def test_only_lines_under_the_heading_are_values():
    lines = ["Value that holds now: A = 1", "value that holds now (was 2): a = 1.", "Done: the value that holds now: x"]
    assert values_in(lines) == ["a = 1."]
    assert values_in(["Value that holds now:", "Values that hold now: \x1b[31m"]) == []
    assert len(values_in(f"Value that holds now: v{n}" for n in range(99))) == MOST_OFFERED
