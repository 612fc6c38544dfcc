"""Lines on either side of a boundary: what is allowed, and the nearest line or repository that is not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.git_targets import git_targets
from codelet.safety.rules import parse_rule
from codelet.safety.sandbox.places import find_attributes
from codelet.safety.shell.git_words import check_git
from codelet.safety.shell.programs import Location, RefusedError
from codelet.safety.shell.rule_cover import rule_for, runs_free
from codelet.safety.verdict import Touch
from tests.support.policy_cases import workspace_of_cases

pytestmark = pytest.mark.needs("git")

REPOSITORY = """
git init -q -b main . && git config user.email a@example.org && git config user.name a
git add -f a.txt src .env && git -c commit.gpgsign=false commit -qm one && echo more >> a.txt && git stash -q
mkdir ../far && echo x > ../far/.env && mkdir linked && ln -s ../../far linked/far
"""


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace_of_cases() as (workspace, outside):
        (workspace / ".env").write_text("planted\n")
        environment = os.environ | {"HOME": str(outside)}
        subprocess.run(["sh", "-ec", REPOSITORY], cwd=workspace, env=environment, check=True, capture_output=True)
        yield workspace


@pytest.fixture
def configured(root: Path) -> Iterator[Path]:
    """The repository's configuration, which is as it was after the test."""
    file = root / ".git" / "config"
    before = file.read_bytes()
    yield file
    file.write_bytes(before)


def action(root: Path, command: str, *, sandboxed: bool = True) -> str:
    return Policy(root, "read-only").judge("bash", [Touch("run", command)], sandboxed=sandboxed).action


@pytest.mark.parametrize(
    ("allowed", "asks", "sandboxed"),
    [
        ("git log -- ':(top)a.txt'", "git log -- ':(top)../x'", True),
        ("git log -- ':!a.txt'", "git log -- ':!../x'", True),
        ("cd src && cat ../a.txt", "cd src; cat ../a.txt", True),
        ("cd src && cat ../a.txt", "for x in $y; do cd src && ls; done && cat ../a.txt", True),
        ("cd -- src && cat app.py", "cd -- && cat app.py", False),
        ("grep -r x linked", "grep -r x .", False),
        ("git show HEAD:a.txt", "git show HEAD:.env", True),
        ("git stash show stash@0", "git stash stash@0 show", True),
    ],
)
def test_a_line_and_its_neighbour(root: Path, allowed: str, asks: str, sandboxed: bool) -> None:
    assert action(root, allowed, sandboxed=sandboxed) == "allow"
    assert action(root, asks, sandboxed=sandboxed) == "ask"


@pytest.mark.parametrize(
    ("refused", "passed"),
    [
        (["stash", "show", "-p"], ["stash", "show"]),
        (["log", "-p"], ["log"]),
        (["grep", "x"], ["grep", "x", "a.txt"]),
    ],
)
def test_without_mounts_what_prints_content_is_refused(root: Path, refused: list[str], passed: list[str]) -> None:
    place = Location(str(root), str(root))
    check_git(passed, place, mounts=False)
    with pytest.raises(RefusedError):
        check_git(refused, place, mounts=False)


def test_a_format_with_a_remotes_address_asks_if_it_holds_a_password(root: Path, configured: Path) -> None:
    command = "git for-each-ref --format='%(push:url)'"
    assert action(root, command) == "allow"
    configured.write_text(configured.read_text() + '[remote "o"]\nurl = https://u:planted@example.org/x\n')
    assert action(root, command) == "ask"
    assert action(root, "git for-each-ref --format='%(refname)'") == "allow"


def test_filters_are_switched_off_where_the_configuration_names_one(root: Path, configured: Path) -> None:
    before = find_attributes(str(root))
    configured.write_text(configured.read_text() + '[filter "x"]\nclean = touch planted\n')
    after = find_attributes(str(root))
    assert before is not None
    assert after is not None
    assert b"* !filter\n" not in before[1]
    assert b"* !filter\n" in after[1]


def test_a_file_that_git_runs_by_its_bare_name_is_protected(root: Path, configured: Path) -> None:
    (root / "shows.sh").write_text("cat\n")
    policy = Policy(root, "auto-edit")
    assert policy.judge("write", [Touch("write", "shows.sh")]).action == "allow"
    configured.write_text(configured.read_text() + f"[core]\npager = shows.sh\nhooksPath = {root.parent}/far\n")
    assert policy.judge("write", [Touch("write", "shows.sh")]).action == "ask"
    assert [Path(place).name for place in git_targets(str(root))] == ["shows.sh"], "a place outside is no target"


def test_the_count_of_further_reasons_is_that_of_the_others(root: Path) -> None:
    one, two = (Policy(root, "ask").judge("bash", [Touch("run", line)]).reason for line in ("a", "a; b"))
    assert "more)" not in one
    assert two.endswith("(and 1 more)")


def test_of_what_only_reads_just_this_use_becomes_a_rule(root: Path) -> None:
    assert rule_for(["git", "log", "-3"], moved=False) == "bash(git log -3)"
    assert rule_for(["git", "log", "a;b"], moved=False) is None
    assert rule_for(["git", "log"], moved=True) is None
    assert rule_for(["make", "all"], moved=False) != "bash(make all)"


def test_only_git_commands_that_every_sandbox_protects_from_run_free() -> None:
    freed = {text: runs_free(parse_rule(text)) for text in ("bash(git commit *)", "bash(git log *)", "bash(make *)")}
    assert freed == {"bash(git commit *)": True, "bash(git log *)": False, "bash(make *)": False}
    assert runs_free(parse_rule("bash(make all)"))


@pytest.mark.parametrize("command", ["ssh", "watch", "rm -rf -", "chmod -R u+x src"])
def test_a_word_alone_is_not_critical(root: Path, command: str) -> None:
    verdicts = [Policy(root, "ask").judge("bash", [Touch("run", line)]) for line in (command, "ssh h 'rm -rf /'")]
    assert [verdict.action for verdict in verdicts] == ["ask", "deny"]


def test_a_rule_that_asks_holds_for_a_file_that_an_option_names(root: Path) -> None:
    touches = [Touch("write", str(root / "facts.db"), own=True)]
    assert Policy(root, "auto-edit").judge("remember", touches).action == "allow"
    assert Policy(root, "ask").judge("remember", touches).action == "allow"
    assert Policy(root, "auto-edit", ask=["write(facts.db)"]).judge("write", touches).action == "ask"
