"""What is asked about facts: values that a handoff names, in any language, related facts, and what a model forgets."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.context.narrative import INSTRUCTION
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.recorder import Recorder, restore
from codelet.extensions.memory.remembering import HEADINGS, UNCONFIRMED
from codelet.loop.session import Session
from codelet.messages import text_of, user
from codelet.providers.protocol import Request
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Said
from codelet.safety.verdict import Question
from tests.context.scripted import TOOLS, Answer, ScriptedProvider, fill, turn
from tests.extensions.memory.conftest import Remembering, called, reminded

# The last two never occurred; what is no value is not taken for one.
HANDOFFS = {
    "en": "Task now: src/part3/mod.py\n[port] 9003\n- [next file] src/part2/mod.py\n[made up] 77777\n[name] Rumpel",
    "de": "Aufgabe: src/part3/mod.py ändern\n* [Anschluss] 9003\n[Datei] src/part2/mod.py\n[Wert] 77777\n[Name] Rumpel",
    "ja": "現在の作業: src/part3/mod.py\n[ポート] 9003\n[ファイル] src/part2/mod.py\n[値] 77777\n[名前] 太郎",
    "ar": "المهمة: src/part3/mod.py\n[منفذ] 9003\n[ملف] src/part2/mod.py\n[قيمة] 77777\n[اسم] فلان",
}
VALUES = ["9003", "src/part2/mod.py"]


class Person:
    """Answers every question the same way, and keeps what was asked."""

    def __init__(self, *, allow: bool) -> None:
        self.allow = allow
        self.asked: list[Question] = []

    async def __call__(self, question: Question) -> Said:
        self.asked.append(question)
        return Said(self.allow)


def opened(
    remembering: Remembering, folder: Path, ask: Person | None, language: str = "en", yes: bool = False, **flags: Any
) -> tuple[Session, Any]:
    """A session that is saved, whose handoffs name values, with a person to ask or no one."""

    def hands_over(request: Request) -> Answer | None:
        asked = INSTRUCTION[:40] in text_of(request.messages[-1])
        return Answer(HANDOFFS[language]) if asked else None

    options = {
        "provider": ScriptedProvider(script=hands_over),
        "window": 40_000,
        "tools": TOOLS,
        "policy": Policy(folder, mode="auto-edit", yes=yes),
        "ask": ask,
    }
    return remembering(options, narrative="on", export=str(folder / "work.json"), **flags)


async def compacted(session: Session) -> list[events.Event]:
    async with aclosing(session.compact("mind the ports")) as stream:
        return [event async for event in stream]


def saved(session: Session) -> Any:
    return from_json(to_json(Recorder().snapshot(session), mask=None))


def origins(session: Session) -> dict[str, Any]:
    return {each["fact"]: each for each in saved(session).unknown.get("fact_origins", ())}


async def test_the_model_can_remember_from_the_first_request_of_a_kept_session(
    remembering: Remembering, tmp_path: Path
):
    session, provider = opened(remembering, tmp_path, None)
    await turn(session)
    assert {"remember", "forget"} <= set(called(provider.sent[0]))


@pytest.mark.parametrize("language", HANDOFFS)
async def test_without_a_person_they_are_kept_as_unconfirmed_and_told_so(
    remembering: Remembering, tmp_path: Path, language: str
):
    session, provider = opened(remembering, tmp_path, None, language)
    await session.run_command("facts", "add tabs")
    await fill(session, provider, 5)
    seen = await compacted(session)
    assert list(saved(session).facts) == ["tabs", *VALUES]
    assert [origins(session)[text].get("confirmed", True) for text in ("tabs", *VALUES)] == [True, False, False]
    assert any("9003" in event.text for event in seen if isinstance(event, events.Note))
    again, second = opened(remembering, tmp_path, None, language)
    restore(again, saved(session))
    for each, model in ((session, provider), (again, second)):
        await turn(each)
        told = reminded(model.sent[-1]).split(UNCONFIRMED)
        assert [text in told[1] for text in VALUES] == [True, True] and "tabs" in told[0]
        assert HEADINGS["model"] not in told[0]
    key = HANDOFFS[language].split("[")[1].split("]")[0]
    await again.run_command("facts", f"add [{key}] 9003")
    assert origins(again)["9003"].get("confirmed", True), "the user said so"


@pytest.mark.parametrize("allow", [True, False])
async def test_a_person_is_asked_once(remembering: Remembering, tmp_path: Path, allow: bool):
    person = Person(allow=allow)
    session, provider = opened(remembering, tmp_path, person)
    for _ in range(2):
        await fill(session, provider, 5)
        await compacted(session)
    [question] = person.asked
    assert question.tool == "facts" and [text in question.shown for text in VALUES] == [True, True]
    assert list(saved(session).facts) == (VALUES if allow else [])
    assert all("confirmed" not in each for each in origins(session).values())


async def test_yes_to_all_is_no_persons_yes(remembering: Remembering, tmp_path: Path):
    person = Person(allow=True)
    session, provider = opened(remembering, tmp_path, person, yes=True)
    await fill(session, provider, 5)
    await compacted(session)
    assert person.asked == []
    assert [each["confirmed"] for each in origins(session).values()] == [False, False]


async def test_a_value_takes_no_confirmed_facts_place(remembering: Remembering, tmp_path: Path):
    session, provider = opened(remembering, tmp_path, None)
    await session.run_command("facts", "add [Port] 8443")
    await fill(session, provider, 5)
    await compacted(session)
    assert list(saved(session).facts) == ["8443", VALUES[1]]


async def test_of_a_compaction_that_came_to_nothing_none_are_kept(remembering: Remembering, tmp_path: Path):
    session, provider = opened(remembering, tmp_path, None)
    await fill(session, provider, 5)
    answers = provider.script

    def changes_the_list(request: Request) -> Answer | None:
        session.conversation.append(user("typed in the meantime"))
        return answers(request)

    provider.script = changes_the_list
    stopped = [event for event in await compacted(session) if isinstance(event, events.Compaction)][-1]
    assert stopped.phase == "stopped" and saved(session).facts == ()


async def test_forget_asks_and_without_a_person_forgets_nothing(remembering: Remembering, tmp_path: Path):
    for ask, left in ((None, 2), (Person(allow=False), 2), (Person(allow=True), 0)):
        path = tmp_path / f"{left}{ask is None}.facts"
        session, provider = opened(remembering, tmp_path, ask, facts=str(path))
        await session.run_command("facts", "add [port] 8443")
        provider.answers.extend([Answer("", [("forget", {"fact": "[port] 8443"})]), Answer()])
        seen = await turn(session)
        [result] = [event for event in seen if isinstance(event, events.ToolResult)]
        assert result.status == ("done" if left == 0 else "failed")
        assert len(saved(session).facts) == left // 2
        assert ("8443" in await session.run_command("facts", "find 8443")) is (left > 0)
        assert len(ask.asked if ask else ()) == (ask is not None)
        await session.close()


@pytest.mark.parametrize("allow", [True, False, None])
async def test_related_facts_are_merged_on_a_yes_or_marked(
    remembering: Remembering, tmp_path: Path, allow: bool | None
):
    person = None if allow is None else Person(allow=allow)
    session, provider = opened(remembering, tmp_path, person)
    older, newer = "the build needs JDK 21", "The build needs now JDK 21"
    await session.run_command("facts", f"add {older}")
    provider.answers.extend([Answer("", [("remember", {"fact": newer})]), Answer()])
    await turn(session)
    assert list(saved(session).facts) == ([newer] if allow else [older, newer])
    assert origins(session)[newer].get("like") == (older if allow is None else None)
    if person is not None:
        assert [each.tool for each in person.asked] == ["facts"]
    listed = await session.run_command("facts")
    assert listed.count(older) == {True: 0, False: 1, None: 2}[allow]
