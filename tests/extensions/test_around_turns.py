"""What an extension says of a turn before it begins and where it would end; commands that come late, or prompt."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from codelet import events, prompt
from codelet.errors import PromptRefused, UsageError
from codelet.extensions.base import Command, Extension
from codelet.frontends.command_prompt import run_command
from codelet.frontends.terminal.slash_commands.command_list import commands_for
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.safety.secrets import Masker
from tests.context.scripted import Answer, turn, turn_until_error
from tests.extensions.conftest import Open

KEY = "k-5b1e7c0d94a8f2b63e"


class Around(Extension):
    def __init__(self) -> None:
        self.heard: list[str] = []
        self.reasons: list[str] = []
        self.compacted: list[str] = []

    async def prompted(self, text: str) -> str | None:
        if "forbidden" in text:
            raise PromptRefused("that word is forbidden")
        return f"the build is red, key {KEY}" if "build" in text else None

    async def stopping(self, answer: str) -> str | None:
        self.heard.append(answer)
        return self.reasons.pop(0) if self.reasons else None

    async def compacting(self, reason: str) -> None:
        self.compacted.append(reason)


def contents(session: Session, role: str) -> list[str]:
    return [str(message["content"]) for message in session.messages if message["role"] == role]


async def test_context_is_added_to_a_prompt_without_secrets(open_session: Open) -> None:
    session, provider = open_session(Around(), safeguards=Safeguards(masker=Masker({"MY_KEY": KEY})))
    provider.answers.extend([Answer("ok"), Answer("ok")])
    await turn(session, "fix the build")
    await turn(session, "thanks")
    first, second = contents(session, "user")
    added = prompt.ADDED_CONTEXT.format(text="")
    assert first.startswith("fix the build") and first.endswith(added[-10:])
    assert "the build is red" in first and KEY not in first
    assert second == "thanks"


async def test_a_refused_prompt_enters_no_list_and_the_next_one_is_answered(open_session: Open) -> None:
    session, provider = open_session(Around())
    provider.answers.append(Answer("ok"))
    seen, error = await turn_until_error(session, "the forbidden thing")
    assert (seen, type(error)) == ([], PromptRefused)
    assert (list(session.messages), provider.sent, session.turns) == ([], [], 0)
    await turn(session, "another")
    assert contents(session, "user") == ["another"]


async def test_what_is_written_while_a_turn_runs_is_a_prompt_too(open_session: Open) -> None:
    around = Around()
    around.reasons = ["once more"]
    session, provider = open_session(around)
    waiting = [["the forbidden thing", "and the build"], []]
    session.upkeep.steering = lambda: waiting.pop(0) if waiting else []
    provider.answers.extend([Answer("one"), Answer("two")])
    seen = await turn(session)
    texts = contents(session, "user")
    assert not any("forbidden" in text for text in texts)
    assert "the build is red" in texts[-1]
    assert [event.text for event in seen if isinstance(event, events.Steering)] == ["and the build"]
    assert any("forbidden" in event.text for event in seen if isinstance(event, events.Note))


async def test_the_model_goes_on_while_an_extension_says_so_but_not_for_ever(open_session: Open) -> None:
    around = Around()
    around.reasons = ["run the tests", *["again"] * 9]
    session, provider = open_session(around)
    provider.answers.extend(Answer(f"answer {number}") for number in range(9))
    seen = await turn(session)
    assert contents(session, "assistant") == ["answer 0", "answer 1", "answer 2", "answer 3"]
    assert contents(session, "user")[1] == prompt.GO_ON.format(reason="run the tests")
    assert around.heard == ["answer 0", "answer 1", "answer 2"]
    assert isinstance(seen[-1], events.TurnEnd) and (seen[-1].reason, seen[-1].steps) == ("done", 4)
    await turn(session, "next")
    assert len(around.heard) == 6, "each turn has its own"


async def test_it_hears_of_a_compaction(open_session: Open) -> None:
    around = Around()
    session, provider = open_session(around)
    provider.answers.extend([Answer("word " * 900) for _ in range(6)])
    for _ in range(6):
        await turn(session)
    assert [event async for event in session.compact()]
    assert around.compacted == ["asked"]


class Late(Extension):
    def __init__(self) -> None:
        self.late: list[Command] = []

    def commands_now(self) -> Sequence[Command]:
        return self.late


async def greet(session: Session, argument: str) -> str:
    if not argument:
        raise UsageError("greet whom?")
    return f"Say hello to {argument}."


async def test_commands_come_late_and_names_have_digits_and_signs(open_session: Open) -> None:
    late, other = Late(), Late()
    session, _ = open_session(late, other)
    commands = commands_for(session)
    assert session.commands.keys() & {"git:s3_up.load-2"} == set()
    assert commands.find("/3 files are wrong") is None, "for the model"
    with pytest.raises(UsageError):
        commands.find("/git:s3_up.load-2 x")
    late.late = [Command("git:s3_up.load-2", "greet", greet, "NAME", prompts=True)]
    other.late = [late.late[0].replace(help="another"), Command("help", "never seen", greet)]
    assert session.commands["git:s3_up.load-2"].help == "greet"
    found = commands.find("/git:s3_up.load-2 Ann")
    assert found is not None and (found[0].name, found[1]) == ("git:s3_up.load-2", "Ann")
    assert [each.help for each in commands.listed if each.name == "help"] != ["never seen"]
    assert commands.find("/etc/hosts") is None


async def test_a_command_that_prompts_gives_the_prompt_to_send(open_session: Open) -> None:
    late = Late()
    late.late = [Command("greet2", "greet", greet, "NAME", prompts=True), Command("told", "text", greet, "NAME")]
    session, _ = open_session(late)
    assert await run_command(session, "/greet2  Ann ") == "Say hello to Ann."
    for text in ("hello", "/etc/hosts"):
        assert await run_command(session, text) == text
    with pytest.raises(UsageError, match="whom"):
        await run_command(session, "/greet2")
    assert not isinstance(await run_command(session, "/told Ann"), str)
