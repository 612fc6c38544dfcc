"""`codelet review` in git's hooks: it reads the index, the repository and the objects that git names to the hook."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import repo
from tests.support.program import environment
from tests.support.reviewing import Fault, reviewer
from tests.support.reviews import report, review, shown_paths
from tests.support.server import ModelServer

GOOD = "x = int(input())\n"
BAD = "x = eval(input())\n"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model that finds each `eval(`."""
    with ModelServer(reviewer([Fault("eval(")])) as running:
        yield running


class Hooked:
    """git with hooks that review: what each review said is appended to `reports`."""

    def __init__(self, folder: Path, server: ModelServer, words: str) -> None:
        self.reports = folder / "reports.jsonl"
        self.errors = folder / "errors"
        home = folder / "home"
        home.mkdir(exist_ok=True)
        model = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
        own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_EDITOR": "true"}
        who = {f"GIT_{one}_{what}": "t@example.org" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.env = environment(home, {**model, **own, **who})
        out = f"--no-verify --output text=- --output json={folder}/report.json"
        self.script = (
            f"#!/bin/sh\nrm -f {folder}/report.json\n"
            f"{sys.executable} -m codelet review {words} {out} </dev/null 2>>{self.errors}\nstatus=$?\n"
            f"tr -d '\\n' <{folder}/report.json >>{self.reports} && echo >>{self.reports}\nexit $status\n"
        )

    def install(self, git_folder: Path, name: str = "pre-commit") -> None:
        hook = git_folder / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(self.script)
        hook.chmod(0o755)

    def git(self, folder: Path, *words: str, stdin: str = "") -> bool:
        """Run git; whether it succeeded."""
        done = subprocess.run(
            ["git", *words], cwd=folder, env=self.env, input=stdin, capture_output=True, text=True, timeout=60
        )
        return done.returncode == 0

    def seen(self) -> list[tuple[int, list[str]]]:
        """The exit status of each review, with the files that it had before it."""
        lines = self.reports.read_text().splitlines() if self.reports.exists() else []
        reports: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [(each["exit"], [hunk["path"] for hunk in each["hunks"]]) for each in reports]


@pytest.fixture
def hooked(tmp_path: Path, server: ModelServer) -> Hooked:
    return Hooked(tmp_path, server, "--staged")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return repo.plain(tmp_path / "work", {"a.py": GOOD, "b.py": GOOD, "sub/c.py": GOOD})


def test_commit_takes_what_is_staged(work: Path, hooked: Hooked) -> None:
    hooked.install(work / ".git")
    repo.write(work, {"a.py": BAD})
    repo.git(work, "add", "a.py")
    repo.write(work, {"a.py": GOOD, "b.py": BAD})
    assert not hooked.git(work, "commit", "-m", "x")
    assert hooked.seen() == [(1, ["a.py"])]


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (("-a",), ["a.py", "b.py"]),
        (("--amend", "-a"), ["a.py", "b.py"]),
        (("b.py",), ["b.py"]),
        (("--only", "b.py"), ["b.py"]),
        (("--include", "b.py"), ["a.py", "b.py"]),
        (("--amend", "b.py"), ["b.py"]),
    ],
)
def test_what_will_be_committed_is_reviewed(
    work: Path, hooked: Hooked, words: tuple[str, ...], paths: list[str]
) -> None:
    """A harmless change is staged; what is bad comes in by the command's own words."""
    hooked.install(work / ".git")
    repo.write(work, {"a.py": GOOD + "y = 1\n"})
    repo.git(work, "add", "a.py")
    repo.write(work, {"b.py": BAD})
    before = repo.git(work, "rev-parse", "HEAD")
    assert not hooked.git(work, "commit", "-m", "x", *words)
    assert hooked.seen() == [(1, paths)], hooked.errors.read_text()
    assert repo.git(work, "rev-parse", "HEAD") == before
    repo.write(work, {"b.py": GOOD + "z = 1\n"})
    assert hooked.git(work, "commit", "-m", "x", *words)
    assert hooked.seen()[1:] == [(0, paths)]


def test_a_hunk_that_is_picked_is_reviewed(work: Path, hooked: Hooked) -> None:
    hooked.install(work / ".git")
    repo.write(work, {"a.py": BAD, "b.py": BAD})
    assert not hooked.git(work, "commit", "-p", "-m", "x", stdin="n\ny\n")
    assert hooked.seen() == [(1, ["b.py"])]


def test_a_hook_that_changes_its_folder(work: Path, hooked: Hooked) -> None:
    """A relative GIT_INDEX_FILE is meant from the top of the work tree."""
    hooked.script = hooked.script.replace(
        "#!/bin/sh\n", '#!/bin/sh\ncd sub && GIT_INDEX_FILE=".git/${GIT_INDEX_FILE##*/}"\n'
    )
    hooked.install(work / ".git")
    repo.write(work, {"b.py": BAD})
    assert not hooked.git(work, "commit", "-am", "x")
    assert hooked.seen() == [(1, ["b.py"])], hooked.errors.read_text()


@pytest.mark.parametrize("words", [("-a",), ("b.py",)])
def test_a_linked_worktree(tmp_path: Path, hooked: Hooked, words: tuple[str, ...]) -> None:
    folder = repo.worktree(tmp_path / "linked")
    repo.commit(folder, {"b.py": GOOD})
    hooked.install(tmp_path / "linked-main" / ".git")
    repo.write(folder, {"b.py": BAD})
    assert not hooked.git(folder, "commit", "-m", "x", *words)
    assert hooked.seen() == [(1, ["b.py"])], hooked.errors.read_text()


def test_a_submodule(tmp_path: Path, hooked: Hooked) -> None:
    part = repo.with_submodule(tmp_path / "top") / "part"
    hooked.install(tmp_path / "top" / ".git" / "modules" / "part")
    repo.write(part, {"part.txt": BAD})
    assert not hooked.git(part, "commit", "-am", "x")
    assert hooked.seen() == [(1, ["part.txt"])], hooked.errors.read_text()


@pytest.mark.parametrize("by", ["options", "variables"])
@pytest.mark.parametrize("place", ["home/.dotfiles", "elsewhere/dotfiles.git"])
def test_the_repository_of_dotfiles(tmp_path: Path, hooked: Hooked, by: str, place: str) -> None:
    folder, git_folder = tmp_path / "home", tmp_path / place
    git_folder.parent.mkdir(exist_ok=True)
    repo.git(tmp_path, "init", "-q", "--bare", str(git_folder))
    if by == "variables":
        hooked.env |= {"GIT_DIR": str(git_folder), "GIT_WORK_TREE": str(folder)}
    named = () if by == "variables" else (f"--git-dir={git_folder}", f"--work-tree={folder}")
    repo.write(folder, {"rc.py": GOOD})
    assert hooked.git(folder, *named, "add", "rc.py") and hooked.git(folder, *named, "commit", "-m", "x")
    hooked.install(git_folder)
    repo.write(folder, {"rc.py": BAD})
    assert not hooked.git(folder, *named, "commit", "-am", "x")
    assert hooked.seen() == [(1, ["rc.py"])], hooked.errors.read_text()


@pytest.mark.parametrize("linked", [False, True])
def test_a_push_is_reviewed_before_it_leaves(tmp_path: Path, work: Path, server: ModelServer, linked: bool) -> None:
    repo.git(tmp_path, "clone", "-q", "--bare", str(work), "remote.git")
    repo.git(work, "remote", "add", "origin", str(tmp_path / "remote.git"))
    repo.git(work, "fetch", "-q", "origin")
    hooked = Hooked(tmp_path, server, "--base origin/main")
    hooked.install(work / ".git", "pre-push")
    folder = work
    if linked:
        folder = tmp_path / "linked"
        repo.git(work, "worktree", "add", "-q", "-b", "side", str(folder))
    repo.commit(folder, {"b.py": BAD})
    assert not hooked.git(folder, "push", "origin", "HEAD")
    assert hooked.seen() == [(1, ["b.py"])], hooked.errors.read_text()


@pytest.mark.parametrize("hook", ["pre-receive", "update"])
@pytest.mark.parametrize("bare", [True, False])
def test_a_push_is_reviewed_where_it_arrives(
    tmp_path: Path, work: Path, server: ModelServer, hook: str, bare: bool
) -> None:
    """Until `pre-receive` agrees, the objects are in a separate folder."""
    remote = tmp_path / "remote"
    repo.git(tmp_path, "clone", "-q", *(["--bare"] if bare else []), str(work), str(remote))
    words = '"$old..$new"'
    hooked = Hooked(tmp_path, server, words)
    given = "read old new ref\n" if hook == "pre-receive" else "old=$2 new=$3\n"
    hooked.script = hooked.script.replace("#!/bin/sh\n", f"#!/bin/sh\n{given}")
    hooked.install(remote if bare else remote / ".git", hook)
    repo.git(remote, "config", "receive.denyCurrentBranch", "ignore")
    repo.commit(work, {"b.py": BAD})
    assert not hooked.git(work, "push", str(remote), "main")
    assert hooked.seen() == [(1, ["b.py"])], hooked.errors.read_text()
    repo.commit(work, {"b.py": GOOD + "y = 1\n"})
    assert hooked.git(work, "push", str(remote), "main")
    assert hooked.seen()[1:] == [(0, ["b.py"])], hooked.errors.read_text()


@pytest.mark.parametrize("words", [("--staged",), ("--uncommitted",), ("HEAD",)])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_INDEX_FILE", "../other-index"),
        ("GIT_INDEX_FILE", "index"),
        ("GIT_INDEX_FILE", ""),
        ("GIT_INDEX_FILE", ".git/link"),
        ("GIT_DIR", "../other/.git"),
        ("GIT_DIR", "nowhere"),
        ("GIT_DIR", ""),
        ("GIT_WORK_TREE", "../other"),
        ("GIT_WORK_TREE", ""),
        ("GIT_COMMON_DIR", "../other/.git"),
        ("GIT_OBJECT_DIRECTORY", "../other/.git/objects"),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "../other/.git/objects"),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", '".git/objects"'),
        ("GIT_SHALLOW_FILE", "x"),
        ("GIT_GRAFT_FILE", "x"),
        ("GIT_REPLACE_REF_BASE", "refs/x/"),
    ],
)
def test_what_leads_elsewhere_is_never_set_aside_in_silence(
    tmp_path: Path, work: Path, server: ModelServer, words: tuple[str, ...], name: str, value: str
) -> None:
    repo.plain(tmp_path / "other")
    if value == ".git/link":
        (work / value).symlink_to(tmp_path / "other-index")
    (work / "index").write_bytes((work / ".git" / "index").read_bytes())
    done = review(server, work, *words, env={name: value})
    assert (done.exit, done.out) == (2, "")
    assert name in done.err and len(done.err.splitlines()) == 1
    assert not server.requests


def test_variables_that_name_what_is_there_change_nothing(work: Path, server: ModelServer) -> None:
    repo.write(work, {"b.py": BAD})
    repo.git(work, "add", "-A")
    names = {
        "GIT_DIR": ".git", "GIT_WORK_TREE": ".", "GIT_COMMON_DIR": f"{work}/.git", "GIT_INDEX_FILE": ".git/index",
        "GIT_OBJECT_DIRECTORY": ".git/objects", "GIT_ALTERNATE_OBJECT_DIRECTORIES": f"{work}/.git/objects",
    }  # fmt: skip
    done = review(server, work, "--staged", "--no-verify", "--output", "json", env=dict(names))
    assert (done.exit, shown_paths(server.requests[0])) == (1, ["b.py"])
    inner = review(server, work / "sub", "--staged", "--no-verify", "--output", "json", env={"GIT_DIR": "../.git"})
    assert [hunk["path"] for hunk in report(inner)["hunks"]] == ["b.py"]


def test_a_named_repository_stays_hardened(tmp_path: Path, server: ModelServer) -> None:
    """Programs in the configuration of a repository are not started, though GIT_DIR names it."""
    folder, git_folder = tmp_path / "home", tmp_path / "home" / ".dotfiles"
    repo.git(tmp_path, "init", "-q", "--bare", str(git_folder))
    named = (f"--git-dir={git_folder}", f"--work-tree={folder}")
    repo.write(folder, {"rc.py": GOOD, ".gitattributes": "*.py filter=evil diff=evil\n"})
    repo.git(folder, *named, "add", "rc.py", ".gitattributes")
    repo.git(folder, *named, "commit", "-q", "-m", "x")
    trap = f"touch {tmp_path}/canary"
    for key in ("filter.evil.clean", "diff.evil.command", "diff.evil.textconv", "core.fsmonitor"):
        repo.git(folder, *named, "config", key, trap)
    repo.write(folder, {"rc.py": BAD})
    env = {"GIT_DIR": str(git_folder), "GIT_WORK_TREE": str(folder)}
    done = review(server, folder, "--uncommitted", "--no-verify", "rc.py", "--output", "json", env=dict(env))
    assert done.exit == 1 and shown_paths(server.requests[0]) == ["rc.py"]
    assert not (tmp_path / "canary").exists()
    repo.git(folder, *named, "config", "core.worktree", str(tmp_path))
    assert review(server, folder, "--uncommitted", env=dict(env)).exit == 2
    assert os.listdir(git_folder / "objects")
