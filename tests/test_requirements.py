"""The files that installs are made from: exact, hashed, without addresses, in step with pyproject.toml."""

from __future__ import annotations

import re
import tomllib

import pytest

from codelet.providers.by_litellm import MALICIOUS
from tests.support.program import ROOT

FILES = ("requirements.txt", "requirements-dev.txt")
ENTRY = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ ;\\]+)", re.MULTILINE)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    """The pinned versions by name."""
    return dict(ENTRY.findall((ROOT / file).read_text(encoding="utf-8")))


@pytest.mark.parametrize("file", FILES)
def test_each_entry_is_exact_and_hashed_and_no_address_is_named(file: str):
    text = (ROOT / file).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert len(entries) > 60
    assert [entry.splitlines()[0] for entry in entries if not ENTRY.match(entry)] == []
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", text)


def test_both_files_hold_what_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for file, wanted in (
        ("requirements.txt", project["dependencies"]),
        ("requirements-dev.txt", project["dependencies"] + project["optional-dependencies"]["dev"]),
    ):
        names = {normal(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in wanted}
        assert names <= set(pins(file)), f"run scripts/lock: {names - set(pins(file))} is missing in {file}"


def test_the_development_set_has_the_same_versions():
    runtime, development = map(pins, FILES)
    assert {name: development.get(name) for name in runtime} == runtime


def test_no_malicious_release_is_pinned():
    assert pins("requirements.txt")["litellm"] not in MALICIOUS
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]
    assert settings["constraint-dependencies"] == ["litellm" + ",".join(f"!={release}" for release in MALICIOUS)]
