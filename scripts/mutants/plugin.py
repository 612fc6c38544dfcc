"""A pytest plugin: under coverage each test is a separate context; the tests that passed are noted with their time.

Loaded by `-p scripts.mutants.plugin`. $MUTANTS_PASSED names a file for the ids and seconds of the tests that passed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest

_failed: set[str] = set()
_seconds: dict[str, float] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if (running := coverage.Coverage.current()) is not None:
        running.switch_context(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    passed = {name: seconds for name, seconds in _seconds.items() if name not in _failed}
    Path(os.environ["MUTANTS_PASSED"]).write_text(json.dumps(passed), encoding="utf-8")
