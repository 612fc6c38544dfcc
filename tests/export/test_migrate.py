"""Documents of other agents become ours: times, plans, summaries, calls and results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet.export.decode import read_json
from codelet.export.document import Document
from codelet.export.migrate import CONTEXT, PARTS, SNAPSHOT
from tests.e2e import seed_files
from tests.export.test_document import refused


def read(document: object) -> tuple[Document, str]:
    return read_json(json.dumps(document).encode(), "theirs.json")


@pytest.mark.parametrize(
    ("document", "form"),
    [
        (seed_files.context(), CONTEXT),
        (seed_files.snapshot(), SNAPSHOT),
        (seed_files.injected_summary(), SNAPSHOT),
        (seed_files.message_list(), PARTS),
        ({"messages": seed_files.message_list()}, PARTS),
        (seed_files.snapshot(timestamp=1.5, summary=""), ""),
    ],
    ids=["context", "snapshot", "injected summary", "message list", "messages", "ours"],
)
def test_each_form_is_known_by_its_fields(document: object, form: str) -> None:
    assert read(document)[1] == form


@pytest.mark.parametrize("given", [1_771_800_000, 1_771_800_000_000, 99_999_999_999.5])
def test_a_time_in_milliseconds_becomes_seconds(given: float) -> None:
    document, _ = read(seed_files.snapshot(timestamp=given))
    assert document.timestamp == (given / 1000 if given > 10**12 else given)


def test_a_plan_gets_the_fields_that_its_agent_leaves_out() -> None:
    steps: list[dict[str, Any]] = [
        {"id": 0, "description": "fix", "status": "Completed", "result": "done"},
        {"id": 1, "description": "test", "status": "InProgress"},
    ]
    for name in ("plan", "current_plan"):
        plan = read(seed_files.context() | {name: {"goal": "green", "steps": steps}})[0].plan
        assert plan == {
            "goal": "green", "current_step": 0, "status": "InProgress", "steps": [steps[0], steps[1] | {"result": None}]
        }  # fmt: skip
    given = {"goal": "green", "current_step": 1, "status": "Completed", "steps": []}
    assert read(seed_files.context() | {"plan": given})[0].plan == given


def test_a_summary_comes_first_unless_a_message_tells_it() -> None:
    told = read(seed_files.snapshot())[0]
    assert told.summary in told.messages[0]["content"] and len(told.messages) == 3
    again = seed_files.snapshot()
    again["messages"].insert(0, {"role": "user", "content": f"Before: {again['summary']}"})
    assert [message["content"] for message in read(again)[0].messages] == [m["content"] for m in again["messages"]]


def test_parts_become_texts_calls_and_results() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    call = {"type": "tool-call", "toolCallId": "9", "toolName": "Look"}
    result = {"type": "tool-result", "toolCallId": "9", "result": {"lines": 3}, "isError": True}
    given = [{"role": "user", "content": parts}, {"role": "assistant", "content": [call]}]
    messages = read([*given, {"role": "tool", "content": [result]}])[0].messages
    assert [message["content"] for message in messages] == ["one\ntwo", "", '{"lines": 3}']
    assert messages[1]["tool_calls"] == [
        {"id": "9", "type": "function", "function": {"name": "Look", "arguments": "{}"}}
    ]
    assert messages[2]["failed"] is True and "failed" not in read(seed_files.message_list())[0].messages[3]


def test_a_content_of_texts_alone_is_none_of_the_forms() -> None:
    parts = [{"type": "text", "text": "one"}]
    given = seed_files.snapshot(timestamp=1.5, summary="", messages=[{"role": "user", "content": parts}])
    assert "messages[0].content: Expected `str`" in refused(given)
