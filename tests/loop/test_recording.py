"""`--record` and `replay:FILE`: what is kept, that it plays as it was."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from codelet import events
from codelet.errors import ProviderError, UsageError
from codelet.loop.recording import RecordingProvider, begin_recording
from codelet.loop.session import Session
from codelet.providers.content.replay import open_replay
from codelet.safety import Policy
from tests.support.script import Call, HttpError, Reply, Stop, Tokens
from tests.support.server import ModelServer
from tests.support.sessions import of_type, provider_of, turn, turn_until_error

Record = Callable[..., Session]
KEY = "sk-ant-api03-" + "a1B2" * 20

SCRIPT = [
    Reply(
        "Looking.",
        reasoning="First the file.",
        calls=[Call("c1", "read", {"path": "notes.txt"}), Call("c2", "nosuch", '{"a": ')],
        usage=Tokens(1_000, cache_read=900, output=20, reasoning=5),
    ),
    Reply(f"The key is {KEY}."),
    Reply(refusal="I will not."),
]


@pytest.fixture
async def record(repo: Path, tmp_path: Path, model_server: ModelServer) -> AsyncIterator[Record]:
    """Makes a session whose provider records into `tape.json`, or one that plays it."""
    (repo / "notes.txt").write_text("hay\nneedle\n")
    opened: list[Session] = []

    def make(*, play: bool = False, again: bool = False, **more: Any) -> Session:
        tape = tmp_path / "tape.json"
        if not (play or again):
            begin_recording(str(tape), "openai/scripted", force=False)
        live = open_replay(tape) if play else RecordingProvider(provider_of(model_server), str(tape))
        session = Session(live, workspace=repo, policy=Policy(repo, yes=True), **more)
        opened.append(session)
        return session

    yield make
    for session in opened:
        await session.close()


def told(seen: list[events.Event]) -> list[str]:
    """What a turn said and did, without times."""
    texts = "".join(event.delta for event in of_type(seen, events.Text))
    thought = "".join(event.delta for event in of_type(seen, events.Reasoning))
    return [thought, texts, *(f"{each.name} {each.status} {each.text}" for each in of_type(seen, events.ToolResult))]


async def test_what_was_recorded_plays_as_it_was_and_holds_no_key(
    record: Record, model_server: ModelServer, tmp_path: Path, repo: Path
):
    model_server.script = SCRIPT
    live = record()
    first = await turn(live, "find it")
    _, error = await turn_until_error(live, "now do harm")
    assert error is not None
    tape = tmp_path / "tape.json"
    assert stat.S_IMODE(tape.stat().st_mode) == 0o600
    kept = json.loads(tape.read_text())
    assert (kept["version"], kept["model"], len(kept["steps"])) == (1, "openai/scripted", 3)
    assert KEY not in tape.read_text()
    assert kept["steps"][0]["usage"] == {
        "total_input": 1_000,
        "cache_read": 900,
        "cache_write": 0,
        "output": 20,
        "reasoning": 5,
        "cache_write_hour": 0,
    }
    made = [call["arguments"] for call in kept["steps"][0]["tool_calls"]]
    assert made == [{"path": "notes.txt"}, '{"a":'], "as an object where they are one"
    played = record(play=True)
    again = await turn(played, "find it")
    assert told(again)[2:] == told(first)[2:]
    assert told(again)[:1] == told(first)[:1] == ["First the file."]
    assert played.usage.total_input == 1_100
    _, same = await turn_until_error(played, "now do harm")
    assert str(same) == str(error) and "I will not." in str(error)


async def test_an_answer_that_failed_is_kept_with_its_failure(record: Record, model_server: ModelServer):
    model_server.script = [Reply(["Half ", "of it"], fault=Stop("cut", 2)), HttpError(400, "no such thing")]
    live = record()
    _, cut = await turn_until_error(live, "go")
    _, bad = await turn_until_error(live, "again")
    played = record(play=True)
    seen, again = await turn_until_error(played, "go")
    assert isinstance(again, ProviderError)
    assert str(again) == str(cut)
    assert "Half " in told(seen)[1]
    _, same = await turn_until_error(played, "again")
    assert isinstance(same, ProviderError)
    assert (str(same), same.status) == (str(bad), 400)


async def test_what_a_refusal_says_of_the_window_is_played_too(record: Record, model_server: ModelServer):
    too_long = "maximum context length is 8192 tokens, you requested 9000 (900 in the messages, 8100 in the completion)"
    model_server.script = [HttpError(400, too_long), Reply("fits")]
    live = record()
    await turn(live, "go")
    played = record(play=True)
    await turn(played, "go")
    assert played.messages[-1]["content"] == "fits"
    assert played.window.budget.window == live.window.budget.window == 8192


async def test_what_the_server_says_of_the_model_reaches_the_session(record: Record, model_server: ModelServer):
    model_server.said = {"/v1/models": {"data": [{"id": "scripted", "meta": {"n_ctx": 16384}}]}}
    model_server.script = [Reply("done")]
    session = record()
    await turn(session)
    assert session.window.budget.window == 16_384


async def test_each_answer_stands_behind_the_one_before_it_whichever_model_was_asked(
    record: Record, model_server: ModelServer
):
    """A model stands in for one turn; the one that was chosen, whose own last request was another, is asked again."""
    model_server.script = [Reply("one"), Reply("two"), Reply("three")]
    live = record()
    await turn(live, "first")
    chosen, other = live.provider, record(again=True).provider
    live.models.switch(other)
    live.rewind()
    await turn(live, "second")
    live.models.switch(chosen)
    live.rewind()
    await turn(live, "first")
    played = record(play=True)
    await turn(played, "first")
    for prompt in ("second", "first"):
        played.rewind()
        await turn(played, prompt)
    assert played.messages[-1]["content"] == "three"


async def test_an_answer_that_cannot_be_kept_fails_the_turn(record: Record, model_server: ModelServer, tmp_path: Path):
    tape = tmp_path / "tape.json"
    model_server.script = lambda request: Reply("ok")
    session = record()
    await turn(session)
    whole = tape.read_bytes()
    tape.write_bytes(whole + b"more")
    _, error = await turn_until_error(session, "again")
    assert str(tape) in str(error) and "changed" in str(error)
    assert tape.read_bytes() == whole + b"more"
    tape.unlink()
    _, error = await turn_until_error(session, "again")
    assert str(tape) in str(error) and os.strerror(errno.ENOENT) in str(error)


def test_a_file_that_is_there_is_replaced_by_force_only(tmp_path: Path):
    path = str(tmp_path / "tape.json")
    begin_recording(path, "m", force=False)
    with pytest.raises(UsageError, match=r"already.*--force"):
        begin_recording(path, "m", force=False)
    begin_recording(path, "other", force=True)
    assert open_replay(path).model == "other"
    with pytest.raises(UsageError, match="No such file"):
        begin_recording(str(tmp_path / "none" / "tape.json"), "m", force=False)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"request": 3}, "steps[0].request: "),
        ({"error": {"message": 3}}, "steps[0].error.message: "),
        ({"error": {"message": "x", "status": "y"}}, "steps[0].error.status: "),
        ({"refusal": []}, "steps[0].refusal: "),
    ],
)
def test_what_is_wrong_in_a_recording_is_named(step: dict[str, Any], words: str, tmp_path: Path):
    file = tmp_path / "tape.json"
    file.write_text(json.dumps({"version": 1, "steps": [step]}))
    with pytest.raises(UsageError) as wrong:
        open_replay(file)
    assert words in str(wrong.value)
