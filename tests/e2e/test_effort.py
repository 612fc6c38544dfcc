"""The effort in the program: from a flag, a variable, a file or a profile to the wire; kept by an export; `/effort`."""

from __future__ import annotations

import json
from typing import Any

from codelet.providers.protocol import EFFORTS
from tests.e2e.conftest import Codelet
from tests.support.script import Reply, Tokens

HIGH = {"reasoning_effort": "high"}


def efforts(codelet: Codelet) -> list[Any]:
    """What each request said of its effort, on whichever wire."""
    names = ("reasoning_effort", "reasoning", "output_config")
    return [{name: sent.json[name] for name in names if name in sent.json} for sent in codelet.server.requests]


def test_a_flag_a_variable_and_a_file_reach_the_wire(codelet: Codelet):
    codelet.server.script = lambda _: Reply("done")
    assert codelet("-p", "go").exit == 0
    assert codelet("-p", "go", "--effort", "high").exit == 0
    assert codelet("-p", "go", env={"CODELET_EFFORT": "low"}).exit == 0
    folder = codelet.home / ".config" / "codelet"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('effort = "max"\n')
    assert codelet("-p", "go").exit == 0
    assert efforts(codelet) == [{}, HIGH, {"reasoning_effort": "low"}, {"reasoning_effort": "max"}]
    wrong = codelet("-p", "go", "--effort", "huge")
    assert (wrong.exit, len(codelet.server.requests)) == (2, 4)
    assert ", ".join(EFFORTS) in wrong.err.replace("'", "")


def test_every_wire_says_it_in_its_own_way(codelet_on_each_wire: Codelet):
    codelet_on_each_wire.server.script = [Reply("done")]
    assert codelet_on_each_wire("-p", "go", "--effort", "high").exit == 0
    said = {
        "openai": HIGH,
        "openai/responses": {"reasoning": {"effort": "high"}},
        "anthropic": {"output_config": {"effort": "high"}},
    }
    assert efforts(codelet_on_each_wire) == [said[codelet_on_each_wire.wire]]


def test_another_word_is_said_once_beside_a_result_that_stays_as_it_is(codelet: Codelet):
    codelet.server.script = lambda _: Reply("done")
    base = ["--api-base", codelet.server.openai, "--model", "openai/o3", "-p", "go"]
    plain, nearest = codelet(*base), codelet(*base, "--effort", "minimal")
    assert nearest.out == plain.out
    assert nearest.err.count("'minimal'") == 1 and "'low'" in nearest.err
    as_json = [
        json.loads(codelet(*base, "--output-format", "json", *more).out) for more in ([], ["--effort", "minimal"])
    ]
    assert as_json[0].keys() == as_json[1].keys()
    assert as_json[0]["result"] == as_json[1]["result"] == "done"


def test_a_note_in_a_pipe_is_told_to_its_end_where_the_way_out_stands(codelet: Codelet):
    codelet.server.script = [Reply("done")]
    model = ["--api-base", codelet.server.openai, "--model", "openai/chat/gpt-5.6"]
    told = codelet(*model, "-p", "go", "--effort", "high").err
    assert "openai/responses/gpt-5.6" in told and told.rstrip().endswith("it may")
    assert efforts(codelet) == [{"reasoning_effort": "none"}]


def test_a_profile_s_effort_holds_unless_a_flag_names_one(codelet: Codelet):
    folder = codelet.home / ".config" / "codelet" / "profiles"
    folder.mkdir(parents=True)
    (folder / "deep.yaml").write_text("id: deep\neffort: high\n")
    codelet.server.script = lambda _: Reply("done")
    done = codelet("--profile", "deep", "-p", "go")
    assert (done.exit, "changes nothing" in done.err) == (0, False)
    codelet("--profile", "deep", "--effort", "low", "-p", "go")
    codelet("--profile", "deep", "-p", "go", env={"CODELET_EFFORT": "low"})
    codelet("--profile", "none", "-p", "go")
    assert "/model effort high" in codelet("-p", "/profile deep").out
    assert efforts(codelet) == [HIGH, {"reasoning_effort": "low"}, HIGH, {}]


def test_an_export_keeps_it_and_a_session_goes_on_with_it(codelet: Codelet):
    codelet.server.script = lambda _: Reply("done")
    saved = codelet.cwd / "s.json"
    assert codelet("--effort", "high", "--export", "s.json", "-p", "go").exit == 0
    assert json.loads(saved.read_text())["effort"] == "high"
    assert codelet("--resume", "s.json", "--export", "s.json", "-p", "more").exit == 0
    assert json.loads(saved.read_text())["effort"] == "high"
    assert codelet("--resume", "s.json", "--effort", "low", "--export", "s.json", "-p", "more").exit == 0
    assert json.loads(saved.read_text())["effort"] == "low"
    assert efforts(codelet) == [HIGH, HIGH, {"reasoning_effort": "low"}]
    assert codelet("--export", "t.json", "-p", "go").exit == 0
    assert "effort" not in json.loads((codelet.cwd / "t.json").read_text())


def test_the_command_shows_and_changes_it_and_warns_before_the_cache_is_lost(codelet: Codelet):
    codelet.server.script = lambda _: Reply("done", usage=Tokens(5_000, cache_read=4_000, output=3))
    with codelet.terminal(columns=120) as terminal:

        def ask(line: str, answer: str) -> None:
            terminal.line(line)
            terminal.wait_for(answer)
            terminal.settle(0.1)

        def ask_model(prompt: str, number: int) -> None:
            terminal.line(prompt)
            terminal.until(lambda: len(codelet.server.requests) == number, "the request")
            terminal.settle(0.2)

        ask("/effort", "effort: model default; ")
        ask("/effort huge", f"{', '.join(EFFORTS)}, default")
        ask("/effort low", "effort: low;")
        assert "anew" not in terminal.text, "nothing was sent yet"
        ask_model("first", 1)
        ask("/effort high", "; /model effort low before")
        terminal.wait_for("effort: high;")
        ask_model("second", 2)
        ask("/model openai/other", "model: openai/other")
        ask("/effort", "effort: high;")
        ask_model("third", 3)
        ask("/effort default", "effort: model default;")
        ask_model("fourth", 4)
        terminal.line("/exit")
        assert terminal.wait_exit() == 0
    assert efforts(codelet) == [{"reasoning_effort": "low"}, HIGH, HIGH, {}]
