"""`codelet acp` as an editor sees it: the real program, on pipes. Each line is held to the schema if it is there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.acp.editor import Editor, choose
from tests.support.program import descendants, lives, run
from tests.support.script import Call, HttpError, Reply
from tests.support.server import ModelServer
from tests.support.waiting import until

CALL_EDIT = Call("c1", "edit", {"path": "new.txt", "edits": [{"old": "", "new": "one\n"}]})


@pytest.fixture
async def editor(model_server: ModelServer, repo: Path, home: Path) -> AsyncIterator[Editor]:
    arguments = ["--model", "openai/scripted", "--api-base", model_server.openai]
    async with Editor(*arguments, cwd=repo, home=home, env={"OPENAI_API_KEY": "test-key"}) as each:
        yield each
    assert each.junk == []
    assert "Traceback" not in each.errors


def play(server: ModelServer, *steps: Any) -> None:
    server.script = list(steps)


def statuses(editor: Editor, call: str) -> list[str]:
    return [each["status"] for each in editor.updates() if each.get("toolCallId") == call]


async def test_a_turn_with_an_edit_is_asked_shown_and_counted(
    editor: Editor, model_server: ModelServer, repo: Path
) -> None:
    play(model_server, Reply("I write it.", calls=[CALL_EDIT]), Reply("Done."))
    about = (await editor.ask("initialize", protocolVersion=1, clientCapabilities={}))["result"]
    assert about["protocolVersion"] == 1 and about["agentInfo"]["name"] == "codelet"
    session = await editor.open(repo)
    assert await editor.prompt(session, "write new.txt") == "end_turn"
    assert (repo / "new.txt").read_text() == "one\n"
    assert editor.text == "I write it.Done."
    [asked] = editor.asked
    diff = {"type": "diff", "path": str(repo / "new.txt"), "oldText": None, "newText": "one\n"}
    assert asked["toolCall"]["content"] == [diff] and asked["toolCall"]["toolCallId"] == "c1"
    kinds = {each["optionId"]: each["kind"] for each in asked["options"]}
    assert kinds == {"yes": "allow_once", "always": "allow_always", "mode": "allow_always", "no": "reject_once"}
    [begun] = editor.updates("tool_call")
    assert begun["kind"] == "edit" and begun["locations"] == [{"path": str(repo / "new.txt")}]
    assert statuses(editor, "c1") == ["in_progress", "completed"]
    assert editor.updates("tool_call_update")[-1]["content"] == [diff]
    assert editor.updates("usage_update")[-1]["size"] > editor.updates("usage_update")[-1]["used"] > 0
    assert await editor.end() == 0


async def test_a_no_and_an_answer_that_is_none_allow_nothing(
    editor: Editor, model_server: ModelServer, repo: Path
) -> None:
    steps = [Reply("a", calls=[Call(f"c{n}", "write", {"path": "x.txt", "content": "x"})]) for n in range(3)]
    play(model_server, *steps, Reply("Done."))
    answers = iter([choose("no"), choose("yes, please"), lambda asked: {"outcome": "yes"}])
    editor.permit = lambda asked: next(answers)(asked)
    session = await editor.open(repo)
    assert await editor.prompt(session, "write") == "end_turn"
    assert [statuses(editor, f"c{n}")[-1] for n in range(3)] == ["failed"] * 3
    assert len(editor.asked) == 3 and not (repo / "x.txt").exists()


async def test_cancel_ends_the_turn_and_its_command(editor: Editor, model_server: ModelServer, repo: Path) -> None:
    play(model_server, Reply("a", calls=[Call("c1", "bash", {"command": "echo begun; sleep 300"})]), Reply("Done."))
    session = await editor.open(repo)
    turn = editor.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
    await editor.until(lambda: "begun" in json.dumps(editor.updates("tool_call_update")))
    busy = await editor.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "more"}])
    assert busy["error"]["code"] == -32600
    editor.notify("session/cancel", sessionId=session)
    async with asyncio.timeout(20):
        assert (await turn)["result"]["stopReason"] == "cancelled"
    assert statuses(editor, "c1")[-1] == "failed"
    until(lambda: not descendants(editor.process.pid))  # a git may still look at the workspace
    assert await editor.prompt(session, "and now?") == "end_turn"


async def test_cancel_while_a_question_waits_takes_it_back(
    editor: Editor, model_server: ModelServer, repo: Path
) -> None:
    play(model_server, Reply("a", calls=[CALL_EDIT]), Reply("Done."))
    editor.permit = lambda asked: None
    session = await editor.open(repo)
    turn = editor.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
    await editor.until(lambda: editor.asked)
    editor.notify("session/cancel", sessionId=session)
    assert (await turn)["result"]["stopReason"] == "cancelled"
    assert [each for each in editor.lines if each.get("method") == "$/cancel_request"]
    assert not (repo / "new.txt").exists()


async def test_mode_model_and_effort_are_options_and_the_plan_is_shown(
    editor: Editor, model_server: ModelServer, repo: Path
) -> None:
    plan = "mend\n[x] read\n[!] test: it fails\n[ ] fix"
    play(model_server, Reply("a", calls=[Call("c1", "plan", {"plan": plan}), CALL_EDIT]), Reply("b"), Reply("c"))
    editor.permit = choose("mode")
    opened = (await editor.ask("session/new", cwd=str(repo), mcpServers=[]))["result"]
    session = opened["sessionId"]
    assert [each["id"] for each in opened["configOptions"]] == ["mode", "model", "effort"]
    assert await editor.prompt(session, "go") == "end_turn"
    entries = editor.updates("plan")[-1]["entries"]
    assert [each["status"] for each in entries] == ["completed", "pending", "pending"]
    assert "it fails" in entries[1]["content"]
    assert editor.updates("config_option_update")[-1]["configOptions"][0]["currentValue"] == "auto-edit"

    async def switch(option: str, value: str) -> Any:
        return await editor.ask("session/set_config_option", sessionId=session, configId=option, value=value)

    options = (await switch("model", "openai/other"))["result"]["configOptions"]
    assert options[1]["currentValue"] == "openai/other"
    assert (await switch("effort", "high"))["result"]["configOptions"][2]["currentValue"] == "high"
    assert (await switch("mode", "read-only"))["result"]["configOptions"][0]["currentValue"] == "read-only"
    assert (await switch("mode", "root"))["error"]["code"] == -32602
    assert await editor.prompt(session, "again") == "end_turn"
    assert model_server.requests[-1].json["model"] == "other"


async def test_commands_are_listed_and_run(editor: Editor, model_server: ModelServer, repo: Path) -> None:
    session = await editor.open(repo)
    await editor.until(lambda: editor.updates("available_commands_update"))
    opened = next(place for place, each in enumerate(editor.lines) if "sessionId" in each.get("result", ()))
    assert not [each for each in editor.lines[:opened] if "method" in each], "the editor knows a session before updates"
    names = {each["name"] for each in editor.updates("available_commands_update")[0]["availableCommands"]}
    assert {"help", "status", "context", "plan"} <= names and "exit" not in names
    assert await editor.prompt(session, "/plan add mend it") == "end_turn"
    assert "mend it" in editor.text and editor.updates("plan")
    assert not model_server.requests
    assert (await _prompt(editor, session, [{"type": "text", "text": "/theme dark"}]))["error"]["code"] == -32602


async def test_the_users_skills_and_commands_ask_the_model(
    editor: Editor, model_server: ModelServer, repo: Path, home: Path
) -> None:
    texts = {
        "skills/greeting/SKILL.md": "---\nname: greeting\ndescription: Say hello.\n---\nSay: Good evening.\n",
        "commands/git/greet.md": "Greet $1.",
    }
    for name, text in texts.items():
        (path := home / ".claude" / name).parent.mkdir(parents=True)
        path.write_text(text)
    play(model_server, Reply("Hello."), Reply("Good evening."))
    session = await editor.open(repo)
    await editor.until(lambda: editor.updates("available_commands_update"))
    names = {each["name"] for each in editor.updates("available_commands_update")[0]["availableCommands"]}
    assert {"skills", "greeting", "git:greet"} <= names
    assert await editor.prompt(session, "/git:greet Ann") == "end_turn"
    assert await editor.prompt(session, "/greeting Ann") == "end_turn"
    assert editor.text == "Hello.Good evening."
    first, second = (json.dumps(request.messages) for request in model_server.requests)
    assert "Greet Ann." in first and "Say: Good evening." in second


async def _prompt(editor: Editor, session: str, blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return await editor.ask("session/prompt", sessionId=session, prompt=list(blocks))


async def test_the_model_s_question_has_its_options(editor: Editor, model_server: ModelServer, repo: Path) -> None:
    question = {"question": "Which database?", "options": ["SQLite", "PostgreSQL"]}
    play(model_server, *[Reply("a", calls=[Call(f"c{n}", "ask_user", question)]) for n in range(2)], Reply("b"))
    answers = iter([choose("PostgreSQL"), choose("no")])
    editor.permit = lambda asked: next(answers)(asked)
    session = await editor.open(repo)
    assert await editor.prompt(session, "go") == "end_turn"
    assert [each["optionId"] for each in editor.asked[0]["options"]] == ["SQLite", "PostgreSQL", "no"]
    assert [statuses(editor, f"c{n}")[-1] for n in range(2)] == ["completed", "failed"]
    assert "PostgreSQL" in json.dumps(model_server.requests[1].messages)


async def test_the_editor_s_mcp_servers_are_started_and_ended(
    editor: Editor, model_server: ModelServer, repo: Path
) -> None:
    play(model_server, Reply("a", calls=[Call("c1", "mcp__own__echo", {"text": "hi"})]), Reply("b"))
    server = Path(__file__).parents[2] / "support" / "mcp_server.py"
    given = {"name": "own", "command": sys.executable, "args": [str(server)], "env": [{"name": "A", "value": "b"}]}
    session = await editor.open(repo, mcpServers=[given])
    assert await editor.prompt(session, "go") == "end_turn"
    assert "mcp__own__echo" in {each["function"]["name"] for each in model_server.requests[0].json["tools"]}
    assert statuses(editor, "c1")[-1] == "completed" and len(editor.asked) == 1
    children = descendants(editor.process.pid)
    assert children and (await editor.ask("session/close", sessionId=session))["result"] == {}
    assert not [each for each in children if lives(each)]
    sse = {"type": "sse", "name": "old", "url": "https://127.0.0.1/", "headers": []}
    assert (await editor.ask("session/new", cwd=str(repo), mcpServers=[sse]))["error"]["code"] == -32602


async def test_files_texts_and_links_go_with_a_prompt(editor: Editor, model_server: ModelServer, repo: Path) -> None:
    play(model_server, Reply("ok"), Reply("ok"))
    (repo / "my notes.txt").write_text("the notes\n")
    session = await editor.open(repo)
    blocks = [
        {"type": "text", "text": "compare "},
        {"type": "resource_link", "name": "notes", "uri": (repo / "my notes.txt").as_uri()},
        {"type": "resource", "resource": {"uri": "file:///elsewhere/b.py", "text": "unsaved = 1\n"}},
        {"type": "resource_link", "name": "page", "uri": "https://example.com/a"},
    ]
    assert (await _prompt(editor, session, blocks))["result"]["stopReason"] == "end_turn"
    sent = json.dumps(model_server.requests[-1].messages)
    assert "the notes" in sent and "unsaved = 1" in sent and "https://example.com/a" in sent
    audio = await _prompt(editor, session, [{"type": "audio", "data": "", "mimeType": "audio/wav"}])
    assert audio["error"]["code"] == -32602


async def test_limits_failures_and_nonsense_each_have_an_answer(
    model_server: ModelServer, repo: Path, home: Path
) -> None:
    play(model_server, Reply("a", calls=[CALL_EDIT]), HttpError(401, "no such key"), Reply("fine"))
    arguments = ["--model", "openai/scripted", "--api-base", model_server.openai, "--max-turns", "1"]
    async with Editor(*arguments, cwd=repo, home=home, env={"OPENAI_API_KEY": "test-key"}) as editor:
        session = await editor.open(repo)
        assert await editor.prompt(session, "go") == "max_turn_requests"
        failed = await _prompt(editor, session, [{"type": "text", "text": "go"}])
        assert failed["error"]["code"] == -32603 and "test-key" not in json.dumps(failed)
        for line, code in [(b"{nonsense", -32700), (b"[" * 200_000, -32700), (b"[1]", -32600), (b'{"id": 7}', -32600)]:
            before = len(editor.lines)
            editor.write(line)
            await editor.until(lambda before=before: len(editor.lines) > before)
            assert editor.lines[-1]["error"]["code"] == code
        for method, params, code in [
            ("session/fork", {}, -32601),
            ("session/load", {"sessionId": "none", "cwd": str(repo), "mcpServers": []}, -32601),
            ("session/prompt", {}, -32602),
            ("session/prompt", {"sessionId": "none", "prompt": []}, -32602),
            ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
            ("session/new", {"cwd": str(repo / "absent"), "mcpServers": []}, -32602),
        ]:
            assert (await editor.ask(method, **params))["error"]["code"] == code, method
        assert await editor.prompt(session, "and now?") == "end_turn"
        assert (await editor.ask("session/close", sessionId=session))["result"] == {}
        assert (await _prompt(editor, session, []))["error"]["code"] == -32602
        assert await editor.end() == 0
    assert editor.junk == []


async def test_saved_sessions_are_listed_and_continued(
    model_server: ModelServer, repo: Path, home: Path, tmp_path: Path
) -> None:
    play(model_server, Reply("I write it.", calls=[CALL_EDIT], reasoning="Hm."), Reply("Done."), Reply("Again."))
    arguments = ["--model", "openai/scripted", "--api-base", model_server.openai]
    (kept := tmp_path / "kept").mkdir()
    (kept / "notes.json").write_text("{}")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    start: dict[str, Any] = {"cwd": repo, "home": home, "env": {"OPENAI_API_KEY": "test-key"}, "sessions": kept}
    async with Editor(*arguments, **start) as editor:
        about = (await editor.ask("initialize", protocolVersion=1, clientCapabilities={}))["result"]
        abilities = about["agentCapabilities"]
        assert abilities["loadSession"] and "list" in abilities["sessionCapabilities"]
        await editor.open(elsewhere)
        session = await editor.open(repo)
        assert await editor.prompt(session, "write new.txt") == "end_turn"
        assert (await editor.ask("session/load", sessionId=session, cwd=str(repo), mcpServers=[]))["error"]
        assert await editor.end() == 0
    assert sorted(each.name for each in kept.iterdir() if not each.name.startswith(".")) == [
        f"{session}.json",
        "notes.json",
    ]
    async with Editor(*arguments, **start) as again:
        [listed] = (await again.ask("session/list", cwd=str(repo)))["result"]["sessions"]
        assert (listed["sessionId"], listed["cwd"], listed["title"]) == (session, str(repo), "write new.txt")
        assert (await again.ask("session/list", cwd=str(elsewhere)))["result"] == {"sessions": []}
        assert (await again.ask("session/list", cursor="x"))["error"]["code"] == -32602
        for name in ("../kept/notes", "absent", "notes"):
            answer = await again.ask("session/load", sessionId=name, cwd=str(repo), mcpServers=[])
            assert answer["error"]["code"] == -32602, name
        loaded = await again.ask("session/load", sessionId=session, cwd=str(repo), mcpServers=[])
        assert [each["id"] for each in loaded["result"]["configOptions"]] == ["mode", "model", "effort"]
        kinds = [each["sessionUpdate"] for each in again.updates()]
        answered = ["agent_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
        assert kinds[:6] == ["user_message_chunk", "agent_thought_chunk", *answered]
        assert again.text == "I write it.Done." and statuses(again, "c1") == ["in_progress", "completed"]
        assert await again.prompt(session, "and again") == "end_turn"
        assert await again.end() == 0
    assert "I write it." in json.dumps(model_server.requests[-1].messages)
    assert "Again." in (kept / f"{session}.json").read_text()
    saved = (kept / f"{session}.json").read_bytes()
    for number in range(60):
        (kept / f"{number}.json").write_bytes(saved)
    async with Editor(*arguments, **start) as paging:
        first = (await paging.ask("session/list"))["result"]
        second = (await paging.ask("session/list", cursor=first["nextCursor"]))["result"]
    names = [each["sessionId"] for each in (*first["sessions"], *second["sessions"])]
    assert len(names) == len(set(names)) == 61 and "nextCursor" not in second
    assert [*editor.junk, *again.junk, *paging.junk] == []


async def test_a_signal_or_a_closed_pipe_in_a_turn_leaves_nothing(
    editor: Editor, model_server: ModelServer, repo: Path
) -> None:
    play(model_server, Reply("a", calls=[Call("c1", "bash", {"command": "echo begun; sleep 300"})]))
    session = await editor.open(repo)
    editor.begin("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
    await editor.until(lambda: "begun" in json.dumps(editor.updates("tool_call_update")))
    children = descendants(editor.process.pid)
    assert children
    os.kill(editor.process.pid, signal.SIGTERM)
    async with asyncio.timeout(30):
        assert await editor.process.wait() == 143
    assert not [each for each in children if Path(f"/proc/{each}").exists()]


async def test_too_many_sessions_are_refused(editor: Editor, repo: Path) -> None:
    opened = [editor.begin("session/new", cwd=str(repo), mcpServers=[]) for _ in range(34)]
    answers = await asyncio.gather(*opened)
    assert len({each["result"]["sessionId"] for each in answers if "result" in each}) == 32
    assert [each["error"]["code"] for each in answers if "error" in each] == [-32600] * 2


def test_what_does_not_go_with_it_is_refused(repo: Path, home: Path) -> None:
    kept = run("--export", "work.json", "acp", cwd=repo, home=home)
    assert kept.exit == 2 and kept.out == "" and "--export" in kept.err
    absent = run("acp", "--sessions", "absent", cwd=repo, home=home)
    assert absent.exit == 2 and absent.out == "" and "absent" in absent.err
    file = repo / "in.txt"
    file.write_text("")
    with file.open("rb") as stdin:
        assert run("acp", cwd=repo, home=home, stdin=stdin).exit == 2
