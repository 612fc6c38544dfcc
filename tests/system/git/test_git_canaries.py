"""Hostile repositories: codelet runs in each from start to end, and nothing that the repository names is started.

Each trap is sprung by hand afterwards, with plain git, to show that it works: then the canary appears.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.system.git import hardened_argv, run_git
from codelet.system.git.objects import head_of
from codelet.system.git.revisions import pair_of
from tests.support import repo as repositories
from tests.support.program import environment, run
from tests.support.repo import commit, git, write
from tests.support.script import Call, Reply
from tests.support.server import ModelServer

pytestmark = pytest.mark.needs("git")


@dataclass
class Trap:
    """A repository with a trap: its folder, where to start, and the program that leaves the canary."""

    folder: Path
    canary: Path
    start: Path

    @property
    def program(self) -> str:
        """A program beside the repository's files that leaves the canary and passes its input on."""
        path = self.folder / "evil.sh"
        if not path.exists():
            path.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(self.canary))}\nexec cat\n")
            path.chmod(0o755)
        return str(path)

    def config(self, name: str, value: str) -> None:
        git(self.folder, "config", name, value)

    def touch_files(self) -> None:
        """Make git look into every file again: of the same size, changed at another time."""
        for path in self.folder.glob("*.txt"):
            path.write_text("b\n")
            os.utime(path, (1, 1))


def filtered(trap: Trap, part: str = "clean", driver: str = "evil") -> None:
    commit(trap.folder, {".gitattributes": f"*.txt filter={driver}\n", "a.txt": "a\n"})
    trap.config(f"filter.{driver}.{part}", trap.program)
    trap.touch_files()


def fsmonitor(trap: Trap) -> None:
    trap.config("core.fsmonitor", trap.program)


def hook(trap: Trap) -> None:
    path = trap.folder / ".git" / "hooks" / "post-index-change"
    path.parent.mkdir(exist_ok=True)
    path.write_text(Path(trap.program).read_text().replace("exec cat", "exit 0"))
    path.chmod(0o755)
    os.utime(trap.folder / "app.py", (1, 1))


def hooks_path(trap: Trap) -> None:
    hook(trap)
    (trap.folder / ".git" / "hooks").rename(trap.folder / "my-hooks")
    trap.config("core.hooksPath", "my-hooks")


def external_diff(trap: Trap) -> None:
    trap.config("diff.external", trap.program)
    write(trap.folder, {"app.py": "changed\n"})


def textconv(trap: Trap) -> None:
    commit(trap.folder, {".gitattributes": "*.txt diff=evil\n", "a.txt": "a\n"})
    trap.config("diff.evil.textconv", trap.program)
    trap.touch_files()


def signature(trap: Trap) -> None:
    raw = git(trap.folder, "cat-file", "commit", "HEAD")
    head, _, message = raw.partition("\n\n")
    signed = f"{head}\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\n{message}\n"
    (trap.folder / "signed").write_text(signed)
    made = git(trap.folder, "hash-object", "-t", "commit", "-w", "signed")
    git(trap.folder, "update-ref", "HEAD", made)
    trap.config("gpg.program", trap.program)
    trap.config("log.showSignature", "true")


def embedded_bare(trap: Trap) -> None:
    bare = trap.folder / "docs"
    git(trap.folder, "clone", "-q", "--bare", str(trap.folder), str(bare))
    git(bare, "config", "core.bare", "false")
    git(bare, "config", "core.worktree", str(bare))
    write(bare, {".gitattributes": "*.txt filter=evil\n", "a.txt": "a\n"})
    git(bare, "--git-dir=.", "add", ".gitattributes", "a.txt")
    git(bare, "config", "filter.evil.clean", trap.program)
    Trap(bare, trap.canary, bare).touch_files()
    trap.start = bare


def submodule(trap: Trap) -> None:
    part = repositories.plain(trap.folder.parent / "part", {".gitattributes": "*.txt filter=evil\n", "a.txt": "a\n"})
    git(trap.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "part")
    git(trap.folder / "part", "config", "filter.evil.clean", trap.program)
    Trap(trap.folder / "part", trap.canary, trap.folder).touch_files()


def included(trap: Trap) -> None:
    filtered(trap)
    git(trap.folder, "config", "--remove-section", "filter.evil")
    write(trap.folder, {"settings.ini": f'[filter "evil"]\n\tclean = {trap.program}\n'})
    trap.config("include.path", "../settings.ini")


def worktree_settings(trap: Trap) -> None:
    filtered(trap)
    git(trap.folder, "config", "--remove-section", "filter.evil")
    trap.config("extensions.worktreeConfig", "true")
    git(trap.folder, "config", "--worktree", "filter.evil.clean", trap.program)


def common_directory(trap: Trap) -> None:
    filtered(trap)
    store = trap.folder / "store"
    store.mkdir()
    for name in ("objects", "refs", "config", "info"):
        (trap.folder / ".git" / name).rename(store / name)
    (trap.folder / ".git" / "commondir").write_text("../store\n")
    (trap.folder / ".git" / "config").write_text("[core]\n\tbare = false\n")


def git_file(trap: Trap) -> None:
    filtered(trap)
    (trap.folder / ".git").rename(trap.folder / "store")
    (trap.folder / ".git").write_text("gitdir: store\n")


def odd_driver_name(trap: Trap) -> None:
    filtered(trap, driver="a.b=c")


def own_attributes(trap: Trap) -> None:
    commit(trap.folder, {"a.txt": "a\n"})
    write(trap.folder, {".git/info/attributes": "*.txt filter=evil\n"})
    trap.config("filter.evil.clean", trap.program)
    trap.config("filter.evil.required", "true")
    trap.touch_files()


def a_megabyte_of_filters(trap: Trap) -> None:
    filtered(trap)
    lines = "".join(f'[filter "{"x" * 200}{number}"]\n\tclean = cat\n' for number in range(6_000))
    path = trap.folder / ".git" / "config"
    path.write_text(lines + path.read_text())


def promised_objects(trap: Trap) -> None:
    source = repositories.plain(trap.folder.parent / "source", {"a.txt": "a\n"})
    program = trap.program
    git(trap.folder, "fetch", "-q", str(source), "main")
    git(trap.folder, "reset", "-q", "--hard", "FETCH_HEAD")
    trap.config("core.repositoryformatversion", "1")
    trap.config("extensions.partialClone", "origin")
    trap.config("remote.origin.url", str(source))
    trap.config("remote.origin.promisor", "true")
    trap.config("remote.origin.uploadpack", f"sh {program} </dev/null; git-upload-pack")
    for path in (trap.folder / ".git" / "objects").glob("??/*"):
        path.unlink()


def remote_programs(trap: Trap) -> None:
    for name in ("core.sshCommand", "core.pager", "pager.status", "core.editor", "core.askPass", "core.gitProxy"):
        trap.config(name, trap.program)
    trap.config("credential.helper", f"!{trap.program}")
    trap.config("alias.status", f"!{trap.program}")
    trap.config("alias.ls-files", f"!{trap.program}")
    trap.config("alias.evil", f"!{trap.program}")
    trap.config("diff.tool", "evil")
    trap.config("difftool.evil.cmd", trap.program)
    trap.config("merge.evil.driver", trap.program)


TRAPS: dict[str, tuple[Callable[[Trap], None], str]] = {
    "fsmonitor": (fsmonitor, "status"),
    "hook post-index-change": (hook, "status"),
    "hooks in another place": (hooks_path, "status"),
    "filter clean": (filtered, "status"),
    "filter process": (lambda trap: filtered(trap, "process"), "status"),
    "filter smudge": (lambda trap: filtered(trap, "smudge"), "checkout -- a.txt"),
    "filter named oddly": (odd_driver_name, "status"),
    "filter by own attributes": (own_attributes, "status"),
    "filter in an included file": (included, "status"),
    "filter in the worktree's settings": (worktree_settings, "status"),
    "filter behind a megabyte of others": (a_megabyte_of_filters, "status"),
    "filter in a common directory": (common_directory, "status"),
    "filter behind a .git file": (git_file, "status"),
    "diff.external": (external_diff, "diff"),
    "textconv": (textconv, "diff"),
    "signature program": (signature, "log"),
    "embedded bare repository": (embedded_bare, "status"),
    "submodule": (submodule, "status"),
    "promised objects": (promised_objects, "status"),
    "programs for remotes, pager, editor, aliases": (remote_programs, "evil"),
}
CALLS = [
    Call("r", "read", {"path": "."}),
    Call("g", "grep", {"pattern": "hello"}),
    Call("f", "find", {"pattern": "*"}),
    Call("e", "edit", {"path": "app.py", "old": "hello", "new": "bye"}),
]


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    folder = repositories.plain(tmp_path / "repo")
    return Trap(folder, tmp_path / "canary", folder)


@pytest.mark.parametrize("name", TRAPS)
def test_nothing_that_a_repository_names_is_started(name: str, trap: Trap, home: Path):
    set_up, plain = TRAPS[name]
    set_up(trap)
    trap.canary.unlink(missing_ok=True)
    with ModelServer([Reply(calls=CALLS), Reply("ok")]) as server:
        arguments = ["--model", "openai/scripted", "--api-base", server.openai, "--yes"]
        done = run("-p", "go", *arguments, cwd=trap.start, home=home)
        body = server.requests[0].body.decode()
    assert (done.exit, done.out) == (0, "ok\n"), done.err
    assert not trap.canary.exists()
    if name not in ("embedded bare repository", "promised objects", "filter behind a megabyte of others"):
        assert "gitStatus" in body, "the repository is looked at all the same"
    for command in (["status"], ["diff"], ["diff", "HEAD"], ["log", "-p", "-1"], ["show"], ["blame", "app.py"]):
        asyncio.run(run_git(trap.start, *command))
        assert not trap.canary.exists(), command
    kept = (trap.folder / "app.py", trap.folder / "README.md")
    for path in (*kept, *trap.folder.glob("*.txt"), *trap.folder.glob("*/a.txt")):
        if path.exists():
            os.utime(path, (2, 2))  # whatever was refreshed meanwhile, plain git looks again
    clean = environment(home) | {"GIT_AUTHOR_NAME": "x", "GIT_COMMITTER_NAME": "x"}
    subprocess.run(["git", *plain.split()], cwd=trap.start, env=clean, capture_output=True, check=False, timeout=20)
    assert trap.canary.exists(), "the trap itself does not work"


@pytest.mark.parametrize("name", TRAPS)
def test_a_walk_over_the_objects_springs_no_trap(name: str, trap: Trap):
    set_up, _ = TRAPS[name]
    set_up(trap)
    trap.canary.unlink(missing_ok=True)
    with suppress(UsageError):  # some traps have no second commit, some lead elsewhere
        asyncio.run(pair_of(trap.start, "HEAD~1..HEAD"))
    head_of(trap.start)
    assert not trap.canary.exists()


@pytest.mark.parametrize("local", [False, True])
def test_the_users_own_filter_stays_in_force(repo: Path, home: Path, local: bool):
    """As with Git LFS: without the user's filter the file would count as changed."""
    (home / ".gitconfig").write_text(
        '[filter "mine"]\n\tclean = sed s/large/small/\n\tsmudge = cat\n\trequired = true\n'
    )
    commit(repo, {".gitattributes": "*.bin filter=mine\n"})
    write(repo, {"a.bin": "small\n"})
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["add", "a.bin"], [*who, "commit", "-qm", "x"]):
        subprocess.run(["git", *words], env=environment(home), cwd=repo, check=True)
    write(repo, {"a.bin": "large\n"})
    if local:
        git(repo, "config", "filter.other.clean", "false")
    with ModelServer([Reply("ok")]) as server:
        done = run("-p", "go", "--model", "openai/scripted", "--api-base", server.openai, cwd=repo, home=home)
        assert done.exit == 0, done.err
        assert "Working tree: clean" in server.requests[0].body.decode()


async def test_the_users_settings_by_variables_stay_in_force(repo: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "filter.mine.clean")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "sed s/large/small/")
    commit(repo, {".gitattributes": "*.bin filter=mine\n", "a.bin": "small\n"})
    write(repo, {"a.bin": "large\n"})
    for _ in range(2):
        answer = await run_git(repo, "status", "--porcelain")
        assert answer is not None
        assert (answer.exit_code, answer.stdout) == (0, b""), answer.stderr
        git(repo, "config", "filter.other.clean", "false")


def test_the_words_of_a_hardened_command():
    argv = hardened_argv("diff", ["HEAD", "--", "x"])
    assert argv[:3] == ["git", "--no-optional-locks", "--no-pager"]
    assert argv[-3:] == ["HEAD", "--", "x"]
    assert {"--no-ext-diff", "--no-textconv", "--ignore-submodules=all"} <= set(argv)
    assert "core.fsmonitor=false" in argv
