"""Whether a tool call may run: the policy judges, a person is asked, and what came of it is remembered.

In memory only, for `/permissions`; and in the audit file, where the user asked for one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from codelet import prompt
from codelet.errors import ToolError
from codelet.masking import without_secrets
from codelet.policy import Policy
from codelet.policy.secrets import Masker
from codelet.policy.verdict import Answer, Ask, Question, Verdict
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.policy.audit import AuditLog
    from codelet.tools.tool import ToolContext

_HISTORY = 1_000

Outcome = Literal["denied", "yes", "always", "no", "no answer", "nobody to ask"]


class Decision(Record):
    """One decision that was not the policy's own yes: what was wanted, what came of it, and why."""

    about: str
    outcome: Outcome
    reason: str


class Admission(Record):
    """The verdict on a call, and what the model is told where the call may not run."""

    verdict: Verdict
    refusal: str | None = None


class Approvals:
    """Decides on the calls of one session. `ask` is None where nobody can be asked; `timeout` is in seconds.

    `refused` collects the calls that were refused without a person, each in one line; `history` all decisions.
    """

    def __init__(
        self,
        policy: Policy,
        masker: Masker,
        ask: Ask | None = None,
        timeout: float | None = None,
        audit: AuditLog | None = None,
    ) -> None:
        self.policy = policy
        self.masker = masker
        self.ask = ask
        self.timeout = timeout
        self.audit = audit
        self.refused: list[str] = []
        self.history: deque[Decision] = deque(maxlen=_HISTORY)
        self._asking = asyncio.Lock()

    async def admit(self, call_id: str, tool: str, arguments: dict[str, Any], context: ToolContext) -> Admission:
        """Judge the call and ask where that is due. Questions come one after the other."""
        verdict = self.policy.judge(tool, arguments)
        if verdict.action == "ask":
            async with self._asking:
                verdict = self.policy.judge(tool, arguments)  # an "always" may have come in meanwhile
                self._record_verdict(call_id, tool, arguments, verdict)
                if verdict.action == "ask":
                    return Admission(verdict, await self._ask(call_id, tool, arguments, verdict, context))
        else:
            self._record_verdict(call_id, tool, arguments, verdict)
        if verdict.action == "deny":
            self.refused.append(self._described(tool, arguments))
            self._remember(tool, arguments, "denied", verdict.reason)
            return Admission(verdict, prompt.REFUSED_BY_POLICY.format(reason=verdict.reason))
        return Admission(verdict)

    async def _ask(
        self, call_id: str, tool: str, arguments: dict[str, Any], verdict: Verdict, context: ToolContext
    ) -> str | None:
        """None for a yes, else what the model is told."""
        if self.ask is None:
            self.refused.append(self._described(tool, arguments))
            self._record_answer(call_id, tool, arguments, "nobody to ask", verdict.reason)
            return prompt.REFUSED_UNATTENDED.format(reason=verdict.reason)
        shown = self.masker.mask(await _shown(tool, arguments, replace(context, place=verdict.place)))
        visible = without_secrets(arguments, self.masker)
        question = Question(call_id, tool, visible, verdict, shown, self.timeout)
        answer = await self._answered(self.ask(question))
        if answer is None:
            self._record_answer(call_id, tool, arguments, "no answer", f"within {self.timeout:g} s")
            return prompt.REFUSED_BY_USER.format(reason=f": no answer within {self.timeout:g} s")
        if answer.allow:
            always = answer.always and verdict.suggestion is not None
            if always and verdict.suggestion is not None:
                self.policy.add_allow(verdict.suggestion)
            self._record_answer(
                call_id, tool, arguments, "always" if always else "yes", str(verdict.suggestion) if always else ""
            )
            return None
        self._record_answer(call_id, tool, arguments, "no", answer.reason)
        return prompt.REFUSED_BY_USER.format(reason=f": {answer.reason}" if answer.reason else "")

    async def _answered(self, answer: Awaitable[Answer]) -> Answer | None:
        """The answer; None where the time for it is over."""
        try:
            async with asyncio.timeout(self.timeout):
                return await answer
        except TimeoutError:
            return None

    def _record_verdict(self, call_id: str, tool: str, arguments: dict[str, Any], verdict: Verdict) -> None:
        if self.audit is not None:
            self.audit.record(
                "verdict",
                call=call_id,
                tool=tool,
                arguments=arguments,
                action=verdict.action,
                tier=verdict.tier,
                reason=verdict.reason,
                rule=verdict.rule,
            )

    def _record_answer(self, call_id: str, tool: str, arguments: dict[str, Any], outcome: Outcome, reason: str) -> None:
        self._remember(tool, arguments, outcome, reason)
        if self.audit is not None:
            self.audit.record("approval", call=call_id, tool=tool, outcome=outcome, reason=reason)

    def _described(self, tool: str, arguments: dict[str, Any]) -> str:
        return self.masker.mask(describe(tool, arguments))

    def _remember(self, tool: str, arguments: dict[str, Any], outcome: Outcome, reason: str) -> None:
        self.history.append(Decision(self._described(tool, arguments), outcome, self.masker.mask(reason)))


async def _shown(tool: str, arguments: dict[str, Any], context: ToolContext) -> str:
    """The whole command or the real change; the path alone where there is none to show."""
    if tool == "bash":
        return str(arguments.get("command") or "")
    if tool in ("write", "edit"):
        try:
            if diff := await asyncio.to_thread(_diff, tool, arguments, context):
                return diff
        except ToolError:
            return str(arguments["path"])  # the tool itself will say what is wrong
        return str(arguments["path"])
    return describe(tool, arguments)


def _diff(tool: str, arguments: dict[str, Any], context: ToolContext) -> str:
    from codelet.tools.planning import plan_edit, plan_write

    if tool == "write":
        return plan_write(context, arguments["path"], arguments["content"]).diff()
    return plan_edit(context, arguments["path"], arguments["edits"]).diff()


def describe(tool: str, arguments: dict[str, Any]) -> str:
    """A call in one line for people: the tool and what it is about."""
    about = arguments.get("command") or arguments.get("path") or arguments.get("pattern") or ""
    return f"{tool} {about}".strip()
