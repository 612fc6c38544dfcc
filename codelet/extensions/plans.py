"""Plans: a goal and its steps, kept outside the list, so that no compaction, resume or change of model loses them.

Nothing here is imported before the first plan: the row in `extensions/manifest.py` describes the tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codelet import prompt
from codelet.context.reminders import Source
from codelet.errors import ToolError, UsageError
from codelet.events import PlanChanged, PlannedStep, StepStatus
from codelet.extensions.base import Command, ExportPart, Extension, Guard, GuardedCall, extension_of
from codelet.record import Record
from codelet.safety.verdict import Verdict
from codelet.tools.tool import Arguments, Preview, Tool, ToolContext, ToolOutput, tool

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

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


_PLAN_KEPT = "[{done} of {count} done]"
_PLAN_MARKS = (
    "[marks: `[>]` in progress, `[x]` done, `[!]` failed, with `: result` after the step. Send all of it each time.]"
)
_PLAN_NONE = "there is no plan"
_PLAN_WITHOUT_STEPS = "plan: it has no step. Send the goal, then one line per step, such as `[ ] read the tests`"
_PLAN_REMINDER = "Your current plan. Update it with the plan tool when a step begins, ends or fails.\n{plan}"
_PLAN_DONE = (
    "All {count} steps of the plan are done{goal}. For other work, send a new plan. An empty plan shows this one."
)
_PLAN_FAILED = (
    "\nStep {number} failed{result}. Send a revised plan that changes or replaces this step before you continue."
)
PLANNING = "The user wants a plan first."
_PLAN_FIRST = (
    f"{PLANNING} Read what you need, but change nothing: calls that write or run are refused. Then "
    "send the whole plan with the plan tool. {then}"
)
_PLAN_ASKED = "The user approves it, or says why not. Once it is approved, carry it out."
_PLAN_UNASKED = "No one can approve it here, so the plan is your answer: end your turn once it is sent."
_PLAN_APPROVED = "[the user approved the plan: carry it out, and keep it up to date]"
_PLAN_ONLY = "blocked until you approve the plan"


class Plans(Extension, Source, Guard):
    """The plan of a session, for its tool, reminder, command and key of the export.

    `planning` is true until the user has approved a plan; only reading calls run before.
    """

    name = "plan"

    def __init__(self) -> None:
        async def plan(*, plan: str = "") -> ToolOutput:
            return self._keep(plan)

        plan.__doc__ = prompt.PLAN_TOOL
        self.reminders = (self,)
        self.guards = (self,)
        self.tools = (tool(plan, title=_title, preview=self._preview),)
        self.commands = (Command("plan", "", self._command),)
        self.parts = (ExportPart("plan", self._save, self._restore),)
        self.plan: Checklist | None = None
        self.planning = False
        self._session: SessionView
        self._saved: tuple[Checklist | None, object] = (None, None)
        self._explained = False

    def attach(self, session: SessionView) -> None:
        self._session = session

    def _change(self, plan: Checklist | None) -> None:
        """Replace the plan, and report a change."""
        if plan != self.plan:
            self.plan = plan
            shown = plan or Checklist("", ())
            self._session.report(PlanChanged(goal=shown.goal, steps=shown.steps))

    @property
    def can_approve(self) -> bool:
        """Return whether a plan can be approved: by the user, or by --yes."""
        return self._session.toolbox.ask is not None or self._session.policy.yes

    def offered(self) -> Sequence[Tool]:
        return self.tools if self.planning else ()

    async def text(self) -> str | None:
        then = _PLAN_ASKED if self.can_approve else _PLAN_UNASKED
        parts = [_PLAN_FIRST.format(then=then)] if self.planning else []
        plan = self.plan
        if plan is not None and plan.steps and plan.done == len(plan.steps):
            goal = f": {plan.goal}" if plan.goal else ""
            parts.append(_PLAN_DONE.format(count=len(plan.steps), goal=goal))
        elif plan is not None:
            parts.append(_PLAN_REMINDER.format(plan=plan.text()))
            if plan.failed is not None:
                result = plan.steps[plan.failed - 1].result
                parts[-1] += _PLAN_FAILED.format(number=plan.failed, result=f" ({result})" if result else "")
        return "\n".join(parts)

    def status(self) -> str:
        if self.planning:
            return "planning"
        return f"plan {self.plan.done}/{len(self.plan.steps)}" if self.plan is not None and self.plan.steps else ""

    def clear(self) -> None:
        self._change(None)

    async def before(self, call: GuardedCall) -> Verdict | None:
        verdict = call.verdict
        if verdict is None or not self.planning:
            return None
        if verdict.tier != "read":
            return Verdict("deny", verdict.tier, _PLAN_ONLY)
        sends = call.name == self.name and str(call.arguments.get("plan", "")).strip()
        asks = sends and self._session.toolbox.ask is not None
        return Verdict("ask", "read", "nothing changes until you approve") if asks else None

    def answer(self) -> str:
        """Return the plan that no one could approve."""
        return self.plan.text() if self.plan and self.planning and self._session.toolbox.ask is None else ""

    def _save(self) -> object:
        """Return the plan for the export; a restored plan is returned unchanged until it changes."""
        if self.plan is not self._saved[0]:
            self._saved = (self.plan, None if self.plan is None else as_exported(self.plan))
        return self._saved[1]

    def _restore(self, value: Any) -> None:
        self._change(None if value is None else imported(value))
        self._saved = (self.plan, value)

    def _keep(self, text: str) -> ToolOutput:
        """Take a plan from the model; an empty text shows the current one."""
        plan = self._parsed(text) if text.strip() else self.plan
        if plan is None:
            raise ToolError(_PLAN_NONE)
        changed = plan != self.plan
        self._change(plan)
        lines = [_PLAN_KEPT.format(done=plan.done, count=len(plan.steps))]
        if not text.strip():
            lines.insert(0, plan.text())
        if not self._explained:
            self._explained = True
            lines.append(_PLAN_MARKS)
        if self.planning and text.strip() and self.can_approve:
            self._approve()
            lines.append(_PLAN_APPROVED)
        return ToolOutput("\n".join(lines), display=plan.brief() if changed else "")

    def _approve(self) -> None:
        """Allow changes. Calls that were refused for being too early no longer count as refused."""
        self.planning = False
        self._session.toolbox.approvals.take_back(_PLAN_ONLY)

    def _parsed(self, text: str) -> Checklist:
        """Return the plan in a text. Raises ToolError."""
        plan = checklist_in(text, self.plan)
        if plan is None:
            raise ToolError(_PLAN_WITHOUT_STEPS)
        if len(plan.steps) > MOST_STEPS:
            raise ToolError(f"plan: {len(plan.steps)} steps, at most {MOST_STEPS}: join some")
        return plan

    def _preview(self, context: ToolContext, arguments: Arguments) -> Preview:
        """Return the plan for the user's approval. Raises ToolError if the call has none."""
        return Preview(self._parsed(arguments.get("plan", "")).text(), "approve this plan")

    async def _command(self, session: SessionView, argument: str) -> str:
        """Change the plan as `argument` says; return its text. Raises UsageError."""
        verb, _, words = argument.partition(" ")
        plan = self.plan or Checklist("", ())
        match verb, one_row(words):
            case "approve", "" if not self.planning:
                raise UsageError("/plan approve: no plan waits for that")
            case "approve", "" if self.plan is None:
                raise UsageError("/plan approve: there is no plan yet")
            case "approve", "":
                self._approve()
            case "clear", "":
                self._change(None)
            case "add", step if step and len(plan.steps) < MOST_STEPS:
                self._change(plan.replace(steps=(*plan.steps, PlannedStep(step))))
            case "add", step if step:
                raise UsageError(f"a plan has at most {MOST_STEPS} steps")
            case _ if argument:
                raise UsageError(f"/plan {one_row(argument)[:60]}: it takes {prompt.PLAN_CHANGES}")
        return self.plan.text() if self.plan is not None else _PLAN_NONE


class PlanFirst(Extension):
    """`--plan`: the session begins in plan mode."""

    def attach(self, session: SessionView) -> None:
        if (plans := extension_of(session, Plans)) is not None:
            plans.planning = True


def _title(arguments: Arguments) -> str:
    """Return the plan's progress, or its first line if it has no steps."""
    lines = str(arguments.get("plan") or "").strip().splitlines() or [""]
    steps = [line for line in lines if "[" in line[:6]]
    return f"{sum('[x]' in line[:8].lower() for line in steps)} of {len(steps)} done" if steps else lines[0]
