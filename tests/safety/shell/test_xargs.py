"""`xargs` behind a list of files: which programs run unasked, on whose names, and that no name becomes an option."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from codelet.frontends.commands.policy_cases import Case, workspace_of_cases
from codelet.safety import Policy
from codelet.safety.verdict import Touch
from tests.safety.shell.test_git_effects import REPOSITORY, set_up

pytestmark = pytest.mark.needs("git", "bash")


def action(workspace: Path, command: str) -> str:
    return Policy(workspace, "read-only").judge("bash", [Touch("run", command)]).action


@pytest.mark.parametrize(
    "command",
    [
        "git ls-files '*.py' | xargs wc -l",
        "git -C src ls-files | xargs wc",
        "find . -name '*.py' -print0 | xargs -0 -r wc -l | tail -1",
        "find src -type f 2>/dev/null | grep -v test | sort | xargs wc -l | sort -rn | head -3",
        "rg -l one -t py | xargs -n 20 wc -l",
        "rg --files | head -5 | xargs -I {} basename {}",
        "find . -type f | xargs dirname | sort -u",
        "cd src && find . | xargs wc -l",
        "find . 2>&1 | xargs wc -l < /dev/null",
        "ls <<< one; rg -l '<<<<<<<'; wc -l < a.txt",
    ],
)
def test_numbers_and_names_of_listed_files_run_unasked(workspace: Path, command: str) -> None:
    assert action(workspace, command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "xargs wc -l",
        "xargs wc -l < a.txt",
        "cat a.txt | xargs wc -l",
        "echo /etc/passwd | xargs wc -l",
        "ls | xargs wc -l",
        "find . | xargs cat",
        "find . | xargs rm",
        "find . | xargs sh -c 'wc -l'",
        "find . | xargs",
        "find . | xargs -a names wc -l",
        "find . | xargs wc --files0-from=a.txt",
        "find . | xargs wc -l a.txt",
        "find . | xargs -I X wc X -l",
        "find . | xargs -I X wc -l X/../X",
        "git ls-files | xargs -I - wc -",
        "git ls-files | xargs -I -- wc -l --",
        "git ls-files | xargs -I - -- wc -",
        "rg --files | xargs -I -- wc --",
        "git ls-files | xargs -I '' wc ''",
        "find . | xargs --frobnicate wc",
        "find . | xargs ./wc -l",
        "find . -printf '/etc/%f' | xargs wc -l",
        "find . | sed s/^/x/ | xargs wc -l",
        "find . | grep -o a | xargs wc -l",
        "find . | sort a.txt | xargs wc -l",
        "find . | sort < a.txt | xargs wc -l",
        "find . | xargs wc -c < a.txt",
        "find . | sort | xargs wc -c < a.txt",
        "find . | < a.txt xargs wc -c | sort",
        "(find . | xargs wc -c) < a.txt",
        "find . < a.txt | xargs wc -c",
        "if true; then find . | xargs wc -c; fi < a.txt",
        "find . | xargs wc -c <<< /etc/passwd",
        "find . | sort <<< /etc/passwd | xargs wc -c",
        "find . | sort && find . | sort | xargs wc -c <<< /etc/passwd",
        "find . | xargs wc -l; cat < a.txt",
        "find . | (cat a.txt; ls) | xargs wc -l",
        "(find .; cat a.txt) | xargs wc -l",
        "find $(cat a.txt) | xargs wc -l",
        "rg one | xargs wc -l",
        "rg -l one -r x | xargs wc -l",
        "git ls-files -s | xargs wc -l",
        "git show | xargs wc -l",
        "find /etc | xargs wc -l",
    ],
)
def test_other_programs_and_other_names_ask(workspace: Path, command: str) -> None:
    assert action(workspace, command) == "ask"


@pytest.mark.parametrize("rest", ["-n1 wc -l", "-I X wc -l X", "-n1 wc"])
def test_a_name_never_becomes_an_option(rest: str) -> None:
    with workspace_of_cases() as (workspace, outside):
        setup = "cp .env names; : > ./--files0-from=names; git add -- ./--files0-from=names"
        set_up(Case("c", "shell", "", setup=setup), workspace, outside, REPOSITORY)
        secret = (workspace / ".env").read_text()
        plain = f"git ls-files | xargs {rest}"
        policy = Policy(workspace, "read-only")
        assert policy.judge("bash", [Touch("run", plain)]).action == "allow"
        assert secret.strip() in _output(plain, workspace), "the plain command would print it"
        assert secret.strip() not in _output(policy.prepare(plain), workspace)


def _output(command: str, folder: Path) -> str:
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, env=os.environ, check=False)
    return (done.stdout + done.stderr).decode()
