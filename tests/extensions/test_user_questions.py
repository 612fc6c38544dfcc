"""`ask_user`: what the user chooses or writes is the call's result; where nobody answers the model is told."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.extensions.services import asking
from codelet.safety import Policy
from codelet.safety.verdict import Answer as Reply
from codelet.safety.verdict import Question
from tests.context.scripted import Answer, ScriptedProvider, turn
from tests.e2e.conftest import Codelet
from tests.e2e.conftest import codelet as codelet
from tests.extensions.conftest import Open
from tests.extensions.conftest import open_session as open_session
from tests.support.recorded import Start, step
from tests.support.script import Call
from tests.support.script import Reply as Step

ASKED = {"question": "Which database?", "options": ["SQLite", "PostgreSQL"]}


@pytest.mark.parametrize(
    ("reply", "status", "text"),
    [
        (Reply(True, "PostgreSQL"), "done", "PostgreSQL"),
        (Reply(False, "MySQL, as always"), "done", "MySQL, as always"),
        (Reply(False), "failed", ""),
    ],
)
async def test_the_answer_is_the_result(
    open_session: Open, tmp_path: Path, reply: Reply, status: str, text: str
) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Reply:
        asked.append(question)
        return reply

    provider = ScriptedProvider(answers=deque([Answer("a", [("ask_user", ASKED)]), Answer()]))
    session, _ = open_session(asking(), provider=provider, policy=Policy(tmp_path, mode="read-only"), ask=ask)
    [result] = [each for each in await turn(session, "go") if isinstance(each, events.ToolResult)]
    assert result.status == status and result.text.startswith(text)
    [question] = asked
    assert (question.asks, question.options) == ("Which database?", ("SQLite", "PostgreSQL"))
    assert session.toolbox.approvals.history[-1].outcome in ("yes", "no")


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": " "},
        {"question": "a" * 3_000},
        {"question": "q", "options": ["o"] * 7},
        {"question": "q", "options": [""]},
    ],
)
async def test_a_question_that_cannot_be_shown_is_not_asked(
    open_session: Open, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    async def ask(question: Question) -> Reply:
        raise AssertionError("nobody is asked")

    provider = ScriptedProvider(answers=deque([Answer("a", [("ask_user", arguments)]), Answer()]))
    session, _ = open_session(asking(), provider=provider, policy=Policy(tmp_path), ask=ask)
    [result] = [each for each in await turn(session, "go") if isinstance(each, events.ToolResult)]
    assert result.status == "failed"


def test_a_one_shot_run_has_no_such_tool(codelet: Codelet) -> None:
    codelet.server.script = [Step("a", calls=[Call("c1", "ask_user", ASKED)]), Step("ok")]
    codelet("-p", "hi", "--yes")
    assert "ask_user" not in {each["function"]["name"] for each in codelet.server.requests[0].json["tools"]}


def test_the_terminal_offers_the_options_and_a_line(start: Start) -> None:
    call = ("ask_user", ASKED)
    terminal = start(step("One.", call), step("Two.", call), step("Done."))
    terminal.line("go")
    terminal.wait_for("PostgreSQL")
    screen = terminal.settle(0.6)
    assert "Which database?" in screen and "SQLite" in screen and "Yes" not in screen
    terminal.type("2")
    terminal.wait_for("Two.")
    terminal.wait_for("SQLite")
    terminal.settle(0.6)
    terminal.type("w")
    terminal.wait_for("Answer:")
    terminal.type("MySQL")
    terminal.key("enter")
    terminal.wait_for("Done.")
    assert "MySQL" in terminal.scrollback and terminal.scrollback.count("PostgreSQL") >= 1
