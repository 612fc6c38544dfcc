"""Files of other agents: each is loaded, goes on for a turn, is saved in our form, and goes on from there.

near: codelet/export
"""

from __future__ import annotations

import json
import resource
from typing import Any

import pytest

from codelet.export.history import HISTORY_ENTRIES, SUMMARY_CHARACTERS
from codelet.export.migrate import CONTEXT, PARTS, SNAPSHOT
from tests.e2e import seed_files
from tests.e2e.conftest import Codelet
from tests.e2e.test_export import left_over, said, saved
from tests.support.script import Reply

SECONDS = 3.0

FILES = {
    "context": (seed_files.context(), CONTEXT, ["parser was rewritten in March", "entry 0", "entry 1", "entry 2"]),
    "snapshot": (seed_files.snapshot(), SNAPSHOT, ["file Z could not be written", "Write file Z.", "I may not"]),
    "injected summary": (seed_files.injected_summary(), SNAPSHOT, ["project X; file Z", "Try again."]),
    "message list": (seed_files.message_list(), PARTS, ["Make a file", "I make it.", "File made", "It is there."]),
    "messages": ({"messages": seed_files.message_list()}, PARTS, ["Make a file", "File made"]),
}


@pytest.mark.parametrize("name", FILES)
def test_seed_files_are_loaded_saved_and_loaded_again(codelet: Codelet, name: str):
    document, form, told = FILES[name]
    (codelet.cwd / "theirs.json").write_text(json.dumps(document))
    codelet.server.script = lambda asked: Reply(f"Answer {asked.number}.")
    first = codelet("-p", "go on", "--resume", "theirs.json", "--export", "ours.json")
    assert (first.exit, first.out) == (0, "Answer 0.\n"), first.err
    assert [line for line in first.err.splitlines() if form in line and "theirs.json" in line]
    sent = [text for _, text in said(codelet.server.requests[0])]
    places = [next(place for place, text in enumerate(sent) if words in text) for words in told]
    assert places == sorted(places), "in the order of the file"
    assert sent[-1] == "go on"
    second = codelet("-p", "and on", "--continue", "ours.json")
    assert (second.exit, second.out) == (0, "Answer 1.\n"), second.err
    assert form not in second.err
    again = [text for _, text in said(codelet.server.requests[1])]
    assert "\n\n".join(again) == "\n\n".join([*sent, "Answer 0.", "and on"]), "nothing is told twice or lost"
    assert json.loads((codelet.cwd / "theirs.json").read_text()) == document, "what was read is left as it was"
    assert left_over(codelet.cwd) == []


def test_the_calls_that_an_older_agent_counted_are_in_the_statistics(codelet: Codelet):
    (codelet.cwd / "theirs.json").write_text(json.dumps(seed_files.context()))
    done = codelet("-p", "/stats", "--resume", "theirs.json")
    assert done.exit == 0, done.err
    (row,) = [line.split() for line in done.out.splitlines() if line.startswith("file_write")]
    assert row[1] == "2"


def test_calls_and_results_of_parts_are_calls_and_results(codelet: Codelet):
    (codelet.cwd / "theirs.json").write_text(json.dumps(seed_files.message_list()))
    codelet.server.script = [Reply("ok")]
    assert codelet("-p", "go on", "--resume", "theirs.json", "--export", "ours.json").exit == 0
    messages = saved(codelet.cwd / "ours.json")["messages"]
    (result,) = [message for message in messages if message["role"] == "tool"]
    call = messages[messages.index(result) - 1]["tool_calls"][0]
    assert (call["id"], call["function"]["name"]) == ("123", "Write")
    assert json.loads(call["function"]["arguments"]) == {"file": "a.txt"}
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "123", "File made")


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("user", {"type": "image", "image": "aGk="}),
        ("user", {"type": "tool-call", "toolCallId": "1", "toolName": "x"}),
        ("assistant", {"type": "tool-result", "toolCallId": "1", "result": "x"}),
        ("tool", {"type": "tool-result", "result": "x"}),
    ],
)
def test_parts_that_cannot_be_converted_are_named(codelet: Codelet, role: str, part: dict[str, Any]):
    given = [*seed_files.message_list(), {"role": role, "content": [part]}]
    (codelet.cwd / "theirs.json").write_text(json.dumps(given))
    done = codelet("-p", "go on", "--resume", "theirs.json")
    assert done.exit == 2 and "messages[5].content" in done.err and done.err.count("\n") == 1
    assert codelet.server.requests == []


def test_10_000_history_entries_are_loaded_and_go_on_within_three_seconds(codelet: Codelet):
    (codelet.cwd / "theirs.json").write_text(json.dumps(seed_files.context(10_000)))
    codelet.server.script = [Reply("ok")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = codelet("-p", "go on", "--resume", "theirs.json", "--export", "ours.json")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.exit, done.out) == (0, "ok\n"), done.err
    document = saved(codelet.cwd / "ours.json")
    assert document["recent_history"][-1]["content"] == "ok"
    assert len(document["recent_history"]) == HISTORY_ENTRIES
    # clock: the processor's time, as other processes run beside
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime <= SECONDS


def test_a_seeds_fields_are_written_after_compactions(codelet: Codelet):
    """The summary grows with each compaction, the history keeps the newest, the environment has processes."""
    codelet.server.script = lambda asked: Reply(f"Answer {asked.number}: " + "word " * 150)
    run = ("--export", "ours.json", "--narrative=off", "--compact-entries", "12", "--keep-last", "2")
    summaries: list[str] = []
    for number in range(24):
        done = codelet("-p", f"question {number}", "--resume", "ours.json", *run)
        assert done.exit == 0, done.err
        document = saved(codelet.cwd / "ours.json")
        if not summaries or summaries[-1] != document["long_term_summary"]:
            summaries.append(document["long_term_summary"])
    first, *grown = summaries
    assert first == "" and len(grown) >= 3
    for shorter, longer in zip(summaries, grown, strict=False):
        assert longer.startswith(shorter) and len(longer) <= SUMMARY_CHARACTERS
    turns = [number for number in range(24) if f"] question {number}\n" in grown[-1]]
    assert turns == list(range(len(turns))) and len(turns) > 12, "each question is told, and once"
    assert all(grown[-1].count(f"] question {number}\n") == 1 for number in turns)
    history = document["recent_history"]
    assert [entry["content"] for entry in history if entry["role"] == "user"] == [f"question {n}" for n in range(24)]
    times = [entry["timestamp"] for entry in history]
    assert times == sorted(times) and all(entry["token_count"] for entry in history)
    assert len(document["messages"]) < 24
    processes = document["last_known_environment"]["processes"]
    assert 0 < len(processes) <= 20
    assert all(set(process) == {"pid", "name", "cpu_percent", "memory_mb"} for process in processes)
    assert "cpu_percent" not in str(codelet.server.requests[-1].json), "the model is not told of them unasked"
