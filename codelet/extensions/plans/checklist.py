"""A plan as a value: its goal and its steps; from the model's text, the user's words and an export, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from codelet.events import PlannedStep, StepStatus
from codelet.record import Record

MOST_STEPS = 50
LONGEST = 500
"""Characters of a goal, of a step's description and of its result."""
_SHOWN = 12
"""Steps that a screen shows of a longer plan."""

_MARKS: dict[StepStatus, str] = {"pending": " ", "in progress": ">", "completed": "x", "failed": "!"}
_MEANINGS: dict[str, StepStatus] = {
    **dict.fromkeys((" ", "", "_"), "pending"),
    **dict.fromkeys((">", "~", "-", "/", ".", "*", "→", "…"), "in progress"),
    **dict.fromkeys(("x", "v", "✓", "✔", "+"), "completed"),
    **dict.fromkeys(("!", "✗", "✘", "f"), "failed"),
}
_MARKED = re.compile(r"\s*(?:[-*+]\s+|\d+[.)]\s*)?\[(.?)\]\s*(.*)")
_LISTED = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.*)")
_GOAL = re.compile(r"\s*(?:#+\s*)?(?:(?:goal|plan)\s*:\s*)?", re.IGNORECASE)

_EXPORTED: dict[StepStatus, str] = {
    "pending": "Pending",
    "in progress": "InProgress",
    "completed": "Completed",
    "failed": "Failed",
}
_IMPORTED = {word: status for status, word in _EXPORTED.items()}


class Checklist(Record):
    """A goal and the steps to it. Nothing in it is ever changed; `replace` makes another."""

    goal: str
    steps: tuple[PlannedStep, ...]

    @property
    def done(self) -> int:
        return sum(step.status == "completed" for step in self.steps)

    @property
    def failed(self) -> int | None:
        """The number, from 1, of the first step that failed."""
        return next((number for number, step in enumerate(self.steps, 1) if step.status == "failed"), None)

    @property
    def current(self) -> int:
        """The index of the step in hand: one in progress, else the first that is not completed, else the last."""
        order: tuple[tuple[StepStatus, ...], ...] = (("in progress",), ("pending", "failed"))
        for wanted in order:
            found = next((index for index, step in enumerate(self.steps) if step.status in wanted), None)
            if found is not None:
                return found
        return max(len(self.steps) - 1, 0)

    def text(self) -> str:
        """The goal and each step with its number, a line each, as the model writes them."""
        rows = [
            f"{number}. [{_MARKS[step.status]}] {step.description}{f': {step.result}' if step.result else ''}"
            for number, step in enumerate(self.steps, 1)
        ]
        return "\n".join([self.goal, *rows] if self.goal else rows)

    def brief(self) -> str:
        """The same, of a long plan only the steps around the one in hand."""
        first = min(max(self.current - _SHOWN // 2, 0), max(len(self.steps) - _SHOWN, 0))
        last = min(first + _SHOWN, len(self.steps))
        rows = self.text().split("\n")
        head, rows = (rows[:1], rows[1:]) if self.goal else ([], rows)
        above = [f"… {first} above"] if first else []
        below = [f"… {len(rows) - last} more"] if last < len(rows) else []
        return "\n".join([*head, *above, *rows[first:last], *below])


def checklist_in(text: str, before: Checklist | None) -> Checklist | None:
    """The plan that a text writes down; None if no step is in it. One without a goal keeps that of `before`."""
    goal: list[str] = []
    steps: list[PlannedStep] = []
    for line in text.splitlines():
        if found := _step_in(line, before):
            steps.append(found)
        elif steps and line.strip():  # the lines below a step belong to it
            steps[-1] = steps[-1].replace(result=one_row(f"{steps[-1].result} {line}"))
        else:
            goal.append(_GOAL.sub("", line, count=1))
    if not steps:
        return None
    named = one_row(" ".join(goal))
    return Checklist(named or (before.goal if before is not None else ""), tuple(steps))


def one_row(text: str) -> str:
    """Return the text on one line, cut to the length of a plan's row."""
    words = " ".join(text.split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


def as_exported(plan: Checklist) -> dict[str, Any]:
    """The plan in the form that the export has for it."""
    if plan.failed is not None:
        status = "Failed"
    elif plan.done == len(plan.steps):
        status = "Completed"
    else:
        begun = plan.done or any(step.status == "in progress" for step in plan.steps)
        status = "InProgress" if begun else "Pending"
    steps = [
        {
            "id": number,
            "description": step.description,
            "status": _EXPORTED[step.status],
            "result": step.result or None,
        }
        for number, step in enumerate(plan.steps, 1)
    ]
    return {"goal": plan.goal, "steps": steps, "current_step": plan.current, "status": status}


def imported(value: Mapping[str, Any]) -> Checklist:
    """Return the plan of an export."""
    steps = [
        PlannedStep(one_row(step["description"]), _IMPORTED[step["status"]], one_row(step["result"] or ""))
        for step in value["steps"][:MOST_STEPS]
    ]
    if (more := len(value["steps"]) - MOST_STEPS) > 0:
        steps[-1] = PlannedStep(f"… this and {more} more steps are left out: a plan has at most {MOST_STEPS}")
    return Checklist(one_row(value["goal"]), tuple(steps))


def _step_in(line: str, before: Checklist | None) -> PlannedStep | None:
    """The step that a line of a list says, if it is one."""
    if marked := _MARKED.fullmatch(line):
        status = _MEANINGS.get(marked[1].lower())
        words = one_row(marked[2] if status is not None else line)
    elif listed := _LISTED.fullmatch(line):
        status, words = None, one_row(listed[1])
    else:
        return None
    if not words:
        return None
    description, result = _apart(words, before, split=status in ("completed", "failed"))
    return PlannedStep(description, status or "pending", result)


def _apart(words: str, before: Checklist | None, *, split: bool) -> tuple[str, str]:
    """A step's description and its result: cut where a step of the plan before ends, else at the first colon."""
    for step in before.steps if before is not None else ():
        if words == step.description:
            return words, ""
        if words.startswith(f"{step.description}: "):
            return step.description, words[len(step.description) + 2 :]
    description, colon, result = words.partition(": ")
    return (description, result) if split and colon else (words, "")
