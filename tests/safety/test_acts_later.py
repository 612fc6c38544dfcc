"""Files that act later, on git, CI, agents, editors and builds: protected in both walls, and named after the turn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox, find_confinement
from codelet.safety.sandbox.places import protected_places
from codelet.safety.verdict import Touch
from codelet.system.process import child_environment, run_child
from tests.e2e.conftest import Codelet
from tests.support import repo as repositories
from tests.support.script import Call, Reply

pytestmark = pytest.mark.needs("git")

SETTINGS = {
    "core.hooksPath tools/hooks": "tools/hooks/pre-commit",
    "include.path ../shared.ini": "shared.ini",
    "includeIf.gitdir:/.path ../more.ini": "more.ini",
    "filter.x.clean sh\\ scripts/clean.sh\\ %f": "scripts/clean.sh",
    "core.fsmonitor ./watch": "watch",
    "core.pager bin/pager\\ -R": "bin/pager",
    "alias.go !scripts/go.sh": "scripts/go.sh",
    "diff.x.textconv tools/conv": "tools/conv",
    "merge.x.driver tools/merge\\ %O": "tools/merge",
    "core.sshCommand ./ssh.sh": "ssh.sh",
}


def written(workspace: Path, path: str) -> str:
    return Policy(workspace, "auto-edit").judge("write", [Touch("write", path)]).action


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_gits_configuration_names_is_protected_in_both_walls(tmp_path: Path, setting: str) -> None:
    folder, target = repositories.plain(tmp_path / "repo"), SETTINGS[setting]
    (folder / target).parent.mkdir(parents=True, exist_ok=True)
    (folder / target).write_text("\n")
    assert written(folder, target) == "allow" and str(folder / target) not in protected_places(folder)
    name, _, value = setting.replace("\\ ", " ").partition(" ")
    repositories.git(folder, "config", name, value)
    assert written(folder, target) == "ask"
    places = protected_places(folder)
    assert any(str(folder / target).startswith(place) for place in places if "/.git" not in place)
    assert written(folder, "src/new.py") == "allow" and written(folder, "docs/hooks/x.md") == "allow"
    (folder / target).unlink()
    assert written(folder, target) == "ask", "also before it is there"


@pytest.mark.parametrize(
    "path",
    [
        ".woodpecker.yml", ".cirrus.yml", ".build.yml", ".semaphore/semaphore.yml", ".tekton/x.yaml", "buildspec.yml",
        "lefthook.yaml", "lefthook-local.yml", ".simple-git-hooks.json", "mise.local.toml", ".opencode.json",
        ".qwen/settings.json", "QWEN.md", "crush.json", ".amp/x", ".junie/guidelines.md", ".kilocode/x", ".trae/x",
        ".augment/x", "WARP.md", ".rules", ".lazy.lua", ".gitpod.yml", ".idx/dev.nix", ".cargo/config.toml",
        ".mvn/extensions.xml", ".yarn/releases/yarn.cjs", ".bazelrc", "REVIEW.md", "pkg/.bazelrc", ".helix/config.toml",
        "gradle/wrapper/gradle-wrapper.jar", ".pdbrc", "sub/.nvim.lua",
    ],
)  # fmt: skip
def test_a_name_that_acts_later_asks(workspace: Path, path: str) -> None:
    assert written(workspace, path) == "ask"


async def test_a_repository_that_a_command_makes_and_that_names_programs_is_moved_aside(tmp_path: Path) -> None:
    older = repositories.plain(tmp_path / "older")
    repositories.git(older, "config", "alias.x", "!ls")
    sandbox = Sandbox(tmp_path)
    sandbox.found = await find_confinement(tmp_path)
    if sandbox.found.way != "bubblewrap":
        pytest.skip(f"needs bubblewrap: {sandbox.found.detail}")
    environment = child_environment()
    init = "git init -q {0} && git -C {0} config core.fsmonitor ./x"
    hook = "git init -q hooked && printf x > hooked/.git/hooks/pre-commit"
    for command, made in (
        (init.format("pkg/deep"), ["pkg/deep/.git"]),
        (hook, ["hooked/.git"]),
        ("git init -q plain; git -C older status", []),
        (init.format("."), [".git"]),
    ):
        words = sandbox.wrap(command, environment)
        await run_child(words, cwd=tmp_path, environment=environment, timeout=60, output_limit=1000)
        found = sandbox.newly_protected()
        assert [one.name for one in found] == made, command
        assert all(one.aside and not one.stays for one in found)
        assert not any(os.path.lexists(tmp_path / name) for name in made)
    assert (older / ".git").is_dir() and (tmp_path / "plain" / ".git").is_dir()


def test_what_was_written_unasked_and_runs_later_is_named_after_the_turn(codelet: Codelet) -> None:
    def answer(mode: str) -> str:
        names = {"m": "Makefile", "c": "sub/conftest.py", "p": "plain.py"}
        write = [Call(key, "write", {"path": name, "content": "x\n"}) for key, name in names.items()]
        codelet.server.script = [Reply(calls=write), Reply("done")]
        return codelet("-p", "go", "--mode", mode, "--yes").err

    assert "Makefile, sub/conftest.py" in answer("auto-edit")
