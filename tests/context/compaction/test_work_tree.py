"""What git did: runs and errors of other branches say nothing of this one, and commits taken back are no changes."""

from __future__ import annotations

import pytest

from codelet.context.compaction import compact
from codelet.context.compaction.ledger import Ledger
from codelet.context.compaction.work_tree import Commits, goes_on
from tests.context.compaction.lists import Message, says, segments_of, user
from tests.context.compaction.test_ledger import DONE, after, call, earlier, ran

FAILED = "E   ValueError: the cart is empty\n1 failed\n[exit code 1]"
PASSED = f"9 passed\n{DONE}"


def edited(path: str, new: str = "LIMIT_OF_ROWS = 40") -> list[Message]:
    return call("edit", "edited: 1 replacement", path=path, old_string="LIMIT_OF_ROWS = 10", new_string=new)


def states(ledger: Ledger) -> tuple[list[str], list[str]]:
    return [text.partition(" (")[0] for text in ledger.status.values()], [fault.line for fault in ledger.errors]


@pytest.mark.parametrize(
    ("away", "back"),
    [
        ("git checkout release/2.4", "git checkout -"),
        ("git switch release/2.4", "git switch main"),
        ("git checkout -q release/2.4", "git checkout -q main"),
        ("git checkout 1a2b3c4", "git checkout main"),
        ("git bisect start HEAD v1", "git bisect reset"),
        ("git checkout -b attempt v1", "git checkout main"),
    ],
)
def test_a_run_on_another_branch_says_nothing_of_this_one(away: str, back: str):
    there = after(ran("pytest", PASSED), ran(away), ran("pytest", FAILED), ran(back))
    assert states(there) == (["tests passed"], [])
    assert states(after(ran(away), ran("pytest", FAILED))) == (["tests failed"], ["E   ValueError: the cart is empty"])
    ours = after(ran("pytest", FAILED), ran(away), ran("pytest", PASSED), ran(back))
    assert states(ours) == (["tests failed"], ["E   ValueError: the cart is empty"]), "it passed elsewhere"


@pytest.mark.parametrize(
    "line",
    [
        "git checkout -b attempt",
        "git switch -c attempt",
        "git checkout -- a.py",
        "git checkout src/a.py",
        "git checkout .",
        "git checkout v1 src/a.py",
        "git branch attempt",
        "git bisect log",
    ],
)
def test_a_command_that_leaves_the_branch_takes_nothing_from_what_ran(line: str):
    assert states(after(ran("pytest", FAILED), ran(line))) == (["tests failed"], ["E   ValueError: the cart is empty"])


def test_a_checkout_that_git_refused_or_that_was_of_another_work_tree_switches_nothing():
    refused = "error: pathspec 'v1' did not match any file(s) known to git\n[exit code 1]"
    for line, answer in (
        ("git checkout v1", refused),
        ("git checkout v1 && ls", refused),
    ):
        assert states(after(ran("pytest", FAILED), ran(line, answer)))[0] == ["tests failed"], line
    here, other = "cd /w/one && git checkout main", "cd /w/two && git checkout v1"
    assert states(after(ran(here), ran("pytest", FAILED), ran(other)))[0] == ["tests failed"]


def test_a_branch_is_known_by_the_name_that_git_told():
    told = f"On branch cart\nnothing to commit\n{DONE}"
    walked = (ran("git status", told), ran("pytest", PASSED), ran("git checkout a"), ran("git checkout b"))
    assert states(after(*walked))[0] == []
    assert states(after(*walked, ran("git checkout cart")))[0] == ["tests passed"]


def test_what_earlier_summaries_tell_is_of_the_branch_that_was_left():
    def old() -> Ledger:
        return earlier("status: tests passed (t1): pytest", "open error: t1 ValueError: no cart [make]")

    assert states(after(ran("git checkout v1"), ledger=old())) == ([], [])
    back = after(ran("git checkout v1"), ran("git checkout -"), ledger=old())
    assert states(back) == (["tests passed"], ["ValueError: no cart"])


def test_what_was_committed_elsewhere_is_no_change_here_unless_it_was_merged():
    fix = (ran("git checkout fix"), edited("a.py"), ran("git commit -qam x"), ran("git checkout -"))
    assert after(*fix).changed == {} and after(*fix[:-1]).changed == {"a.py": 2}
    for brings in ("git merge fix", "git rebase fix", "git pull"):
        assert after(*fix, ran(brings)).changed == {"a.py": 2}, brings


@pytest.mark.parametrize(
    ("reset", "answer", "left"),
    [
        ("git reset --hard HEAD~1", "HEAD is now at aaaaaa1 one", ["a.py"]),
        ("git reset --hard @^", "", ["a.py"]),
        ("git reset --hard HEAD~2", "HEAD is now at 0000000 zero", []),
        ("git reset --hard HEAD^^", "", []),
        ("git reset --hard aaaaaa1", "HEAD is now at aaaaaa1 one", ["a.py"]),
        ("git reset --hard origin/main", "HEAD is now at 0000000 zero", []),
        ("git reset --hard", "HEAD is now at bbbbbb2 two", ["a.py", "b.py"]),
        ("git reset --soft HEAD~1", "", ["a.py", "b.py", "c.py"]),
        ("git reset HEAD~1", "", ["a.py", "b.py", "c.py"]),
        ("git reset HEAD~1 && git checkout .", "", ["a.py"]),
        ("git revert --no-edit HEAD", "[main cccccc3] Revert", ["a.py", "c.py"]),
        ("git revert --no-edit aaaaaa1", "[main cccccc3] Revert", ["b.py", "c.py"]),
        ("git revert --no-edit 9999999", "[main cccccc3] Revert", ["a.py", "b.py", "c.py"]),
        ("git commit -q --amend --no-edit && git reset --hard HEAD~1", "HEAD is now at aaaaaa1 one", ["a.py"]),
    ],
)
def test_commits_that_were_taken_back_are_no_changes(reset: str, answer: str, left: list[str]):
    made = [
        *edited("a.py"),
        *ran("git commit -am one", f"[main aaaaaa1] one\n{DONE}"),
        *edited("b.py"),
        *ran("git commit -am two", f"[main bbbbbb2] two\n{DONE}"),
        *edited("c.py"),
    ]
    ledger = after(made, ran(reset, f"{answer}\n{DONE}"))
    assert sorted(ledger.changed) == sorted(ledger.changes) == left
    commits = [text for text in ledger.status.values() if "commit passed" in text and "-am" in text]
    assert len(commits) == (2 if reset == "git reset --hard" else 0), "which commits stand is not told"


@pytest.mark.parametrize(("reset", "there"), [("git reset --hard HEAD~1", False), ("git reset --soft HEAD~1", True)])
def test_the_lines_of_a_commit_that_was_taken_back_are_not_quoted(reset: str, there: bool):
    done = [*edited("src/rows.py", "NEW_LIMIT_OF_ROWS = 8120"), *ran("git commit -am x"), *ran(reset)]
    noise = [
        m for n in range(30) for m in ran(f"cat notes_{n}.txt", "\n".join(f"note {n}.{i} on it" for i in range(40)))
    ]
    messages = [
        user("Raise the limit."),
        *done,
        says("Done."),
        user("Now read the notes."),
        *noise,
        says("Read."),
        user("ok"),
    ]
    [segment] = segments_of(compact(messages, 4_000).messages)
    lines = [line for entry in segment.entries for line in entry.lines] + [text for _, text in segment.ledger]
    assert any("NEW_LIMIT_OF_ROWS" in line for line in lines) is there


@pytest.mark.parametrize(
    ("line", "later", "settled"),
    [
        ("git rebase main", "git rebase --continue", True),
        ("git rebase main", "git rebase --abort", True),
        ("git rebase main", "git rebase --skip", True),
        ("git rebase main", "git rebase other", False),
        ("git rebase main", "git merge --continue", False),
        ("git cherry-pick 1a2b3c4", "git add -A && GIT_EDITOR=true git cherry-pick --continue", True),
        ("git cherry-pick 1a2b3c4", "git cherry-pick 5d6e7f8", False),
        ("git push", "git push --force-with-lease", True),
        ("git push origin cart", "git push -f origin cart", True),
        ("git push origin cart", "git push origin other", False),
        ("git push origin cart", "git pull", False),
    ],
)
def test_what_goes_on_with_a_command_of_git_settles_its_error(line: str, later: str, settled: bool):
    stopped = ran(line, "error: could not apply 7c1e9aa... cart\n[exit code 1]")
    ledger = after(stopped, ran(later))
    assert bool(ledger.errors) is not settled
    assert not goes_on("git rebase --continue", "git rebase --continue") and not goes_on("ls", "ls")


def test_a_commit_that_git_told_of_was_made_whatever_came_of_the_line():
    pushed = "git add -A && git commit -m x && git push"
    refused = ran(pushed, "[main 1a2b3c4] x\nerror: failed to push some refs to 'shop.git'\n[exit code 1]")
    ledger = after(refused)
    assert [fault.origins for fault in ledger.errors] == [("git push",)]
    assert "commit passed (t1): git commit -m x" in ledger.status.values()
    assert after(refused, ran("git push --force-with-lease")).errors == []
    unsure = after(ran("git commit -m x | tail -3 && git push", "[main 1a2b3c4] x\nerror: no\n[exit code 1]"))
    assert unsure.errors != []


def test_logs_that_were_looked_at_are_no_errors_of_now():
    log = "ERROR: could not read config\npanic: nil pointer"
    for line in (
        "kubectl logs api-7d9c -n pay --previous",
        "kubectl -n pay logs api-7d9c",
        "gh run view --log-failed",
        "docker logs api",
        "docker compose logs api",
        "journalctl -u api",
        "terraform show",
    ):
        assert after(ran(line, log)).errors == [], line
    for line in ("kubectl apply -f a.yaml", "docker compose up", "gh pr create", "terraform apply", "docker"):
        assert after(ran(line, log)).errors != [], line


def test_a_commit_that_was_amended_stands():
    amended = after(edited("a.py"), ran("git commit -am one"), edited("b.py"), ran("git commit --amend -am two"))
    assert "commit passed (t4): git commit --amend -am two" in amended.status.values()
    assert sorted(amended.changed) == ["a.py", "b.py"]


def test_commits_are_found_by_any_length_of_their_hash():
    commits = Commits[str]()
    commits.add("abcdef1", {"a"})
    commits.add("", {"b"})
    assert commits.without("abcdef1234") == {"a"} and commits.without("~0") == {"b"} and commits.without("") == set()
    assert commits.back_to("abcdef") == {"b"} and commits.back_to("~9") == {"a"} and commits.without("~0") == set()
