"""Reads without a question: no reader shows files that the function for them all withholds."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.context.reminders.instructions import read_instructions
from codelet.errors import ToolError
from codelet.review.commit_files import ChangeSide
from codelet.review.commit_tools import tools_for
from codelet.review.reviewed_change import new_files
from codelet.safety import Policy
from codelet.safety.paths import why_unread
from codelet.safety.sandbox.places import Secrets, seen_places
from codelet.tools.tool import Tool, ToolContext
from tests.safety.conftest import call, toolbox
from tests.support.repo import commit, git, write

CANARY = "CANARY-51c7"
KEPT_BACK = (
    ".env", "deploy/id_ed25519", "secrets/prod.txt", ".config/gh/hosts.yml", ".aws/credentials", "server.pem.bak",
    "d/.docker/config.json",
)  # fmt: skip


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that keeps files with the names of secrets, changed since, and links to them."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "workspace"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    commit(place, {"a.txt": "plain\n"} | dict.fromkeys(KEPT_BACK, f"{CANARY}\n"))
    write(place, dict.fromkeys(KEPT_BACK, f"{CANARY} changed\n"))
    write(place, {"new/.env": f"{CANARY}\n", "note.txt": "plain\n"})
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    commit(other, {"plan.txt": f"{CANARY}\n"})
    links = {"plain": ".env", "folder": "secrets", "gh": ".config/gh", "configured": ".config", "out": "../other"}
    for name, target in links.items():
        (place / name).symlink_to(target)
    return place


@pytest.mark.parametrize("name", KEPT_BACK)
def test_the_function_knows_a_secret_by_its_whole_path(name: str) -> None:
    assert why_unread(name) and why_unread(f"/w/{name}", "/w") and why_unread(f"in/{name}")
    assert why_unread("/elsewhere/a.txt", "/w") and why_unread("/w/a.txt", "/w") is None


FILES = (*KEPT_BACK, "plain", "folder/prod.txt", "gh/hosts.yml", "configured/gh/hosts.yml", "out/plan.txt", "a/../.env")
FOLDERS = (".", ".config", ".config/gh", "gh", "configured", "secrets", "folder", "d", "d/.docker", ".aws", "deploy")


async def test_file_tools_keep_it_back(workspace: Path) -> None:
    box = toolbox(workspace, Policy(workspace, "ask"))
    for path in FILES:
        status, text = await call(box, "read", path=path)
        assert (status, CANARY in text) == ("refused", False), path
    for path in (*FILES, *FOLDERS, "out", ".."):
        _, text = await call(box, "grep", pattern=CANARY[:6], path=path)
        assert CANARY not in text, path
    assert (await call(box, "grep", pattern="plain"))[1].startswith("a.txt:1:plain")


async def test_a_folder_of_secrets_is_searched_once_somebody_said_yes(workspace: Path) -> None:
    box = toolbox(workspace, Policy(workspace, "ask", yes=True))
    for path in ("secrets", "folder"):
        assert CANARY in (await call(box, "grep", pattern=CANARY, path=path))[1], path


COMMANDS = (
    "cat {0}", "grep C {0}", "git diff", "git diff -- {0}", "git log -p", "git show", "git show HEAD:{0}",
    "git stash show -p", "git diff --no-index a.txt {0}", "git cat-file -p HEAD:{0}", "git cat-file blob :{0}",
    "git blame {0}", "git grep C", "git log -L1,1:{0}", "rg C {0}", "cat < {0}", "git diff --word-diff HEAD",
    "find . -type f -exec cat {{}} +",
)  # fmt: skip


async def test_commands_keep_it_back(workspace: Path) -> None:
    git(workspace, "stash")
    git(workspace, "stash", "apply")
    box = toolbox(workspace, Policy(workspace, "ask"))
    for command in dict.fromkeys(one.format(name) for one in COMMANDS for name in (*KEPT_BACK[:4], "plain")):
        _, text = await call(box, "bash", command=command)
        assert CANARY not in text, command
    for command in ("cd .config/gh && git show HEAD:./hosts.yml", "cd .config && grep -rh C", "cd gh && cat *"):
        assert CANARY not in (await call(box, "bash", command=command))[1], command


async def test_a_git_file_that_leads_elsewhere_opens_no_other_repository(workspace: Path, tmp_path: Path) -> None:
    led = tmp_path / "led"
    led.mkdir()
    (led / ".git").write_text(f"gitdir: {tmp_path / 'other' / '.git'}\n")
    box = toolbox(led, Policy(led, "ask"))
    for command in (
        "git show HEAD:plan.txt",
        "git log -p",
        "git diff",
        "git status -v",
        "git cat-file -p HEAD:plan.txt",
    ):
        status, text = await call(box, "bash", command=command)
        assert (status, CANARY in text) == ("refused", False), command
    assert str(tmp_path / "other" / ".git") not in seen_places(str(led), {})
    assert str(workspace / ".git") in seen_places(str(workspace), {})


def test_instructions_import_none_of_it(workspace: Path) -> None:
    names = [name for name in FILES if not name.startswith("a/")]
    (workspace / "CLAUDE.md").write_text("\n".join(f"@{name}" for name in (*names, "note.txt")))
    text = read_instructions(workspace / "CLAUDE.md", workspace, lambda line, text: None)
    assert CANARY not in text and text.endswith("plain")
    (workspace / "CLAUDE.md").unlink()
    (workspace / "CLAUDE.md").symlink_to(".env")
    assert read_instructions(workspace / "CLAUDE.md", workspace, lambda line, text: None) == ""


async def test_reviews_read_none_of_it(workspace: Path) -> None:
    unread_files = {file.path: file.unread for file in await new_files(workspace, ())}
    assert unread_files["new/.env"] and not unread_files["note.txt"]
    head = git(workspace, "rev-parse", "HEAD")
    for tool in tools_for(ChangeSide(workspace, head, is_new=True), None):
        for name in KEPT_BACK:
            assert CANARY not in await _said(tool, name), (tool.name, name)


async def test_no_search_tells_whether_a_secret_matches(workspace: Path) -> None:
    """The answers of `grep`, here and in a review, do not reveal whether a secret matches the pattern."""
    commit(workspace, dict.fromkeys(KEPT_BACK, f"{CANARY}\n" * 40_000))
    box = toolbox(workspace, Policy(workspace, "read-only"))
    for more in ({}, {"glob": ".env"}, {"glob": "**/id_*"}, {"path": "deploy"}, {"around": 3}):
        hit, miss = [await call(box, "grep", pattern=one, **more) for one in (CANARY, "CANARY-no")]
        assert hit == miss, more
        assert hit[0] == "done"
    _, grep = tools_for(ChangeSide(workspace, git(workspace, "rev-parse", "HEAD"), is_new=True), None)
    for path in ("", "*.env", "deploy/*"):
        hit, miss = [
            (await grep.run(ToolContext(Path("/")), lambda _: None, pattern=one, path=path)).text
            for one in (CANARY, "CANARY-no")
        ]
        assert hit == miss, path
        assert str(len(KEPT_BACK) + 1) in hit


async def _said(tool: Tool, name: str) -> str:
    given = {"path": name} if tool.name == "read" else {"pattern": CANARY[:6]}
    try:
        return (await tool.run(ToolContext(Path("/")), lambda _: None, **given)).text
    except ToolError as error:
        return str(error)


def test_the_sandbox_hides_the_same(workspace: Path) -> None:
    hidden = {str(Path(place).relative_to(workspace)) for place in Secrets(str(workspace)).of_workspace()}
    assert hidden == {*KEPT_BACK, "new/.env"}
