"""The real REPL in a real terminal with a recording for its model: what a test writes into the recording, and asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.terminal import Terminal

USAGE = {"total_input": 1200, "cache_read": 1000, "output": 40}
STATUS = "% of "
"""Stands in the status row, which is there once the prompt can be typed."""

Start = Callable[..., Terminal]


def step(text: str = "", *calls: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """One answer of the recorded model; `calls` are tool names with arguments."""
    listed = [
        {"id": f"call-{abs(hash((text, number)))}", "name": name, "arguments": arguments}
        for number, (name, arguments) in enumerate(calls)
    ]
    return {"text": text, "tool_calls": listed, "usage": USAGE} | more


def bash(command: str) -> tuple[str, dict[str, Any]]:
    """A call of the shell."""
    return ("bash", {"command": command})


def recording(folder: Path, *steps: dict[str, Any]) -> str:
    """The name of a model that answers with these steps, from a file that is written into the folder."""
    file = folder / "recording.json"
    file.write_text(json.dumps({"version": 1, "model": "recorded", "steps": list(steps)}))
    return f"replay:{file}"


def ask(terminal: Terminal, line: str, *expected: str) -> str:
    """Type a line and wait for what is to come of it, each text in turn; what stands below the line then."""
    terminal.line(line)
    for text in expected:
        terminal.wait_for(text)
    return terminal.settle(0.15).rpartition(f"› {line}")[2]
