"""Recording, playing and showing requests, with the program."""

from __future__ import annotations

import json

from tests.e2e.conftest import Codelet
from tests.support.script import Call, Reply


def test_a_run_is_recorded_and_played(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [
        Reply("Looking.", calls=[Call("c1", "read", {"path": "README.md"})]),
        Reply("It is short."),
    ]
    live = codelet("-p", "what is it?", "--record", "tape.json")
    assert (live.exit, live.out) == (0, "It is short.\n"), live.err
    play = ["--model", "replay:tape.json"]
    again = codelet("-p", "what is it?", *play)
    assert (again.exit, again.out) == (0, live.out), again.err
    assert len(codelet.server.requests) == 2
    for arguments, words in (
        (["--record", "tape.json"], "there is such a file already; --force replaces it"),
        (["--record", "b.json", "--model", "replay:tape.json"], "--record keeps what a live model answers"),
        (["--record", "b.json", "review"], "--record is for a session"),
    ):
        wrong = codelet("-p", "x", *arguments) if "review" not in arguments else codelet(*arguments)
        assert (wrong.exit, len(wrong.complaints)) == (2, 1), wrong.err
        assert words in wrong.err
    assert not (codelet.cwd / "b.json").exists()


def test_requests_are_shown_as_they_are_sent(codelet_on_each_wire: Codelet):
    codelet = codelet_on_each_wire
    codelet.server.script = [Reply("done")]
    shown = codelet("-p", "say \u202e it", "--debug-requests", env={"CODELET_API_KEY": "sk-secret-of-mine-123456"})
    assert (shown.exit, shown.out) == (0, "done\n")
    (sent,) = codelet.server.requests
    rows = [line[2:] for line in shown.err.splitlines() if line.startswith("> ")]
    assert rows[0].startswith(f"POST {sent.path} to 127.0.0.1:")
    headers = dict(row.split(": ", 1) for row in rows[1:-2])
    for name, value in sent.headers:
        secret = name in ("authorization", "x-api-key")
        assert headers[name] == ("[masked]" if secret else value)
    assert "secret-of-mine" not in shown.err
    assert "\u202e" not in shown.err
    assert json.loads(rows[-1])["stream"] is True
    assert len(rows[-1]) >= len(sent.body.decode()) - 1


def test_litellm_s_arguments_are_shown(codelet: Codelet):
    codelet.server.script = [Reply("done")]
    shown = codelet(
        "-p", "hello", "--debug-requests", "--transport", "litellm", env={"CODELET_API_KEY": "sk-secret-of-mine-123456"}
    )
    assert shown.exit == 0
    rows = [line[2:] for line in shown.err.splitlines() if line.startswith("> ")]
    assert rows[:3] == ["litellm.acompletion", "api-key: [masked]", ""]
    assert json.loads(rows[3])["messages"][-1]["role"] == "user"
    assert "secret-of-mine" not in shown.err
