"""Allowed git commands in generated repositories have no effect; `python -m scripts.fuzz git` runs more of them."""

from __future__ import annotations

import pytest

from scripts.fuzz.git import run
from tests.support.amount import amount

pytestmark = [pytest.mark.needs("git", "bash"), pytest.mark.timeout(600)]


def test_generated_repositories_have_no_effect(capsys: pytest.CaptureFixture[str]) -> None:
    count = amount(150, 5_000)
    assert run(count, 5) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    allowed = int(said.partition(" allowed and run")[0].rpartition(" ")[2])
    plain = int(said.rpartition(" had one")[0].rpartition(" ")[2])
    assert allowed > count // 5, said
    assert plain > 0, "the plants do not work"
