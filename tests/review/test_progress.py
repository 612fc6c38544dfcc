"""The line of progress: on a terminal only, in one row, gone when the report appears."""

from __future__ import annotations

from pathlib import Path

from tests.review.conftest import DOUBLED
from tests.support import repo
from tests.support.reviews import found, model
from tests.support.script import Delivery, Reply
from tests.support.server import ModelServer, Recorded
from tests.support.terminal import Terminal


def test_progress_in_a_terminal(changed: Path) -> None:
    repo.commit(changed, {"b.py": "x = 1\n" * 40})
    hold: list[Recorded] = []

    def chunk(request: Recorded) -> Reply:
        hold.append(request)
        return Reply(found(DOUBLED), delivery=Delivery(pause=0.3 if len(hold) > 1 else 0.0))

    with ModelServer(model(chunk)) as server:
        words = ("HEAD~2..HEAD", "--jobs", "1", "--no-verify", "--chunk-tokens", "250")
        base = ("--model", "openai/scripted", "--api-base", server.openai)
        env = {"OPENAI_API_KEY": "k"}
        with Terminal("review", *words, *base, cwd=changed, home=changed.parent, env=env) as terminal:
            terminal.wait_for("reviewing: 1 of 2, 1 finding, 110 tokens")
            terminal.wait_for("coverage: 2 of 2")
            assert "reviewing" not in terminal.text
