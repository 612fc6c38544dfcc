"""A list after a time limit says that it was the limit, not the user."""

from __future__ import annotations

import asyncio

from codelet import events
from codelet.errors import LimitReached
from codelet.loop.meter import Limits
from codelet.loop.session import Session
from codelet.messages import unpaired
from codelet.prompt import CUT_TEXT
from codelet.tools.tool import Progress, ToolContext, ToolOutput, tool
from tests.context.conftest import Open, open_session
from tests.context.scripted import Answer, turn, turn_until_error

__all__ = ["open_session"]
REASON = "the time limit of 0.3 s is reached (--timeout)"


async def endless(context: ToolContext, progress: Progress) -> ToolOutput:
    """Never end."""
    progress("begun")
    await asyncio.Event().wait()
    return ToolOutput("")


def results(session: Session) -> list[str]:
    return [str(message["content"]) for message in session.messages if message["role"] == "tool"]


async def test_calls_that_a_time_limit_stopped_name_it(open_session: Open):
    session, provider = open_session(limits=Limits(timeout=0.3))
    session.upkeep.add_tool(tool(endless, touches=None))
    calls = [("look", {"lines": 1}), ("endless", {}), ("broken", {})]
    provider.answers.extend([Answer("Let me.", calls), Answer("on")])
    seen, error = await turn_until_error(session, "go")
    assert isinstance(error, LimitReached) and str(error) == REASON
    assert (seen[-1].reason, seen[-1].error) == ("limit", REASON)
    assert unpaired(session.messages) == []
    done, running, waiting = results(session)
    assert done.startswith("value_a_0")
    assert running.startswith(f"interrupted because {REASON}") and "begun" in running
    assert waiting.startswith(f"interrupted because {REASON}") and "begun" not in waiting
    assert session.conversation.interruption == events.Interrupted(
        done=("call1",), half_done=("call2",), not_done=("call3",)
    )
    session.meter.limits = Limits()
    await turn(session, None)
    assert "by the user" not in str(provider.sent[-1].stable)


async def test_text_that_a_time_limit_cut_names_it_and_is_written_anew(open_session: Open):
    session, provider = open_session(limits=Limits(timeout=0.3))
    provider.answers.extend([Answer("half an answer", hangs=True), Answer("the whole")])
    _, error = await turn_until_error(session, "go")
    assert isinstance(error, LimitReached)
    assert session.messages[-1]["content"] == f"half an answer\n\n{CUT_TEXT.format(reason=REASON)}"
    await turn(session, None)
    assert [m["content"] for m in session.messages if m["role"] == "assistant"] == ["the whole"]
