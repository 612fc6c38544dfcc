"""`/review` in the terminal: the findings, one of them, what fixes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import repo as repositories
from tests.support.recorded import STATUS, ask
from tests.support.reviewing import Fault, reviewer
from tests.support.reviews import finding, found, model
from tests.support.script import Reply, Step
from tests.support.server import ModelServer, Recorded
from tests.support.terminal import Terminal
from tests.support.waiting import PATIENCE

FAULTS = [
    Fault("eval(", replacement="    use(order)"),
    Fault(
        "document.write",
        rule="cross-site-scripting",
        title="Text becomes markup",
        severity="medium",
        explanation="What stands in a is written into the page as it is: a script in it runs " * 3,
    ),
]


def script(recorded: Recorded) -> Step:
    if b"A review of the change found this" in recorded.body:
        return Reply("It is mended now.")
    return reviewer(FAULTS)(recorded)


@pytest.fixture
def terminal(repo: Path, home: Path) -> Iterator[Terminal]:
    """The REPL in a repository with two uncommitted bugs."""
    repositories.commit(repo, {"shop.py": "def place(order):\n    return order\n", "lib.js": "export const a = 1;\n"})
    repositories.write(repo, {"shop.py": "def place(order):\n    eval(order)\n    return order\n"})
    repositories.write(repo, {"lib.js": "export const a = 1;\ndocument.write(a);\n"})
    with ModelServer(script) as server:
        variables = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
        with Terminal(cwd=repo, home=home, env=variables, rows=60, columns=100) as running:
            running.wait_for(STATUS)
            yield running


def test_the_findings_are_listed_and_one_is_shown_or_fixed(terminal: Terminal) -> None:
    ask(terminal, "/review", "/review fix N", STATUS)
    listed = terminal.text
    assert "1 high, 1 medium" in listed and "2 of 2 hunks" in listed
    assert "1  high  shop.py:2  " in listed
    assert "2  medium  lib.js:2  " in listed
    assert "Whoever sends it runs code here." in listed and "use(order)" in listed
    explained = listed.rpartition("2  medium")[2].split("    | ")[0].split("\n")[1:]
    assert len(explained) > 3 and {row[:4] for row in explained if row} == {"    "}, "further rows keep their margin"
    ask(terminal, "/review fix 3", "name a finding")
    ask(terminal, "/review fix", "name a finding")
    ask(terminal, "/review fix 1", "It is mended now.", STATUS)


def test_a_finding_without_a_place_is_shown(repo: Path, home: Path) -> None:
    repositories.write(repo, {"shop.py": "eval(order)\n"})
    lost = finding("free(order)", 1, "shop.py", title="It is freed twice", severity="critical")
    with ModelServer(model(found(lost))) as server:
        variables = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
        with Terminal(cwd=repo, home=home, env=variables, rows=40, columns=80) as running:
            running.wait_for(STATUS)
            shown = ask(running, "/review", "free(order)", STATUS)
    assert "critical  shop.py  It is freed twice" in shown and "INCOMPLETE" in shown
    assert "It goes wrong for every input." in shown and "No findings" not in shown


def test_a_line_that_waits_comes_back_when_the_review_is_stopped(repo: Path, home: Path) -> None:
    repositories.write(repo, {"shop.py": "eval(order)\n"})
    may_answer = threading.Event()

    def slow(recorded: Recorded) -> Step:
        may_answer.wait(PATIENCE)
        return script(recorded)

    with ModelServer(slow) as server:
        variables = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
        with Terminal(cwd=repo, home=home, env=variables, rows=40, columns=80) as running:
            running.wait_for(STATUS)
            running.line("/review")
            running.wait_for("esc stops")
            running.line("and then?")
            running.wait_for("queued: and then?")
            running.key("esc")
            running.wait_for("stopped by you")
            running.wait_for("\n› and then?\n  ask")
            may_answer.set()
        assert not any(b"and then?" in each.body for each in server.requests)


def test_what_is_no_change_is_said(terminal: Terminal) -> None:
    ask(terminal, "/review nowhere..HEAD", "✗", "nowhere")
    ask(terminal, "/review --yes", "✗", "/review takes --staged")
    assert "1 of" not in ask(terminal, "/review --staged", "nothing to review")
