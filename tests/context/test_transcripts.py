"""Real sessions, resumed in a small window: the list stays valid and within its budget, and says what it did."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.messages import normalise, unpaired
from scripts.bench.context.readers import read_all
from tests.context.conftest import Open
from tests.context.scripted import compactions, fill


@pytest.mark.long
async def test_real_sessions_go_on_in_a_small_window(open_session: Open, shared: Path):
    transcripts = read_all(shared / "transcripts")
    assert transcripts
    large = 0
    for transcript in transcripts:
        messages = [message for message in normalise(transcript.messages).messages if message["role"] != "system"]
        session, provider = open_session(window=24_000)
        session.adopt(messages)
        seen = await fill(session, provider, 3)
        assert unpaired(session.messages) == [], transcript.name
        assert all(sent.size <= session.window.budget.hard for sent in provider.sent), transcript.name
        if sum(map(session.window.estimate, messages)) > 18_000:
            large += 1
            assert compactions(seen, "done"), transcript.name
            assert session.compactor.archived
    assert large >= 1
