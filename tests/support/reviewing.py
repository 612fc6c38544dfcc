"""A scripted model for reviews: it reads what it is asked about and reports the faults that a test planted there.

It stands in for a live model: it answers by the request's text alone, so requests may come in any order, side by side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.script import Reply, Step, Tokens
from tests.support.server import Recorded

_HEADING = re.compile(r'^("(?:[^"\\]|\\.)*")(?:, |$)')
_ROW = re.compile(r"^( {0,4}\d+|     ) ([-+ ]) ?(.*)$")


@dataclass(frozen=True)
class Fault:
    """What the model says of each added row that holds `text`, in a file whose path ends with `path`."""

    text: str
    rule: str = "code-injection"
    title: str = "Input is run as code"
    severity: str = "high"
    category: str = "security"
    confidence: float = 0.9
    path: str = ""
    replacement: str | None = None
    explanation: str = "Whoever sends it runs code here."

    def claim(self, path: str, line: int, quote: str) -> dict[str, Any]:
        fields = ("rule", "title", "explanation", "severity", "category", "confidence", "replacement")
        return {name: getattr(self, name) for name in fields} | {"path": path, "line": line, "quote": quote}


def asked(recorded: Recorded) -> str:
    """The text of the last message of a request."""
    content = recorded.messages[-1]["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def rows_of(question: str) -> list[tuple[str, int | None, str, str]]:
    """The rows of the diff in a question: path, number on the new side, sign, text."""
    rows: list[tuple[str, int | None, str, str]] = []
    path = ""
    for line in question.split("\n"):
        if heading := _HEADING.match(line):
            path = json.loads(heading[1])
        elif path and (row := _ROW.match(line)):
            rows.append((path, int(row[1]) if row[1].strip() else None, row[2], row[3]))
    return rows


def is_confirmation(question: str) -> bool:
    return '"verdicts"' in question


def reviewer(
    faults: Sequence[Fault], *, refuted: Callable[[str], bool] = lambda question: False, usage: Tokens | None = None
) -> Callable[[Recorded], Step]:
    """A script that reports the faults and confirms each, unless its question is `refuted`."""

    def answer(recorded: Recorded) -> Step:
        question = asked(recorded)
        if is_confirmation(question):
            said: Mapping[str, Any] = {"holds": not refuted(question), "why": "It does."}
        else:
            said = {"findings": claims(question, faults)}
        return Reply(json.dumps(said), usage=usage or Tokens(total_input=len(question) // 4, output=20))

    return answer


def claims(question: str, faults: Sequence[Fault]) -> list[dict[str, Any]]:
    """What the model says of a question."""
    return [
        fault.claim(path, number, text)
        for path, number, sign, text in rows_of(question)
        for fault in faults
        if sign == "+" and number is not None and fault.text in text and path.endswith(fault.path)
    ]
