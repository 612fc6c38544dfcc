"""What changes a shell by a rule makes the rest of it ask; blocks and redirections are read in bash's order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.verdict import Touch


def verdict(workspace: Path, command: str, *allow: str, mode: str = "read-only") -> str:
    return Policy(workspace, mode, allow=allow).judge("bash", [Touch("run", command)]).action


CHANGES = {
    "bash(cd *)": ("cd -", "cd missing", "cd"),
    "bash(cd /etc)": ("cd /etc",),
    "bash(cd ..)": ("cd ..",),
    "bash(cd -P src)": ("cd -P src",),
    "bash(pushd *)": ("pushd src",),
    "bash(pushd /etc)": ("pushd /etc",),
    "bash(popd *)": ("popd",),
    "bash(read *)": ("read PATH < a.txt",),
    "bash(read -r *)": ("read -r x < a.txt",),
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
def test_what_follows_a_changed_shell_asks(workspace: Path, rule: str) -> None:
    for command in CHANGES[rule]:
        for joint in (" && ", "; ", "\n", " || "):
            assert verdict(workspace, f"{command}{joint}cat a.txt", rule) == "ask", command
        assert verdict(workspace, f"{command} && (cat a.txt)", rule) == "ask"
        assert verdict(workspace, f"{command}; make all", rule, "bash(make *)") == "ask"
        assert verdict(workspace, f"{command}; echo x > out", rule, mode="auto-edit") != "allow"
        assert verdict(workspace, f"({command}); cat a.txt", rule) == "allow"
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


def test_blocks_are_judged_by_what_is_in_them(workspace: Path) -> None:
    assert verdict(workspace, 'for f in src/*.py; do wc -l "$f"; done') == "allow"
    assert verdict(workspace, 'for f in .env; do wc -l "$f"; done') == "ask"
    assert verdict(workspace, 'for f in deploy/*; do cat "$f"; done') == "ask"
    assert verdict(workspace, 'for f in a.txt .e; do cat "${f}nv"; done') == "ask"
    assert verdict(workspace, 'for f in a.txt; do f=.env; cat "$f"; done') == "ask"
    assert verdict(workspace, 'for d in src; do cd "$d"; done; cat ../a.txt') == "ask"
    assert verdict(workspace, 'for c in touch; do "$c" x; done') == "ask"
    assert verdict(workspace, "if cd src; then ls; fi; cat ../x") == "ask"
    assert verdict(workspace, 'n=$(cat a.txt); echo "$n"') == "allow"
    assert verdict(workspace, 'n=$(cat .env); echo "$n"') == "ask"
    assert verdict(workspace, "n='/etc/*'; echo $n") == "ask"


def test_a_variable_of_the_environment_is_not_the_scripts_own(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(workspace, 'http_proxy=x; echo "$http_proxy"') == "allow"
    monkeypatch.setenv("http_proxy", "http://proxy:8080")
    assert verdict(workspace, 'http_proxy=x; echo "$http_proxy"') == "ask"
    assert verdict(workspace, "for http_proxy in a b; do ls; done") == "ask"


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
    assert verdict(workspace, command) == "allow"
    monkeypatch.setenv(variable, ".")
    assert verdict(workspace, command) == "ask"


@pytest.mark.parametrize(
    ("command", "action"),
    [
        ("echo x > ./CLAUDE.ma; uniq ./CLAUDE.m*", "ask"),
        ("uniq ./CLAUDE.m* | cat > ./CLAUDE.ma", "ask"),
        ('for f in ./CLAUDE.m*; do uniq "$f" > CLAUDE.ma; done', "ask"),
        ("xxd ./CLAUDE.m? > CLAUDE.ma", "ask"),
        ("uniq ./CLAUDE.m* > out", "allow"),
        ("sort ./*.txt > out.txt", "allow"),
        ("cat *.txt > all.txt; wc -l all.txt", "allow"),
        ("uniq ./CLAUDE.m* > src/CLAUDE.md", "ask"),
    ],
)
def test_a_wildcard_may_stand_for_what_the_script_itself_writes(workspace: Path, command: str, action: str) -> None:
    (workspace / "CLAUDE.md").write_text("rules\n")
    assert verdict(workspace, command, mode="auto-edit") == action


def test_a_search_path_for_folders_counts_where_cd_would_use_it(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDPATH", "/etc")
    for command, action in (("cd src && ls", "ask"), ("cd ./src && ls", "allow"), (f"cd {workspace}/src", "allow")):
        assert Policy(workspace, "read-only").judge("bash", [Touch("run", command)]).action == action, command
