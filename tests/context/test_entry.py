"""What a prompt is cut to before it is first sent."""

from __future__ import annotations

import pytest

from tests.context.conftest import Open
from tests.context.scripted import compactions, turn


@pytest.mark.parametrize("over", [0, 1])
async def test_a_prompt_is_cut_only_where_it_does_not_fit_beside_what_always_stands(open_session: Open, over: int):
    session, provider = open_session(window=16_000)
    window = session.context_window
    room = window.budget.hard_trigger - 1 - window.beside(session.conversation)
    text = "x" * 4 * (room - 4 + over)
    assert [event.reason for event in compactions(await turn(session, text))] == ["entry"] * over
    sent = str(provider.sent[0].stable[-1]["content"])
    assert (sent == text, session.cut == ()) == (not over, not over)
    if over:
        assert 1.8 * room < len(sent) <= 2 * room, "to half of the room"
        assert session.cut[0].bytes == len(text)
