"""The recall tool over what did not fit: ranges of lines and bytes, patterns, and what it refuses."""

from __future__ import annotations

import re

import pytest

from codelet import events
from codelet.context import Piped
from codelet.loop.session import Session
from codelet.providers.protocol import Request
from tests.context.conftest import Open
from tests.context.scripted import Answer, ScriptedProvider

LONG_LINE = "größer als 😀 " * 12_000
LINES = "".join(f"line {number} of the pipe\n" for number in range(1, 9_001))


def last_result(request: Request) -> str:
    found = [message["content"] for message in request.messages if message["role"] == "tool"]
    return found[-1] or "" if found else ""


async def read(session: Session, text: str) -> list[events.Event]:
    return [event async for event in session.send("review", Piped(text, len(text.encode()), 1))]


async def test_one_endless_line_is_read_to_its_end_by_bytes(open_session: Open):
    session, provider = open_session(window=24_000)
    pieces: list[str] = []

    def script(request: Request) -> Answer:
        heading, _, piece = last_result(request).partition("\n")
        pieces.append(piece)
        on = re.search(r"byte_range=(\d+)-", heading)
        if heading and on is None:
            return Answer("done")
        return Answer("", [("recall", {"entry": "r1", "byte_range": f"{on[1] if on else 0}-"})])

    provider.script = script
    seen = await read(session, LONG_LINE)
    assert "".join(pieces) == LONG_LINE
    [cut] = session.entry.cut
    assert (cut.what, cut.bytes, cut.read) == ("stdin", len(LONG_LINE.encode()), len(LONG_LINE.encode()))
    assert isinstance(seen[-1], events.TurnEnd) and seen[-1].cut == (cut,)


async def recalled(session: Session, provider: ScriptedProvider, **arguments: str) -> events.ToolResult:
    """The result of one call of recall."""
    provider.answers.extend([Answer("", [("recall", arguments)]), Answer()])
    [result] = [event for event in await read(session, LINES) if isinstance(event, events.ToolResult)]
    return result


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"entry": "r9"}, "nothing in memory"),
        ({"entry": "r1", "lines": "many"}, "201-600"),
        ({"entry": "r1", "lines": "9-3"}, "grows"),
        ({"entry": "r1", "lines": "999999-"}, "has only 9000 lines"),
        ({}, "a pattern or a turn"),
    ],
)
async def test_what_it_cannot_give_it_says(open_session: Open, arguments: dict[str, str], says: str):
    result = await recalled(*open_session(window=24_000), **arguments)
    assert result.status == "failed" and says in result.text


@pytest.mark.parametrize("lines", ["4001-4003", "4001:4003", "L4001-L4003", "4001..4003"])
async def test_a_range_as_models_write_it(open_session: Open, lines: str):
    result = await recalled(*open_session(window=24_000), entry="r1", lines=lines)
    assert result.text.partition("\n")[2] == "".join(f"line {number} of the pipe\n" for number in (4001, 4002, 4003))


async def test_a_pattern_names_lines_and_what_it_shows_counts_as_read(open_session: Open):
    session, provider = open_session(window=24_000)
    result = await recalled(session, provider, entry="r1", pattern="line 4321 ")
    assert result.text == "r1 t1 line 4321: line 4321 of the pipe"
    sent = sum(len(line) + 1 for line in LINES.splitlines() if line in str(provider.sent[0].stable))
    assert session.entry.cut[0].read == sent + len("line 4321 of the pipe")


async def test_what_was_recalled_but_not_sent_any_more_is_unread(open_session: Open):
    session, provider = open_session(window=24_000)
    provider.answers.append(Answer("", [("recall", {"entry": "r1", "lines": "4001-4100"})]))
    stream = session.send("review", Piped(LINES, len(LINES), 9_000))
    read_at = []
    async for event in stream:
        if isinstance(event, events.UsageReport | events.ToolResult):
            read_at.append(session.entry.cut[0].read)
        if isinstance(event, events.ToolResult):
            break
    await stream.aclose()
    assert read_at[0] == read_at[1] > 0, "the answer with it was never sent"


async def test_what_was_not_sent_whole_is_still_known_where_the_list_is_taken_over(open_session: Open):
    """Recalled text of that list counts as unread, as it is unknown."""
    session, provider = open_session(window=24_000)
    await recalled(session, provider, entry="r1", lines="4001-4100")
    other, _ = open_session(window=24_000)
    assert other.entry.cut == ()
    other.adopt(session.messages)
    [there], [here] = session.entry.cut, other.entry.cut
    assert (here.what, here.bytes) == (there.what, there.bytes) and 0 < here.read < there.read
    other.clear()
    assert other.entry.cut == ()


async def test_a_prompt_that_fits_stays_whole_through_a_compaction_of_what_is_old(open_session: Open):
    """Old turns make room for it, though it is larger than what a compaction leaves of a prompt that was sent."""
    session, provider = open_session(window=32_000)
    old = "\n".join(f"old_{number} = compute(src/old_{number}.py)" for number in range(1_500))
    async for _ in session.send(old):
        pass
    new = "\n".join(f"new_{number} = compute(src/new_{number}.py)" for number in range(1_500))
    seen = [event async for event in session.send(new)]
    assert any(isinstance(event, events.Compaction) and event.phase == "done" for event in seen)
    assert any(message["content"] == new for message in provider.sent[-1].stable)
    assert session.entry.cut == ()
