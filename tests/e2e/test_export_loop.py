"""The persistent loop, as the help gives it in one command line: each request loads, keeps up, answers and saves."""

from __future__ import annotations

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Codelet
from tests.e2e.test_export import LOOK, left_over, said, saved
from tests.support.program import ROOT, Finished
from tests.support.script import Reply, Tokens

DAY = 24 * 3600
PAGE = (ROOT / "codelet" / "help" / "sessions.md").read_text(encoding="utf-8")


def loop_flags() -> list[str]:
    """What the page's command line gives besides the prompt."""
    found = re.search(r"^codelet -p .*--compact-entries.*$", PAGE, flags=re.MULTILINE)
    assert found is not None
    words = shlex.split(found[0])
    return words[words.index("-p") + 2 :]


def run(codelet: Codelet, prompt: str, **options: Any) -> Finished:
    return codelet("-p", prompt, *loop_flags(), "--narrative=off", **options)


def older_context(path: Path, entries: int, size: int) -> None:
    """A context as a persistent agent without versions left it: history, facts twice, a plan, tasks of all ages."""
    now = time.time()  # clock: as its entries are dated
    history = [
        {
            "timestamp": now - 1000 + number,
            "role": "user" if number % 2 == 0 else "assistant",
            "content": f"entry {number}: " + "some words about src/parser.py and its tests " * (size // 45),
            "token_count": size // 4,
        }
        for number in range(entries)
    ]

    def task(name: str, status: str, age: float) -> dict[str, Any]:
        times = {"created_at": now - 2 * age, "updated_at": now - age}
        return {"id": name, "description": name, "status": status, "progress": 1.0, **times}

    document = {
        "session_id": "user-1",
        "system_state": {"branch": "main"},
        "facts": ["python is 3.11", "tabs, please", "python is 3.11"],
        "recent_history": history,
        "long_term_summary": "Older: the project was set up.",
        "active_tasks": [
            task("done long ago", "Completed", 2 * DAY),
            task("just done", "Completed", DAY / 2),
            task("running for days", "Running", 3 * DAY),
        ],
        "current_plan": {
            "goal": "keep the project in order",
            "steps": [
                {"id": 1, "description": "set it up", "status": "Completed", "result": "in March"},
                {"id": 2, "description": "test it", "status": "InProgress"},
            ],
            "current_step": 1,
            "status": "Active",
        },
        "tool_stats": {"total_calls": 4, "by_tool": {"read": 4}, "failures": 0},
        "last_known_environment": {"workspace": "/elsewhere"},
        "token_usage": {"total_input": 10, "output": 5},
    }
    path.write_text(json.dumps(document))


def test_the_request_flow_over_a_restart(codelet: Codelet):
    path = codelet.cwd / "work.json"
    older_context(path, entries=61, size=200)
    rivals: list[Finished] = []

    def script(request: Any) -> Reply:
        if request.number == 0:
            rivals.append(run(codelet, "me too"))
            return Reply("Looking.", calls=[LOOK])
        return Reply(f"Answer {request.number}.")

    codelet.server.script = script
    done = run(codelet, "what is next?")
    assert (done.exit, done.out) == (0, "Answer 1.\n"), done.err

    # 1. The session's lock is taken: another request is told who has it, and nothing is sent for it.
    assert rivals[0].exit == 2
    assert "in use" in rivals[0].err
    # 2. and 3. It is loaded, and compacted for its more than 50 entries; the prompt and four turns before it stay.
    request = said(codelet.server.requests[0])
    assert len(request) <= 25
    assert request[0][1].startswith("<compacted turns=")
    assert request[-8][1].startswith("entry 54: ")
    newest = [text.partition(":")[0] for _, text in request[-7:-1]]
    assert newest == [f"entry {number}" for number in range(55, 61)]
    document = saved(path)
    assert document["facts"] == ["python is 3.11", "tabs, please"]
    assert [task["id"] for task in document["active_tasks"]] == ["just done", "running for days"]
    assert document["segments"]
    assert "parser.py" in document["summary"]
    # 4. The environment is looked at.
    assert document["last_known_environment"]["workspace"] == str(codelet.cwd)
    assert document["last_known_environment"]["memory_total_mb"] > 0
    # 5. and 6. The prompt is appended; the model is asked until it calls no more tools.
    assert request[-1] == ("user", "what is next?")
    assert said(codelet.server.requests[1])[-1][0] == "tool"
    # 7. History, statistics and usage are brought up to date.
    assert document["recent_history"][-1]["content"] == "Answer 1."
    assert document["tool_stats"] == {"total_calls": 5, "by_tool": {"read": 5}, "failures": 0}
    assert document["token_usage"]["total_input"] == 10 + 2 * Tokens().total_input
    # 8. and 9. It is saved whole, under the session's own id, and the lock is free.
    assert (document["version"], document["session_id"]) == ("1.0", "user-1")
    older, *newer = document["long_term_summary"].splitlines()
    assert older == "Older: the project was set up."
    assert newer[0].startswith("[t1 user] entry 0")
    assert left_over(codelet.cwd) == []

    again = run(codelet, "and then?")
    assert (again.exit, again.out) == (0, "Answer 2.\n"), again.err
    # The reminders are elsewhere by now: entry 60 and the prompt that followed it are one message of the user's.
    *before, (_, entry_60), (_, asked) = request
    joined = ("user", f"{entry_60}\n\n{asked}")
    assert said(codelet.server.requests[2])[: len(request) - 1] == [*before, joined]
    assert said(codelet.server.requests[2])[-1] == ("user", "and then?")
    assert saved(path)["token_usage"]["turns"] == document["token_usage"]["turns"] + 1


@pytest.mark.parametrize("entries", [20, 44])
def test_compactor_triggers_on_a_history_over_100_000_tokens(codelet: Codelet, entries: int):
    path = codelet.cwd / "work.json"
    older_context(path, entries=entries, size=420_000 // entries)
    codelet.server.script = lambda request: Reply("ok")
    done = run(codelet, "what is next?")
    assert done.exit == 0, done.err
    assert len(codelet.server.requests[-1].body) < 230_000, "the newest five turns stay, which are 210,000"
    assert saved(path)["segments"]


def test_a_new_session_begins_where_there_is_none(codelet: Codelet):
    codelet.server.script = lambda request: Reply("ok")
    assert run(codelet, "first").exit == 0
    assert run(codelet, "second").exit == 0
    assert said(codelet.server.requests[1]) == [("user", "first"), ("assistant", "ok"), ("user", "second")]


def test_what_compaction_took_out_is_saved_where_it_is_asked_for(codelet: Codelet):
    path = codelet.cwd / "work.json"
    older_context(path, entries=61, size=200)
    codelet.server.script = lambda request: Reply("ok")
    assert run(codelet, "what is next?").exit == 0
    assert saved(path).get("archive") is None
    older_context(path, entries=61, size=200)
    assert codelet("-p", "what is next?", *loop_flags(), "--export-archive").exit == 0
    archive = saved(path)["archive"]
    assert [entry["id"] for entry in archive][:2] == ["r1", "r2"]
    assert archive[0]["message"]["content"].startswith("entry 0:")
    assert run(codelet, "and then?").exit == 0
    assert saved(path)["archive"] == archive
    tools = [tool["function"]["name"] for tool in codelet.server.requests[-1].json["tools"]]
    assert "recall" in tools
