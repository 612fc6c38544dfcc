"""New entries of a confined command with names that programs outside obey, and the reach of one in the background."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from codelet.extensions.protected_files import ProtectedFiles
from codelet.extensions.tasks import Tasks
from codelet.loop.toolbox import Safeguards, Toolbox
from codelet.safety import Policy
from codelet.safety.sandbox import Confinement, Sandbox, find_confinement
from codelet.safety.sandbox.places import MadeFile, settle
from codelet.system.process import capture
from codelet.tools import all_tools
from codelet.tools.tool import ToolContext
from tests.safety.conftest import call
from tests.support.program import ROOT
from tests.support.repo import git


async def confined(workspace: Path, way: str = "bubblewrap") -> tuple[Toolbox, Sandbox, Tasks]:
    """The tools in the mode auto, in a sandbox of this way."""
    sandbox = Sandbox(workspace)
    found = await find_confinement(workspace)
    if way == "bubblewrap" and found.way != way:
        pytest.skip(f"needs a working bwrap: {found.detail}")
    if way == "landlock":
        sandbox.found = Confinement("landlock", "")
    tasks = Tasks(sandbox)
    context = ToolContext(workspace, tasks=lambda: tasks)
    box = Toolbox(
        all_tools(), context, Policy(workspace, "auto"), None, Safeguards(sandbox=sandbox),
        [guard for each in (ProtectedFiles(sandbox),) for guard in each.guards],
    )  # fmt: skip
    return box, sandbox, tasks


def names(workspace: Path) -> Sequence[str]:
    return sorted(path.name for path in workspace.iterdir())


def test_what_is_gone_by_then_is_told_too(tmp_path: Path) -> None:
    assert settle(tmp_path / "CLAUDE.md", tmp_path, move=True) == MadeFile("CLAUDE.md")


def test_the_first_free_name_is_taken(tmp_path: Path) -> None:
    for name in ("CLAUDE.md", "aside-1-CLAUDE_md"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "aside-2-CLAUDE_md").symlink_to("absent")
    assert settle(tmp_path / "CLAUDE.md", tmp_path, move=True) == MadeFile("CLAUDE.md", "aside-3-CLAUDE_md")
    assert (tmp_path / "aside-1-CLAUDE_md").read_text() == "aside-1-CLAUDE_md\n"
    assert (tmp_path / "aside-3-CLAUDE_md").read_text() == "CLAUDE.md\n"


def test_a_folder_in_which_programs_are_looked_for_is_not_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ".husky"
    place.mkdir()
    monkeypatch.setenv("PATH", f"/usr/bin:{place}")
    assert settle(place, tmp_path, move=True) == MadeFile(".husky")
    assert place.is_dir()


def test_what_lies_deeper_is_moved_only_where_it_is_obeyed_there(tmp_path: Path) -> None:
    for name in (".github/workflows", "src/.vscode"):
        (tmp_path / name).mkdir(parents=True)
    assert settle(tmp_path / "src/.vscode", tmp_path, move=True) == MadeFile("src/.vscode")
    moved = MadeFile(".github/workflows", ".github/aside-1-workflows")
    assert settle(tmp_path / ".github/workflows", tmp_path, move=True) == moved
    (tmp_path / ".envrc").touch()
    assert settle(tmp_path / ".envrc", tmp_path, move=False) == MadeFile(".envrc")


async def test_what_a_command_made_is_moved_aside_and_told(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("ours\n")
    (tmp_path / "aside-1-envrc").write_text("taken\n")
    box, _, _ = await confined(tmp_path)
    (tmp_path / "act.sh").write_text(
        "mkdir .vscode && echo '{}' > .vscode/tasks.json; echo x > .envrc; mkdir -p .github/workflows; echo a > plain\n"
    )
    status, text = await call(box, "bash", command="sh ./act.sh")
    assert status == "failed"
    assert "aside-2-envrc" in text and "aside-1-vscode" in text
    left = [".github", "CLAUDE.md", "act.sh", "aside-1-envrc", "aside-1-vscode", "aside-2-envrc", "plain"]
    assert names(tmp_path) == left
    assert (tmp_path / "aside-1-vscode" / "tasks.json").read_text() == "{}\n", "nothing is deleted"
    assert (tmp_path / "aside-1-envrc").read_text() == "taken\n" and (tmp_path / "CLAUDE.md").read_text() == "ours\n"
    assert not (tmp_path / ".github" / "workflows").exists()
    assert (await call(box, "bash", command="echo b > plain"))[0] == "done", "it is reported once"


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
async def test_a_link_made_at_such_a_name_is_moved_aside_and_what_it_leads_to_stays(tmp_path: Path, way: str) -> None:
    for inside in ("plain/hooks", "plain/workflows", "mine"):
        (tmp_path / inside).mkdir(parents=True)
    (tmp_path / "plain" / "tasks.json").write_text("{}\n")
    (tmp_path / ".idea").symlink_to("mine")
    (tmp_path / ".zed").symlink_to("mine")
    box, _, _ = await confined(tmp_path, way)
    (tmp_path / "act.sh").write_text(
        "ln -s plain .vscode; ln -s plain .git; ln -s plain .github; ln -s nowhere .envrc; ln -sfn plain .zed\n"
        "mkdir .config; ln -s ../plain .config/fish; ln -s plain harmless\n"
    )
    status, text = await call(box, "bash", command="sh ./act.sh")
    moved = {".config/fish": ".config/aside-1-fish", ".envrc": "aside-1-envrc", ".git": "aside-1-git",
             ".github": "aside-1-github", ".vscode": "aside-1-vscode", ".zed": "aside-1-zed"}  # fmt: skip
    told = ", ".join(f"{name} (moved aside to {aside})" for name, aside in moved.items())
    assert status == "failed" and f"[it made {told}, which" in text
    leads = {name: os.readlink(tmp_path / name) for name in (*moved.values(), ".idea", "harmless")}
    assert leads == {
        ".config/aside-1-fish": "../plain", "aside-1-envrc": "nowhere", "aside-1-git": "plain",
        "aside-1-github": "plain", "aside-1-vscode": "plain", "aside-1-zed": "plain", ".idea": "mine",
        "harmless": "plain",
    }  # fmt: skip
    assert not any(os.path.lexists(tmp_path / name) for name in moved)
    assert names(tmp_path / "plain") == ["hooks", "tasks.json", "workflows"], "what it leads to is not touched"
    assert (await call(box, "bash", command="echo b > plain/more"))[0] == "done", "it is reported once"


async def test_a_folder_that_cannot_be_moved_is_told_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    found = await find_confinement(tmp_path)
    if found.program is None or found.way != "bubblewrap":
        pytest.skip(f"needs a working bwrap: {found.detail}")
    place = tmp_path / ".vscode"
    place.mkdir()
    code = (
        "import sys; from pathlib import Path; from codelet.safety.sandbox.places import settle\n"
        "place = Path(sys.argv[1]); print(settle(place, place.parent, move=True))"
    )
    mounted = (found.program, "--dev-bind", "/", "/", "--tmpfs", str(place))  # a mount cannot be renamed
    done = await capture([*mounted, sys.executable, "-c", code, str(place)], cwd=ROOT, timeout=60.0)
    assert done.stdout.decode() == f"{MadeFile('.vscode')}\n", done.stderr
    assert names(tmp_path) == [".vscode"]


@pytest.mark.needs("git")
async def test_only_beside_others_and_without_a_repository_the_top_cannot_be_written(tmp_path: Path) -> None:
    bare, repository = tmp_path / "bare", tmp_path / "repository"
    for folder in (bare, repository):
        folder.mkdir()
    git(repository, "init", "-q")
    found = await find_confinement(bare)
    if found.way != "bubblewrap":
        pytest.skip(f"needs a working bwrap: {found.detail}")
    for folder, lasting in ((bare, True), (bare, False), (repository, True)):
        sandbox = Sandbox(folder)
        sandbox.found = found
        await capture(sandbox.wrap(f"touch top-{lasting}", os.environ, lasting=lasting), cwd=folder, timeout=60.0)
    assert names(bare) == ["top-False"] and names(repository) == [".git", "top-True"]


async def test_a_link_that_another_command_may_have_made_is_told_and_stays(tmp_path: Path) -> None:
    (tmp_path / "plain" / "workflows").mkdir(parents=True)
    _, sandbox, _ = await confined(tmp_path, "landlock")
    sandbox.wrap("true", os.environ)
    sandbox.hold()
    (tmp_path / ".github").symlink_to("plain")
    assert sandbox.newly_protected() == [MadeFile(".github")], "not what it leads to: that was there before"
    sandbox.wrap("true", os.environ)
    assert sandbox.newly_protected() == [] and os.readlink(tmp_path / ".github") == "plain"
    sandbox.hold()
    for held in (True, False):
        sandbox.release()
        sandbox.wrap("true", os.environ)
        assert sandbox.held and sandbox.newly_protected() == []
        assert sandbox.held is held


async def test_a_repository_and_an_environment_may_be_made_and_are_read_only_from_then_on(tmp_path: Path) -> None:
    box, _, _ = await confined(tmp_path)
    status, text = await call(box, "bash", command="git init -q; mkdir venv; touch venv/pyvenv.cfg")
    assert status == "done" and "made .git, venv," in text and "not write" in text
    for path in (".git/hooks/pre-commit", "venv/x"):
        (tmp_path / "act.sh").write_text(f"echo x > {path}\n")
        assert (await call(box, "bash", command="sh ./act.sh"))[0] == "failed"
        assert not (tmp_path / path).exists()


async def test_what_was_there_before_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / ".envrc").write_text("mine\n")
    box, sandbox, _ = await confined(tmp_path)
    (tmp_path / "act.sh").write_text("echo theirs > .envrc\n")
    assert (await call(box, "bash", command="sh ./act.sh"))[0] == "failed"
    assert (tmp_path / ".envrc").read_text() == "mine\n"
    sandbox.wrap("true", os.environ)
    sandbox.hold()  # with a command in the background the maker is unknown
    (tmp_path / ".mcp.json").write_text("the user's\n")
    assert [(one.name, one.aside) for one in sandbox.newly_protected()] == [(".mcp.json", None)]
    assert (tmp_path / ".mcp.json").exists()


@pytest.mark.parametrize("way", ["bubblewrap", "landlock"])
async def test_a_command_in_the_background_cannot_write_hooks_of_a_repository_made_later(
    tmp_path: Path, way: str
) -> None:
    (tmp_path / "src").mkdir()
    box, _, tasks = await confined(tmp_path, way)
    plant = "echo x > .git/hooks/pre-commit; echo x > src/made; touch top; echo tried; sleep 60"
    waiting = f"while [ ! -d .git/hooks ]; do sleep 0.05; done; {plant}"
    (tmp_path / "act.sh").write_text(waiting)
    _, text = await call(box, "bash", command="sh ./act.sh", background=True)
    assert "its top" in text
    git(tmp_path, "init", "-q")
    try:
        assert "tried" in (await call(box, "bash", command="wait %1 for tried"))[1]
        assert (tmp_path / "src" / "made").exists()
        assert not (tmp_path / ".git" / "hooks" / "pre-commit").exists() and not (tmp_path / "top").exists()
    finally:
        await tasks.close()
