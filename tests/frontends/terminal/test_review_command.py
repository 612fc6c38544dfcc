"""`/review` in the terminal: the findings one by one, what mends one, what sets one aside."""

from __future__ import annotations

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
    """The REPL in a repository with two faults that are not committed."""
    repositories.commit(repo, {"shop.py": "def place(order):\n    return order\n", "lib.js": "export const a = 1;\n"})
    repositories.write(repo, {"shop.py": "def place(order):\n    eval(order)\n    return order\n"})
    repositories.write(repo, {"lib.js": "export const a = 1;\ndocument.write(a);\n"})
    with ModelServer(script) as server:
        variables = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
        with Terminal(cwd=repo, home=home, env=variables, rows=60, columns=100) as running:
            running.wait_for(STATUS)
            yield running


def test_the_findings_one_by_one(terminal: Terminal) -> None:
    ask(terminal, "/review", "1 of 2", "/review next, previous", STATUS)
    first = terminal.text
    assert "2 findings: 1 high, 1 medium." in first and "2 of 2 hunks reviewed." in first
    assert "high  shop.py:2  Input is run as code" in first
    assert "Whoever sends it runs code here." in first
    assert "2 +     eval(order)" in first, "the change around it"
    assert "suggested:" in first and "use(order)" in first
    terminal.key("enter")
    terminal.wait_for("2 of 2  medium  lib.js:2  Text becomes markup")
    explained = terminal.settle().rpartition("2 of 2  medium")[2].split("     1   export")[0].split("\n")[1:-1]
    assert len(explained) > 3 and {row[:2] for row in explained} == {"  "}, "further rows keep their margin"
    assert "that was the last finding" in ask(terminal, "/review next", "last finding")
    ask(terminal, "/review previous", "1 of 2  high")
    ask(terminal, "/review quit", "the review is closed")
    assert "there is no review" in ask(terminal, "/review fix", "there is no review")


def test_fix_hands_the_finding_to_the_model(terminal: Terminal) -> None:
    ask(terminal, "/review", "1 of 2", STATUS)
    ask(terminal, "/review fix", "It is mended now.", STATUS)
    assert "› /review next" in terminal.settle(), "Enter goes on"


def test_ignore_writes_the_comment_once_it_is_approved(terminal: Terminal, repo: Path) -> None:
    ask(terminal, "/review", "1 of 2", STATUS)
    assert "say why" in ask(terminal, "/review ignore", "say why")
    terminal.line("/review ignore orders are our own")
    question = terminal.wait_for("Edit shop.py?")
    assert "# codelet: ignore[code-injection] orders are our own" in question
    terminal.settle()
    terminal.type("n")
    terminal.wait_for("and say why")
    terminal.key("enter")
    terminal.wait_for(STATUS)
    assert "codelet:" not in (repo / "shop.py").read_text(), "a no is a no"
    terminal.settle()
    terminal.line("/review ignore orders are our own")
    terminal.wait_for("Edit shop.py?")
    terminal.settle()
    terminal.type("y")
    terminal.wait_for("✓ edit shop.py")
    terminal.wait_for(STATUS)
    written = "    # codelet: ignore[code-injection] orders are our own\n    eval(order)\n"
    assert (repo / "shop.py").read_text() == f"def place(order):\n{written}    return order\n"
    ask(terminal, "/review", "1 of 1", STATUS)
    assert "Set aside: 1 ignored by a comment in the code." in terminal.text


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


def test_what_is_no_change_is_said(terminal: Terminal) -> None:
    ask(terminal, "/review nowhere..HEAD", "✗", "nowhere")
    ask(terminal, "/review --yes", "✗", "/review takes --staged")
    assert "1 of" not in ask(terminal, "/review --staged", "There was nothing to review.")
