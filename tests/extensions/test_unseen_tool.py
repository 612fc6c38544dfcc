"""A tool that codelet has never seen, registered from outside, in a whole session: what everybody says of it.

Its verdicts and questions in every mode are in tests/safety/test_unseen_tool.py, foreign schemas in
tests/tools/test_foreign.py.
"""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

from codelet import events
from codelet.export.decode import from_json
from codelet.export.encode import to_json
from codelet.export.page import page
from codelet.export.recorder import Recorder
from codelet.extensions.base import Extension
from codelet.frontends.printing import describe_call
from codelet.loop.toolbox import Safeguards
from codelet.safety import Policy
from codelet.safety.audit import AuditLog
from codelet.safety.secrets import Masker
from codelet.safety.verdict import Answer, Question, Touch
from codelet.tools.tool import Arguments, Progress, Tool, ToolContext, ToolOutput, tool
from tests.context.scripted import Answer as Said
from tests.context.scripted import turn
from tests.extensions.conftest import Open

KEY = "k-5b1e7c0d94a8f2b63e"
SCHEMA = {
    "type": "object",
    "properties": {"table": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "to": {"$ref": "#/$defs/file"}},
    "required": ["to"],
    "$defs": {"file": {"type": "string", "pattern": "csv$"}},
}


async def dump(context: ToolContext, progress: Progress, **arguments: Any) -> ToolOutput:
    (context.workspace / arguments["to"]).write_text("1,2\n")
    return ToolOutput("wrote 1 row")


def touches(arguments: Arguments) -> list[Touch]:
    return [Touch("write", arguments["to"])]


def title(arguments: Arguments) -> str:
    return f"{arguments.get('table') or 'everything'} into {arguments['to']}"


class Database(Extension):
    tools = (Tool("dump", "Dump a table.", SCHEMA, dump, touches, title),)


async def test_it_says_what_its_answer_counts(open_session: Open) -> None:
    async def tickets(context: ToolContext, progress: Progress) -> ToolOutput:
        return ToolOutput("17\n23", counted=f"ticket {KEY}")

    session, provider = open_session(tools=[tool(tickets)], safeguards=Safeguards(masker=Masker({"MY_KEY": KEY})))
    provider.answers.append(Said("ok", [("tickets", {})]))
    (result,) = (event for event in await turn(session) if isinstance(event, events.ToolResult))
    assert result.counted.startswith("ticket") and KEY not in result.counted


async def test_everybody_says_the_right_thing_of_it(open_session: Open, tmp_path: Path) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(True)

    audit = AuditLog(tmp_path / "audit.jsonl")
    policy = Policy(tmp_path, deny=["edit(keep/**)"])
    session, provider = open_session(Database(), policy=policy, ask=ask, safeguards=Safeguards(audit=audit))
    given = ({"table": "users", "to": "a.csv"}, {"to": "a.txt"}, {"to": "keep/a.csv"})
    provider.answers.append(Said("ok", [("dump", arguments) for arguments in given]))
    recorder = Recorder()
    seen = await turn(session)
    for event in seen:
        recorder.see(event)
    await session.close()

    results = [event for event in seen if isinstance(event, events.ToolResult)]
    assert [result.status for result in results] == ["done", "failed", "refused"]
    assert results[1].text.startswith("dump: to: ") and "'a.txt'" in results[1].text and "'csv$'" in results[1].text
    assert (tmp_path / "a.csv").exists()
    called = [describe_call(event) for event in seen if isinstance(event, events.ToolCallStarted)]
    assert called == ["dump users into a.csv", "dump everything into a.txt", "dump everything into keep/a.csv"]
    assert [(one.tool, one.shown, one.verdict.reason) for one in asked] == [
        ("dump", "dump users into a.csv", "dump changes a.csv")
    ]
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(one["kind"], one.get("title", one.get("outcome", one.get("status")))) for one in records] == [
        ("start", None),
        ("verdict", "users into a.csv"),
        ("approval", "yes"),
        ("change", None),
        ("execution", "done"),
        ("execution", "failed"),
        ("verdict", "everything into keep/a.csv"),
        ("end", None),
    ]
    snapshot = recorder.snapshot(session)
    assert from_json(to_json(snapshot, mask=None)).tool_stats == {
        "total_calls": 3,
        "by_tool": {"dump": 3},
        "failures": 1,
    }
    shown = unescape(page(snapshot, mask=None))
    assert (
        "dump table=users to=a.csv" in shown.replace("</b>", "").replace("<b>", "") or "table=users to=a.csv" in shown
    )
