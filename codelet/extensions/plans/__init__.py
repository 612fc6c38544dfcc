"""Plans: a goal and its steps, kept outside the list, so that no compaction, resume or change of model loses them.

Nothing here is imported before the first plan: the row in `extensions/manifest.py` describes the tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codelet import prompt
from codelet.context.reminders import Source
from codelet.errors import ToolError, UsageError
from codelet.events import PlanChanged, PlannedStep
from codelet.extensions.base import Command, ExportPart, Extension, Guard, GuardedCall, extension_of
from codelet.extensions.plans.checklist import (
    MOST_STEPS,
    Checklist,
    as_exported,
    checklist_in,
    imported,
    one_row,
)
from codelet.safety.verdict import Verdict
from codelet.tools.tool import Arguments, Preview, Tool, ToolContext, ToolOutput, tool

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

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


class Plans(Extension, Source):
    """The plan of a session, for its tool, reminder, command and key of the export.

    `planning` is true until the user has approved a plan; nothing may be changed before.
    """

    name = "plan"

    def __init__(self) -> None:
        async def plan(*, plan: str = "") -> ToolOutput:
            return self._keep(plan)

        plan.__doc__ = prompt.PLAN_TOOL
        self.reminders = (self,)
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
            parts.append(_PLAN_REMINDER.format(plan=plan.text()) + _revision(plan))
        return "\n".join(parts)

    def status(self) -> str:
        if self.planning:
            return "planning"
        return f"plan {self.plan.done}/{len(self.plan.steps)}" if self.plan is not None and self.plan.steps else ""

    def clear(self) -> None:
        self._change(None)

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


class PlanFirst(Extension, Guard):
    """`--plan`: only reading calls run until the user has approved a plan."""

    def __init__(self) -> None:
        self.guards = (self,)
        self._session: SessionView
        self._plans: Plans | None = None

    def attach(self, session: SessionView) -> None:
        self._session = session
        self._plans = extension_of(session, Plans)
        if self._plans is not None:
            self._plans.planning = True

    async def before(self, call: GuardedCall) -> Verdict | Arguments | None:
        plans, verdict = self._plans, call.verdict
        if verdict is None or plans is None or not plans.planning:
            return None
        if verdict.tier != "read":
            return Verdict("deny", verdict.tier, _PLAN_ONLY)
        asked = call.name == plans.name and str(call.arguments.get("plan", "")).strip()
        return (
            Verdict("ask", "read", "nothing changes until you approve") if asked and self._session.toolbox.ask else None
        )

    def answer(self) -> str:
        plans = self._plans
        if plans is None or plans.plan is None or not plans.planning or self._session.toolbox.ask is not None:
            return ""
        return plans.plan.text()


def _title(arguments: Arguments) -> str:
    """Return the plan's progress, or its first line if it has no steps."""
    lines = str(arguments.get("plan") or "").strip().splitlines() or [""]
    steps = [line for line in lines if "[" in line[:6]]
    return f"{sum('[x]' in line[:8].lower() for line in steps)} of {len(steps)} done" if steps else lines[0]


def _revision(plan: Checklist) -> str:
    if plan.failed is None:
        return ""
    result = plan.steps[plan.failed - 1].result
    return _PLAN_FAILED.format(number=plan.failed, result=f" ({result})" if result else "")
