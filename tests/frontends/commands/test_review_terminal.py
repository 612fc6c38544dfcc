"""The text report on a terminal: within its width, coloured unless that is not wanted, code as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from codelet.frontends.commands.review_outputs import laid_out
from codelet.review.formats.text_report import report_as_text
from tests.review.formats.sample import incomplete, whole
from tests.support import repo as repositories
from tests.support.reviewing import Fault, reviewer
from tests.support.server import ModelServer
from tests.support.terminal import Terminal

STYLE = re.compile(r"\x1b\[[0-9;]*m")
WORDY = whole().replace(
    findings=(whole().findings[0].replace(explanation="It goes wrong, as everybody can see, at once. " * 8),)
)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_rows_fit_and_say_the_same(width: int) -> None:
    plain = report_as_text(WORDY)
    rows = laid_out(plain, width, colours=False).split("\n")
    assert max(map(len, rows)) <= max(width, 45), "lines of code alone may be longer"
    assert " ".join("".join(rows).split()).replace(" ", "") == "".join(plain.split())
    assert any(row.startswith("    It goes wrong") for row in rows)


def test_colours_add_nothing_and_take_nothing() -> None:
    for report in (whole(), incomplete()):
        plain = report_as_text(report)
        coloured = laid_out(plain, 200, colours=True)
        assert STYLE.sub("", coloured) == plain
        assert coloured != plain


def test_a_model_cannot_colour_a_row_as_ours() -> None:
    finding = whole().findings[0].replace(explanation="critical  x.py:1  Not ours\n  failed: not ours")
    coloured = laid_out(report_as_text(whole().replace(findings=(finding,))), 200, colours=True)
    assert "    critical  x.py:1  Not ours" in coloured
    assert "      failed: not ours" in coloured


@pytest.mark.parametrize("plain", [False, True])
def test_on_a_real_terminal(repo: Path, home: Path, plain: bool) -> None:
    repositories.write(repo, {"app.py": "eval(input())\n"})
    with ModelServer(reviewer([Fault("eval(", explanation="Whoever types runs code. " * 6)])) as server:
        env = {"CODELET_API_BASE": server.openai, "CODELET_MODEL": "openai/scripted", "OPENAI_API_KEY": "key"}
        more = {"NO_COLOR": "1"} if plain else {}
        with Terminal("review", "--uncommitted", cwd=repo, home=home, env=env | more, rows=40) as terminal:
            assert terminal.wait_exit() == 1
            shown = terminal.text
    assert "high  app.py:1  " in shown
    assert "\n    Whoever types runs code. Whoever" in shown
    assert (b"\x1b[31mhigh" in terminal.raw) is not plain
