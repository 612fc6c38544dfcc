"""The whole program on small windows: overflows in one shot and in the REPL, and what the user holds in hand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codelet.context.allotment import BESIDE
from tests.e2e.conftest import Codelet
from tests.support.recorded import Start, step
from tests.support.script import Call, HttpError, Reply, Step, Tokens
from tests.support.server import ModelServer, Recorded

KEY = {"OPENAI_API_KEY": "test-key"}
OVERFLOW = HttpError(400, "Your prompt is too long for this model's maximum context length.")
NAMED = HttpError(400, "This model's maximum context length is 8000 tokens. Your prompt is too long.")


@pytest.fixture
def codelet(model_server: ModelServer, repo: Path, home: Path) -> Codelet:
    """codelet in a small git repository, speaking Chat Completions; there is a file to read."""
    lines = (f"value_{n} = compute_{n % 17}(src/mod_{n % 9}.py, key_{n})\n" for n in range(300))
    (repo / "long.py").write_text("".join(lines))
    return Codelet(model_server, repo, home)


def tokens(request: Recorded) -> int:
    return len(request.body) // 4


def reads(window: int, steps: int, refusal: HttpError = OVERFLOW):
    """A model that reads pieces of a file in `steps` steps; what is larger than its window it refuses."""

    def script(request: Recorded) -> Step:
        size = tokens(request)
        if size > window:
            return refusal
        results = script.answered
        script.answered += 1
        usage = Tokens(size, cache_read=0, output=20)
        if results >= steps:
            return Reply("All read.", usage=usage)
        place = 1 + 25 * (results % 11)
        call = Call(f"c{results}", "read", {"path": "long.py", "offset": place, "limit": 25})
        return Reply(f"Piece {results}.", calls=[call], usage=usage)

    script.answered = 0
    return script


def valid(request: Recorded) -> bool:
    """Return whether each call in the request has its result right after it."""
    wanted: list[str] = []
    for message in request.json["messages"]:
        if message["role"] == "tool":
            if not wanted or wanted.pop(0) != message["tool_call_id"]:
                return False
            continue
        if wanted:
            return False
        wanted = [call["id"] for call in message.get("tool_calls") or ()]
    return not wanted


def test_one_shot_over_a_window_smaller_than_believed_runs_to_its_end(codelet: Codelet):
    codelet.server.script = reads(window=4_500, steps=30)
    done = codelet("-p", "read long.py piece by piece, never touch port 7433")
    assert (done.exit, done.out.strip()) == (0, "All read."), done.err
    requests = codelet.server.requests
    refused = [request for request in requests if tokens(request) > 4_500]
    assert len(refused) >= 2
    assert all(valid(request) for request in requests)
    assert all("never touch port 7433" in request.body.decode() for request in requests)
    assert done.err.count("context compacted") == len(refused)


def test_a_window_that_a_refusal_names_is_kept_to_from_then_on(codelet: Codelet):
    codelet.server.script = reads(window=8_000, steps=40, refusal=NAMED)
    done = codelet("-p", "read long.py piece by piece")
    assert (done.exit, done.out.strip()) == (0, "All read."), done.err
    assert sum(tokens(request) > 8_000 for request in codelet.server.requests) == 1
    assert done.err.count("8,000 tokens") == 1
    assert done.err.count("context compacted") >= 2


@pytest.mark.parametrize("window", [2_000, 4_000, 8_000])
def test_small_windows_work_or_say_what_does_not_fit(codelet: Codelet, window: int):
    codelet.server.script = reads(window=10**9, steps=8)
    done = codelet("-p", "read long.py piece by piece", "--window", str(window))
    assert (done.exit, done.out.strip()) == (0, "All read."), done.err
    largest = max(map(tokens, codelet.server.requests))
    if largest > window * 3 // 4:
        assert "context not compacted: " in done.err
        assert BESIDE in done.err or re.search("Tokens: core [12],", done.err)
    if window == 8_000:
        assert "not compacted" not in done.err
    bare = codelet("-p", "hello", "--window", str(window), "--bare", "--tools", "read", "--system-prompt", "Be brief.")
    assert bare.exit == 0
    assert "not compacted" not in bare.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--budget", "20000", "--window", "16000"), "at most 16000"),
        (("--budget", "1"), "tools alone take"),
        (("--budget", "nan"), "--budget: must be"),
        (("--budget", "-1"), "--budget: must be"),
        (("--window", "0"), "--window: must be"),
        (("--compact-at", "101"), "--compact-at: "),
        (("--keep-last", "1.5"), "--keep-last: must be"),
        (("--budget", "200000"), "--window"),
    ],
)
def test_budgets_that_are_none_are_one_line_and_exit_2(codelet: Codelet, arguments: tuple[str, ...], said: str):
    done = codelet("-p", "hi", *arguments)
    assert done.exit == 2
    assert said in done.err
    assert done.err.strip().count("\n") == 0
    assert codelet.server.requests == []


def test_the_repl_overflows_compacts_and_lists_what_each_part_takes(start: Start, repo: Path):
    text = (f"value_{n} = compute_{n % 17}(src/mod_{n % 9}.py, key_{n})  # {n * 7919}\n" for n in range(1_500))
    (repo / "big.py").write_text("".join(text))
    steps: list[dict] = []
    for number in range(12):
        read = ("read", {"path": "big.py", "offset": 1 + 90 * number, "limit": 90})
        steps += [step(f"Reading {number}.", read), step(f"Done {number}.")]
    for part in steps:
        part.pop("usage", None)  # no usage is reported: the estimate alone decides
    terminal = start(*steps, columns=150, rows=60, arguments=("--window", "12000"))
    terminal.wait_for("% of ")
    for number in range(12):
        terminal.line(f"prompt {number}, never touch port 7433")
        terminal.wait_for(f"Done {number}.")
        terminal.wait_for("2 steps")
        terminal.settle(0.1)
    assert terminal.scrollback.count("· compacted: ") >= 2
    terminal.line("/context all")
    terminal.wait_for("history ")
    terminal.wait_for("working ")
    shown = terminal.wait_for("answer ")
    assert all(f"{part} " in shown for part in ("verbatim", "words", "prose", "evidence", "core", "context"))
