"""What a run says about its reminders: instruction files that are cut, a repository that git does not read."""

# near: codelet/context/reminders

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Codelet
from tests.support import repo
from tests.support.script import Reply


@pytest.mark.parametrize("output", ["text", "stream-json"])
def test_a_run_names_the_file(codelet: Codelet, output: str) -> None:
    (codelet.cwd / "CLAUDE.md").write_text("word " * 20_000)
    codelet.server.script = [Reply("ok")]
    done = codelet("-p", "go", "--output-format", output)
    assert done.exit == 0, done.err
    events = [json.loads(line) for line in done.out.splitlines()] if output == "stream-json" else []
    lines = [each["text"] for each in events if each["type"] == "note"] or done.err.splitlines()
    assert len([line for line in lines if "CLAUDE.md" in line and "40,000" in line]) == 1


@pytest.mark.needs("git")
def test_a_run_and_doctor_name_a_repository_of_another_owner(codelet: Codelet) -> None:
    repo.git(codelet.cwd, "init", "-q")
    codelet.server.script = [Reply("ok")]
    done = codelet("-p", "go", env={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
    assert done.exit == 0, done.err
    assert f"safe.directory {codelet.cwd}" in done.err
    assert "dubious ownership" in json.dumps(codelet.server.requests[0].json)
    told = codelet("doctor", env={"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"})
    assert "safe.directory" in told.out and "dubious ownership" in " ".join(told.out.split())
