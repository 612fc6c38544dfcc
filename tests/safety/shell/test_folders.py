"""After a command that may change its shell the rest asks; blocks and redirections are read in bash's order."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.sandbox import variables_for_reading
from codelet.safety.verdict import Mode, Touch


def verdict(workspace: Path, command: str, *allow: str, mode: Mode = "read-only", sandboxed: bool = True) -> str:
    return Policy(workspace, mode, allow=allow).judge("bash", [Touch("run", command)], sandboxed=sandboxed).action


CHANGES = {
    "bash(cd *)": ("cd -", "cd missing", "cd"),
    "bash(cd /etc)": ("cd /etc",),
    "bash(cd ..)": ("cd ..",),
    "bash(cd -P src)": ("cd -P src",),
    "bash(pushd *)": ("pushd src",),
    "bash(pushd /etc)": ("pushd /etc",),
    "bash(popd *)": ("popd",),
    "bash(read *)": ("read PATH",),
    "bash(read -r *)": ("read -r X",),
    "bash(printf *)": ("printf -v PATH .",),
    "bash(trap *)": ("trap 'touch PWN' EXIT",),
    "bash(alias cat=sh)": ("alias cat=sh",),
    "bash(hash -p *)": ("hash -p ./evil cat",),
    "bash(enable *)": ("enable -n cat",),
    "bash(set -o *)": ("set -o noglob",),
    "bash(shopt -s *)": ("shopt -s dotglob",),
    "bash(mapfile -C *)": ("mapfile -C evil x",),
    "bash(eval *)": ("eval 'cd src'",),
    "bash(source *)": ("source a.txt",),
    "bash(. *)": (". a.txt",),
    "bash(exec *)": ("exec ls",),
    "bash(command *)": ("command cd src",),
    "bash(command -p cd /etc)": ("command -p cd /etc",),
    "bash(builtin cd /etc)": ("builtin cd /etc",),
    "bash(time *)": ("time cd src",),
    "bash(umask *)": ("umask 0",),
    "bash(test *)": ("test -v 'a[$(cd src)]'",),
}


@pytest.mark.parametrize("rule", CHANGES)
def test_what_follows_a_changed_shell_asks_outside_the_sandbox(workspace: Path, rule: str) -> None:
    for command in CHANGES[rule]:
        for joint in (" && ", "; ", "\n", " || "):
            assert verdict(workspace, f"{command}{joint}cat a.txt", rule, sandboxed=False) == "ask", command
        assert verdict(workspace, f"{command}; make all", rule, "bash(make *)", sandboxed=False) == "ask"
        assert verdict(workspace, f"{command}; make all", rule, "bash(make *)") == "ask"
        assert verdict(workspace, f"{command}; echo x > out", rule, mode="auto-edit") != "allow"
        assert verdict(workspace, f"ls && {command}", rule) == "allow"


def test_a_rule_for_cd_still_serves(workspace: Path) -> None:
    rule = "bash(cd *)"
    assert verdict(workspace, "cd src && cat ../a.txt", rule) == "allow"
    assert verdict(workspace, "cd /etc", rule) == "ask", "it names no place outside"
    assert verdict(workspace, "cd /etc", "bash(cd /etc)") == "allow"
    assert verdict(workspace, "cd src && make all", rule, "bash(make *)") == "allow"
    assert verdict(workspace, "env make; cat a.txt", "bash(env *)") == "allow"


def test_the_shared_rules(shared: Path, workspace: Path) -> None:
    lines = (shared / "cases" / "safety3-rules.jsonl").read_text().splitlines()
    cases = [case for line in lines if (case := json.loads(line))["kind"] == "rule"]
    assert len(cases) >= 5
    assert not [case for case in cases if verdict(workspace, case["input"], *case["allow"]) != case["expected"]]


def test_a_redirection_is_opened_before_the_command_runs(workspace: Path) -> None:
    for command in ("cd src > ../y", "{ cd src; } > ../y", "! cd src > ../y", "ls && { cd src; } > ../y"):
        assert verdict(workspace, command, mode="auto-edit") == "ask"
    assert verdict(workspace, "cd src && cat app.py > ../y", mode="auto-edit") == "allow"
    assert verdict(workspace, "cd src > y", mode="auto-edit") == "allow"


def test_blocks_run_in_the_sandbox_if_all_in_them_is_known(workspace: Path) -> None:
    reads = (
        'for f in src/*.py; do wc -l "$f"; done',
        'for f in deploy/*; do cat "$f"; done',
        "if cd src; then ls; fi",
        'n=$(cat a.txt); echo "$n"',
        "while read -r x; do echo $x; done < a.txt",
        "case a in a) ls;; esac",
        "cat <<E\nx\nE",
    )
    asks = (
        'for c in touch; do "$c" x; done',
        "for f in a; do touch $f; done",
        "n=$(cat .env)",
        "PATH=.; ls",
        "f() { ls; }; f",
        "while true; do make; done",
        "ls &",
        "export A=1",
        "cat < /etc/passwd",
        "x=$(curl evil)",
    )
    for command in (*reads, *asks):
        assert verdict(workspace, command) == ("allow" if command in reads else "ask"), command
        assert verdict(workspace, command, sandboxed=False) == "ask", command


def test_a_variable_of_the_environment_is_not_the_scripts_own(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(workspace, 'http_proxy=x; echo "$http_proxy"') == "allow"
    monkeypatch.setenv("http_proxy", "http://proxy:8080")
    assert verdict(workspace, 'http_proxy=x; echo "$http_proxy"') == "ask"


@pytest.mark.parametrize(
    ("command", "variable"),
    [
        ("java -version", "JAVA_TOOL_OPTIONS"),
        ("javac --version", "JAVA_TOOL_OPTIONS"),
        ("javac --version", "JDK_JAVAC_OPTIONS"),
        ("lua -v", "LUA_INIT"),
        ("lua -v", "LUA_INIT_5_4"),
        ("php --version", "PHPRC"),
        ("php --version", "PHP_INI_SCAN_DIR"),
        ("mypy --version", "PYTHONPATH"),
        ("shasum a.txt", "PERL5LIB"),
        ("shasum -a 256 a.txt", "PERL5OPT"),
    ],
)
def test_a_program_asks_where_the_environment_loads_code(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, command: str, variable: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    assert verdict(workspace, command, sandboxed=False) == "allow"
    monkeypatch.setenv(variable, ".")
    assert verdict(workspace, command, sandboxed=False) == "ask"
    assert variable not in variables_for_reading(os.environ)


def test_a_search_path_for_folders_counts_where_cd_would_use_it(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDPATH", "/etc")
    for command, action in (("cd src && ls", "ask"), ("cd ./src && ls", "allow"), (f"cd {workspace}/src", "allow")):
        assert Policy(workspace, "read-only").judge("bash", [Touch("run", command)]).action == action, command
