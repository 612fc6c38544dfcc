"""Sessions that Python saves: by an option, step by step; and `codelet.sessions`, over a folder and Redis."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codelet import CodeletError, Session, open_session, run, sessions
from codelet.errors import ExportError, SaveConflict, SessionHeld
from codelet.export.store_target import open_target
from codelet.extensions.base import Extension
from codelet.extensions.session_view import SessionView
from codelet.messages import Message, kind_of, user
from tests.export.conftest import place, redis_server
from tests.support.script import Call, Reply
from tests.support.server import ModelServer, Recorded

__all__ = ["place", "redis_server"]


def said(messages: Sequence[Message]) -> list[str | None]:
    """What was said, without reminders."""
    return [each["content"] for each in messages if kind_of(each) not in ("reminder", "system")]


async def say(session: Session, prompt: str) -> None:
    async for _ in session.send(prompt):
        pass


def answer(request: Recorded) -> Reply:
    return Reply(f"{len(request.json['messages'])} messages")


@pytest.mark.usefixtures("redis_server")
async def test_a_session_is_saved_step_by_step_and_gone_on_with(
    options: dict[str, Any], model_server: ModelServer, place: str
):
    target = f"{place}/work.json"
    model_server.script = [Reply(calls=[Call("c1", "read", {"path": "app.py"})]), Reply("One."), Reply("Two.")]
    async with open_session(**options, export=target, resume=target) as session:
        with pytest.raises(SessionHeld):
            async with open_session(**options, export=target, resume=target):
                pass
        await say(session, "first")
    stored = await sessions.load(target)
    assert said(stored.messages) == said(session.messages) and len(said(stored.messages)) == 4
    assert stored.tool_stats["by_tool"] == {"read": 1} and stored.last_known_environment is not None
    async with open_session(**options, export=target, resume=target, wait=5) as session:
        await say(session, "second")
    stored = await sessions.load(target)
    assert [text for text in said(stored.messages) if text in ("first", "second")] == ["first", "second"]
    assert stored.token_usage["turns"] == 2
    [entry] = await sessions.list(place)
    assert (entry.name, entry.holder) == ("work.json", None)


async def test_what_the_options_name_is_written_and_nothing_else(
    options: dict[str, Any], model_server: ModelServer, tmp_path: Path
):
    model_server.script = [Reply(calls=[Call("c1", "remember", {"fact": "port 8443", "key": "port"})]), Reply("Kept.")]
    folder = tmp_path / "kept"
    folder.mkdir()
    names = {"export": "a.json", "facts": "team.facts", "log": "log.jsonl", "snapshots": "copies"}
    secret = "key-1234567890-abcdef"
    given = options | {name: folder / file for name, file in names.items()} | {"api_key": secret}
    async with open_session(**given, export_every=2, memory=folder) as session:
        await say(session, f"remember the port; my key is {secret}")
        assert {"remember", "search_sessions"} <= set(session.toolbox.tools)
    assert sorted(path.name for path in folder.iterdir()) == sorted(names.values())
    assert (await sessions.load(folder / "a.json")).facts == ("port 8443",)
    assert json.loads((folder / "log.jsonl").read_text().splitlines()[0])["event"] == "session_start"
    assert list((folder / "copies").glob("*.json"))
    for path in folder.rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes(), path


async def test_an_error_leaves_the_session_saved_and_unlocked(
    options: dict[str, Any], model_server: ModelServer, tmp_path: Path
):
    class Broken(Extension):
        def attach(self, session: SessionView) -> None:
            raise ZeroDivisionError

    folder = tmp_path / "folder"
    folder.mkdir()
    target = folder / "work.json"
    with pytest.raises(ZeroDivisionError):
        async with open_session(**options, export=target, extensions=[Broken()]):
            pass
    assert list(folder.iterdir()) == []
    model_server.script = answer
    with pytest.raises(ZeroDivisionError):
        async with open_session(**options, export=target) as session:
            await say(session, "hello")
            raise ZeroDivisionError
    assert [each.name for each in folder.iterdir()] == ["work.json"]
    assert said((await sessions.load(target)).messages) == said(session.messages)


async def test_an_answer_outlives_a_save_that_fails(options: dict[str, Any], model_server: ModelServer, tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def moves(request: Recorded) -> Reply:
        folder.rename(tmp_path / "elsewhere")
        return Reply("Here.")

    model_server.script = moves
    result = await run("hello", **options, export=folder / "work.json")
    assert (result.text, result.exit) == ("Here.", 2) and str(folder) in str(result.error)


@pytest.mark.usefixtures("redis_server")
async def test_sessions_are_saved_replaced_found_and_deleted(place: str):
    first, second = f"{place}/first.json", f"{place}/second.json"
    document = sessions.Document(timestamp=1.0, token_count=1, messages=(user("the walrus came"),))
    await sessions.save(first, document)
    with pytest.raises(ExportError):
        await sessions.save(first, document)
    newer = document.replace(facts=("it left at noon",))
    await sessions.save(first, newer, replaces=document)
    with pytest.raises(SaveConflict):
        await sessions.save(first, document, replaces=document)
    await sessions.save(first, newer, force=True)
    await sessions.save(second, document)
    assert await sessions.load(first) == newer
    assert {each.name for each in await sessions.list(place)} == {"first.json", "second.json"}
    found = await sessions.search(place, '"noon"')
    assert [(each.session, each.place) for each in found] == [("first.json", "fact")]
    held = open_target(second).store.lock("second.json")
    for refused in (sessions.delete(second), sessions.save(second, newer, replaces=document, wait=0.3)):
        with pytest.raises(SessionHeld):
            await refused
    held.release()
    await sessions.delete(second)
    with pytest.raises(CodeletError):
        await sessions.load(second)
    assert [each.name for each in await sessions.list(place)] == ["first.json"]


async def test_a_damaged_session_is_deleted_by_force_only(tmp_path: Path):
    target = tmp_path / "work.json"
    target.write_text('{"version": "1.0", "mess')
    with pytest.raises(ExportError):
        await sessions.delete(target)
    assert target.exists()
    await sessions.delete(target, force=True)
    assert list(tmp_path.iterdir()) == []
