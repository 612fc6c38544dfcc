"""One shot: `codelet -p` in its three output formats, with tools, limits and refusals."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import KEYS, Codelet
from tests.support.program import run
from tests.support.script import Call, Delivery, HttpError, Reply, Stop, Tokens
from tests.support.waiting import PATIENCE

READ = Reply("Let me look. ", calls=[Call("call-1", "read", {"path": "app.py"}, (5,))], usage=Tokens(50, output=5))
ANSWER = Reply(["It prints ", "hello."], reasoning="easy", usage=Tokens(80, cache_read=40, output=6, reasoning=2))


def test_text_prints_the_answer_alone_on_stdout(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [READ, ANSWER]
    done = codelet("-p", "what does app.py do?")
    assert done.exit == 0, done.err
    assert done.out.endswith("It prints hello.\n")
    assert "read" not in done.out
    assert "\x1b" not in done.out
    first, second = (json.dumps(request.messages) for request in codelet.server.requests)
    assert "what does app.py do?" in first
    assert "print('hello')" in second


def test_json_is_one_object_with_the_named_keys(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [READ, ANSWER]
    done = codelet("-p", "what does app.py do?", "--output-format", "json")
    assert done.exit == 0, done.err
    result = done.json()
    names = (
        "version result partial exit error usage cost cache_share refused cut model fallbacks turns duration sandbox "
    )
    assert list(result) == [*names.split(), "metrics"]
    assert str(result["result"]).endswith("It prints hello.")
    assert (result["partial"], result["exit"], result["error"], result["refused"]) == (False, 0, None, [])
    assert result["cut"] == []
    assert (result["model"], result["turns"]) == (f"{codelet.wire}/scripted", 2)
    assert isinstance(result["duration"], float) and result["duration"] > 0
    usage = result["usage"]
    assert isinstance(usage, dict)
    assert (usage["total_input"], usage["cache_read"], usage["output"]) == (130, 40, 11)


def test_stream_json_is_one_event_a_line(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [READ, ANSWER]
    done = codelet("-p", "what does app.py do?", "--output-format", "stream-json")
    assert done.exit == 0, done.err
    events = done.lines()
    types = [event["type"] for event in events]
    assert types[0] == "turn_start"
    assert types[-1] == "turn_end"
    assert types.count("turn_end") == 1
    assert (events[-1]["reason"], events[-1]["exit"], events[-1]["partial"]) == ("done", 0, False)
    assert (events[-1]["model"], events[-1]["turns"], events[-1]["steps"]) == (f"{codelet.wire}/scripted", 2, 2)
    assert str(events[-1]["result"]).endswith("It prints hello.")
    assert types.count("step_start") == 2
    assert types.index("tool_call") < types.index("tool_result")
    assert "".join(str(event["delta"]) for event in events if event["type"] == "text").endswith("It prints hello.")
    call = next(event for event in events if event["type"] == "tool_call")
    assert (call["id"], call["name"], call["arguments"]) == ("call-1", "read", {"path": "app.py"})
    result = next(event for event in events if event["type"] == "tool_result")
    assert (result["id"], result["status"]) == ("call-1", "done")


def test_stream_json_arrives_while_the_model_speaks(codelet: Codelet):
    pieces = [f"word{number} " for number in range(40)]
    codelet.server.script = [Reply(pieces, fault=Stop("stall", after=20, seconds=1.0))]
    done = codelet("-p", "go", "--output-format", "stream-json")
    deltas = [event["delta"] for event in done.lines() if event["type"] == "text"]
    assert "".join(map(str, deltas)) == "".join(pieces)
    assert len(deltas) > 1


def test_stdin_is_additional_input(codelet: Codelet):
    codelet.server.script = [Reply("seen")]
    done = codelet("-p", "explain this", stdin=b"a traceback from the pipe\n")
    assert done.exit == 0, done.err
    messages = json.dumps(codelet.server.requests[0].json["messages"])
    assert "explain this" in messages
    assert "a traceback from the pipe" in messages


def test_parallel_calls_come_back_in_call_order(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    calls = [Call("b", "read", {"path": "README.md"}, (4,)), Call("a", "read", {"path": "app.py"}, (2, 9))]
    codelet.server.script = [Reply(calls=calls, interleaved=True), ANSWER]
    done = codelet("-p", "both", "--output-format", "stream-json")
    assert done.exit == 0, done.err
    body = codelet.server.requests[1].body.decode()
    assert body.index("# Example") < body.index("print('hello')")


def test_calls_that_share_an_index_are_two_calls(codelet: Codelet):
    calls = [
        Call("x", "read", {"path": "README.md"}, index=0),
        Call("y", "read", {"path": "app.py"}, index=0),
    ]
    codelet.server.script = [Reply(calls=calls), ANSWER]
    done = codelet("-p", "both", "--output-format", "stream-json")
    assert done.exit == 0, done.err
    called = [event["id"] for event in done.lines() if event["type"] == "tool_call"]
    assert called == ["x", "y"]


def test_bad_arguments_unknown_tools_and_failing_tools_go_back_to_the_model(codelet: Codelet):
    codelet.server.script = [
        Reply(calls=[Call("a", "read", "{not json")]),
        Reply(calls=[Call("b", "no_such_tool", {})]),
        Reply(calls=[Call("c", "read", {"path": "missing.txt"})]),
        Reply("enough"),
    ]
    done = codelet("-p", "go", "--output-format", "stream-json")
    assert done.exit == 0, done.err
    statuses = [event["status"] for event in done.lines() if event["type"] == "tool_result"]
    assert statuses == ["failed", "failed", "failed"]
    assert len(codelet.server.requests) == 4


def test_bad_arguments_are_repaired_a_bounded_number_of_times(codelet: Codelet):
    codelet.server.script = lambda request: Reply(calls=[Call(f"c{request.number}", "read", "{not json")])
    done = codelet("-p", "go")
    assert done.exit not in (0, 70, None), done.err
    assert len(codelet.server.requests) <= 25


def test_max_turns_ends_with_4_and_says_partial(codelet: Codelet):
    codelet.server.script = lambda request: Reply("looking ", calls=[Call(f"c{request.number}", "read", {"path": "."})])
    done = codelet("-p", "go", "--max-turns", "3", "--output-format", "json")
    result = done.json()
    assert (done.exit, result["exit"], result["partial"]) == (4, 4, True)
    assert "looking" in str(result["result"])
    assert len(codelet.server.requests) == 3


def test_a_tool_that_needs_permission_is_refused_without_a_person(codelet: Codelet):
    write = Call("w", "write", {"path": "new.txt", "content": "x"})
    codelet.server.script = [Reply(calls=[write]), Reply("I may not write.")]
    done = codelet("-p", "write a file", "--output-format", "json")
    assert done.exit == 6
    assert done.json()["refused"]
    assert not (codelet.cwd / "new.txt").exists()
    assert done.json()["result"] == "I may not write."


def test_yes_and_an_allow_rule_permit_it(codelet: Codelet):
    def script(request):
        if request.number % 2:
            return Reply("done")
        return Reply(calls=[Call("w", "write", {"path": f"new{request.number}.txt", "content": "x\n"})])

    codelet.server.script = script
    assert codelet("-p", "go", "--yes").exit == 0
    assert codelet("-p", "go", "--allow", "write(new*)").exit == 0
    assert (codelet.cwd / "new0.txt").read_text() == "x\n"
    assert (codelet.cwd / "new2.txt").read_text() == "x\n"


def test_timeout_ends_with_4_and_keeps_the_partial_text(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [Reply(["half an ", "answer"], fault=Stop("stall", 5))]
    done = codelet("-p", "go", "--timeout", "2", "--output-format", "json")
    result = done.json()
    assert (done.exit, result["partial"]) == (4, True)
    assert "half an" in str(result["result"])
    assert codelet.server.requests[0].gone.wait(PATIENCE)


def test_an_answer_cut_by_the_output_limit_is_partial(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [Reply("as far as I ca", finish="length")]
    done = codelet("-p", "go", "--max-tokens", "100", "--output-format", "json")
    assert (done.exit, done.json()["partial"]) == (4, True)


def test_system_prompt_bare_and_tools_change_the_first_request(codelet: Codelet):
    (codelet.cwd / "CLAUDE.md").write_text("Always answer in verse.\n")
    codelet.server.script = lambda request: Reply("ok")
    codelet("-p", "go")
    codelet("-p", "go", "--bare")
    codelet("-p", "go", "--system-prompt", "You are a poet.", "--tools", "read,grep")
    codelet("-p", "go", "--append-system-prompt", "Answer in one word.")
    usual, bare, poet, terse = (request.json for request in codelet.server.requests)
    assert "Always answer in verse." in json.dumps(usual)
    assert "Always answer in verse." not in json.dumps(bare)
    assert poet["messages"][0]["content"].startswith("You are a poet.")
    assert [tool["function"]["name"] for tool in poet["tools"]] == ["read", "grep"]
    assert terse["messages"][0]["content"].startswith(usual["messages"][0]["content"])
    assert "Answer in one word." in terse["messages"][0]["content"]


def test_a_busy_server_is_asked_again_after_the_time_it_names(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [HttpError(429, retry_after=1), HttpError(503, retry_after=0), Reply("at last")]
    done = codelet("-p", "go", "--output-format", "stream-json")
    assert done.exit == 0, done.err
    assert [event["type"] for event in done.lines()].count("retry") == 2
    first, second, _ = codelet.server.requests
    assert second.arrived - first.arrived >= 1.0


def test_every_way_that_bytes_may_travel_gives_the_same_answer(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    deliveries = [
        Delivery(),
        Delivery(piece=1),
        Delivery(piece=7, odd_chunks=True),
        Delivery(framing="close"),
        Delivery(framing="length"),
        Delivery(line_end="\r\n", comments=True),
        Delivery(bom=True),
        Delivery(done=False),
        Delivery(close="announced"),
        Delivery(usage="finish"),
    ]
    for delivery in deliveries:
        codelet.server.requests.clear()
        reply = Reply(["größer ", "→ 🎉"], usage=Tokens(9, output=3), delivery=delivery)
        codelet.server.script = [reply]
        done = codelet("-p", "go", "--output-format", "json")
        assert (done.exit, done.json()["result"]) == (0, "größer → 🎉"), (delivery, done.err)
        assert done.json()["usage"]["total_input"] == 9, delivery


def test_a_connection_that_the_server_closed_between_steps_is_opened_again(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    first = Reply(calls=[Call("c", "read", {"path": "app.py"})], delivery=Delivery(close="silent"))
    codelet.server.script = [first, ANSWER]
    done = codelet("-p", "go")
    assert done.exit == 0, done.err
    assert done.out.endswith("It prints hello.\n")
    assert len(codelet.server.requests) == 2


@pytest.mark.parametrize("output", ["json", "stream-json"])
@pytest.mark.parametrize("step", [Reply("free", usage=None), HttpError(400, "no")], ids=["none reported", "failed"])
def test_what_nobody_reported_is_null_and_not_0(codelet: Codelet, step: Reply | HttpError, output: str):
    codelet.server.script = [step]
    done = codelet("-p", "go", "--output-format", output)
    end = done.lines()[-1]
    assert (end["usage"], end["cost"]) == (None, None)
    assert end["exit"] == (0 if isinstance(step, Reply) else 3)


def test_what_was_reported_before_an_answer_broke_off_counts(codelet: Codelet):
    codelet.wire = "anthropic"
    codelet.server.script = [Reply(["so ", "far"], usage=Tokens(1_000, output=9), fault=Stop("cut", 4))]
    end = codelet("-p", "go", "--output-format", "json").json()
    assert end["exit"] == 3
    assert isinstance(end["usage"], dict)
    assert end["usage"]["total_input"] == 1_000


def test_openai_chat_is_taken_off_the_name(codelet: Codelet):
    codelet.server.script = [Reply("yes")]
    done = codelet("-p", "go", "--model", "openai/chat/gpt-5.6", "--output-format", "stream-json")
    assert done.exit == 0, done.err
    sent = codelet.server.requests[0].json
    assert (sent["model"], sent["reasoning_effort"]) == ("gpt-5.6", "none")
    notes = [event["text"] for event in done.lines() if event["type"] == "note"]
    assert len(notes) == 1
    assert "without reasoning" in str(notes[0])
    codelet.server.script = lambda request: Reply("yes")
    told = codelet("-p", "go", "--model", "gpt-5.6")
    assert (told.out, len(told.complaints)) == ("yes\n", 1)
    assert "without reasoning" in told.err
    assert codelet("-p", "go", "--model", "gpt-5.6", "--tools", "").err == ""
    doctor = run("--model", "openai/chat/gpt-5.6", "doctor", cwd=codelet.cwd, home=codelet.home, env=KEYS)
    assert "openai/chat/gpt-5.6" in doctor.out
    assert "answered by OpenAI" in doctor.out
