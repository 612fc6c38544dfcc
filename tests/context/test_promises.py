"""The promises about a compaction, at default settings: turns that stay whole, and why if they do not."""

from __future__ import annotations

import pytest

from codelet.context.tokens import CompactionOptions
from codelet.loop.session import Session
from codelet.messages import Message, assistant, tool_call, tool_result, user
from tests.context.conftest import Open
from tests.context.scripted import compactions, turn

GPT_4O = 128_000


def reading(number: int, characters: int) -> list[Message]:
    """A turn that reads a file of this many characters."""
    text = "\n".join(f"row {n} of table_{number}_{n}" for n in range(characters // 24))[:characters]
    calls = [tool_call(f"c{number}", "look", f'{{"about": "big{number}.txt"}}')]
    return [user(f"read big{number}.txt"), assistant("", calls), tool_result(f"c{number}", text), assistant("Read.")]


async def compacted(session: Session, messages: list[Message]) -> list[str]:
    """Continue with these messages, and return the notes of the compaction before the next request."""
    session.adopt(messages)
    return [event.note for event in compactions(await turn(session, "go on"), "done")]


def stands(session: Session, messages: list[Message]) -> int:
    """Return the number of the newest messages that stay unchanged."""
    here = [str(message["content"]) for message in session.messages]
    return sum(str(message["content"]) in here for message in messages)


@pytest.mark.parametrize(("turns", "characters"), [(16, 30_143), (5, 100_000)], ids=["a fifth", "half the budget"])
async def test_the_newest_three_turns_stay_whole_with_gpt_4os_window(open_session: Open, turns: int, characters: int):
    session, _ = open_session(window=GPT_4O)
    messages = [part for number in range(turns) for part in reading(number, characters)]
    assert await compacted(session, messages) == [""]
    assert stands(session, messages[-8:]) == 8, "two turns and the prompt are the newest three"
    assert session.size < 0.8 * session.window.budget.limit


@pytest.mark.parametrize("characters", [30_143, 230_000])
async def test_the_result_that_was_just_asked_for_is_not_cut(open_session: Open, characters: int):
    session, _ = open_session(window=GPT_4O)
    messages = [user("read them all")]
    messages += [part for number in range(8) for part in reading(number, 30_143)[1:3]]
    messages += reading(8, characters)[1:3]
    session.adopt(messages)
    made = session.compactor.compacted(session.conversation.snapshot(), "hard")
    assert made.messages[-1]["content"] == messages[-1]["content"]
    assert not made.report.cut and "do not fit" not in str(made.report.warnings)


async def test_fewer_turns_than_asked_for_are_explained(open_session: Open):
    session, _ = open_session(window=GPT_4O, compaction=CompactionOptions(keep_last=5))
    messages = [part for number in range(4) for part in reading(number, 110_000)]
    [note] = await compacted(session, messages)
    assert "of the newest" in note and note.endswith(" fit")


RECIPE = CompactionOptions(entries=50, keep_last=5)


@pytest.mark.parametrize("characters", [200, 13_000])
async def test_the_recipe_of_the_persistent_agent_keeps_five_turns(open_session: Open, characters: int):
    session, _ = open_session(window=132_000, compaction=RECIPE)
    messages = [
        part
        for number in range(30)
        for part in (user(f"task {number}"), assistant(f"{number}: {'x y ' * (characters // 4)}"))
    ]
    await compacted(session, messages)
    assert stands(session, messages[-8:]) == 8


async def test_with_too_many_entries_everything_that_fits_is_still_told(open_session: Open):
    session, _ = open_session(window=132_000, compaction=RECIPE)
    answers = [f"item{n} is value{37 * n}, decided after reading module{n}.py" for n in range(30)]
    messages = [part for n in range(30) for part in (user(f"question {n}?"), assistant(answers[n]))]
    await compacted(session, messages)
    text = str([message["content"] for message in session.messages])
    assert [answer for answer in answers if answer not in text] == []
    assert len(session.messages) < 20
