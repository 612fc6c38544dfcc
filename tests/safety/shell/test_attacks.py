"""Ways round the reading of a command that were found by attacking it: each asks now, or does no harm when it runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.paths import why_unread
from codelet.safety.verdict import Touch
from tests.safety.shell.runner import SECRET, Jail
from tests.support.confined import run_confined

pytestmark = pytest.mark.needs("bwrap", "git", "bash", "rg")

PLANT = f"mkdir -p secrets d; echo {SECRET} > secrets/prod.txt; "
TRACKED = "git add -f .env; git commit -qm n; "
WORKTREE = "mkdir -p .git/worktrees/x; echo ../.. > .git/worktrees/x/commondir; cp .git/HEAD .git/worktrees/x/HEAD; "
REBASE = (
    "mkdir .git/rebase-merge; cd .git/rebase-merge; echo pick > git-rebase-todo; echo refs/heads/main > head-name; "
    "git rev-parse HEAD > onto; touch interactive; "
)
URL = f"https://u:{SECRET}@example.org/x"
ADDRESS = f"git config remote.origin.url {URL}"
TOKEN = f"printf 'abc:tok {SECRET}\\n' > .npmrc; git add -f .npmrc; git commit -qm n"

ATTACKS = {
    "awk: a call after a number": ("", """awk 'BEGIN{x=1system("touch PWN")}'"""),
    "printf: a format known only at run time": (
        "mkdir 0; cp pwn 0/cat",
        'printf -- "$(printf %s %n)" PATH; cat a.txt',
    ),
    "strings: options from a file, as a value": ("printf 'x .env' > o", "strings -t @o a.txt"),
    "rg: without a path, in a folder of secrets": (PLANT, "cd secrets && rg CANARY"),
    "rg: -e, without a path, below a folder of secrets": (
        f"{PLANT}mkdir secrets/a; cp secrets/*t secrets/a",
        "cd secrets/a && rg -e CAN",
    ),
    "rg: a copy of a secret file": (f"echo {SECRET} > server.pem.bak", "rg CANARY"),
    "grep -r: a secret in the folder of a folder": (
        f"mkdir -p d/e; echo {SECRET} > d/e/server.pem",
        "grep -r CANARY d",
    ),
    "grep -R: a link to a secret": ("mkdir d; ln -s ../.env d/notes", "grep -R KEY d"),
    "grep -R: a link to a folder of secrets": (f"{PLANT}ln -s ../secrets d/x", "grep -R CANARY d"),
    "a file named -, redirected": ("ln -s ../outside/secret.txt ./-", "cat < -"),
    "a file named -, as operand": ("ln -s ../outside/secret.txt ./-", "column -"),
    "git show: content by its number, summary": ("git add -f .env", "git show --stat :HASH:"),
    "git show: content by its number, no patch": ("git add -f .env", "git show -s :HASH:"),
    "git show: a tag of content": ("git add -f .env; git tag t :HASH:", "git show -s t"),
    "git show: a tag of a tag of content": ("git add -f .env; git tag -m x t :HASH:", "git show t"),
    "git cat-file: a tag of content": ("git add -f .env; git tag -m x t :HASH:", "git cat-file blob t"),
    "git show: all tags": ("git add -f .env; git tag t :HASH:", "git show --tags"),
    "git log -L: a colon that is escaped": (TOKEN, r"git log -L ':[a-z]\:*:.npmrc'"),
    "git log -L: what the file once was": (f"{TRACKED}git mv .env x.txt; git commit -qm m", "git log -L1,1:x.txt"),
    "git grep: a long name": (
        f"echo {SECRET} > id_rsa_of_the_production_server_of_ours; git add -f id_rsa_of*",
        "git grep CANARY",
    ),
    "git grep: a revision with a file's name": (
        f"{TRACKED}git rm -q --cached .env; touch HEAD",
        "git grep CANARY HEAD --",
    ),
    "git rev-list: an option as the value of one that it does not know": ("", "git rev-list -L --output=PWN HEAD"),
    "git config: a password": (f"git config user.password {SECRET}", "git config user.password"),
    "git status: a link for what was done": (f"({REBASE}ln -s ../../.env done)", "git status"),
    "git status: a link for the bisection": ("ln -s ../.env .git/BISECT_START; touch .git/BISECT_LOG", "git status"),
    "git worktree: a link for a folder": (
        f"{WORKTREE}ln -s ../../../.env .git/worktrees/x/gitdir",
        "git worktree list",
    ),
    "git worktree: a link for a lock": (
        f"{WORKTREE}echo /a/.git > .git/worktrees/x/gitdir; ln -s ../../../.env .git/worktrees/x/locked",
        "git worktree list -v",
    ),
    "git log: a link for the references": ("ln -s ../.env .git/packed-refs", "git log --oneline"),
    "git log: a link for the shallow commits": ("ln -s ../.env .git/shallow", "git log"),
    "rg: in git's own folder": (ADDRESS, "cd .git && rg url"),
    "rg: above, in git's own folder": (ADDRESS, "cd .git/info && rg url .."),
    "rg: in a hidden folder": (f"mkdir -p .config/gh; echo {SECRET} > .config/gh/hosts.yml", "cd .config/gh && rg CAN"),
    "the configuration of a submodule": (
        f"{ADDRESS}; mkdir -p .git/modules/s; cp .git/config .git/modules/s",
        "cat .git/modules/s/config",
    ),
    "a copy of git's configuration": (f"{ADDRESS}; cp .git/config .git/config.bak", "cat .git/config.bak"),
    "git config: an address as a branch's remote": (
        f"git config branch.main.remote {URL}",
        "git config branch.main.remote",
    ),
    "git for-each-ref: an address as a remote's name": (
        f"git config branch.main.remote {URL}; git config branch.main.merge refs/heads/main",
        "git for-each-ref --format='%(upstream:remotename)'",
    ),
    "git for-each-ref: an address to push to, as a remote's name": (
        f"git config branch.main.pushRemote {URL}",
        "git for-each-ref --format='%(push:remotename)'",
    ),
    "less: a command behind +": ("", "less '+!touch PWN' a.txt"),
    "find: another program": ("", "find . -name a.txt -exec ./pwn {} +"),
    "a secret's copy": (f"echo {SECRET} > .netrc~", "cat .netrc~"),
    "a harmless name in a folder of secrets": (f"{PLANT}cp secrets/prod.txt secrets/token.py", "cat secrets/token.py"),
}  # fmt: skip


@pytest.fixture
def jail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jail:
    probe = ["bwrap", "--ro-bind", "/", "/", "--unshare-pid", "--unshare-net", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("needs bwrap with the right to make namespaces")
    made = Jail(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    return made


def prepared(jail: Jail, setup: str, command: str) -> str:
    """The command, in a workspace in which the set-up has run; `:HASH:` is the number of the content of .env."""
    identity = {f"GIT_{who}_{what}": "t@x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **identity}
    number = subprocess.run(
        ["git", "hash-object", "--no-filters", ".env"], cwd=jail.workspace, capture_output=True, text=True, check=True
    ).stdout.strip()
    told = ["bash", "-ec", setup.replace(":HASH:", number)]
    subprocess.run(told, cwd=jail.workspace, env=environment, capture_output=True, check=True)
    jail.before = jail.snapshot()
    return command.replace(":HASH:", number)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_asks_or_does_no_harm(jail: Jail, name: str) -> None:
    command = prepared(jail, *ATTACKS[name])
    policy = Policy(jail.workspace, "read-only")
    if policy.judge("bash", [Touch("run", command)], sandboxed=False).action == "allow":
        assert jail.run(command) == [], command
    if policy.judge("bash", [Touch("run", command)]).action == "allow":
        done = run_confined(jail.workspace, command)
        assert SECRET not in done.output and jail.snapshot() == jail.before


HARMLESS = {
    "awk '{print $1}' a.txt": "",
    "awk 'BEGIN{x1systems=2; print x1systems}'": "",
    "printf -- '%s\\n' \"$(cat a.txt)\"": "",
    "cat a.txt | rg one": "",
    "rg --files": "",
    "grep -R one d": "mkdir d; ln -s ../a.txt d/notes",
    "cat a.txt | cat -": "",
    "tree -aL 2": "",
    "tree -L2 src": "",
    "git show -s HEAD~1": "",
    "git show --stat 'HEAD^{/one}' -- a.txt": "",
    "git show -s t": "git tag -m x t",
    "git log -L1,2:a.txt": "",
    "git log -L '/one/,+1:a.txt' HEAD": "",
    "git log -L :main:src/app.py": "",
    "git blame -L '/one/,+1' a.txt": "",
    "git grep one": "",
    "git grep -e -x": "",
    "git log -S one -n 1": "",
    "git grep -e one -- src": "",
    "git grep one -- src": "",
    "git diff -- a.txt": "rm a.txt",
    "git log -p main -- a.txt": "git rm -qf a.txt; git commit -qm n",
    "cd src && paste *": "",
    "git config user.signingkey": "",
    "git config core.bare": "",
    "cd .github && rg one": "mkdir .github; echo one > .github/a.txt",
    "cat .git/HEAD": "",
    "git status": "ln -s a.txt link; mkdir -p .git/hooks; ln -s ../../pwn .git/hooks/pre-commit",
    "less -N a.txt": "",
    "find . -name '*.txt' -exec wc -l {} +": "",
    "find src -type f -exec wc -lc {} \\;": "",
    "cat .env.example": "echo KEY= > .env.example",
}


@pytest.mark.parametrize("command", HARMLESS)
def test_what_is_near_to_it_runs_unasked(jail: Jail, command: str) -> None:
    command = prepared(jail, HARMLESS[command], command)
    policy = Policy(jail.workspace, "read-only")
    verdict = policy.judge("bash", [Touch("run", command)])
    assert verdict.action == "allow", verdict.reason
    assert SECRET not in run_confined(jail.workspace, command).output and jail.snapshot() == jail.before


def test_an_option_of_tree_may_stand_in_the_value_of_another(jail: Jail) -> None:
    for command in ("tree -Io x PWN", "tree -L2o PWN", "tree -aPo x PWN"):
        assert Policy(jail.workspace, "read-only").judge("bash", [Touch("run", command)]).action == "ask", command


OWN = {"cat a.txt": "cat", "find . -name a.txt -exec wc -l {} +": "wc"}


@pytest.mark.parametrize("command", OWN)
def test_a_program_that_comes_into_a_folder_of_path_is_seen_at_once(
    jail: Jail, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{jail.workspace}/bin:{os.environ['PATH']}")
    policy = Policy(jail.workspace, "read-only")
    assert policy.judge("bash", [Touch("run", command)]).action == "allow"
    place = jail.workspace / "bin" / OWN[command]
    place.parent.mkdir()
    place.write_text("#!/bin/sh\ntouch PWN\n")
    place.chmod(0o755)
    assert policy.judge("bash", [Touch("run", command)]).reason.startswith(f"{OWN[command]} ")


@pytest.mark.parametrize(
    "name",
    [
        ".dev.vars", "my-service-account.json", "terraform.tfstate.1700000000.backup", "kubeconfig.yaml",
        "a.auto.tfvars.json",
        "AuthKey_X.p8", ".env~", ".env-prod", ".netrc.bak", "server.pem.orig", ".server.pem.swp", "aws_credentials",
        "new_user_credentials.csv", "firebase-adminsdk-x1.json", "x.keytab", "pip.conf", ".secrets.toml",
        ".config/gh/hosts.yml",
        "rclone.conf", "private_key", ".Renviron", "oauth_token.json", "db-secret.yaml", ".sqlite_history",
        ".ssh/id_rsa.pub",
        "secrets/README.md", "conf/api_key.txt", ".github_token", "secret_key", ".sentryclirc", ".erlang.cookie",
        ".bundle/config", ".kaggle/kaggle.json", "client_secret.txt.bak",
    ],
)  # fmt: skip
def test_a_name_that_speaks_of_a_secret(name: str) -> None:
    assert why_unread(name)


@pytest.mark.parametrize(
    "name",
    ["id_rsa.pub", ".env.example", ".env.example~", "token.py.orig", ".secrets.baseline", "src/env.ts", "history.txt",
     "settings.json", "secret-scan.yml", "package.json", "docs/credentials.md", "hosts.yml", "src/private_key.go",
     "api_key.py", "bundle/config",
     "docs/access_token.md", "github_token.go", "src/client_secret.ts"],
)  # fmt: skip
def test_a_name_that_does_not(name: str) -> None:
    assert why_unread(name) is None
