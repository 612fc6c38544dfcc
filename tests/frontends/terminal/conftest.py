"""The real program in a real terminal, its model a recording."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminal import Terminal

USAGE = {"total_input": 1200, "cache_read": 1000, "output": 40}
Start = Callable[..., Terminal]


def step(text: str = "", *calls: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """One answer of the recorded model; `calls` are tool names with arguments."""
    listed = [
        {"id": f"call-{abs(hash((text, number)))}", "name": name, "arguments": arguments}
        for number, (name, arguments) in enumerate(calls)
    ]
    return {"text": text, "tool_calls": listed, "usage": USAGE} | more


@pytest.fixture
def start(tmp_path: Path, repo: Path, home: Path) -> Iterator[Start]:
    """Starts the REPL in a repository with steps for the model; all are ended with the test."""
    with ExitStack() as stack:

        def begin(
            *steps: dict[str, Any],
            arguments: tuple[str, ...] = (),
            env: Mapping[str, str | None] | None = None,
            ready: str = "/help",
            **options: Any,
        ) -> Terminal:
            recording = tmp_path / "recording.json"
            recording.write_text(json.dumps({"version": 1, "model": "recorded", "steps": list(steps)}))
            terminal = Terminal("--model", f"replay:{recording}", *arguments, cwd=repo, home=home, env=env, **options)
            stack.enter_context(terminal)
            terminal.wait_for(ready)
            return terminal

        yield begin
