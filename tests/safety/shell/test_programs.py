"""Every program of the tables: a permitted use and a refused one."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.shell.programs import READ_ONLY_GIT, READ_ONLY_PROGRAMS, VERSIONS
from codelet.safety.verdict import Touch

HASHES = ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum")

USES: dict[str, tuple[str, str]] = {
    "ls": ("ls -la src", "ls --dired-to=x"),
    "tree": ("tree -L 2 src", "tree -o out"),
    "stat": ("stat -c %s a.txt", "stat -L --frobnicate a.txt"),
    "du": ("du -sh src", "du --files0-from=a.txt"),
    "df": ("df -h", "df --sync"),
    "basename": ("basename src/app.py .py", "basename --help-me x"),
    "dirname": ("dirname src/app.py", "dirname -x y"),
    "realpath": ("realpath src", "realpath /etc"),
    "readlink": ("readlink -f a.txt", "readlink /etc/mtab"),
    "find": ("find . -name '*.py' -type f", "find . -name x -exec rm {} +"),
    "test": ("test -f a.txt", "test -v 'a[$(touch x)]'"),
    "pathchk": ("pathchk -p a.txt", "pathchk --x a"),
    "cat": ("cat -n a.txt", "cat .env"),
    "tac": ("tac a.txt", "tac /etc/passwd"),
    "rev": ("rev a.txt", "rev --file x"),
    "nl": ("nl -ba a.txt", "nl ../x"),
    "head": ("head -n 5 a.txt", "head --pid 1 a.txt"),
    "tail": ("tail -n +5 a.txt", "tail -f a.txt"),
    "less": ("less -N a.txt", "less -o log a.txt"),
    "wc": ("wc -l a.txt", "wc --files0-from=a.txt"),
    "cut": ("cut -d: -f1 a.txt", "cut -f1 /etc/passwd"),
    "paste": ("paste -d, a.txt b.txt", "paste a.txt /etc/passwd"),
    "join": ("join -t: a.txt b.txt", "join a.txt b.txt c.txt"),
    "comm": ("comm -12 a.txt b.txt", "comm a.txt /etc/passwd"),
    "tr": ("tr a-z A-Z", "tr a b c"),
    "expand": ("expand -t 4 a.txt", "expand ../x"),
    "unexpand": ("unexpand -a a.txt", "unexpand ../x"),
    "fold": ("fold -w 80 a.txt", "fold ../x"),
    "fmt": ("fmt -w 80 a.txt", "fmt ../x"),
    "column": ("column -t -s, a.txt", "column --tree x a.txt"),
    "sort": ("sort -k2,2n -t, a.txt", "sort -o out a.txt"),
    "uniq": ("uniq -c a.txt", "uniq a.txt out"),
    "diff": ("diff -u a.txt b.txt", "diff -r src docs"),
    "cmp": ("cmp a.txt b.txt", "cmp a.txt /etc/passwd"),
    "od": ("od -c a.txt", "od /dev/mem"),
    "hexdump": ("hexdump -C a.txt", "hexdump -f format a.txt"),
    "xxd": ("xxd -l 16 a.txt", "xxd -r a.txt out"),
    "strings": ("strings -n 8 a.txt", "strings @a.txt"),
    "base64": ("base64 a.txt", "base64 deploy/id_ed25519"),
    "base32": ("base32 a.txt", "base32 .env"),
    "cksum": ("cksum a.txt", "cksum --check a.txt"),
    "sum": ("sum a.txt", "sum /etc/passwd"),
    **{name: (f"{name} a.txt", f"{name} -c a.txt") for name in HASHES},
    "shasum": ("shasum -a 256 a.txt", "shasum -c a.txt"),
    "file": ("file -b a.txt", "file -m magic a.txt"),
    "grep": ("grep -rn main src", "grep -f a.txt b.txt"),
    "egrep": ("egrep 'a|b' a.txt", "egrep -r x ."),
    "fgrep": ("fgrep '*' a.txt", "fgrep x /etc/passwd"),
    "rg": ("rg -n main src", "rg --pre ./x main"),
    "sed": ("sed -n '1,5p' a.txt", "sed -n 'w out' a.txt"),
    "awk": ("awk '{print $1}' a.txt", "awk '{print > \"out\"}' a.txt"),
    "gawk": ("gawk 'NR > 2' a.txt", "gawk -i inplace '{print}' a.txt"),
    "mawk": ("mawk '{n++} END {print n}' a.txt", "mawk 'BEGIN{system(\"ls\")}'"),
    "jq": ("jq -r .name a.json", "jq -n env"),
    "pwd": ("pwd -P", "pwd x"),
    "whoami": ("whoami", "whoami x"),
    "id": ("id -u", "id -u a b"),
    "groups": ("groups", "groups -x"),
    "logname": ("logname", "logname x"),
    "uname": ("uname -a", "uname x"),
    "arch": ("arch", "arch x"),
    "nproc": ("nproc --all", "nproc x"),
    "hostname": ("hostname", "hostname evil"),
    "tty": ("tty", "tty x"),
    "uptime": ("uptime -p", "uptime x"),
    "free": ("free -h", "free -s 1"),
    "locale": ("locale -a", "locale x"),
    "getconf": ("getconf PAGE_SIZE", "getconf -v a b"),
    "date": ("date +%s", "date -f a.txt"),
    "cal": ("cal -3", "cal --reform x"),
    "which": ("which git", "which --read-alias x"),
    "type": ("type ls", "type -x ls"),
    "command": ("command -v git", "command touch x"),
    "echo": ("echo hello", "echo $SECRET_KEY"),
    "printf": ("printf '%s\\n' x", "printf -v 'a[$(touch x)]' y"),
    "expr": ("expr 1 + 2", "expr $X + 1"),
    "seq": ("seq 1 10", "seq --x 1"),
    "factor": ("factor 12", "factor x"),
    "numfmt": ("numfmt --to=iec 1024", "numfmt --x 1"),
    "true": ("true", "true > out"),
    "false": ("false", "false > out"),
    ":": (": x", ": ${x:=$(touch y)}"),
    "exit": ("exit 1", "exit x"),
}

GIT_USES: dict[str, tuple[str, str]] = {
    "status": ("git status -sb", "git status --ignore-submodules=none"),
    "log": ("git log --oneline -5 -- src", "git log --show-signature"),
    "show": ("git show HEAD:a.txt", "git show HEAD:.env"),
    "shortlog": ("git shortlog -sn HEAD", "git shortlog --output=x"),
    "diff": ("git diff HEAD~1 -- a.txt", "git diff --no-index a.txt /etc/passwd"),
    "blame": ("git blame -L 1,5 a.txt", "git blame --contents x a.txt"),
    "rev-parse": ("git rev-parse --abbrev-ref HEAD", "git rev-parse --parseopt"),
    "rev-list": ("git rev-list --count HEAD", "git rev-list --use-bitmap-index HEAD"),
    "ls-files": ("git ls-files src", "git ls-files --recurse-submodules"),
    "ls-tree": ("git ls-tree -r HEAD", "git ls-tree --x HEAD"),
    "cat-file": ("git cat-file -p HEAD:a.txt", "git cat-file --textconv HEAD:a.txt"),
    "range-diff": ("git range-diff main...HEAD", "git range-diff --notes=x main...HEAD"),
    "describe": ("git describe --tags --always", "git describe --dirty"),
    "name-rev": ("git name-rev HEAD", "git name-rev --stdin"),
    "merge-base": ("git merge-base main other", "git merge-base --x a b"),
    "branch": ("git branch -a", "git branch new"),
    "tag": ("git tag -l 'v*'", "git tag v1"),
    "for-each-ref": ("git for-each-ref --sort=refname", "git for-each-ref --format='%(signature)'"),
    "show-ref": ("git show-ref --tags", "git show-ref --exclude-existing"),
    "symbolic-ref": ("git symbolic-ref HEAD", "git symbolic-ref HEAD refs/heads/x"),
    "reflog": ("git reflog -5", "git reflog expire --all"),
    "stash": ("git stash list", "git stash pop"),
    "remote": ("git remote -v", "git remote show origin"),
    "worktree": ("git worktree list", "git worktree add x"),
    "config": ("git config --get user.name", "git config user.name x"),
    "grep": ("git grep -n main", "git grep -O main"),
    "count-objects": ("git count-objects -v", "git count-objects x"),
    "check-ignore": ("git check-ignore -v a.txt", "git check-ignore --stdin"),
    "check-attr": ("git check-attr -a a.txt", "git check-attr --stdin"),
    "var": ("git var GIT_DEFAULT_BRANCH", "git var GIT_SHELL_PATH"),
    "version": ("git version", "git version x"),
}


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("xxd -c4 a.txt", "allow"),
        ("xxd -cx a.txt", "ask"),
        ("ls --all=x", "ask"),
        ("git log --oneline=x", "ask"),
        ("git log --max-count=1", "allow"),
        ("git --version", "allow"),
        ("git -v", "allow"),
        ("git --version x", "ask"),
        ("git gc", "ask"),
        ("set", "ask"),
        ("set -e", "allow"),
        ("shift", "allow"),
        ("git -C src --version", "allow"),
        ("cat -- --x", "allow"),
        ("cat - --x", "ask"),
        ("cat a.txt --x", "ask"),
        ("nice wc --lines a.txt", "allow"),
    ],
)
def test_an_option_takes_a_value_or_none(workspace: Path, command: str, action: str) -> None:
    assert Policy(workspace, "read-only").judge("bash", [Touch("run", command)]).action == action


@pytest.mark.parametrize(("test", "alone"), [("-name x", "allow"), ("-name", "ask"), ("-print", "allow")])
def test_a_test_of_find_that_takes_a_value_has_one_without_a_sandbox(workspace: Path, test: str, alone: str) -> None:
    policy = Policy(workspace, "read-only")
    assert policy.judge("bash", [Touch("run", f"find . {test}")], sandboxed=False).action == alone
    assert policy.judge("bash", [Touch("run", f"find . {test}")]).action == "allow"


def test_every_program_has_its_two_uses() -> None:
    assert USES.keys() == READ_ONLY_PROGRAMS.keys()
    assert GIT_USES.keys() == READ_ONLY_GIT.keys()


@pytest.mark.parametrize("name", [*USES, *(f"git {command}" for command in GIT_USES)])
def test_one_use_is_permitted_and_one_refused(workspace: Path, name: str) -> None:
    permitted, refused = USES[name] if name in USES else GIT_USES[name.removeprefix("git ")]
    policy = Policy(workspace, "read-only")
    found = policy.judge("bash", [Touch("run", permitted)])
    assert (found.action, found.tier) == ("allow", "read"), found.reason
    assert policy.judge("bash", [Touch("run", refused)], sandboxed=False).action == "ask"
    if name not in _ONLY_IN_THE_SANDBOX:
        assert policy.judge("bash", [Touch("run", refused)]).action == "ask"


_ONLY_IN_THE_SANDBOX = (
    "strings", "egrep", "sed", "awk", "mawk", "jq", "test", "pwd", "type", "echo", "expr", "exit", ":",
                        "git for-each-ref")  # fmt: skip
"""Their effects with these words fail in the sandbox."""


@pytest.mark.parametrize(("name", "option"), sorted(VERSIONS))
def test_a_version_is_asked_for_in_one_way(
    workspace: Path, name: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PYTHONPATH", "PYTHONHOME"):  # with one set it asks
        monkeypatch.delenv(variable, raising=False)
    policy = Policy(workspace, "read-only")
    assert policy.judge("bash", [Touch("run", f"{name} {option}")]).action == "allow"
    assert policy.judge("bash", [Touch("run", f"{name} {option} x")]).action == "ask" or name in READ_ONLY_PROGRAMS


def test_what_a_wrapper_starts_is_judged_as_what_it_is(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def action(command: str, *, sandboxed: bool = True) -> str:
        return Policy(workspace, "read-only").judge("bash", [Touch("run", command)], sandboxed=sandboxed).action

    reads = (
        "timeout 5 cat a.txt",
        "timeout -k 5 5 cat a.txt",
        "time ls",
        "cd src && time head ../a.txt",
        "nice -n 5 wc -l a.txt",
        "find . -name '*.py' -print0 | xargs -0 wc -l",
        "git ls-files '*.py' | xargs -n 20 wc -l",
        "find . | xargs -I X wc -c X",
        "timeout 5 grep -r x src",
        "find . -name '*.py' -exec wc -l {} +",
    )
    for command in reads:
        assert action(command) == "allow", command
        assert action(command, sandboxed=False) == "ask", command
    for command in (
        *(
            "timeout 5 cat .env",
            "time cat /etc/passwd",
            "timeout 5 touch x",
            "time -o x ls",
            "timeout 5",
            "timeout x rm a",
        ),
        *(
            "ls | xargs rm",
            "ls | xargs -I X touch X",
            "ls | xargs -P 4 sh",
            "find src -name x -exec rm {} +",
            "find src -name x -delete",
        ),
        *("nice make", "command touch x", "find . -fprint x", "xargs --arg-file=.env echo", "time time touch x"),
    ):
        assert action(command) == "ask", command
    (workspace / "wc").write_text("#!/bin/sh\n")
    (workspace / "wc").chmod(0o755)
    monkeypatch.setenv("PATH", str(workspace), prepend=":")
    assert {action(command) for command in reads if "wc" in command} == {"ask"}
