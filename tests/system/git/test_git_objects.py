"""Where HEAD points, and which repositories are not looked at."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.system.git.objects import head_of
from codelet.system.git.revisions import pair_of, since_branch
from tests.support.repo import commit, git, write

pytestmark = pytest.mark.needs("git")


def test_without_a_repository_there_is_nothing(tmp_path: Path):
    assert head_of(tmp_path) is None


def test_a_repository_that_leads_to_another_one_is_not_looked_at(repo: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    commit(other, {"secret": "x"})
    assert head_of(repo) is not None
    write(repo, {".git/objects/info/alternates": f"{other}/.git/objects\n"})
    assert head_of(repo) is None


def test_variables_that_lead_elsewhere_are_not_followed(repo: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_DIR", str(repo / "nowhere"))
    assert head_of(repo) is None


def running_git() -> set[str]:
    """The children of this process, of whichever test, that are git."""
    found = set()
    for task in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        for child in task.read_text().split():
            with suppress(OSError):  # it ended meanwhile
                if Path(f"/proc/{child}/comm").read_text().strip() == "git":
                    found.add(child)
    return found


async def test_no_process_stays_behind(repo: Path):
    first = commit(repo, {"a.txt": "1"})
    second = commit(repo, {"a.txt": "2"})
    before = running_git()
    assert await pair_of(repo, "HEAD") == (first, second)
    assert running_git() <= before


def test_where_head_points(repo: Path):
    assert (head_of(repo) or "").startswith("branch ")
    git(repo, "checkout", "-q", "--detach")
    assert (head_of(repo) or "").startswith("detached at ")


def set_text(path: Path, text: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(text)


def into_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("part", ["HEAD", "packed-refs", "refs/heads/NAME", "config", "commondir", "included"])
async def test_a_pipe_is_not_waited_for(repo: Path, part: str):
    """GitPython opens these itself, in this process, where nothing ends the waiting."""
    name = git(repo, "symbolic-ref", "--short", "HEAD")
    if part == "included":
        git(repo, "config", "includeIf.gitdir:/nowhere/.path", "included")
    into_pipe(repo / ".git" / part.replace("NAME", name))
    assert head_of(repo) is None
    for asked in (pair_of(repo, "HEAD"), since_branch(repo, None)):
        with pytest.raises(UsageError, match="git repository"):
            await asked


async def test_an_object_that_git_does_not_come_to_an_end_with_is_none(repo: Path):
    last = commit(repo, {"a.txt": "1"})
    into_pipe(repo / ".git" / "objects" / last[:2] / last[2:])
    assert head_of(repo, 0.3) is not None
    with pytest.raises(UsageError, match="no commit"):
        await pair_of(repo, "HEAD", 0.3)
    set_text(repo / ".git" / "HEAD", f"{last}\n".encode())
    assert head_of(repo, 0.3) is None


BROKEN = {
    "HEAD is no text": ("HEAD", b"ref: refs/heads/\xff\n"),
    "HEAD names no object": ("HEAD", b"01" * 20 + b"\n"),
    "the branch is no number": ("refs/heads/NAME", b"hello\n"),
    "packed references are no text": ("packed-refs", b"\xff\xfe\n# x\n^a\n"),
    "the configuration is no text": ("config", b"[x]\n\ty = \xff\n"),
    "the configuration begins with no section": ("config", b"a = b\n"),
    "the branch follows no text": ("config", b'[branch "NAME"]\n\tremote = \xff\n\tmerge = refs/heads/x\n'),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_repository_that_is_not_whole_is_an_error_in_words(repo: Path, name: str):
    branch = git(repo, "symbolic-ref", "--short", "HEAD")
    part, text = BROKEN[name]
    set_text(repo / ".git" / part.replace("NAME", branch), text.replace(b"NAME", branch.encode()))
    head_of(repo)
    for asked in (pair_of(repo, "nowhere"), since_branch(repo, None), since_branch(repo, "nowhere")):
        with pytest.raises(UsageError):
            await asked
