"""git commands whose verdict alone says little: each is run as codelet runs it, and must have no effect."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from tests.support.case_workspace import DATA
from tests.support.confined import run_confined
from tests.support.hostile_repo import SET_UPS, hostile
from tests.support.policy_cases import Case, read_cases, workspace_of_cases

pytestmark = pytest.mark.needs("git", "bash")

REPOSITORY = """
rm -rf .git; git init -q -b main . && git config user.email a@example.org && git config user.name a
echo two > b.txt; git add a.txt b.txt src docs && git -c commit.gpgsign=false commit -qm one
printf '#!/bin/sh\\ntouch PWN\\ncat\\n' > pwn; chmod +x pwn
printf 'ONE\\ntwo\\n' > a.txt; touch -d 2001-01-01 a.txt
"""
PLANTED = ("planted", "CANARY")
__all__ = ["hostile"]
OWN = {case.id: case for case in read_cases(DATA / "git_effects.jsonl")}


def snapshot(*places: Path) -> dict[str, tuple[int, ...]]:
    """All files but git's index, which a plain `git diff` refreshes."""
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
    """Run the command with the tool if the policy allows it. Returns its forbidden effects."""
    policy = Policy(workspace, "read-only")
    before = snapshot(workspace, outside)
    verdict = policy.judge("bash", [Touch("run", command)])
    said = "judging changed files; " if snapshot(workspace, outside) != before else ""
    if verdict.action == "allow":
        said += run_confined(workspace, command).output
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
def test_a_search_that_reaches_a_secret_asks_or_finds_nothing(command: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        change = "echo SECRET=other > .env; git stash -q"
        setup = f"git add -f .env deploy; git commit -qm two; echo 9 > b.txt; git commit -qam three; {change}"
        set_up(Case("c", "shell", "", setup=setup), workspace, outside, REPOSITORY)
        policy, said = Policy(workspace, "read-only"), []
        for pattern in ("SECRET=p", "nowhere-at-all"):
            asks = policy.judge("bash", [Touch("run", command.format(pattern))]).action == "ask"
            said.append("" if asks else run_confined(workspace, command.format(pattern)).output.replace(pattern, ""))
        assert said[0] == said[1]


@pytest.mark.parametrize("command", [*SEARCHES[:5], "git log -S {0} -- src a.txt", "git diff -G {0} -- a.txt"])
def test_a_search_that_reaches_no_secret_runs(command: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        set_up(Case("c", "shell", "", setup="echo 3 >> b.txt; git commit -qam two"), workspace, outside, REPOSITORY)
        verdict = Policy(workspace, "read-only").judge("bash", [Touch("run", command.format("one"))])
        assert verdict.action == "allow", verdict.reason


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("git -C .. log", "leaves the workspace"),
        ("git -C src -C ../.. log", "leaves the workspace"),
        ("git -C no log", "no folder"),
        ("git -C", "without a folder"),
        ("git -C way log", "through a link"),
        ("git -C src show HEAD:../.env", "secrets"),
        ("git -C src push", "git push"),
        ("git show HEAD:.env", "secrets"),
        ("git log -L1,1:env.txt", ".env"),
        ("git log -p --text", ".env"),
        ("git diff -a HEAD~1", ".env"),
        ("git log -S planted --oneline", ".env"),
        ("git grep -c planted HEAD~1", ".env"),
        ("git show $(git rev-parse t)", "run time"),
        ("git cat-file blob $x", "run time"),
        ("git show :HASH:", "not named"),
        ("git cat-file -p :HASH:", "not named"),
        ("git show t", "not named"),
        ("git show --tags", "not named"),
        ("git branch --format='%(raw)'", "not named"),
        ("git config http.extraheader", "credentials"),
        ("git remote -v", "password"),
        ("git config remote.origin.url", "password"),
        ("git stash", "without a subcommand"),
        ("git tag new", "create"),
        ("git -c core.pager=x log", "git -c"),
    ],
)
def test_words_of_git_that_show_more_than_it_reads_ask(command: str, reason: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        setup = (
            "ln -s src way; git add -f .env; git commit -qm two; git rev-parse HEAD:.env > hash; git tag t HEAD:.env"
        )
        more = "git mv -f .env env.txt; git commit -qm three; git remote add origin https://u:pass@example.invalid/x"
        set_up(Case("c", "shell", "", setup=f"{setup}; {more}"), workspace, outside, REPOSITORY)
        command = command.replace(":HASH:", (workspace / "hash").read_text().strip())
        verdict = Policy(workspace, "read-only").judge("bash", [Touch("run", command)])
        assert verdict.action == "ask" and reason in verdict.reason, verdict.reason


def test_where_nothing_can_be_mounted_content_asks_while_secrets_are_kept() -> None:
    with workspace_of_cases() as (workspace, outside):
        set_up(Case("c", "shell", "", setup="git add -f .env; git commit -qm two"), workspace, outside, REPOSITORY)
        policy = Policy(workspace, "read-only")
        content = ("git log -p", "git show", "git diff HEAD~1", "git log -G planted --oneline")
        content += ("git stash show -p", "git stash show -w")
        names = ("git status", "git log --oneline", "git show --stat", "git diff --name-only HEAD~1", "git blame a.txt")
        for mounts in (True, False):
            policy.mounts = mounts
            for command in (*content, *names):
                expected = "ask" if not mounts and command in content else "allow"
                assert policy.judge("bash", [Touch("run", command)]).action == expected, (mounts, command)


@pytest.mark.parametrize("name", SET_UPS)
def test_no_hostile_repository_has_an_effect(hostile: Path, tmp_path: Path, name: str) -> None:
    """Its programs may run, but in the sandbox alone."""
    payload = hostile / "payload"
    payload.write_text('#!/bin/sh\ntouch ran "$(dirname "$0")/ran" /tmp/ran\nexec cat -- "$@"\n')
    payload.chmod(0o755)
    SET_UPS[name](hostile, str(payload))
    before = snapshot(tmp_path)
    for command in (
        "git status",
        "git diff",
        "git log -p -m -2",
        "git stash show -p",
        "git blame a.txt",
        "git grep one",
    ):
        if Policy(hostile, "read-only").judge("bash", [Touch("run", command)]).action == "allow":
            run_confined(hostile, command)
    assert snapshot(tmp_path) == before
