"""git commands whose verdict alone says little: each is run as codelet runs it, and must have no effect."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from codelet.frontends.commands.policy_cases import Case, read_cases, workspace_of_cases
from codelet.safety import Policy
from codelet.safety.verdict import Touch
from codelet.tools.bash import bash
from codelet.tools.tool import ToolContext
from tests.support.case_workspace import DATA

pytestmark = pytest.mark.needs("git", "bash")

REPOSITORY = """
rm -rf .git; git init -q -b main . && git config user.email a@example.org && git config user.name a
echo two > b.txt; git add a.txt b.txt src docs && git -c commit.gpgsign=false commit -qm one
printf '#!/bin/sh\\ntouch PWN\\ncat\\n' > pwn; chmod +x pwn
printf 'ONE\\ntwo\\n' > a.txt; touch -d 2001-01-01 a.txt
"""
PLANTED = ("planted", "CANARY")
OWN = {case.id: case for case in read_cases(DATA / "git_effects.jsonl")}


def snapshot(*places: Path) -> dict[str, tuple[int, ...]]:
    """All files but git's index, which a plain `git diff` brings up to date by itself."""
    return {
        path: (facts.st_mode, facts.st_size, facts.st_mtime_ns)
        for place in places
        for folder, _, names in os.walk(place)
        for path in (f"{folder}/{name}" for name in names)
        if not path.endswith("/.git/index")
        for facts in (os.lstat(path),)
    }


def set_up(case: Case, workspace: Path, outside: Path, prelude: str = "") -> None:
    home = outside.parent / "home"
    home.mkdir()
    environment = os.environ | {"WS": str(workspace), "OUT": str(outside), "HOME": str(home)}
    script = f"{prelude}\n{case.setup}"
    subprocess.run(["sh", "-c", script], cwd=workspace, env=environment, check=True, capture_output=True)


def effects(workspace: Path, outside: Path, command: str) -> list[str]:
    """What the judged command did that it must not, when the tool ran it because the policy allows it."""
    policy = Policy(workspace, "read-only")
    before = snapshot(workspace, outside)
    verdict = policy.judge("bash", [Touch("run", command)])
    said = "judging changed files; " if snapshot(workspace, outside) != before else ""
    if verdict.action == "allow":
        context = ToolContext(workspace=workspace, prepare_command=policy.prepare)
        said = asyncio.run(bash(context, lambda _: None, command=command)).text
    found = [f"printed {mark}: {said}" for mark in PLANTED if mark in said]
    changed = sorted(path for path, _ in set(before.items()) ^ set(snapshot(workspace, outside).items()))
    return found + [f"changed {changed}"] * bool(changed)


@pytest.mark.parametrize("name", OWN)
def test_no_own_case_has_an_effect(name: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        set_up(OWN[name], workspace, outside, REPOSITORY)
        command = OWN[name].input
        if "$(cat blob)" in command:
            command = command.replace("$(cat blob)", (workspace / "blob").read_text().strip())
        assert effects(workspace, outside, command) == []


def test_no_case_of_the_corpus_has_an_effect(shared: Path) -> None:
    """The recorded cases of a red team."""
    if not (shared / "cases" / "git-effects.jsonl").is_file():
        pytest.skip("the corpus of git effects is absent")
    wrong = {}
    for case in read_cases(shared / "cases" / "git-effects.jsonl"):
        with workspace_of_cases() as (workspace, outside):
            set_up(case, workspace, outside)
            if found := effects(workspace, outside, case.input):
                wrong[case.id] = found
    assert wrong == {}


@pytest.mark.parametrize("name", ["safety.jsonl", "safety2.jsonl"])
def test_no_unsafe_git_command_of_the_corpus_is_allowed(shared: Path, name: str) -> None:
    """Those in which git decides; wildcards and other programs have tests of their own."""
    from codelet.frontends.commands.policy_cases import judge_cases

    path = shared / "cases" / name
    shell = [case for case in read_cases(path) if case.kind == "shell"]
    cases = [case for case in shell if "git " in case.input and "[[" not in case.input]
    assert len(cases) > 20
    judged = list(judge_cases(cases))
    assert [one.case.input for one in judged if one.case.expected != "allow" and one.verdict == "allow"] == []
    asked = {one.case.id for one in judged if one.case.expected == "allow" and one.verdict != "allow"}
    assert asked == set(), "what is harmless runs unasked"


@pytest.mark.parametrize(
    "command",
    [
        "git diff",
        "git diff HEAD~1 -- a.txt",
        "git diff a.txt b.txt",
        "git diff --check",
        "git log -p",
        "git log --follow -p b.txt",
        "git log -L1,1:a.txt",
        "git log --graph --oneline -p",
        "git show",
        "git show HEAD:a.txt",
        "git show v1",
        "git show 'HEAD^{/fix: two}:a.txt'",
        "git show -s",
        "git stash show -p",
        "git stash list -p",
        "git reflog -p",
        "git cat-file -p HEAD",
        "git cat-file -p HEAD:a.txt",
        "git grep one",
        "git log -p -- no-such-file",
        "git show no-such-revision",
        "git range-diff HEAD~1...HEAD",
        "git range-diff HEAD~1 v1 HEAD",
        "git range-diff HEAD~1..v1 v1..HEAD",
        "git -C src status -s",
        "git -C src -C .. show HEAD:a.txt",
        "git --no-pager -C docs diff",
    ],
)
def test_where_nothing_secret_would_be_printed_nothing_is_asked(command: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        more = "echo 3 >> b.txt; git commit -qam 'fix: two'; git tag -am v1 v1; echo 4 >> b.txt; git stash -q"
        set_up(Case("c", "shell", command, setup=f"{more}; echo 5 >> b.txt"), workspace, outside, REPOSITORY)
        verdict = Policy(workspace, "read-only").judge("bash", [Touch("run", command)])
        assert verdict.action == "allow", verdict.reason


def test_the_reason_names_the_file() -> None:
    with workspace_of_cases() as (workspace, outside):
        setup = "git add -f .env deploy; git commit -qm two"
        set_up(Case("c", "shell", "", setup=setup), workspace, outside, REPOSITORY)
        policy = Policy(workspace, "read-only")
        assert policy.judge("bash", [Touch("run", "git show")]).reason == (
            "git show prints .env, which has the name of a file with secrets"
        )
        for command in ("git show --stat", "git log", "git show HEAD -- deploy/x", "git diff", "git log -p -- src"):
            assert policy.judge("bash", [Touch("run", command)]).action == "allow", command


SEARCHES = (
    "git log -G {0} --oneline",
    "git log --oneline -S{0}",
    "git log -S {0} -1 --format=%h",
    "git log --skip=1 -G {0} --name-only",
    "git log -3 --pickaxe-all -S {0} --stat -- . ':!src'",
    "git log -p -S {0}",
    "git log -n1 -G {0} -- deploy",
    "git show -s -G {0} HEAD~1",
    "git show --stat -S {0} HEAD~1",
    "git diff --name-only -G {0} HEAD~2 HEAD",
    "git diff --quiet --pickaxe-regex -S {0} HEAD~2",
    "git stash show --stat -G {0}",
    "git stash list -G {0}",
    "git whatchanged -G {0}",
    "git reflog -G {0}",
    "git shortlog -S {0} HEAD",
    "git rev-list -G {0} HEAD",
    "git grep -c {0}",
    "git grep -q {0} HEAD~1",
)


@pytest.mark.parametrize("command", SEARCHES)
def test_a_search_that_reaches_a_secret_asks_whether_it_matches_or_not(command: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        change = "echo SECRET=other > .env; git stash -q"
        setup = f"git add -f .env deploy; git commit -qm two; echo 9 > b.txt; git commit -qam three; {change}"
        set_up(Case("c", "shell", "", setup=setup), workspace, outside, REPOSITORY)
        policy = Policy(workspace, "read-only")
        for pattern in ("SECRET=p", "nowhere-at-all"):
            assert policy.judge("bash", [Touch("run", command.format(pattern))]).action == "ask", pattern


@pytest.mark.parametrize("command", [*SEARCHES[:5], "git log -S {0} -- src a.txt", "git diff -G {0} -- a.txt"])
def test_a_search_that_reaches_no_secret_runs(command: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        set_up(Case("c", "shell", "", setup="echo 3 >> b.txt; git commit -qam two"), workspace, outside, REPOSITORY)
        verdict = Policy(workspace, "read-only").judge("bash", [Touch("run", command.format("one"))])
        assert verdict.action == "allow", verdict.reason


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("git -C .. log", "git -C .. leaves the workspace"),
        ("git -C src -C ../.. log", "git -C ../.. leaves the workspace"),
        ("git -C no log", "there is no folder no"),
        ("git -C", "git -C without a folder"),
        ("git -C -C", "there is no folder -C"),
        ("git -C '' log", "git -C without a folder"),
        ("git -C way log", "git -C way goes through a link"),
        ("git -C src show HEAD:../.env", "../.env has the name of a file with secrets"),
        ("git -C src diff *.py", "git -C with a wildcard, which the shell expands in another folder"),
        ("git -C src push", "git push is not known to be read-only"),
        ('for x in log reflog; do git -C src "$x"; done', "it loops over programs or options"),
        ("git range-diff HEAD~1...HEAD", "git range-diff prints .env, which has the name of a file with secrets"),
        ("git range-diff HEAD~1 HEAD~1 HEAD", "git range-diff prints .env, which has the name of a file with secrets"),
        ("git range-diff HEAD~2..HEAD~1 HEAD", "git range-diff of ranges that are not plain"),
        ("git range-diff 'HEAD~1...HEAD^{/a:.env}'", "git range-diff of ranges that are not plain"),
    ],
)
def test_what_git_would_show_elsewhere_or_of_a_secret_asks(command: str, reason: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        setup = "ln -s src way; echo 3 >> a.txt; git commit -qam three; git add -f .env; git commit -qm two"
        set_up(Case("c", "shell", "", setup=setup), workspace, outside, REPOSITORY)
        verdict = Policy(workspace, "read-only").judge("bash", [Touch("run", command)])
        assert verdict.action == "ask" and reason in verdict.reason, verdict.reason


def test_a_text_converter_asks_where_git_cannot_be_told_to_do_without() -> None:
    with workspace_of_cases() as (workspace, outside):
        setup = "echo 3 >> a.txt; git commit -qam three; git config diff.x.textconv ./x"
        set_up(Case("c", "shell", "", setup=setup), workspace, outside, REPOSITORY)
        policy = Policy(workspace, "read-only")
        verdict = policy.judge("bash", [Touch("run", "git range-diff HEAD~1...HEAD")])
        assert (verdict.action, verdict.reason) == (
            "ask",
            "git range-diff runs the text converters that the configuration names",
        )


@pytest.mark.parametrize("lines", ["1,1", "/a\\/b/,+1:a.txt", "1,1:a.txt:b.txt:", ":a\\:b:a.txt", ",1:a.txt"])
def test_lines_of_a_file_that_is_not_certain_ask(lines: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        set_up(Case("c", "shell", ""), workspace, outside, REPOSITORY)
        verdict = Policy(workspace, "read-only").judge("bash", [Touch("run", f"git log -L '{lines}'")])
        assert (verdict.action, verdict.reason) == ("ask", f"git -L {lines}: which file it means is not certain")


def test_lines_of_a_file_that_was_a_secret_once_ask() -> None:
    with workspace_of_cases() as (workspace, outside):
        setup = "git add -f .env; git commit -qm two; git mv -f .env env.txt; git commit -qm three"
        set_up(Case("c", "shell", "", setup=setup), workspace, outside, REPOSITORY)
        policy = Policy(workspace, "read-only")
        for command in ("git log -L1,1:env.txt", "git log -L 1,1:a.txt -L 1,1:env.txt"):
            assert policy.judge("bash", [Touch("run", command)]).reason == (
                "git -L prints .env, which has the name of a file with secrets"
            )
