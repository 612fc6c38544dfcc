"""scripts/ci: its files are valid and give away nothing, and its shell parts run for real on real repositories."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import repo
from tests.support.forges import GitHub
from tests.support.program import ROOT, environment, run
from tests.support.reviewing import Fault, reviewer
from tests.support.server import ModelServer

CI = ROOT / "scripts" / "ci"
SHELL = [CI / "review.sh", CI / "pre-push", CI / "github" / "run.sh", CI / "github" / "install" / "install.sh"]
YAML = sorted(CI.rglob("*.yml"))
WRITES = {"write"}
SHOP = "def place(order):\n    return order\n"
FAULTY = SHOP.replace("    return", "    eval(order)\n    return")


def loaded(path: Path) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load(path.read_text())
    return document


def test_all_files_are_here() -> None:
    assert [path.relative_to(CI).as_posix() for path in YAML] == [
        "github/action.yml",
        "github/install/action.yml",
        "github/workflow.yml",
        "gitlab/review.yml",
    ]


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_no_file_runs_on_a_strangers_change_with_secrets(path: Path) -> None:
    text = path.read_text()
    assert "pull_request_target" not in text
    assert loaded(path)


def steps_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = job["steps"]
    return steps


def test_the_actions_put_no_input_into_a_script() -> None:
    for path in (CI / "github" / "action.yml", CI / "github" / "install" / "action.yml"):
        action = loaded(path)
        assert action["runs"]["using"] == "composite"
        for step in action["runs"]["steps"]:
            assert "uses" in step or ("${{" not in step["run"] and step["shell"] == "bash")
    action = loaded(CI / "github" / "action.yml")
    assert set(action["outputs"]) == {"status", "reports"} and action["inputs"]["model"]["required"]


def test_other_actions_are_pinned_to_commits() -> None:
    for path in YAML:
        for used in re.findall(r"uses: (\S+)", path.read_text()):
            assert used.endswith("@COMMIT") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", used), used


def test_who_may_write_has_no_key_and_no_checkout() -> None:
    workflow = loaded(CI / "github" / "workflow.yml")
    assert workflow["permissions"] == {}
    assert list(workflow[True]) == ["pull_request", "merge_group"]  # `on` is true to YAML 1.1
    assert "concurrency" in workflow
    review = workflow["jobs"].pop("review")
    assert set(review["permissions"].values()) == {"read"}
    assert "head.repo.full_name == github.repository" in review["if"]
    checkout = next(step for step in steps_of(review) if "checkout" in step.get("uses", ""))
    assert checkout["with"]["persist-credentials"] is False
    assert not any("run" in step for step in steps_of(review)), "nothing of the change is run next to the key"
    with_key = [step for step in steps_of(review) if "secrets." in json.dumps(step)]
    assert [step["id"] for step in with_key] == ["review"], "what installs has no key"
    for job in workflow["jobs"].values():
        assert job["needs"] == "review"
        text = json.dumps(job)
        assert "secrets." not in text and "actions/checkout" not in text
        assert all("${{" not in step.get("run", "") for step in steps_of(job))


@pytest.mark.parametrize("result", ["success", "failure", "skipped", "cancelled"])
@pytest.mark.parametrize("status", ["0", "1", "2", "3", "4", "5", ""])
def test_the_gate_passes_only_after_a_whole_review_without_findings(result: str, status: str) -> None:
    gate = loaded(CI / "github" / "workflow.yml")["jobs"]["gate"]
    assert gate["if"] == "always()", "GitHub counts a skipped job as passed"
    (step,) = steps_of(gate)
    assert set(step["env"]) == {"RESULT", "STATUS"}
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], env={"RESULT": result, "STATUS": status}, capture_output=True
    )
    assert (done.returncode == 0) == (result == "success" and status == "0")


def test_only_a_whole_review_reaches_code_scanning() -> None:
    job = loaded(CI / "github" / "workflow.yml")["jobs"]["code-scanning"]
    assert """fromJSON('["0", "1"]'), needs.review.outputs.status""" in job["if"] and "!cancelled()" in job["if"]


def test_a_forks_merge_request_fails_a_job_on_gitlab() -> None:
    jobs = loaded(CI / "gitlab" / "review.yml")
    fork = jobs["codelet-review-fork"]
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID != $CI_MERGE_REQUEST_PROJECT_ID" in fork["rules"][0]["if"]
    assert subprocess.run(["sh", "-e", "-c", "\n".join(fork["script"])], capture_output=True).returncode == 1
    script = jobs["codelet-review"]["script"][0]
    assert "--max-cost" in script and "--timeout" in script


def test_gitlab_reports_are_those_that_the_script_writes() -> None:
    job = loaded(CI / "gitlab" / "review.yml")["codelet-review"]
    script = (CI / "review.sh").read_text()
    for path in job["artifacts"]["reports"].values():
        assert path.removeprefix("codelet-review/") in script
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in job["rules"][0]["if"]


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", *map(str, SHELL)], capture_output=True, text=True)
    assert done.stdout == ""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(reviewer([Fault("eval(")])) as running:
        yield running


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return repo.plain(tmp_path / "work", {"shop.py": SHOP})


@pytest.fixture
def variables(server: ModelServer, tmp_path: Path) -> dict[str, str]:
    """What a pipeline's job has: the program, the model, a home."""
    program = tmp_path / "codelet"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m codelet "$@"\n')
    program.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    model = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
    git = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    return environment(home, {"CODELET": str(program), **model, **git})


def shell(*words: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_the_plain_script_leaves_all_reports(work: Path, variables: dict[str, str]) -> None:
    base = repo.git(work, "rev-parse", "HEAD")
    repo.commit(work, {"shop.py": FAULTY})
    done = shell(str(CI / "review.sh"), f"{base}..HEAD", cwd=work, env=variables)
    assert done.returncode == 1 and "shop.py:2" in done.stdout, done.stderr
    reports = work / "codelet-review"
    assert sorted(path.name for path in reports.iterdir()) == [
        "gl-code-quality-report.json", "review.json", "review.md", "review.rdjson", "review.sarif",
        "review.xml",
    ]  # fmt: skip
    wrong = shell(str(CI / "review.sh"), "nowhere..HEAD", cwd=work, env=variables)
    assert wrong.returncode == 2 and "was not started" in wrong.stderr
    assert list(reports.iterdir()) == [], "the old reports are not taken for this run's"


@pytest.mark.parametrize("dir_", ["codelet-review", "codelet-review/", "./codelet-review", "codelet-review/sub"])
def test_the_plain_script_goes_through_no_link_of_the_change(
    work: Path, variables: dict[str, str], tmp_path: Path, dir_: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    for folder in (outside, outside / "sub"):
        (folder / "review.json").write_text("mine")
    base = repo.git(work, "rev-parse", "HEAD")
    (work / "codelet-review").symlink_to(outside)
    repo.commit(work, {"shop.py": FAULTY})
    done = shell(str(CI / "review.sh"), f"{base}..HEAD", cwd=work, env=variables | {"REVIEW_DIR": dir_})
    assert done.returncode == 2 and "link" in done.stderr, done.stderr
    assert (outside / "review.json").read_text() == (outside / "sub" / "review.json").read_text() == "mine"


def test_the_actions_script_annotates_and_sums_up(work: Path, variables: dict[str, str], tmp_path: Path) -> None:
    base = repo.git(work, "rev-parse", "HEAD")
    repo.commit(work, {"shop.py": FAULTY})
    files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    inputs = {"REVIEW_BASE": base, "REVIEW_FAIL_ON": "critical", "REVIEW_ARGUMENTS": "--no-verify --jobs 2"}
    place = {"GITHUB_ACTION_PATH": str(CI / "github"), "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTIONS": "true"}
    env = variables | inputs | place | {"REVIEW_DIR": "out"} | {name: str(path) for name, path in files.items()}
    done = shell(str(CI / "github" / "run.sh"), cwd=work, env=env)
    assert done.returncode == 0, done.stderr
    assert "::error file=shop.py,line=2,endLine=2,title=Input is run as code" in done.stdout
    assert files["GITHUB_OUTPUT"].read_text() == "reports=out\nstatus=0\n"
    assert "Input is run as code" in files["GITHUB_STEP_SUMMARY"].read_text()
    empty = shell(str(CI / "github" / "run.sh"), cwd=work, env=env | {"REVIEW_DIR": ""})
    assert empty.returncode == 0 and (tmp_path / "codelet-review" / "review.json").exists()
    failed = shell(str(CI / "github" / "run.sh"), cwd=work, env=env | {"REVIEW_BASE": "nowhere"})
    assert failed.returncode == 2
    summary = files["GITHUB_STEP_SUMMARY"].read_text().partition("**not reviewed** (status 2)")[2]
    assert "nowhere" in summary and "::error title=codelet review::not reviewed (status 2): codelet: " in failed.stdout


def test_arguments_may_hold_blanks(work: Path, variables: dict[str, str], tmp_path: Path) -> None:
    base = repo.git(work, "rev-parse", "HEAD")
    repo.commit(work, {"a b.py": FAULTY, "c.py": FAULTY})
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    place = {"GITHUB_ACTION_PATH": str(CI / "github"), "RUNNER_TEMP": str(tmp_path)}
    env = variables | files | place | {"REVIEW_BASE": base, "REVIEW_FAIL_ON": "high"}
    done = shell(str(CI / "github" / "run.sh"), cwd=work, env=env | {"REVIEW_ARGUMENTS": "--jobs=2\na b.py\n"})
    assert done.returncode == 1, done.stderr
    report = json.loads((tmp_path / "codelet-review" / "review.json").read_text())
    assert {finding["path"] for finding in report["findings"]} == {"a b.py"}


def test_the_installed_program_takes_nothing_from_the_repository_under_review(work: Path, tmp_path: Path) -> None:
    """The step that installs, with an environment that a cache brought back; what pip does is not tried."""
    packages, program = tmp_path / "packages", tmp_path / "program"
    (packages / "bin").mkdir(parents=True)
    (packages / "complete").touch()
    (packages / "bin" / "python").symlink_to(sys.executable)
    (work / "codelet").mkdir()
    (work / "codelet" / "__main__.py").write_text("print('caught')")
    place = {"GITHUB_ACTION_PATH": str(CI / "github" / "install"), "GITHUB_OUTPUT": str(tmp_path / "out")}
    env = environment(
        tmp_path, place | {"PACKAGES": str(packages), "PROGRAM": str(program), "RUNNER_TEMP": str(tmp_path)}
    )
    script = str(CI / "github" / "install" / "install.sh")
    assert shell(script, "place", cwd=work, env=env).returncode == 0
    keys = dict(line.split("=", 1) for line in (tmp_path / "out").read_text().splitlines())
    assert (
        set(keys) == {"packages", "program", "key"} and "-r" in (CI / "github" / "install" / "install.sh").read_text()
    )
    done = shell(script, "install", cwd=work, env=env)
    assert done.returncode == 0 and done.stdout.startswith("codelet "), done.stderr
    assert "caught" not in shell(str(program), "--version", cwd=work, env=env).stdout


def test_a_later_push_is_reviewed_since_the_last_review_that_passed(
    work: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    base = repo.git(work, "rev-parse", "HEAD")
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    with GitHub({"shop.py": range(1, 9)}) as forge:
        place = {"GITHUB_API_URL": forge.base, "GITHUB_TOKEN": forge.token, "GITHUB_REPOSITORY": "o/r"}
        env = variables | place | {"GITHUB_EVENT_PATH": str(event), "REVIEW_SINCE": "github", "REVIEW_DIR": "out"}

        def reviewed(text: str, base: str = base) -> tuple[int, str | None]:
            if text:
                repo.commit(work, {"shop.py": text, "out/.gitignore": "*"})
            forge.head = repo.git(work, "rev-parse", "HEAD")
            done = shell(str(CI / "review.sh"), "--base", base, cwd=work, env=env)
            report = json.loads((work / "out" / "review.json").read_text())
            since = report["base"] if report["whole_base"] else None
            posted = shell(env["CODELET"], "review", "post", "--github", "out/review.json", cwd=work, env=env)
            assert posted.returncode == 0, posted.stderr
            return done.returncode, since

        assert reviewed(f"{SHOP}\nA = 1\n") == (0, None)
        first = repo.git(work, "rev-parse", "HEAD")
        assert reviewed("") == (0, None), "the same commit again is no empty change"
        assert reviewed(f"{FAULTY}\nA = 1\n") == (1, first)
        assert reviewed(f"{FAULTY}\nA = 1\nB = 2\n") == (1, first), "what failed is not passed over"
        evil = repo.git(work, "rev-parse", "HEAD")
        assert reviewed(f"{FAULTY}\nA = 1\nB = 3\n", base=evil) == (0, None), "its base has the fault"
        assert reviewed(f"{FAULTY}\nA = 1\nB = 4\n") == (1, None), "moved to a base without it, all is reviewed"


@pytest.mark.parametrize("base", ["", " ", None])
def test_no_script_takes_no_base_for_an_empty_change(
    work: Path, variables: dict[str, str], tmp_path: Path, base: str | None
) -> None:
    """As on a push, where the event has no pull request, on a branch that has been pushed."""
    repo.git(tmp_path, "clone", "-q", "--bare", str(work), "remote.git")
    repo.git(work, "remote", "add", "origin", str(tmp_path / "remote.git"))
    repo.commit(work, {"shop.py": FAULTY})
    repo.git(work, "push", "-q", "-u", "origin", "HEAD:main")
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    place = {"GITHUB_ACTION_PATH": str(CI / "github"), "RUNNER_TEMP": str(tmp_path), "REVIEW_DIR": "out"}
    env = variables | files | place | {"REVIEW_FAIL_ON": "high"} | ({} if base is None else {"REVIEW_BASE": base})
    done = shell(str(CI / "github" / "run.sh"), cwd=work, env=env)
    assert (done.returncode, (tmp_path / "GITHUB_OUTPUT").read_text()) == (2, "reports=out\nstatus=2\n")
    assert "::error" in done.stdout and "not reviewed" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert shell(str(CI / "review.sh"), "--base", base or "", cwd=work, env=env).returncode == 2
    named = env | {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base or ""}
    alone = loaded(CI / "gitlab" / "review.yml")["codelet-review"]["script"][0]
    assert alone.startswith("codelet-review ")
    script = alone.replace("codelet-review", str(CI / "review.sh"), 1)
    assert shell("sh", "-c", script, cwd=work, env=named).returncode == 2


def test_the_hook_holds_back_what_has_findings(
    work: Path, variables: dict[str, str], server: ModelServer, tmp_path: Path
) -> None:
    repo.git(tmp_path, "clone", "-q", "--bare", str(work), "remote.git")
    repo.git(work, "remote", "add", "origin", str(tmp_path / "remote.git"))
    repo.git(work, "fetch", "-q", "origin")
    hook = work / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    shutil.copy(CI / "pre-push", hook)

    def push(*words: str) -> subprocess.CompletedProcess[str]:
        return shell("git", "push", "-q", *words, cwd=work, env=variables)

    repo.commit(work, {"shop.py": SHOP + "\n\nDONE = True\n"})
    clean = push("origin", "main")
    assert clean.returncode == 0 and len(server.requests) == 1, clean.stderr
    repo.git(work, "checkout", "-q", "-b", "topic")
    repo.commit(work, {"shop.py": FAULTY})
    held = push("origin", "topic")
    assert held.returncode != 0 and "topic: held back" in held.stderr
    assert "shop.py:2" in held.stdout
    assert "topic" not in repo.git(tmp_path / "remote.git", "branch")
    asked = len(server.requests)
    assert push("--no-verify", "origin", "topic").returncode == 0
    assert push("origin", "--delete", "topic").returncode == 0
    assert len(server.requests) == asked, "neither was reviewed"


def test_the_hook_reviews_a_history_that_the_remote_has_nothing_of(
    work: Path, variables: dict[str, str], server: ModelServer, tmp_path: Path
) -> None:
    repo.git(tmp_path, "init", "-q", "--bare", "remote.git")
    repo.git(work, "remote", "add", "origin", str(tmp_path / "remote.git"))
    repo.commit(work, {"shop.py": FAULTY})
    hook = work / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    shutil.copy(CI / "pre-push", hook)
    held = shell("git", "push", "-q", "origin", "main", cwd=work, env=variables)
    assert held.returncode != 0 and "shop.py:2" in held.stdout, held.stderr
    assert repo.git(tmp_path / "remote.git", "branch") == ""


def test_codelets_own_last_change_is_reviewed(tmp_path: Path) -> None:
    """The gate's own review: a scripted model stands in for a live one."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no clone of codelet's repository")
    known = subprocess.run(["git", "rev-parse", "-q", "--verify", "HEAD~1"], cwd=ROOT, capture_output=True)
    if known.returncode:
        pytest.skip("the clone holds one commit only")
    with ModelServer(reviewer([])) as server:
        variables = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
        done = run("review", "HEAD~1..HEAD", "--output", "json=-", cwd=ROOT, home=tmp_path, env=variables)
    report: dict[str, Any] = json.loads(done.stdout)
    states = [hunk["state"] for hunk in report["hunks"]]
    assert states.count("failed") == 0 and len(server.requests) == report["chunks"], done.err
    assert done.exit == (5 if "truncated" in states else 0)


def test_an_empty_change_is_no_review_unless_that_is_asked_for(work: Path, variables: dict[str, str]) -> None:
    env = variables | {"REVIEW_DIR": "out"}
    done = shell(str(CI / "review.sh"), "HEAD..HEAD", cwd=work, env=env)
    assert done.returncode == 5 and "empty" in done.stderr
    assert shell(str(CI / "review.sh"), "HEAD..HEAD", cwd=work, env=env | {"REVIEW_EMPTY": "ok"}).returncode == 0
