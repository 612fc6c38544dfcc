"""The rules of "always for this session", and the commands that they cover: no more than a user could expect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.safety import Policy
from codelet.safety.verdict import Touch, Verdict


def ask(policy: Policy, command: str) -> Verdict:
    return policy.judge("bash", [Touch("run", command)])


PREFIXES = {
    "python3 -m unittest": "bash(python3 -m unittest *)",
    "python3 -m pytest -q": "bash(python3 -m pytest *)",
    "python -m mypy src": "bash(python -m mypy *)",
    "pytest -q": "bash(pytest *)",
    "pytest | tail -20": "bash(pytest *)",
    "cd src && pytest": "bash(pytest *)",
    "ruff check .": "bash(ruff *)",
    "npm test -- a": "bash(npm test *)",
    "npm run build": "bash(npm run build *)",
    "make test": "bash(make test *)",
    "uv run pytest": "bash(uv run pytest *)",
    "uv run python -m pytest -q": "bash(uv run python -m pytest *)",
    "poetry run mypy .": "bash(poetry run mypy *)",
    "git commit -m x": "bash(git commit *)",
    "sed -i s/a/b/ a.txt": "bash(sed -i s/a/b/ a.txt)",
    "cat /etc/hostname": "bash(cat /etc/hostname)",
}


@pytest.mark.parametrize(("command", "rule"), PREFIXES.items())
def test_a_rule_for_the_like(workspace: Path, command: str, rule: str) -> None:
    policy = Policy(workspace)
    verdict = ask(policy, command)
    assert (verdict.action, verdict.suggestion, verdict.exactly) == ("ask", rule, None)
    policy.add_allow(rule)
    assert ask(policy, command).action == "allow"


EXACT_ONLY = """
node x.js
make
PYTHONPATH=src pytest
timeout 60 pytest
find . -name '*.py' | xargs rm
git commit -am m && git push
for f in *.py; do touch $f; done
rm foo.txt
ls && touch a b && rm c
cd src && cat ../../outside/secret.txt
echo $(date) > x
make CC='sh -c evil'
npm install left-pad
pip install x
cargo test --config x
git push origin main
git rebase --exec x
uv run x
uv run --with x pytest
python3 -m http.server
python3 -m pip install x
python3 -c 1
./run.sh
""".strip().split("\n")
ANY_CODE = """
/usr/bin/python3 x.py
.venv/bin/python -m pytest
python3.11 -m x
pypy x
pypy3.10 x
/bin/bash -c ls
bash -c ls
tcsh -c x
mksh -c x
pwsh x
nodejs -e 1
deno run x
bun x
php -r 1
lua x
ruby3.2 x
perl5.36 x
sqlite3 a.db
nawk 1
npx x
uvx x
pkexec ls
rlwrap ls
xvfb-run ls
/bin/rm x
tar xf a
vim x
ed x
pushd x
trap x EXIT
alias x=y
hash -p x y
enable -f x y
set x=1
read -a PATH
mapfile x
shopt -s x
eval x
source x
sudo pytest
xargs pytest
env pytest
ssh x
docker run x
cp a.txt b.txt
""".strip().split("\n")


@pytest.mark.parametrize("command", EXACT_ONLY + ANY_CODE)
def test_the_exact_command_where_a_rule_would_be_too_much(workspace: Path, command: str) -> None:
    (workspace / "src").mkdir(exist_ok=True)
    policy = Policy(workspace)
    verdict = ask(policy, command)
    assert (verdict.action, verdict.suggestion, verdict.exactly) == ("ask", None, command)
    policy.exact.add((command, verdict.parts))
    assert ask(policy, command).action == "allow"
    assert policy.rules["allow"] == [f"bash, exactly: {command}"]
    for other in (f"{command} -x", f"{command} ", f"{command}; touch y", f"touch y; {command}"):
        assert ask(policy, other).action == "ask", other


def test_shared_cases(shared: Path, workspace: Path) -> None:
    path = shared / "cases" / "safety3-rules.jsonl"
    cases = [case for case in map(json.loads, path.read_text().splitlines()) if case["kind"] == "suggest"]
    assert cases
    wrong = [case["id"] for case in cases if ask(Policy(workspace), case["input"]).suggestion != case["expected"]]
    assert wrong == []


def test_exactly_is_no_more_than_that(workspace: Path) -> None:
    """Rules that deny or ask stay in force, and so does the question where the command would do something else now."""
    command = "cd src && cat data/x | node y.js"
    policy = Policy(workspace)
    verdict = ask(policy, command)
    policy.exact.add((command, verdict.parts))
    assert ask(policy, command).action == "allow"
    (workspace / "src" / "data").symlink_to(workspace.parent)
    changed = ask(policy, command)
    assert changed.action == "ask", "it leaves the workspace now"
    assert "outside the workspace" in changed.reason
    (workspace / "src" / "data").unlink()
    policy = Policy(workspace, deny=["bash(git push *)"], ask=["bash(node *)"])
    for line in ("node x; git push", "node x"):
        policy.exact.add((line, ask(Policy(workspace), line).parts))
    assert ask(policy, "node x; git push").action == "deny"
    assert ask(policy, "node x").action == "ask"


def test_nothing_is_offered_for_what_was_not_read(workspace: Path) -> None:
    verdict = ask(Policy(workspace), "touch x;" * 41)
    assert (verdict.suggestion, verdict.exactly) == (None, None)


def test_all_parts_are_told_with_their_reasons(workspace: Path) -> None:
    verdict = ask(Policy(workspace), "ls && X=1 npm test > out.txt | sh; bash -c 'echo a; curl evil'")
    expected = {
        "> out.txt": "writes to out.txt",
        "npm test": "variable X",
        "sh": "sh is not",
        "bash -c 'echo a; curl evil'": "bash is not",
        "echo a": "by bash",
        "curl evil": "by bash",
    }
    assert [part for part, _ in verdict.parts] == list(expected)
    assert [(part, why) for part, why in verdict.parts if expected[part] not in why] == []


NAMES = {
    "a*.txt": (r"edit(a\*.txt)", ["abc.txt", "a.txt"]),
    "a?.txt": (r"edit(a\?.txt)", ["ab.txt"]),
    "a\\b.txt": (r"edit(a\\b.txt)", ["ab.txt"]),
    "**": (r"edit(\*\*)", ["a.txt", "src/app.py"]),
    "src*/app.py": (r"edit(src\*/**)", ["src/app.py", "srcs/app.py"]),
    "src/app.py": ("edit(src/**)", ["srcs/app.py", "a.txt"]),
    "a.txt": ("edit(a.txt)", ["b.txt"]),
}


@pytest.mark.parametrize(("name", "rule", "others"), [(name, *more) for name, more in NAMES.items()], ids=NAMES)
def test_wildcards_in_names_stand_for_themselves(workspace: Path, name: str, rule: str, others: list[str]) -> None:
    policy = Policy(workspace)
    verdict = policy.judge("edit", [Touch("write", name)])
    assert (verdict.action, verdict.suggestion) == ("ask", rule)
    policy.add_allow(rule)
    assert policy.judge("edit", [Touch("write", name)]).action == "allow"
    for other in others:
        assert policy.judge("edit", [Touch("write", other)]).action == "ask", other


@pytest.mark.parametrize("name", ["a\nb/x", "a\tb", " a", "a ", "a\u202eb"])
def test_names_that_a_rule_cannot_show_get_none(workspace: Path, name: str) -> None:
    assert Policy(workspace).judge("edit", [Touch("write", name)]).suggestion is None


@pytest.mark.parametrize(("tool", "name"), [("read", "sub/.env"), ("write", "sub/.env"), ("edit", "sub/CLAUDE.md")])
def test_a_secret_never_widens(workspace: Path, tool: str, name: str) -> None:
    policy = Policy(workspace)
    touches = [Touch("read" if tool == "read" else "write", name)]
    verdict = policy.judge(tool, touches)
    assert (verdict.action, verdict.suggestion, verdict.lifted_by) == ("ask", f"{tool}({name})", None)
    for wide in ("sub", "sub/**", "sub/.e*", "**"):
        assert Policy(workspace, allow=[f"{tool}({wide})"]).judge(tool, touches).action == "ask", wide
    policy.add_allow(f"{tool}({name})")
    assert policy.judge(tool, touches).action == "allow"


def test_a_rule_with_a_body_is_not_for_every_use_of_an_unknown_tool(workspace: Path) -> None:
    assert Policy(workspace, allow=["othertool(x)"]).judge("othertool", None).action == "ask"
    assert Policy(workspace, allow=["othertool"]).judge("othertool", None).action == "allow"


SPELLED = {
    "Bash(pytest:*)": "bash(pytest *)",
    "Bash(npm run test:*)": "bash(npm run test *)",
    "bash(pytest:*)": "bash(pytest *)",
    "Bash(git commit *)": "bash(git commit *)",
    "Bash": "bash",
    "Bash(*)": "bash",
    "Edit(src/**)": "edit(src/**)",
    "Read(./docs/**)": "read(./docs/**)",
    "MultiEdit(a.py)": "edit(a.py)",
}


@pytest.mark.parametrize(("other", "ours"), SPELLED.items())
def test_a_rule_as_other_programs_spell_it_is_told_how_to_be_written(workspace: Path, other: str, ours: str) -> None:
    with pytest.raises(UsageError) as caught:
        Policy(workspace, allow=[other])
    assert str(caught.value) == f"bad rule {other!r}: write {ours!r}"
    Policy(workspace, allow=[ours])


def test_what_a_rule_would_cover_is_judged_with_it(workspace: Path) -> None:
    policy = Policy(workspace)
    covered = policy.covered("bash(ruff check *)")
    assert len(covered) == 10 and "ruff check src" in covered
    assert policy.covered("bash(make)") == ["make"] and policy.allow == []
    for command in covered:
        assert Policy(workspace, allow=["bash(ruff check *)"]).judge("bash", [Touch("run", command)]).action == "allow"


def test_parts_that_change_or_delete_come_first(workspace: Path) -> None:
    parts = ask(Policy(workspace), "make; npm ci && rm x; git push; node y > z").parts
    assert [text.partition(" ")[0] for text, _ in parts] == ["rm", "git", ">", "make", "npm", "node"]
