"""Which repository git reads: linked worktrees and submodules go on, another repository is asked about."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.verdict import Touch
from tests.safety.shell.test_prepare import git, run

pytestmark = pytest.mark.needs("git", "bash")


def repository(folder: Path) -> Path:
    git(folder.parent, "init", "-q", "-b", "main", str(folder))
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


def verdict(workspace: Path, command: str = "git status && git log -p && git diff HEAD") -> str:
    return Policy(workspace, "read-only").judge("bash", [Touch("run", command)]).action


def reason(workspace: Path, command: str = "git status") -> str:
    return Policy(workspace, "read-only").judge("bash", [Touch("run", command)]).reason


def test_a_linked_worktree_goes_on(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "linked"))
    assert verdict(tmp_path / "linked") == "allow"
    (main / ".git" / "worktrees" / "linked" / "gitdir").write_text(f"{tmp_path}/elsewhere/.git\n")
    assert "does not point back" in reason(tmp_path / "linked")


def test_a_submodule_goes_on_as_a_workspace(tmp_path: Path) -> None:
    part, whole = repository(tmp_path / "part"), repository(tmp_path / "whole")
    git(whole, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "part")
    assert (whole / "part" / ".git").is_file()
    assert verdict(whole / "part") == "allow"
    assert verdict(whole) == "allow"
    git(whole / "part", "config", "core.worktree", str(tmp_path / "part"))
    assert "core.worktree" in reason(whole / "part")


def test_a_folder_of_a_repository_goes_on_as_a_workspace(tmp_path: Path) -> None:
    whole = repository(tmp_path / "whole")
    (whole / "sub").mkdir()
    assert verdict(whole / "sub") == "allow"


def test_a_git_folder_that_does_not_point_back_asks(tmp_path: Path) -> None:
    other, workspace = repository(tmp_path / "other"), tmp_path / "workspace"
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {other}/.git\n")
    assert "does not point back" in reason(workspace, "git show HEAD:a.txt")
    (workspace / ".git").write_text("gitdir: ../other/.git\n")
    assert "does not point back" in reason(workspace)


@pytest.mark.parametrize("part", ["objects", "refs", "packed-refs", "logs", "info/exclude", "config"])
def test_a_part_that_is_a_link_to_elsewhere_asks(tmp_path: Path, part: str) -> None:
    other, workspace = repository(tmp_path / "other"), repository(tmp_path / "workspace")
    git(other, "pack-refs", "--all")
    path = workspace / ".git" / part
    if path.exists():
        path.rename(tmp_path / "away")
    path.symlink_to(other / ".git" / part)
    assert "a link that leads out" in reason(workspace)


def test_a_pipe_in_place_of_the_configuration_asks_at_once(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    (workspace / ".git" / "config").unlink()
    os.mkfifo(workspace / ".git" / "config")
    assert "no regular file" in reason(workspace)


def test_a_configuration_that_git_cannot_read_asks(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    with (workspace / ".git" / "config").open("a") as file:
        file.write("[core\n")
    assert reason(workspace) == "git cannot read the repository's configuration"


def test_what_changes_between_two_commands_is_seen(tmp_path: Path) -> None:
    """An answer of git's is kept only while the files that it came from stay as they are."""
    workspace = repository(tmp_path / "workspace")
    os.utime(workspace / ".git" / "config", (1, 1))
    for key, value, expected in (("a.b", "c", "allow"), ("include.path", "../x", "ask"), ("a.b", "d", "ask")):
        git(workspace, "config", key, value)
        assert verdict(workspace, "git status") == expected, key
    git(workspace, "config", "--unset", "include.path")
    assert verdict(workspace, "git status") == "allow"
    git(workspace, "config", "filter.late.clean", "./pwn")
    assert "filter.late.clean=" in Policy(workspace).prepare("git diff")


def test_git_is_asked_again_once_a_file_or_a_variable_that_it_reads_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, log, real = repository(tmp_path / "workspace"), tmp_path / "log", shutil.which("git")
    for name in ("one", "two"):
        shim = tmp_path / name / "git"
        shim.parent.mkdir()
        shim.write_text(f'#!/bin/sh\ncase "$*" in *--list*) echo asked >> {log};; esac\nexec {real} "$@"\n')
        shim.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/one:{os.environ['PATH']}")

    def asked() -> int:
        log.write_text("")
        assert verdict(workspace, "git status") == "allow"
        return len(log.read_text().split())

    settings = tmp_path / "linked" / ".gitconfig"
    settings.parent.mkdir()
    settings.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    assert asked() == 1 == asked(), "what changed just now could change again within the same moment"
    time.sleep(2.1)  # clock: the time of a file's change cannot be set
    assert [asked(), asked()] == [1, 0]
    changes = {"HOME": f"{tmp_path}/home", "XDG_CONFIG_HOME": f"{tmp_path}/settings", "GIT_CONFIG_NOSYSTEM": "1",
               "PATH": f"{tmp_path}/two:{os.environ['PATH']}"}  # fmt: skip
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
        assert [asked(), asked()] == [1, 0], name
    monkeypatch.setenv("EDITOR", "x")
    assert asked() == 0
    monkeypatch.setenv("HOME", str(settings.parent))
    assert [asked(), asked()] == [1, 0]
    settings.write_text("[a]\n\td = e\n")
    assert [asked(), asked()] == [1, 1], "what the link leads to changed just now"
    monkeypatch.setenv("HOME", changes["HOME"])
    files = (workspace / ".git" / "config", tmp_path / "home" / ".gitconfig", tmp_path / "settings" / "git" / "config")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as opened:
            opened.write("[a]\n\tb = c\n")
        assert asked() == 1, file


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE"]
)
def test_a_variable_that_leads_elsewhere_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    other, workspace = repository(tmp_path / "other"), repository(tmp_path / "workspace")
    monkeypatch.setenv(name, str(other / ".git"))
    assert name in reason(workspace)


def test_a_variable_that_names_the_own_repository_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a git hook."""
    workspace = repository(tmp_path / "workspace")
    monkeypatch.setenv("GIT_DIR", str(workspace / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(workspace / ".git" / "index"))
    assert verdict(workspace) == "allow"


@pytest.mark.parametrize("name", ["GIT_OBJECT_DIRECTORY", "GIT_SHALLOW_FILE", "GIT_DIR", "GIT_GRAFT_FILE"])
def test_of_the_files_in_the_own_repository_only_another_index_may_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    workspace = repository(tmp_path / "workspace")
    monkeypatch.setenv(name, str(workspace / ".git" / "other"))
    assert reason(workspace) == f"the variable {name} may lead git to other files than the repository's"
    monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/next-index")
    assert verdict(workspace) == "allow"
    monkeypatch.setenv("GIT_INDEX_FILE", "next-index")
    assert "GIT_INDEX_FILE" in reason(workspace)


def test_outside_a_repository_only_a_diff_of_files_asks(tmp_path: Path) -> None:
    assert reason(tmp_path, "git diff a.txt b.txt") == "git diff of files outside a repository"
    assert verdict(tmp_path, "git status a.txt && git log a.txt") == "allow"


def test_a_variable_that_leads_elsewhere_asks_where_there_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert verdict(tmp_path, "git status") == "allow"
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert "GIT_INDEX_FILE" in reason(tmp_path)


@pytest.mark.parametrize("name", ["GIT_TRACE", "GIT_TRACE_SETUP", "GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF"])
def test_a_trace_is_not_written_by_what_runs_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    workspace = repository(tmp_path / "workspace")
    monkeypatch.setenv(name, str(tmp_path / "trace"))
    policy = Policy(workspace, "read-only")
    assert policy.judge("bash", [Touch("run", "git status")]).action == "allow"
    assert run(workspace, policy.prepare("git status")).returncode == 0
    assert not (tmp_path / "trace").exists()


def test_only_a_range_diff_asks_where_the_configuration_names_a_text_converter(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    ranges = "git range-diff HEAD...HEAD"
    assert verdict(workspace, ranges) == "allow"
    git(workspace, "config", "diff.x.textconv", "./pwn")
    assert verdict(workspace) == "allow"
    assert reason(workspace, ranges) == "git range-diff runs the text converters that the configuration names"


def test_a_home_in_the_workspace_is_the_repositorys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose HOME is the checkout: its .gitconfig came with the files."""
    workspace = repository(tmp_path / "workspace")
    (workspace / ".gitconfig").write_text('[filter "x"]\n\tclean = ./pwn\n')
    monkeypatch.setenv("HOME", str(workspace))
    assert "filter.x.clean=" in Policy(workspace).prepare("git diff")
    (workspace / ".gitconfig").write_text("[core]\n\texcludesFile = /etc/hostname\n")
    assert "core.excludesfile" in reason(workspace)


def test_a_list_of_revisions_in_the_repository_goes_on(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    (workspace / ".git-blame-ignore-revs").write_text("")
    git(workspace, "config", "blame.ignoreRevsFile", ".git-blame-ignore-revs")
    assert verdict(workspace, "git blame a.txt") == "allow"
    for elsewhere in ("../x", "/etc/hostname", "~/x", ".env", "secrets/x"):
        git(workspace, "config", "blame.ignoreRevsFile", elsewhere)
        assert "blame.ignorerevsfile" in reason(workspace), elsewhere


BORROWED = {
    "plain": ("PLACE\n", None),
    "in quotes": ('"PLACE"\n', None),
    "behind more than is looked at": ("#" * 70_000 + "\nPLACE\n", None),
    "by what is borrowed from": ("../../store\n", "info/alternates"),
    "by a name that ends with a blank": ("../../store \n", None),
}


@pytest.mark.parametrize("name", BORROWED)
def test_objects_of_another_repository_ask_however_they_are_borrowed(tmp_path: Path, name: str) -> None:
    other, workspace = repository(tmp_path / "other"), repository(tmp_path / "workspace")
    text, further = BORROWED[name]
    place = f"{other}/.git/objects"
    (workspace / "store" / "info").mkdir(parents=True)
    (workspace / "store ").symlink_to(place)
    if further:
        (workspace / "store" / further).write_text(f"{place}\n")
    (workspace / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (workspace / ".git" / "objects" / "info" / "alternates").write_text(text.replace("PLACE", place))
    assert "borrows objects" in reason(workspace)


def test_objects_in_the_workspace_may_be_borrowed(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    store = repository(workspace / "store") / ".git" / "objects"
    (workspace / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (workspace / ".git" / "objects" / "info" / "alternates").write_text(f"# of a part\n\n{store}\n")
    assert verdict(workspace) == "allow"


@pytest.mark.parametrize("end", [" ", "\t", "\x1f"])
@pytest.mark.parametrize("pointer", [".git", ".git/commondir"])
def test_a_pointer_is_read_to_its_end(tmp_path: Path, pointer: str, end: str) -> None:
    """git takes blanks at its end for a part of the name, which another folder or a link may bear."""
    other, workspace = repository(tmp_path / "other"), repository(tmp_path / "workspace")
    (workspace / f"store{end}").symlink_to(other / ".git")
    if pointer == ".git":
        (workspace / ".git").rename(workspace / "store")
        (workspace / ".git").write_text(f"gitdir: store{end}\n")
    else:
        repository(workspace / "store")
        (workspace / pointer).write_text(f"../store{end}\n")
    assert str(other / ".git") in reason(workspace)


@pytest.mark.parametrize("part", ["commondir", "HEAD", "index", "packed-refs", "refs/heads/x", "info/attributes"])
def test_a_pipe_in_gits_folder_asks_at_once(tmp_path: Path, part: str) -> None:
    workspace = repository(tmp_path / "workspace")
    (workspace / ".git" / part).unlink(missing_ok=True)
    os.mkfifo(workspace / ".git" / part)
    assert "no regular file" in reason(workspace) or "no whole repository" in reason(workspace)


@pytest.mark.parametrize("part", ["commondir", "objects/info/alternates"])
def test_a_file_of_nothing_but_noughts_is_an_empty_one(tmp_path: Path, part: str) -> None:
    workspace = repository(tmp_path / "workspace")
    (workspace / ".git" / part).parent.mkdir(exist_ok=True)
    (workspace / ".git" / part).write_bytes(bytes(100))
    assert verdict(workspace) in ("allow", "ask")


def test_a_configuration_without_end_asks_at_once(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    with (workspace / ".git" / "config").open("ab") as file:
        file.truncate(2 << 30)
    assert reason(workspace) == "the repository's configuration is too large"


def no_folder(place: Path) -> None:
    place.mkdir()


def without_head(place: Path) -> None:
    git(place.parent, "init", "-q")
    (place / "HEAD").unlink()


def head_of_other_blanks(place: Path) -> None:
    git(place.parent, "init", "-q")
    (place / "HEAD").write_text("ref:\x0brefs/heads/main\n")


def head_behind_a_link(place: Path) -> None:
    git(place.parent, "init", "-q")
    (place / "HEAD").rename(place / "other")
    (place / "HEAD").symlink_to("other")


def without_references(place: Path) -> None:
    git(place.parent, "init", "-q")
    shutil.rmtree(place / "refs")


PASSED_OVER = (no_folder, without_head, head_of_other_blanks, head_behind_a_link, without_references, os.mkfifo)


@pytest.mark.parametrize("make", PASSED_OVER)
def test_what_git_passes_over_is_no_repository(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """git looks further up then, where another repository with another configuration may be."""
    whole = repository(tmp_path / "whole")
    (whole / "sub").mkdir()
    make(whole / "sub" / ".git")
    found = subprocess.run(
        ["git", "rev-parse", "--show-toplevel"], cwd=whole / "sub", capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == str(whole), "git itself takes the one above"
    assert "no whole repository" in reason(whole / "sub")
    assert verdict(whole, "cd sub && git status") == "ask"
