"""A pytest plugin: which lines of the product each test runs and how long it takes; or a choice of tests, in order.

Loaded by `-p scripts.mutants.plugin`. Where $MUTANTS_LINES names a file, it writes a line of JSON there for each
test that passed: `[id, wall time, processor time, {file: [lines]}]`, the times in seconds. What a test's child
processes run is not seen, only timed. Where $MUTANTS_TESTS names a file, a JSON list of ids, only these tests are run,
in this order.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

_PRODUCT = str(Path(__file__).resolve().parents[2] / "codelet") + os.sep


def _nothing(frame: FrameType, event: str, _: Any) -> None:
    """Traces a thread no further."""


class _Lines:
    def __init__(self, out: Path) -> None:
        self._out = out
        self._missing: dict[int, tuple[CodeType, set[int]]] = {}
        """Each function, and its lines that this test has not run yet: one that it has run whole is traced no more.

        By their ids, as it takes long to hash code.
        """
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._missing = {}
        began, used = time.monotonic(), sum(os.times()[:4])
        threading.settrace(self._entered)
        sys.settrace(self._entered)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(_nothing)
            files: dict[str, set[int]] = {}
            for code, missing in list(self._missing.values()):
                files.setdefault(code.co_filename.removeprefix(_PRODUCT), set()).update(_lines(code) - missing)
            if item.nodeid not in self._failed:
                found = {name: sorted(lines) for name, lines in files.items()}
                times = time.monotonic() - began, sum(os.times()[:4]) - used
                with self._out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps([item.nodeid, *times, found]) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self._failed.add(report.nodeid)

    def _entered(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        known = self._missing.get(id(code))
        if known is None:
            if not code.co_filename.startswith(_PRODUCT):
                return None
            known = self._missing[id(code)] = code, _lines(code)
            known[1].discard(frame.f_lineno)  # that of `def`
        return self._ran if known[1] else None

    def _ran(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._missing[id(frame.f_code)][1].discard(frame.f_lineno)
        return self._ran


def _lines(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line}


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    sys.dont_write_bytecode = False  # until the tests begin: to compile the same again takes longer than most tests
    if out := os.environ.pop("MUTANTS_LINES", None):
        config.pluginmanager.register(_Lines(Path(out)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sys.dont_write_bytecode = True
    if chosen := os.environ.pop("MUTANTS_TESTS", None):
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in json.loads(Path(chosen).read_text(encoding="utf-8")) if name in found]
