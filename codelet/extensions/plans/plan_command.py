"""The command /plan: shows the plan, and changes it as the user says."""

from __future__ import annotations

from codelet import prompt
from codelet.errors import UsageError
from codelet.extensions.plans.checklist import MOST_STEPS, Checklist, PlannedStep, StepStatus, one_row
from codelet.system.text.typed import whole_number

_STATUSES: dict[str, StepStatus] = {"start": "in progress", "done": "completed", "fail": "failed"}


def edited(plan: Checklist | None, argument: str) -> Checklist | None:
    """The plan as the words behind /plan change it; None where nothing of it is left. Raises UsageError."""
    verb, _, rest = argument.partition(" ")
    words = one_row(rest)
    known = plan or Checklist("", ())
    if verb == "clear" and not words:
        return None
    if verb == "goal" and words:
        return known.replace(goal=words)
    if verb == "add" and words:
        if len(known.steps) >= MOST_STEPS:
            raise UsageError(f"a plan has at most {MOST_STEPS} steps")
        return known.replace(steps=(*known.steps, PlannedStep(words)))
    if verb not in ("edit", "drop", *_STATUSES):
        raise UsageError(f"/plan {one_row(argument)[:60]}: it takes {prompt.PLAN_CHANGES}")
    return _with_change(known, verb, words)


def _with_change(plan: Checklist, verb: str, words: str) -> Checklist:
    """The plan with one step changed, or without it."""
    number, _, more = words.partition(" ")
    if not number:
        raise UsageError(f"/plan {verb} N: name the step by its number; /plan shows them")
    at = whole_number(number) or 0
    if not 1 <= at <= len(plan.steps):
        raise UsageError(f"/plan {verb} N: there is no step {number}; the plan has {len(plan.steps)}")
    step = plan.steps[at - 1]
    if verb == "drop":
        return plan.replace(steps=(*plan.steps[: at - 1], *plan.steps[at:]))
    if verb == "edit":
        if not more:
            raise UsageError("/plan edit N TEXT: there is no text")
        return plan.with_step(at, PlannedStep(more))
    return plan.with_step(at, step.replace(status=_STATUSES[verb], result=more or step.result))
