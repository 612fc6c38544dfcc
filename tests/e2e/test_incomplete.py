"""Incomplete never passes for complete: cut input, refusals and empty answers, in each format and on each wire."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pytest

from tests.e2e.conftest import KEYS, Codelet
from tests.support.amount import FULL
from tests.support.program import run
from tests.support.script import Body, Call, Reply, Step, Stop
from tests.support.server import ModelServer, Recorded

WINDOW = ("--window", "16000")
LINES = b"".join(b"line %06d of the pipe\n" % number for number in range(20_000))
REFUSAL = "I cannot help with that."
EMPTY = "the model's answer is empty, also when asked again"
FILTERED = "the model or the provider's content filter refused to answer, also when asked again"
WIRES = {
    "openai": ("--model", "openai/scripted"),
    "anthropic": ("--model", "anthropic/scripted"),
    "litellm": ("--model", "openai/scripted", "--transport", "litellm"),
    "litellm-anthropic": ("--model", "anthropic/scripted", "--transport", "litellm"),
}


def reading_on(recorded: Recorded) -> Step:
    """Reads one piece of what was cut, and the same piece again, then answers."""
    if recorded.number < 2:
        arguments = {"entry": "r1", "lines": "9001-9100"}
        return Reply(calls=[Call(f"call-{recorded.number}", "recall", arguments)])
    return Reply("fine")


@dataclass(frozen=True)
class Case:
    """What happens, and what is to be said of it, by wire where that differs."""

    script: Callable[[Recorded], Step]
    error: str | dict[str, str]
    prompt: str = "review this"
    stdin: bytes | None = None
    cut: str | None = None
    requests: int | dict[str, int] = 1


def always(step: Step) -> Callable[[Recorded], Step]:
    return lambda _: step


CASES = {
    "pipe cut": Case(always(Reply("fine")), "of stdin the model was sent", stdin=LINES, cut="stdin"),
    "prompt cut": Case(always(Reply("fine")), "the model was sent", prompt=LINES[:100_000].decode(), cut="prompt"),
    "pipe that is the prompt cut": Case(
        always(Reply("fine")), "of stdin the model was sent", prompt="", stdin=LINES, cut="stdin"
    ),
    "cut and recalled in part": Case(reading_on, "of stdin the model was sent", stdin=LINES, cut="stdin", requests=3),
    "refusal": Case(
        always(Reply(refusal=REFUSAL)),
        {"openai": f"the model refused: {REFUSAL}", "litellm": EMPTY}  # litellm drops the text
        | {"anthropic": FILTERED, "litellm-anthropic": FILTERED},
        requests={"openai": 1, "litellm": 2, "anthropic": 2, "litellm-anthropic": 2},
    ),
    "empty": Case(always(Reply()), EMPTY, requests=2),
    "white space": Case(always(Reply([" \n", "\t "])), EMPTY, requests=2),
    "what nobody sees": Case(always(Reply(["\u200b\x1b[0m", "\u2060\n"])), EMPTY, requests=2),
    "[DONE] alone": Case(always(Body(b"data: [DONE]\n\n", "text/event-stream")), EMPTY, requests=2),
}


def matrix() -> list[tuple[str, str]]:
    """Every case on each wire; on litellm's, which take seconds to start, only those that come in its own words."""
    own = ("refusal", "empty", "[DONE] alone", *(["pipe cut", "white space", "what nobody sees"] if FULL else []))
    return [(wire, name) for wire in WIRES for name in CASES if "litellm" not in wire or name in own]


@pytest.mark.parametrize(("wire", "name"), matrix())
def test_none_ends_with_success_or_in_silence(codelet: Codelet, wire: str, name: str):
    case = CASES[name]
    error = case.error if isinstance(case.error, str) else case.error[wire]
    requests = case.requests if isinstance(case.requests, int) else case.requests[wire]
    formats = [("json",)]  # the output does not depend on the wire: one wire gets all formats
    if wire == next(iter(WIRES)) or FULL:
        formats += [("text", "-q"), ("text",), ("json", "-q"), ("stream-json",), ("stream-json", "-q")]
    for output, *quiet in formats:
        with ModelServer(case.script) as server:
            base = server.anthropic if "anthropic" in wire else server.openai
            words = ["-p", case.prompt] if case.prompt else ["-p"]
            arguments = [*WIRES[wire], "--api-base", base, *WINDOW, *words, "--output-format", output, *quiet]
            done = run(*arguments, cwd=codelet.cwd, home=codelet.home, env=KEYS, stdin=case.stdin)
        assert done.exit == 5, (output, quiet, done.err)
        assert len(server.requests) == requests
        if output == "text":
            assert error in done.err and done.out.strip() == ("fine" if case.cut else "")
            continue
        result = done.json() if output == "json" else done.lines()[-1]
        assert (result["partial"], result["exit"]) == (True, 5)
        assert error in str(result["error"])
        assert result["result"] == ("fine" if case.cut else "")
        assert result["cut"] == ([cut_of(server, case)] if case.cut else [])
        usage = result["usage"]
        if "DONE" in name:
            assert (usage, result["cost"]) == (None, None), "nothing was reported"
        else:
            assert isinstance(usage, dict) and usage["output"] == 10 * requests
        assert (result["model"], result["turns"]) == (WIRES[wire][1], 3 if "recalled" in name else 1)


def cut_of(server: ModelServer, case: Case) -> dict[str, object]:
    """The entry of `cut` that the requests prove: lines of the input that stand in any of them."""
    source = case.stdin.decode() if case.stdin is not None else case.prompt
    sent = "\n".join(text for recorded in server.requests for text in texts_in(recorded.messages))
    read = sum(len(line) for line in source.splitlines(keepends=True) if line in sent)
    return {"what": case.cut, "bytes": len(source), "read": read}


def texts_in(value: object) -> list[str]:
    """Every text in a list of messages, whichever the wire."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in texts_in(item)]


def test_what_fits_the_window_goes_in_whole(codelet: Codelet):
    big = LINES * 3 + b"the very end\n"
    assert len(big) > 1_000_000
    codelet.server.script = [Reply("clean")]
    done = codelet("--window", "1000000", "-p", "review this", "--output-format", "json", stdin=big)
    assert (done.exit, done.json()["cut"], done.err) == (0, [], "")
    assert any(big.decode() in text for text in texts_in(codelet.server.requests[0].messages))


def test_the_marker_names_size_lines_and_id_and_recall_is_offered_at_once(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = reading_on
    codelet(*WINDOW, "-p", "review this", stdin=LINES)
    first, *later = codelet.server.requests
    [text] = [text for text in texts_in(first.messages) if "review this" in text]
    assert "480,000" in text and "20,000" in text and "recall entry=r1" in text
    assert "line 000000" in text and "line 019999" in text and "line 010000" not in text
    assert "recall" in json.dumps(first.json["tools"])
    assert all(request.json["tools"] == first.json["tools"] for request in later)
    marked = next(text for text in text.split("\n\n") if "480,000 bytes" in text)
    assert all(any(marked in text for text in texts_in(request.messages)) for request in later)
    recalled = [text for text in texts_in(later[0].messages) if text.startswith("[r1, turn 1, user, lines 9001-")]
    assert recalled and "line 009000" in recalled[0] and "line 009099" in recalled[0]


def test_read_to_its_end_by_recall_is_complete(codelet_on_each_wire: Codelet):
    """A model that goes on as each answer says reads everything, whatever compaction does meanwhile."""
    codelet = codelet_on_each_wire
    source = LINES[:120_000]

    def script(recorded: Recorded) -> Step:
        texts = texts_in(recorded.messages)
        named = [text for text in texts if text.startswith("[r1, turn ")]
        heading = named[-1].partition("\n")[0] if named else ""
        if named and "lines=" not in heading:
            return Reply("read it all")
        following = heading.rpartition("lines=")[2].rstrip("]") if named else "1-"
        return Reply(calls=[Call(f"call-{recorded.number}", "recall", {"entry": "r1", "lines": following})])

    codelet.server.script = script
    done = codelet(*WINDOW, "-p", "review this", "--output-format", "json", stdin=source)
    result = done.json()
    assert (done.exit, result["result"], result["partial"], result["error"]) == (0, "read it all", False, None)
    assert result["cut"] == [{"what": "stdin", "bytes": 120_000, "read": 120_000}]


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_allow_cut_takes_it_for_success_and_still_says_it(codelet: Codelet, output: str):
    codelet.server.script = [Reply("fine")]
    done = codelet(*WINDOW, "-q", "--allow-cut", "-p", "review this", "--output-format", output, stdin=LINES)
    assert done.exit == 0
    if output == "text":
        assert (done.out, "of 480,000 bytes" in done.err, "partial" in done.err) == ("fine\n", True, False)
        return
    result = done.json() if output == "json" else done.lines()[-1]
    [cut] = result["cut"] if isinstance(result["cut"], list) else []
    assert (result["partial"], result["exit"], result["error"]) == (False, 0, None)
    assert cut["bytes"] == len(LINES) > cut["read"] > 0


def test_a_variable_allows_it_and_a_projects_file_does_not(codelet: Codelet):
    codelet.server.script = lambda _: Reply("fine")
    assert codelet(*WINDOW, "-p", "x", stdin=LINES).exit == 5
    assert codelet(*WINDOW, "-p", "x", stdin=LINES, env={"CODELET_ALLOW_CUT": "1"}).exit == 0
    (codelet.cwd / ".codelet").mkdir()
    (codelet.cwd / ".codelet" / "config.toml").write_text("allow_cut = true\n")
    assert codelet(*WINDOW, "--trust", "-p", "x", stdin=LINES).exit == 2


def test_a_cut_turn_that_is_taken_up_again_is_still_cut(codelet: Codelet):
    codelet.server.script = [Reply(calls=[Call("a", "read", {"path": "app.py"})]), Reply("fine"), Reply("new")]
    kept = str(codelet.cwd.parent / "work.json")
    same = (*WINDOW, "--export", kept, "--resume", kept, "--output-format", "json")
    first = codelet(*same, "--max-turns", "1", "-p", "review this", stdin=LINES)
    assert first.exit == 4 and first.json()["cut"]
    second = codelet(*same, "-p", "continue")
    assert (second.exit, second.json()["cut"]) == (5, first.json()["cut"])
    third = codelet(*same, "-p", "something else")
    assert (third.exit, third.json()["cut"]) == (0, [])


def test_without_tools_the_model_is_told_that_the_rest_cannot_be_read(codelet: Codelet):
    codelet.server.script = [Reply("fine")]
    done = codelet(*WINDOW, "--tools", "", "-p", "review this", stdin=LINES)
    assert done.exit == 5
    request = codelet.server.requests[0].json
    assert not request.get("tools")
    [text] = [text for text in texts_in(request["messages"]) if "review this" in text]
    assert "cannot be read" in text and "recall" not in text


def test_what_a_compaction_cuts_before_it_was_sent_counts_as_unread(codelet: Codelet):
    """The provider's window is smaller than ours: it refuses the prompt, which is cut then."""

    def script(recorded: Recorded) -> Step:
        if len(recorded.body) > 40_000:
            message = "This model's maximum context length is 8192 tokens, however you requested 30000 tokens"
            return Body(json.dumps({"error": {"message": message}}).encode(), "application/json", 400)
        return Reply("fine")

    source = LINES[:60_000]
    codelet.server.script = script
    done = codelet("--window", "32000", "-p", "review this", "--output-format", "json", stdin=source)
    assert done.exit == 5, done.err
    sent = "\n".join(texts_in(codelet.server.requests[-1].messages))
    assert "recall entry=r" in sent and "60,000" in sent
    read = sum(len(line) for line in source.decode().splitlines(keepends=True) if line in sent)
    assert done.json()["cut"] == [{"what": "stdin", "bytes": 60_000, "read": read}]


def test_a_large_tool_result_can_be_read_on_and_is_no_cut_of_the_input(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [
        Reply(calls=[Call("a", "bash", {"command": "seq 1 20000"})]),
        Reply(calls=[Call("b", "recall", {"entry": "r1", "lines": "9999-10001"})]),
        Reply("ten thousand"),
    ]
    done = codelet("--yes", "-p", "which number is in line 10000?", "--output-format", "stream-json")
    assert (done.exit, done.lines()[-1]["cut"]) == (0, [])
    cut, recalled = (str(event["text"]) for event in done.lines() if event["type"] == "tool_result")
    assert len(cut) <= 30_000 and "recall entry=r1" in cut and "\n10000\n" not in cut
    assert cut.endswith("20000\n[exit code 0]")
    assert recalled.partition("\n")[2] == "9999\n10000\n10001\n"


def test_a_recording_that_is_empty_is_no_success(codelet: Codelet):
    recording = codelet.cwd / "empty.json"
    recording.write_text(json.dumps({"version": 1, "steps": [{"text": ""}, {"text": " "}]}))
    done = codelet("--model", f"replay:{recording}", "-q", "-p", "x")
    assert (done.exit, done.out) == (5, "") and EMPTY in done.err


def test_calls_of_a_refused_answer_are_not_run(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    made = [Call("c1", "write", {"path": "made.txt", "content": "x"})]
    codelet.server.script = [Reply("Look:", calls=made, finish="refused"), Reply("never asked for")]
    done = codelet("--yes", "-p", "x", "--output-format", "json")
    result = done.json()
    assert (done.exit, result["result"], result["partial"]) == (5, "Look:", True)
    assert "refused to answer" in str(result["error"])
    assert not (codelet.cwd / "made.txt").exists()
    assert len(codelet.server.requests) == 1


PAUSED = """\
data: {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}

data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "First"}}

data: {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}, "usage": {"output_tokens": 3}}

data: {"type": "message_stop"}

"""


def test_an_answer_that_is_only_paused_is_not_finished(codelet: Codelet):
    codelet.wire = "anthropic"
    codelet.server.script = [Body(PAUSED.encode(), "text/event-stream")]
    done = codelet("-q", "-p", "x")
    assert (done.exit, done.out) == (5, "First\n")
    assert "not finished" in done.err


@pytest.mark.parametrize(("wire", "events"), [("openai", 3), ("anthropic", 6)])
def test_silence_after_the_finish_reason_is_the_end(
    codelet: Codelet, wire: Literal["openai", "anthropic"], events: int
):
    codelet.wire = wire
    codelet.server.script = [Reply("all of it", fault=Stop("stall", after=events))]
    done = codelet("-p", "x")
    assert (done.exit, done.out, done.err) == (0, "all of it\n", "")


@pytest.mark.parametrize("size", [3_000_000, 100_000_000])
def test_a_huge_pipe_takes_bounded_memory(codelet: Codelet, size: int):
    codelet.server.script = lambda _: Reply("fine")
    small = codelet("-q", "-p", "x", stdin=b"short\n", measure=True)
    source = codelet.cwd / "huge.txt"
    with source.open("wb") as file:
        for _ in range(size // 1_000_000):
            file.write(b"a line of a huge pipe, say\n" * 37_037 + b"\n")
    with source.open("rb") as pipe:
        done = codelet("-q", "-p", "x", "--output-format", "json", stdin=pipe, measure=True)
    assert done.exit == 5
    cuts = done.json()["cut"]
    assert isinstance(cuts, list)
    [cut] = cuts
    assert cut["bytes"] == source.stat().st_size > cut["read"] > 0
    assert done.peak_kib - small.peak_kib < 80 * 1024


def test_the_terminal_tells_a_refusal_and_an_empty_answer_and_goes_on(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [Reply(), Reply(), Reply("partly", finish="refused"), Reply("here again")]
    with codelet.terminal(columns=100) as terminal:
        terminal.type("first\r")
        terminal.wait_for("when asked again")
        terminal.wait_for("to retry")
        terminal.settle()
        terminal.type("second\r")
        terminal.wait_for("refused to answer")
        terminal.wait_for("partly")
        terminal.settle()
        terminal.type("third\r")
        terminal.wait_for("here again")
    messages = codelet.server.requests[-1].messages
    text = "\n".join(texts_in(messages))
    places = [
        text.index(mark)
        for mark in ("first", "[no answer came: the model's answer is empty", "second", "partly", "third")
    ]
    assert places == sorted(places)
    assert [message.get("role") for message in messages].count("assistant") == 2, "no prompt follows right on another"


def test_the_terminal_says_how_much_of_a_pasted_prompt_was_sent(codelet: Codelet):
    codelet.server.script = [Reply("fine"), Reply("again")]
    with codelet.terminal(*WINDOW, columns=100) as terminal:
        terminal.type("\x1b[200~" + LINES[:100_000].decode() + "\x1b[201~")
        terminal.wait_for("[pasted #1")
        terminal.type("\r")
        terminal.wait_for("100,000 bytes was cut")
        terminal.wait_for("the model was sent")
        terminal.type("and on\r")
        terminal.wait_for("again")
    sent = "\n".join(texts_in(codelet.server.requests[0].messages))
    assert "line 000000" in sent and "recall entry=r1" in sent and "line 002000" not in sent
