"""Fixtures that all tests share. Programs that are not there skip the tests that need them, by name."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support import repo as repositories
from tests.support.amount import FULL
from tests.support.case_workspace import places as places
from tests.support.case_workspace import workspace as workspace
from tests.support.certificates import Certificates, make_certificates
from tests.support.proxy import Proxy
from tests.support.recorded import Start, recording
from tests.support.script import Script
from tests.support.server import ModelServer
from tests.support.sessions import make_session as make_session
from tests.support.shared import ABSENT, SHARED
from tests.support.terminal import Terminal

settings.register_profile("codelet", deadline=None)  # a busy machine makes no test wrong
settings.load_profile("codelet")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--random-order", type=int, metavar="SEED", help="run the tests in an order drawn by this seed")


def pytest_configure(config: pytest.Config) -> None:
    # What is ignored here, as under nohup, would be ignored by every program that a test starts; a handler is not.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    config.addinivalue_line("markers", "needs(*programs): skip where one of these programs is not installed")
    config.addinivalue_line("markers", "long: begun first, so that no process is left alone with it at the end")


def pytest_collection_finish() -> None:
    # Some tests bound the size of files: Python would keep byte code that was cut off, and fail on it ever after.
    # Until here it is kept: pytest's rewriting of assertions is most of what the collection costs.
    sys.dont_write_bytecode = True


@pytest.fixture(autouse=True)
def no_zombies() -> None:
    """Reap what an earlier test left: whoever runs a command adopts the orphans of every program killed later."""
    for entry in Path("/proc/self/task").glob("*/children"):
        pids: list[str] = []
        with suppress(OSError):  # the thread may have ended
            pids = entry.read_text().split()
        for pid in pids:
            with suppress(OSError):
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                    os.waitpid(int(pid), os.WNOHANG)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a failed test left open is told when it is collected, in the middle of another test, which must not fail."""
    report = yield
    if report.failed:
        for warning in ("ResourceWarning", "pytest.PytestUnraisableExceptionWarning"):
            item.config.addinivalue_line("filterwarnings", f"ignore::{warning}")
    return report


def pytest_report_header() -> str:
    return f"size: {'full' if FULL else 'as in the gate'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--random-order")
    if seed is not None:
        random.Random(seed).shuffle(items)
    else:
        items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        for mark in item.iter_markers("needs"):
            missing = [name for name in mark.args if shutil.which(name) is None]
            if missing:
                item.add_marker(pytest.mark.skip(reason=f"needs the program {', '.join(missing)}"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home directory."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    return repositories.plain(tmp_path / "repo")


@pytest.fixture
def start(tmp_path: Path, repo: Path, home: Path) -> Iterator[Start]:
    """Starts the REPL in a repository with steps for the model (see `recorded`); all are ended with the test."""
    with ExitStack() as stack:

        def begin(
            *steps: dict[str, Any],
            arguments: tuple[str, ...] = (),
            env: Mapping[str, str | None] | None = None,
            ready: str = "? keys",
            **options: Any,
        ) -> Terminal:
            model = recording(tmp_path, *steps)
            terminal = Terminal("--model", model, *arguments, cwd=repo, home=home, env=env, **options)
            stack.enter_context(terminal)
            terminal.wait_for(ready)
            return terminal

        yield begin


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """A model server on loopback; give it a script by setting `model_server.script`."""
    script: Script = ()
    with ModelServer(script) as server:
        yield server


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with Proxy() as server:
        yield server


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A throw-away authority and a server certificate for loopback."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of cases and transcripts beside the repository; the test skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(ABSENT)
    return SHARED
