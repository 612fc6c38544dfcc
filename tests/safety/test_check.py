"""`codelet policy check` explains one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelet.frontends.commands.checks import run_check
from codelet.frontends.parsers import build_parser
from codelet.settings import Settings
from tests.e2e.conftest import Codelet


def check(*words: str) -> int:
    return run_check(Settings(), build_parser(["policy"]).parse_args(["policy", "check", *words]))


def test_it_explains_a_verdict(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace)
    assert check("npm test\x1b[2K") == 0
    assert check("npm test") == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "npm test\\x1b[2K" in said
    assert "bash(npm test *)" in said
    check("--json", "--mode", "read-only", "ls")
    found = json.loads(capsys.readouterr().out)
    assert "workspace" in found.pop("reason")
    assert found == {
        "verdict": "allow",
        "action": "allow",
        "tier": "read",
        "rule": None,
        "suggestion": None,
        "sandbox": "read-only",
    }
    check("--json", "--sandbox", "off", "git status")
    assert json.loads(capsys.readouterr().out)["verdict"] == "ask"


def test_it_judges_by_the_rules_and_the_mode_of_the_command_line(codelet: Codelet) -> None:
    for options, command, expected in (
        (("--deny", "bash(ls *)"), "ls -l", "deny"),
        (("--ask", "bash(ls *)"), "ls -l", "ask"),
        (("--allow", "bash(make *)"), "make all", "allow"),
        (("--mode", "auto"), "make all", "allow"),
        (("--mode", "auto", "--sandbox", "off"), "make all", "ask"),
        ((), "make all", "ask"),
    ):
        done = codelet(*options, "policy", "check", "--json", command)
        assert (done.exit, json.loads(done.out)["verdict"]) == (0, expected), options
