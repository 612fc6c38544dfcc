"""Commands as they run: hostile repositories do not get to run their code, searches do not reach secrets."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.verdict import Touch

pytestmark = pytest.mark.needs("git", "bash")

COMMANDS = (
    "git status",
    "git status --short",
    "git diff",
    "git diff HEAD~1",
    "git diff --cached --stat",
    "git log -p -2",
    "git log --stat -1",
    "git log -S two -p",
    "git log -m -p",
    "git show HEAD",
    "git show HEAD:a.txt",
    "git blame a.txt",
    "git grep one",
    "git stash list -p",
    "git stash show",
    "git stash show -p",
    "git stash show -w",
    "git stash show --name-only",
    "git reflog -p",
    "git reflog HEAD -p",
    "git reflog show -p HEAD",
    "git rev-list --all --oneline",
    "git shortlog -s HEAD",
    "git ls-files -m",
    "git branch -vv",
    "git describe --always",
    "git log --format=%h | head -3",
    "cd sub && git status && git diff",
    "git log -1 --pretty=oneline",
)


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def configure(repo: Path, *settings: str) -> None:
    for setting in settings:
        key, _, value = setting.partition("=")
        git(repo, "config", key, value)


def submodule(repo: Path, payload: str) -> None:
    inner = repo / "mod"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "x").write_text("x")
    git(inner, "add", "x")
    git(inner, "commit", "-qm", "x")
    git(repo, "add", "mod")
    git(repo, "commit", "-qm", "submodule")
    configure(inner, f"core.fsmonitor={payload}", f"filter.f.clean={payload}", f"diff.external={payload}")
    (inner / ".gitattributes").write_text("* filter=f diff=f\n")
    (inner / "x").write_text("changed")


def attribute(line: str, *settings: str) -> Callable[[Path, str], None]:
    def set_up(repo: Path, payload: str) -> None:
        (repo / ".gitattributes").write_text(line + "\n")
        configure(repo, *(setting.replace("PAYLOAD", payload) for setting in settings))

    return set_up


def plain(*settings: str) -> Callable[[Path, str], None]:
    return lambda repo, payload: configure(repo, *(setting.replace("PAYLOAD", payload) for setting in settings))


def hooks(repo: Path, payload: str) -> None:
    folder = repo / ".hooks"
    folder.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "query-watchman"):
        (folder / name).write_text(f"#!/bin/sh\n{payload}\n")
        (folder / name).chmod(0o755)
    configure(repo, f"core.hooksPath={folder}", f"core.fsmonitor={folder}/query-watchman")


def promisor(repo: Path, payload: str) -> None:
    configure(
        repo,
        "core.repositoryFormatVersion=1",
        "extensions.partialClone=origin",
        f"remote.origin.url=ext::{payload}",
        "remote.origin.promisor=true",
        "protocol.ext.allow=always",
    )
    blob = subprocess.run(
        ["git", "-C", str(repo), "rev-parse", "HEAD:a.txt"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


SET_UPS: dict[str, Callable[[Path, str], None]] = {
    "fsmonitor": plain("core.fsmonitor=PAYLOAD"),
    "hooks": hooks,
    "external diff": plain("diff.external=PAYLOAD"),
    "diff driver": attribute("* diff=d", "diff.d.command=PAYLOAD"),
    "text converter": attribute("* diff=d", "diff.d.textconv=PAYLOAD"),
    "clean filter": attribute("* filter=f", "filter.f.clean=PAYLOAD", "filter.f.required=true"),
    "smudge filter": attribute("* filter=f", "filter.f.smudge=PAYLOAD"),
    "process filter": attribute("* filter=f", "filter.f.process=PAYLOAD"),
    "filter with a point and a blank": attribute("* filter=f.g", "filter.f.g.clean=PAYLOAD"),
    "pager": plain("core.pager=PAYLOAD", "pager.log=PAYLOAD", "pager.status=PAYLOAD", "pager.diff=PAYLOAD"),
    "signature program": plain("log.showSignature=true", "gpg.program=PAYLOAD", "format.pretty=%h %G?"),
    "ssh signature": plain("log.showSignature=true", "gpg.format=ssh", "gpg.ssh.program=PAYLOAD"),
    "alias": plain("alias.status=!PAYLOAD", "alias.log=!PAYLOAD"),
    "submodule": submodule,
    "submodule log": lambda repo, payload: (
        submodule(repo, payload),
        configure(repo, "diff.submodule=diff", "status.submoduleSummary=true", "submodule.recurse=true"),
    )[0],
    "remerge": lambda repo, payload: attribute("* merge=m", "merge.m.driver=PAYLOAD", "log.diffMerges=remerge")(
        repo, payload
    ),
    "missing objects": promisor,
    "editor and others": plain("core.editor=PAYLOAD", "core.sshCommand=PAYLOAD", "core.askPass=PAYLOAD"),
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A repository with two commits, a merge, a stash, a change, and a folder."""
    folder = tmp_path / "repo"
    (folder / "sub").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for text in ("one\n", "one\ntwo\n"):
        (folder / "a.txt").write_text(text)
        (folder / "sub" / "b.txt").write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", text.strip().replace("\n", " "))
    git(folder, "checkout", "-qb", "other", "HEAD~1")
    (folder / "a.txt").write_text("zero\none\n")
    git(folder, "commit", "-qam", "other")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "-m", "merge", "-X", "ours", "other")
    (folder / "a.txt").write_text("stashed\n")
    git(folder, "stash", "-q")
    (folder / "a.txt").write_text("changed\n")
    return folder


def run(workspace: Path, command: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    """Run it in a session of its own, so that nothing of it stays behind where its time is up."""
    environment = os.environ | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    arguments = ["bash", "-c", command]
    with subprocess.Popen(
        arguments,
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            output, told = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(arguments, child.returncode, output, told)


def without_clock(text: str) -> str:
    """`git blame` dates a change that is not committed with the time of the call."""
    return re.sub(r"(Not Committed Yet) [\d:+ -]+", r"\1 ", text)


@pytest.mark.parametrize("set_up", SET_UPS)
def test_no_hostile_repository_runs_its_code(hostile: Path, tmp_path: Path, set_up: str) -> None:
    canary = tmp_path / "canary"
    payload = tmp_path / "payload"
    payload.write_text(f'#!/bin/sh\necho ran >> {canary}\nexec cat -- "$@"\n')
    payload.chmod(0o755)
    SET_UPS[set_up](hostile, str(payload))
    policy = Policy(hostile, "read-only")
    ran = []
    for command in COMMANDS:
        verdict = policy.judge("bash", [Touch("run", command)])
        if verdict.action == "allow":
            ran.append(command)
            run(hostile, policy.prepare(command))
            assert not canary.exists(), command
    assert len(ran) > 15
    # The set-up is real: what is not prepared does run the payload, by one of these or by a plain merge.
    for command in ran:
        if not canary.exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                run(hostile, command, timeout=3)
    inert = ("smudge filter", "editor and others", "alias", "pager", "ssh signature", "signature program", "remerge")
    assert canary.exists() or set_up in inert


def test_prepared_commands_answer_as_plain_ones_do(hostile: Path) -> None:
    policy = Policy(hostile, "read-only")
    for command in COMMANDS:
        if policy.judge("bash", [Touch("run", command)]).action == "allow":
            plain_answer, answer = run(hostile, command), run(hostile, policy.prepare(command))
            assert answer.returncode == plain_answer.returncode, command
            assert without_clock(answer.stdout) == without_clock(plain_answer.stdout), command
            assert answer.stderr == plain_answer.stderr


def test_only_reading_git_commands_are_changed(hostile: Path) -> None:
    policy = Policy(hostile)
    for command in ("ls -la", "echo git status", "git commit -m 'git status'", "echo 'git diff", "npm test"):
        assert policy.prepare(command) == command
    assert policy.prepare("git commit -m x && git status").startswith("git commit -m x && GIT_")
    assert policy.prepare("echo é; git status | head").startswith("echo é; GIT_")
    assert policy.prepare("LC_ALL=C git log").startswith("LC_ALL=C GIT_")
    # What is not judged may be called anything: only what the parser made no sense of is left as it is.
    looped = "for sparse in a b; do sparse=x; git status; done"
    assert policy.judge("bash", [Touch("run", looped)]).reason == "it sets the variable sparse (and 1 more)"
    assert policy.prepare(looped).startswith("for sparse in a b; do sparse=x; GIT_")
    # A here-document that does not end goes to the end of the command: what looks like git's in it is text.
    for unparsed in ("cat <<E\ngit status\nE2\ngit log", "git log; é ) git status", "git status; if"):
        assert policy.prepare(unparsed) == unparsed


@pytest.mark.parametrize(
    "command",
    [
        "rg planted",
        "rg -g '*' planted",
        "rg -g '.env' planted .",
        "rg -- planted src",
        "rg -ne planted -- src",
        "grep -r planted src",
        "grep -rn -e planted -- src",
        "grep -rn --include='*' planted src",
    ],
)
def test_a_search_leaves_secrets_out(workspace: Path, command: str) -> None:
    if command.startswith("rg") and shutil.which("rg") is None:
        pytest.skip("needs the program rg")
    policy = Policy(workspace, "read-only")
    assert policy.judge("bash", [Touch("run", command)]).action == "allow"
    (workspace / "src" / "plain.txt").write_text("planted\n")
    (workspace / "src" / "server.key").write_text("planted\n")
    (workspace / "src" / ".aws").mkdir()
    (workspace / "src" / ".aws" / "config").write_text("planted\n")
    answer = run(workspace, policy.prepare(command))
    assert "src/plain.txt" in answer.stdout or ".env" in command
    assert "server.key" not in answer.stdout
    assert "id_ed25519" not in answer.stdout
    assert ".env" not in answer.stdout
    assert ".aws" not in answer.stdout


def test_options_stand_before_what_ends_them(workspace: Path) -> None:
    policy = Policy(workspace)
    assert policy.prepare("rg -e -- src").startswith("rg -e -- src '--iglob")
    assert policy.prepare("grep -r -- x src").startswith("grep -r --exclude=")
    assert policy.prepare("grep -r x -- src").endswith(" -- src")
    # `xe` is no `-e`: the `--` behind it is not its value.
    assert policy.prepare("grep -r xe -- src").startswith("grep -r xe --exclude=")


def test_a_sed_is_told_to_do_no_more_only_where_its_text_names_the_option(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    policy, sed = Policy(workspace), tmp_path / "sed"
    assert policy.prepare("sed p a.txt") == "sed p a.txt", "there is none"
    most = 16 * 1024 * 1024
    for text, size, told in (("--sandbox", 9, True), ("--sandbo", 8, False), ("--sandbox", most - 1, True),
                             ("--sandbox", most, False)):  # fmt: skip
        sed.write_text(text)
        sed.chmod(0o755)
        os.truncate(sed, size)
        assert policy.prepare("sed p a.txt") == ("sed --sandbox p a.txt" if told else "sed p a.txt"), (text, size)


def test_a_link_to_itself_in_a_tree_is_no_reason_to_ask_or_to_fail(workspace: Path) -> None:
    (workspace / "src" / "loop").symlink_to("loop")
    command = "grep -R main src"
    assert Policy(workspace).judge("bash", [Touch("run", command)]).action == "allow"
    assert Policy(workspace).prepare(command).startswith(command)


@pytest.mark.parametrize("name", ["a=b", "a\x7fb"])
def test_a_setting_whose_name_cannot_stand_on_a_command_line_is_left_out(workspace: Path, name: str) -> None:
    shutil.rmtree(workspace / ".git")
    git(workspace, "init", "-q")
    git(workspace, "config", f"filter.{name}.clean", "./pwn")
    git(workspace, "config", "filter.other.clean", "./pwn")
    prepared = Policy(workspace).prepare("git diff")
    assert "filter.other.clean=" in prepared and f"filter.{name}" not in prepared
    assert Policy(workspace).judge("bash", [Touch("run", "git diff")]).action == "ask"
