"""Reviews by the real program against a scripted model on loopback: what the model says, and what comes of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.program import Finished, run
from tests.support.script import Reply, Step
from tests.support.server import ModelServer, Recorded

HOLDS = '{"holds": true, "why": "it does"}'
CLOSING = '{"summary": "Two things are wrong.", "duplicates": []}'
NOTHING = '{"findings": []}'
REFUTED = '{"holds": false, "why": "the caller checks it"}'


def finding(quote: str, line: int, path: str = "app.py", **more: Any) -> dict[str, Any]:
    """A finding as a model states it."""
    return {
        "rule": "wrong-result", "title": f"Wrong: {quote.strip()}", "explanation": "It goes wrong for every input.",
        "severity": "high", "category": "correctness", "confidence": 0.9, "path": path, "line": line, "quote": quote,
        "replacement": None,
    } | more  # fmt: skip


def found(*findings: dict[str, Any]) -> str:
    """The model's answer to a chunk."""
    return json.dumps({"findings": findings})


def asked(request: Recorded) -> str:
    """The question that a request asks: the newest prompt, with the answers and prompts of this question behind it."""
    return "\n".join(str(message.get("content")) for message in request.messages if message["role"] == "user")


def is_confirmation(request: Recorded) -> bool:
    """Whether a request asks if a finding holds."""
    return '"holds"' in asked(request)


def is_closing(request: Recorded) -> bool:
    """Whether a request asks for the paragraph on all findings."""
    return '"summary"' in asked(request)


def shown_paths(request: Recorded) -> list[str]:
    """The files whose hunks a request shows."""
    headings = re.findall(r'^("(?:[^"\\]|\\.)*")[^\n]*, lines', asked(request), re.MULTILINE)
    return [json.loads(name) for name in headings]


def model(
    chunk: str | Callable[[Recorded], Step] = NOTHING, confirm: str | Callable[[Recorded], Step] = HOLDS
) -> Callable[[Recorded], Step]:
    """A script: what the model says to chunks, and to questions whether a finding holds."""

    def answer(request: Recorded) -> Step:
        if is_closing(request):
            return Reply(CLOSING)
        said = confirm if is_confirmation(request) else chunk
        return Reply(said) if isinstance(said, str) else said(request)

    return answer


def review(
    server: ModelServer, folder: Path, *words: str, env: dict[str, str | None] | None = None, **options: Any
) -> Finished:
    """Run `codelet review` with these words against the server."""
    key = {"OPENAI_API_KEY": "test-key", "CODELET_RETRIES": "0", **(env or {})}
    base = ("--model", "openai/scripted", "--api-base", server.openai)
    return run("review", *words, *base, cwd=folder, home=folder.parent, env=key, **options)


def report(done: Finished) -> dict[str, Any]:
    """The JSON report on stdout."""
    return dict(done.json())


def titles(done: Finished) -> Sequence[str]:
    """The titles of the findings of a JSON report."""
    return [each["title"] for each in report(done)["findings"]]
