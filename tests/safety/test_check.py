"""`codelet policy check`: explain one command, judge a file of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.frontends.commands.checks import run_check
from codelet.frontends.parsers import build_parser


def check(*words: str) -> int:
    return run_check(build_parser(["policy"]).parse_args(["policy", "check", *words]))


def cases_file(folder: Path, *cases: dict[str, object]) -> str:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(json.dumps(case) for case in cases) + "\n")
    return str(path)


def test_it_explains_a_verdict(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace)
    assert check("npm test\x1b[2K") == 0
    assert check("npm test") == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "npm test\\x1b[2K" in said
    assert "a rule that would allow it: bash(npm test *)" in said
    check("--json", "--mode", "read-only", "ls")
    assert json.loads(capsys.readouterr().out) == {
        "verdict": "allow",
        "action": "allow",
        "tier": "read",
        "reason": "reads in the workspace",
        "rule": None,
        "suggestion": None,
        "sandbox": "read-only",
    }
    check("--json", "--sandbox", "off", "git status")
    assert json.loads(capsys.readouterr().out)["verdict"] == "ask"


def test_it_judges_cases_in_their_own_workspace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = cases_file(
        tmp_path,
        {"id": "s1", "kind": "shell", "input": "cat a.txt", "expected": "allow"},
        {"id": "s2", "kind": "shell", "input": "touch x", "expected": "allow"},
        {"id": "p1", "kind": "path", "input": "read out", "setup": "ln -s $OUT/secret.txt out", "expected": "ask"},
        {"id": "p2", "kind": "path", "input": "read out", "expected": "allow"},
        {"id": "p3", "kind": "path", "input": "write inner", "setup": "ln $WS/a.txt inner", "expected": "ask"},
        {"id": "a1", "kind": "ansi", "input": "x\x1b[0m", "chunks": ["x\x1b", "[0m"], "expected": "deny"},
        {"id": "a2", "kind": "ansi", "input": "plain", "expected": "allow"},
    )
    assert check("--cases", path, "--json") == 0
    judged = {line["id"]: line["verdict"] for line in map(json.loads, capsys.readouterr().out.splitlines())}
    expected = {"s1": "allow", "s2": "ask", "p1": "ask", "p2": "allow", "p3": "ask", "a1": "deny", "a2": "allow"}
    assert judged == expected
    assert check("--cases", path) == 0
    said = capsys.readouterr().out
    assert "shell: 1 of 2 as expected" in said
    assert "path: 3 of 3 as expected" in said
    assert "s2: ask, expected allow: touch x" in said


@pytest.mark.parametrize("line", ["not json", "[]", '{"id": "x"}', '{"id": "x", "kind": "other", "input": ""}'])
def test_a_bad_case_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "cases.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(UsageError, match=r"cases.jsonl:2"):
        check("--cases", str(tmp_path / "cases.jsonl"))
    with pytest.raises(UsageError):
        check("--cases", str(tmp_path / "missing"))
    with pytest.raises(UsageError):
        check()
