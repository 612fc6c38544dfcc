"""Profiles in the program: a bad one is exit 2, a good one narrows the run and stays with its export."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import KEYS, PROMPT, Codelet
from tests.support.script import Call, Reply
from tests.support.terminal import Terminal


def test_the_program_ends_with_2_and_asks_no_model(codelet: Codelet):
    folder = codelet.home / ".config" / "codelet" / "profiles"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text("id: bad\nautonomy_mode: full\n")
    done = codelet("--profile", "bad", "-p", "go")
    assert done.exit == 2
    assert [f"{folder}/bad.yaml:2: autonomy_mode" in line for line in done.complaints] == [True]
    assert codelet.server.requests == []
    listed = codelet("profiles")
    assert listed.exit == 2
    assert [line.split()[0] for line in listed.out.splitlines()] == ["explainer", "pair", "reviewer", "safe"]
    assert listed.complaints == done.complaints


def test_a_run_has_its_tools_its_limit_and_its_name_in_the_export(codelet: Codelet):
    calls = [Call("a", "write", {"path": "x.txt", "content": "x"})]
    codelet.server.script = lambda request: Reply(calls=calls if request.number == 0 else [], text="done")
    done = codelet("--profile", "safe", "--yes", "--export", "s.json", "-p", "go")
    assert done.exit == 6, done.err
    assert not (codelet.cwd / "x.txt").exists(), "it asks before each change, and nobody is there to say yes"
    names = [tool["function"]["name"] for tool in codelet.server.requests[0].json["tools"]]
    assert "bash" not in names
    assert {"read", "write", "edit"} <= set(names)
    assert json.loads((codelet.cwd / "s.json").read_text())["profile"] == "safe"
    assert codelet("--resume", "s.json", "--export", "s.json", "-p", "more").exit == 0
    assert "limited access" in codelet.server.requests[-1].messages[0]["content"]
    assert json.loads((codelet.cwd / "s.json").read_text())["profile"] == "safe"
    assert codelet("--resume", "s.json", "--export", "s.json", "--profile", "none", "-p", "more").exit == 0
    assert "limited access" not in codelet.server.requests[-1].messages[0]["content"]
    assert "profile" not in json.loads((codelet.cwd / "s.json").read_text())
    document = json.loads((codelet.cwd / "s.json").read_text()) | {"profile": "gone"}
    (codelet.cwd / "gone.json").write_text(json.dumps(document))
    lost = codelet("--resume", "gone.json", "-p", "more")
    assert lost.exit == 2
    assert "--profile" in lost.err


def test_those_of_a_project_are_listed_and_used_once_it_is_trusted(codelet: Codelet):
    folder = codelet.cwd / ".codelet" / "profiles"
    folder.mkdir(parents=True)
    (folder / "theirs.yaml").write_text("id: theirs\nallowed_tools: [read]\n")
    plain = codelet("profiles")
    assert (plain.exit, "theirs" in plain.out) == (0, False)
    assert "--trust" in plain.err
    for words in (["profiles", "--trust"], ["--trust", "profiles"]):
        listed = codelet(*words)
        assert (listed.exit, listed.err) == (0, "")
        (row,) = (line for line in listed.out.splitlines() if line.startswith("theirs "))
        assert row.endswith(f" read ({folder}/theirs.yaml)")
    codelet.server.script = lambda request: Reply("ok")
    assert codelet("--profile", "theirs", "-p", "go").exit == 2
    assert codelet("--profile", "theirs", "--trust", "-p", "go").exit == 0
    names = [tool["function"]["name"] for tool in codelet.server.requests[0].json["tools"]]
    assert set(names) <= {"read", "recall", "plan"}, "what touches nothing but memory stays"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_the_terminal_asks_before_it_reads_a_projects_profiles(codelet: Codelet, answer: str):
    folder = codelet.cwd / ".codelet" / "profiles"
    folder.mkdir(parents=True)
    (folder / "theirs.yaml").write_text("id: theirs\nmax_iterations: 3\n")
    (folder.parent / "config.toml").write_text('deny = ["bash(rm *)", "edit(db/**)"]\nmax_turns = 9\n')
    with Terminal(*codelet.arguments, cwd=codelet.cwd, home=codelet.home, env=KEYS, columns=120) as terminal:
        terminal.wait_for("[y/N]")
        for told in ("profiles = theirs", "deny rules = bash(rm *), edit(db/**)", "max_turns = 9"):
            assert f"  {told}\n" in terminal.text
        terminal.line(answer)
        terminal.wait_for(PROMPT)
        terminal.settle(0.15)
        terminal.line("/profile theirs")
        terminal.wait_for("now theirs" if answer == "y" else "which --trust reads")
        terminal.settle(0.15)
        terminal.line("/exit")
        assert terminal.wait_exit() == 0
