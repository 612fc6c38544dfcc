"""The shell classifier: what reads is allowed, what has an effect asks, what is critical is denied."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from itertools import groupby
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.shell.critical import changes_shell, unwrapped
from codelet.safety.shell.script_parser import read_script
from codelet.safety.verdict import Touch
from tests.safety.shell.runner import SECRET, Jail
from tests.support.case_workspace import lines_of
from tests.support.confined import run_confined
from tests.support.policy_cases import judge_cases, read_cases, workspace_of_cases
from tests.support.repo import git


def verdict(workspace: Path, command: str, **settings: object) -> str:
    settings.setdefault("mode", "read-only")
    return Policy(workspace, **settings).judge("bash", [Touch("run", command)]).action


def test_commands_that_only_read_are_allowed(workspace: Path) -> None:
    policy = Policy(workspace, "read-only")
    judged = {command: policy.judge("bash", [Touch("run", command)]) for command in lines_of("benign.txt")}
    wrong = {command: found.reason for command, found in judged.items() if found.action != "allow"}
    assert not wrong
    assert all(found.tier == "read" for found in judged.values())


def test_commands_with_an_effect_ask(workspace: Path) -> None:
    policy = Policy(workspace, "read-only")
    lines = lines_of("effects.txt")
    judged = {command: policy.judge("bash", [Touch("run", command)], sandboxed=False) for command in lines}
    assert not {command: found.reason for command, found in judged.items() if found.action != "ask"}


@pytest.mark.long
@pytest.mark.needs("bwrap", "git", "bash")
def test_of_the_commands_with_an_effect_none_has_one_in_the_sandbox(tmp_path: Path) -> None:
    jail = Jail(tmp_path)
    allowed = [command for command in lines_of("effects.txt") if verdict(jail.workspace, command) == "allow"]
    plain = [command for command in allowed if "git" not in command]  # the sandbox of these does not depend on them
    each = 'for one; do timeout 1 bash -c "$one" 2>&1 | head -c 20000; done'
    batches = [f"set -- {shlex.join(plain[at : at + 25])}; {each}" for at in range(0, len(plain), 25)]
    for command in (*batches, *(command for command in allowed if "git" in command)):
        assert SECRET not in run_confined(jail.workspace, command).output, command
        assert jail.snapshot() == jail.before, command
    assert len(plain) > 50


UNSEEN = "\r\x07\x0b\x0c\x1b\x7f\x85\u00a0\u00ad\u2003\u200b\u2028\u202e\u3000\ufeff"


@pytest.mark.parametrize("letter", UNSEEN, ids=ascii)
def test_what_a_person_cannot_see_is_asked_about_wherever_it_stands(workspace: Path, letter: str) -> None:
    for command in (f"cat a.txt{letter}", f"echo 'a{letter}b'", f'echo "a{letter}b"', f"ls{letter}src", f"{letter}ls"):
        found = Policy(workspace, "ask").judge("bash", [Touch("run", command)])
        assert found.action == "ask" and "control characters" in found.reason, command


def test_critical_commands_are_denied_whatever_the_rules_say(workspace: Path) -> None:
    policy = Policy(workspace, "auto", allow=["bash", "write", "edit"], yes=True)
    judged = {command: policy.judge("bash", [Touch("run", command)]) for command in lines_of("critical.txt")}
    assert not {command: found.action for command, found in judged.items() if found.action != "deny"}
    assert {found.tier for found in judged.values()} == {"critical"}


def test_commands_that_only_resemble_critical_ones_are_not_denied(workspace: Path) -> None:
    policy = Policy(workspace, "ask")
    judged = {command: policy.judge("bash", [Touch("run", command)]) for command in lines_of("not_critical.txt")}
    assert not {command: found.reason for command, found in judged.items() if found.action == "deny"}


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2"])
def test_a_write_to_the_commands_own_output_is_not_critical_where_ours_is_a_pipe(workspace: Path, name: str) -> None:
    policy = Policy(workspace, "ask")
    number = 1 if name.endswith(("stdout", "1")) else 2
    before, (read, write) = os.dup(number), os.pipe()
    try:
        os.dup2(write, number)
        action = policy.judge("bash", [Touch("run", f"ls > {name}")]).action
    finally:
        os.dup2(before, number)
        for one in (before, read, write):
            os.close(one)
    assert action == "ask"


def test_init_stops_the_machine_by_its_first_word(workspace: Path) -> None:
    policy = Policy(workspace, "ask")
    tiers = {words: policy.judge("bash", [Touch("run", words)]).tier for words in ("init 0 now", "init 6", "init q 0")}
    assert tiers == {"init 0 now": "critical", "init 6": "critical", "init q 0": "execute"}


@pytest.mark.parametrize("kind", ["path", "ansi"])
def test_the_shared_cases(shared: Path, kind: str) -> None:
    cases = [case for case in read_cases(shared / "cases" / "safety.jsonl") if case.kind == kind]
    wrong = [(one.case.id, one.verdict, one.case.expected) for one in judge_cases(cases) if not one.right]
    assert len(cases) >= 20
    assert not wrong


@pytest.mark.parametrize("name", ["safety", "safety2", "safety4"])
def test_of_the_shared_lines_no_unsafe_one_runs_without_a_sandbox_and_no_harmless_one_asks_in_one(
    shared: Path, name: str
) -> None:
    cases = [case for case in read_cases(shared / "cases" / f"{name}.jsonl") if case.kind == "shell"]
    assert len(cases) > 100
    for setup, group in groupby(sorted(cases, key=lambda case: case.setup), lambda case: case.setup):
        with workspace_of_cases() as (workspace, outside):
            environment = os.environ | {"WS": str(workspace), "OUT": str(outside)}
            subprocess.run(["sh", "-c", setup], cwd=workspace, env=environment, check=True, capture_output=True)
            policy = Policy(workspace, "read-only")
            for case in group:
                touches = [Touch("run", case.input)]
                alone, confined = (policy.judge("bash", touches, sandboxed=sandboxed) for sandboxed in (False, True))
                assert alone.action != "allow" or case.expected == "allow", case.id
                assert confined.action == "allow" or case.expected != "allow", case.id
                assert case.expected != "deny" or {alone.action, confined.action} == {"deny"}, case.id


def test_a_verdict_takes_a_millisecond(workspace: Path) -> None:
    policy = Policy(workspace, "read-only")
    policy.judge("bash", [Touch("run", "ls")])
    times = []
    for command in lines_of("benign.txt") + lines_of("effects.txt"):
        start = time.process_time()
        policy.judge("bash", [Touch("run", command)])
        times.append(time.process_time() - start)
    assert sorted(times)[len(times) // 2] < 0.001


@pytest.mark.parametrize(
    "command",
    [
        "echo " + "word " * 2000,
        "ls; " * 2500,
        "cat " + "'a b' " * 1700,
        "echo " + "$(" * 3000,
        "echo " + "x" * 10000,
        "[ " * 5000,
        "echo " + '"' * 10001,
        "{ " * 3000,
        "ls | " * 2000 + "ls",
        "cat " + "a/../" * 2000 + "a.txt",
        "; ".join(f"cd d{number}" for number in range(40)),
        "cat " + "<abcd " * 60 + "$",
        "true || " * 39 + "$",
        "git range-diff a b c\n" * 130,
    ],
)
def test_two_verdicts_on_a_long_command_take_twenty_milliseconds(workspace: Path, command: str) -> None:
    policy = Policy(workspace, "read-only")
    policy.judge("bash", [Touch("run", "ls")])
    times = []
    for _ in range(5):
        start = time.process_time()
        policy.judge("bash", [Touch("run", command)])
        policy.judge("bash", [Touch("run", command)], sandboxed=False)
        times.append(time.process_time() - start)
    assert min(times) < 0.020


def test_what_is_too_long_asks(workspace: Path) -> None:
    assert verdict(workspace, "echo " + "x" * 20_000) == "ask"
    assert verdict(workspace, "true; " * 60) == "ask"
    assert verdict(workspace, "( " * 40 + "ls" + " )" * 40) == "ask"


@pytest.mark.parametrize(
    ("least", "most"),
    [
        ("echo " + "x" * (16_384 - 5), "echo " + "x" * (16_384 - 4)),
        ("echo " + "a$x" * 600, "echo " + "a$x" * 601),
        ("true; " * 39 + "true", "true; " * 40 + "true"),
        ("echo 'a b' " + "c " * 2_990, "echo 'a b' " + "c " * 6_000),
    ],
    ids=["bytes", "signs", "commands", "words"],
)
def test_up_to_its_bounds_a_command_is_read(least: str, most: str) -> None:
    assert not read_script(least).unread
    assert read_script(most).unread and read_script(most).parts


def test_no_text_makes_it_fail(workspace: Path) -> None:
    for command in (
        "cd src\0 && ls",
        "cat src/\0*",
        "\ud800",
        "ls \ud800*",
        "cd \ud800",
        "[",
        "&<<<EOF\n`+",
        "=[",
        "\0",
    ):
        assert verdict(workspace, command) == "ask"


def test_the_current_folder_is_followed(workspace: Path) -> None:
    assert verdict(workspace, "cd src && cat ../a.txt") == "allow"
    assert verdict(workspace, 'cd src && cat < "app.py" && cat ../a.txt') == "allow"
    assert verdict(workspace, "cd src; cat ../a.txt") == "ask"  # if the cd fails, this is outside
    assert verdict(workspace, "cd src && cat ../../x") == "ask"
    assert verdict(workspace, "(cd src) && cat ../x") == "ask"
    assert verdict(workspace, "cd src | cat ../x") == "ask"
    assert verdict(workspace, "cd src || ls && cat ../a.txt") == "ask"
    (workspace / "deep").symlink_to(workspace / "src")
    assert verdict(workspace, "cd deep && ls") == "ask"


def test_words_after_a_redirection_belong_to_the_command_before_it(workspace: Path) -> None:
    for line in ("ls && cat < a.txt {}", "ls | cat < a.txt {}", "! cat 2> /dev/null {}", "cat < a.txt $(ls) {}"):
        assert verdict(workspace, line.format("b.txt")) == "allow", line
        assert verdict(workspace, line.format(".env")) == "ask", line


def test_a_word_with_an_unknown_value_is_no_plain_word(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ("cat {}/a.txt", "cat {}", 'cat "{}"', "for home in $HOME x; do cat {}; done")

    def words() -> list[list[tuple[str, bool, bool]]]:
        last = (list(read_script(line.format(name)).commands)[-1].words for line in lines for name in names)
        return [[(word.text, word.plain, word.splits) for word in each[1:]] for each in last]

    names = ("$HOME", "${HOME}")
    monkeypatch.setenv("HOME", "/home/me")
    assert words() == [[("/home/me/a.txt", True, False)]] * 2 + [[("/home/me", True, False)]] * 6
    (loop,) = list(read_script("for name in .env; do cat $name; done").commands)
    assert [(word.text, word.plain) for word in loop.words] == [("cat", True), (".env", False)], "the body may set it"
    monkeypatch.delenv("HOME")
    assert not any(plain for each in words() for _, plain, _ in each), "not even its empty value is known"


def test_a_redirection_to_a_place_that_is_not_known_asks_in_every_mode(workspace: Path) -> None:
    for mode in ("ask", "auto-edit"):
        assert verdict(workspace, 'echo x > "$out"', mode=mode) == "ask"
    assert verdict(workspace, "echo x > out", mode="auto-edit") == "allow"


def test_git_in_a_repository_among_the_files_asks(workspace: Path) -> None:
    bare = workspace / "emb"
    for name in ("objects", "refs"):
        (bare / name).mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    nested = workspace / "vendor" / "lib"
    (nested / ".git").mkdir(parents=True)
    assert verdict(workspace, "cd emb && git status") == "ask"
    assert verdict(workspace, "cd vendor/lib && git status") == "ask"
    assert verdict(workspace, "cd src && git status") == "allow"


def test_git_grep_asks_where_a_secret_is_tracked(repo: Path) -> None:
    import subprocess

    assert verdict(repo, "git grep x") == "allow"
    (repo / "prod.env").write_text("KEY=1\n")
    subprocess.run(["git", "-C", str(repo), "add", "-f", "prod.env"], check=True)
    assert verdict(repo, "git grep x") == "ask"
    assert verdict(repo, "git grep x README.md") == "allow", "that file alone is searched"
    assert verdict(repo, "git log -S x README.md src.py") == "ask", "the history of more than that file"


def test_a_search_of_the_history_asks_once_any_commit_has_held_a_secret(repo: Path) -> None:
    search = "git log -S x -p"
    assert verdict(repo, search) == "allow"
    git(repo, "config", "log.showRoot", "false")
    git(repo, "checkout", "-q", "--orphan", "first")
    (repo / "id_rsa").write_text("KEY\n")
    git(repo, "add", "-f", "id_rsa")
    git(repo, "commit", "-qm", "the first commit of this branch")
    assert verdict(repo, search) == "ask"
    git(repo, "checkout", "-q", "-f", "main")
    git(repo, "branch", "-q", "-D", "first")
    assert verdict(repo, search) == "allow", "it is asked again when the references have changed"
    tree = git(repo, "write-tree").strip()
    (repo / "id_rsa").write_text("KEY\n")
    git(repo, "add", "-f", "id_rsa")
    commit = git(repo, "commit-tree", "-m", "by no branch", git(repo, "write-tree").strip()).strip()
    git(repo, "read-tree", tree)
    (repo / "id_rsa").unlink()
    assert verdict(repo, search) == "allow"
    git(repo, "update-ref", "refs/kept/other", commit)
    assert verdict(repo, search) == "ask", "a reference alone has changed"
    git(repo, "update-ref", "-d", "refs/kept/other")
    git(repo, "checkout", "-qb", "side")
    git(repo, "commit", "-q", "--allow-empty", "-m", "side")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "--no-commit", "side")
    (repo / ".env").write_text("KEY=1\n")
    git(repo, "add", "-f", ".env")
    git(repo, "commit", "-qm", "a merge that adds a file")
    git(repo, "rm", "-q", ".env")
    git(repo, "commit", "-qm", "removed")
    assert verdict(repo, search) == "ask"


def test_git_remote_asks_where_an_address_holds_a_password(workspace: Path) -> None:
    config = workspace / ".git" / "config"
    plain = config.read_text() + '[remote "origin"]\n\turl = https://{}example.org/x\n'
    config.write_text(plain.format(""))
    assert verdict(workspace, "git remote -v") == "allow"
    assert verdict(workspace, "git config --get remote.origin.url") == "allow"
    for login in ("me:pw@", "x-access-token:abc@", "ghp_abcdefghijklmnopqrstuvwxyz@"):
        config.write_text(plain.format(login))
        assert verdict(workspace, "git remote -v") == "ask"
        assert verdict(workspace, "git remote get-url origin") == "ask"
        assert verdict(workspace, "git config --get remote.origin.url") == "ask"
        assert verdict(workspace, "git remote") == "allow"


def test_a_program_of_the_workspace_asks(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = workspace / "bin" / "wc"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert verdict(workspace, "wc a.txt") == "allow"
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    assert verdict(workspace, "wc a.txt") == "ask"
    for command in ("find . -exec wc {} +", "find . | xargs wc", "xargs wc < a.txt"):
        assert verdict(workspace, command) == "ask", "it starts that program"
    assert verdict(workspace, "find . | xargs dirname") == "allow"
    tool.rename(tool.with_name("grep"))
    alone = Policy(workspace, "read-only").judge("bash", [Touch("run", "egrep x a.txt")], sandboxed=False)
    assert alone.action == "ask" and "grep" in alone.reason, "it starts grep"
    assert verdict(workspace, "wc a.txt") == "allow"
    monkeypatch.setenv("PATH", "bin:/usr/bin:/bin")
    assert verdict(workspace, "wc a.txt") == "ask"


def test_without_a_sandbox_a_search_through_secrets_asks(workspace: Path) -> None:
    def alone(command: str) -> str:
        return Policy(workspace, "read-only").judge("bash", [Touch("run", command)], sandboxed=False).action

    assert (alone("grep -rn main src"), alone("rg main src")) == ("allow", "allow")
    assert (alone("grep -rn main ."), alone("rg main")) == ("ask", "ask")
    assert alone("grep -Rn main src") == "ask", "it follows links"


def test_without_bash_what_only_bash_reads_asks(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = (
        "echo $'\\'; touch PWN #'",
        "cat a.txt &> /dev/null",
        "cat <<< x",
        "cat <(ls)",
        "ls |& cat",
        "ls >& /dev/null",
    )
    assert {verdict(workspace, command) for command in commands} == {"allow"}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {verdict(workspace, command) for command in commands} == {"ask"}
    assert verdict(workspace, "ls 2>&1 | cat") == "allow"


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("", False),
        ("command", False),
        ("time -p", False),
        ("time -p cd x", True),
        ("builtin eval x", True),
        ("ls", False),
    ],
)
def test_commands_that_change_their_shell(words: str, changes: bool) -> None:
    assert changes_shell(words.split()) == changes


def test_of_wrappers_in_one_another_each_command_is_looked_at_once():
    """Their values may be commands too, and lead to the same word in more ways than there are words."""
    words = ["env", "-u", "x", "-i"] * 9 + ["find", "-exec", "rm", "-r", "x", ";"]
    found = list(unwrapped(words))
    assert len(found) <= len(words) and ["rm", "-r", "x", ";"] in found
    assert sorted({len(each) for each in found}) == sorted(len(each) for each in found)
