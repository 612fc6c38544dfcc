"""The base of a branch: never its own copy on the remote, never nothing, never a name that is two things."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.review.conftest import AFTER, BEFORE
from tests.support import repo
from tests.support.program import Finished
from tests.support.reviews import report, review, shown_paths
from tests.support.server import ModelServer

EMPTY = ["", " ", "\t\n"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with a branch `feat` that has one commit more than main."""
    origin = repo.plain(tmp_path / "origin", {"app.py": BEFORE})
    repo.git(origin, "config", "receive.denyCurrentBranch", "ignore")
    repo.git(tmp_path, "clone", "-q", str(origin), "clone")
    folder = tmp_path / "clone"
    repo.git(folder, "checkout", "-q", "-b", "feat")
    repo.commit(folder, {"app.py": AFTER})
    return folder


def reviewed(server: ModelServer, folder: Path, *words: str) -> tuple[int, str, str]:
    """The exit status, the base's id and the subject of a review that gave a report."""
    done = review(server, folder, *words, "--output", "json")
    came = report(done)
    return done.exit, came["base"], came["subject"]


def is_refused(done: Finished) -> bool:
    return done.exit == 2 and not done.out and len(done.err.splitlines()) == 1 and "--base" in done.err


@pytest.mark.parametrize("pushed", [(), ("-u", "origin", "feat"), ("origin", "feat")])
def test_a_pushed_branch_is_compared_with_the_default_branch(
    server: ModelServer, clone: Path, pushed: tuple[str, ...]
) -> None:
    if pushed:
        repo.git(clone, "push", "-q", *pushed)
    assert reviewed(server, clone) == (1, repo.git(clone, "rev-parse", "origin/main"), "HEAD since origin/main")
    assert len(server.requests) == 2


@pytest.mark.parametrize("name", ["main", "master", "trunk"])
def test_without_origin_head_main_or_master_is_taken_or_nothing(server: ModelServer, clone: Path, name: str) -> None:
    repo.git(clone, "push", "-q", "-u", "origin", "feat", f"origin/main:refs/heads/{name}")
    repo.git(clone, "remote", "set-head", "origin", "-d")
    if name != "main":
        repo.git(clone, "update-ref", "-d", "refs/remotes/origin/main")
    if name == "trunk":
        assert is_refused(review(server, clone))
    else:
        assert reviewed(server, clone)[0::2] == (1, f"HEAD since origin/{name}")


def test_a_shallow_clone_of_the_branch_alone_is_refused(server: ModelServer, clone: Path, tmp_path: Path) -> None:
    repo.git(clone, "push", "-q", "origin", "feat")
    repo.git(tmp_path, "clone", "-q", "--depth", "1", "-b", "feat", f"file://{tmp_path}/origin", "shallow")
    assert is_refused(review(server, tmp_path / "shallow"))
    assert not server.requests


def test_the_default_branch_is_compared_with_its_copy(server: ModelServer, clone: Path) -> None:
    repo.git(clone, "checkout", "-q", "main")
    repo.git(clone, "merge", "-q", "feat")
    assert reviewed(server, clone)[0::2] == (1, "HEAD since origin/main")
    repo.git(clone, "push", "-q", "origin", "main")
    assert reviewed(server, clone)[0::2] == (0, "HEAD since origin/main")


def test_another_branch_as_upstream_is_the_base(server: ModelServer, clone: Path) -> None:
    repo.git(clone, "push", "-q", "-u", "origin", "feat")
    repo.git(clone, "checkout", "-q", "-b", "stacked", "--track", "origin/feat")
    assert is_refused(review(server, clone)), "it may as well be its own copy under another name"
    repo.commit(clone, {"more.py": "x = 1\n"})
    assert reviewed(server, clone)[2] == "HEAD since origin/feat"
    assert shown_paths(server.requests[0]) == ["more.py"]
    repo.git(clone, "checkout", "-q", "-b", "local", "--track", "stacked")
    assert reviewed(server, clone)[0::2] == (0, "HEAD since stacked")


def test_a_fork_with_two_remotes(server: ModelServer, clone: Path, tmp_path: Path) -> None:
    repo.git(tmp_path, "clone", "-q", "--bare", str(tmp_path / "origin"), "fork.git")
    repo.git(clone, "remote", "add", "fork", str(tmp_path / "fork.git"))
    repo.git(clone, "push", "-q", "-u", "fork", "feat")
    assert reviewed(server, clone)[0::2] == (1, "HEAD since origin/main")
    repo.git(clone, "fetch", "-q", "fork")
    assert reviewed(server, clone)[0::2] == (1, "HEAD since fork/main")
    repo.git(clone, "branch", "-q", "--set-upstream-to", "origin/main")
    assert reviewed(server, clone)[0::2] == (1, "HEAD since origin/main")


def test_a_copy_that_was_deleted_on_the_remote(server: ModelServer, clone: Path) -> None:
    repo.git(clone, "push", "-q", "-u", "origin", "feat")
    repo.git(clone, "push", "-q", "origin", "--delete", "feat")
    assert reviewed(server, clone)[0::2] == (1, "HEAD since origin/main")


def test_a_detached_head_has_no_base(server: ModelServer, clone: Path) -> None:
    repo.git(clone, "checkout", "-q", "--detach")
    assert is_refused(review(server, clone))


@pytest.mark.parametrize("kind", ["tag", "branch"])
@pytest.mark.parametrize("words", [(), ("--base", "origin/main"), ("origin/main..HEAD",), ("origin/main~0...HEAD",)])
def test_another_reference_of_the_same_name_is_not_the_base(
    server: ModelServer, clone: Path, kind: str, words: tuple[str, ...]
) -> None:
    repo.git(clone, kind, "origin/main", "HEAD")
    if not words:
        assert reviewed(server, clone)[0] == 1
        return
    done = review(server, clone, *words)
    assert (done.exit, done.out) == (2, "")
    assert "ambiguous" in done.err and "refs/remotes/origin/main" in done.err
    assert reviewed(server, clone, "--base", "refs/remotes/origin/main")[0] == 1


def test_names_that_are_ambiguous_in_other_ways(server: ModelServer, clone: Path) -> None:
    start = repo.git(clone, "rev-parse", "origin/main")
    repo.git(clone, "tag", start[:8], "HEAD")
    assert "ambiguous" in review(server, clone, "--base", start[:8]).err
    repo.git(clone, "tag", "both", "main")
    repo.git(clone, "branch", "both", "main")
    assert reviewed(server, clone, "--base", "both")[0] == 1, "both are one commit"
    repo.git(clone, "tag", "-a", "-m", "it", "noted", "main")
    assert reviewed(server, clone, "--base", "noted")[:2] == (1, start)
    (clone / "both").mkdir()
    repo.git(clone, "tag", "-f", "both", "HEAD")
    assert review(server, clone, "both").exit == 2, "a folder of that name is no way around it"
    repo.git(clone, "tag", "HEAD", "main")
    assert reviewed(server, clone, "--base", "main")[0] == 1


@pytest.mark.parametrize("value", EMPTY)
@pytest.mark.parametrize("option", ["--base", "--diff", "--rules", "--baseline", "--jobs", "--chunk-tokens"])
def test_an_empty_value_is_no_value(server: ModelServer, clone: Path, option: str, value: str) -> None:
    done = review(server, clone, option, value, stdin=b"")
    assert (done.exit, done.out) == (2, "")
    assert option in done.err


@pytest.mark.parametrize(
    "words",
    [
        *[
            ("",),
            ("..",),
            ("...",),
            ("..HEAD",),
            ("...HEAD",),
            ("--staged", ""),
            ("--base", "main", "--output", "json="),
        ],
        *[("--max-findings", ""), ("--min-coverage", ""), ("--fail-on", ""), ("--timeout", ""), ("--max-cost", "")],
    ],
)
def test_empty_words_and_ranges_without_a_base(server: ModelServer, clone: Path, words: tuple[str, ...]) -> None:
    done = review(server, clone, *words)
    assert (done.exit, done.out) == (2, "")
    assert done.err.strip()


@pytest.mark.parametrize(
    "words", [(), ("--staged",), ("HEAD",), ("--base", "main"), ("--uncommitted",), ("--diff", "-")]
)
def test_a_repository_of_another_owner_is_named(server: ModelServer, clone: Path, words: tuple[str, ...]) -> None:
    done = review(server, clone, *words, env={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}, stdin=b"")
    assert (done.exit, done.out) == (2, "")
    assert "dubious ownership" in done.err and f"safe.directory {clone}" in done.err
