"""Decides whether a tool call may run: the policy judges, the user is asked, and the decision is remembered.

Decisions are kept in memory only, for `/permissions`. Guards hear of them too, such as the audit if the user asked for
one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from codelet import prompt
from codelet.errors import UsageError
from codelet.extensions.base import GuardedCall, Guards, stricter
from codelet.record import Newest, Record
from codelet.safety import Policy
from codelet.safety.secrets import Masker, without_secrets
from codelet.safety.verdict import Answer, Ask, Question, Verdict
from codelet.tools.tool import Preview, all_arguments, copied

if TYPE_CHECKING:
    from codelet.tools.change import Change
    from codelet.tools.tool import ToolContext

_HISTORY = 1_000

DecisionOutcome = Literal["denied", "yes", "always", "no", "no answer", "nobody to ask"]


class Decision(Record):
    """One decision that was not the policy's own yes: what was wanted, what came of it, and why."""

    about: str
    outcome: DecisionOutcome
    reason: str


class Admission(Record):
    """The verdict on a call, and the text for the model if the call may not run.

    `change` is the planned change of a file: what was approved is what is written.
    """

    verdict: Verdict
    refusal: str | None = None
    change: Change | None = None


class Approvals:
    """Decides on the calls of one session. `asker` returns how to ask the user, or None; `timeout` is in seconds.

    `refused` collects the calls that were refused without a question, each in one line; `denied` those of them that no
    answer could have permitted, with the reason; `history` all decisions.
    """

    def __init__(
        self,
        policy: Policy,
        masker: Masker,
        guards: Guards,
        asker: Callable[[], Ask | None],
        timeout: float | None = None,
    ) -> None:
        self._policy = policy
        self.masker = masker
        self._asker = asker
        self.timeout = timeout
        self.guards = guards
        self.refused: list[str] = []
        self.denied: dict[str, str] = {}
        self.history = Newest[Decision](_HISTORY)
        self._asking = asyncio.Lock()
        self._waiting = 0

    @property
    def ask(self) -> Ask | None:
        """Return the function that asks the user, or None."""
        return self._asker()

    async def admit(
        self, call: GuardedCall, context: ToolContext, *, confines: bool = True, refusal: str = ""
    ) -> Admission:
        """Judge a call whose arguments are final, and ask if needed. Questions come one after the other.

        `confines` says that a sandbox works for its commands. A guard's `refusal` of the original arguments is final.
        Raises ToolError, without a question, if a file cannot be changed in this way.
        """
        verdict = self._judged(call, confines=confines)
        refused = Verdict("deny", "execute", refusal) if refusal else None
        wanted = refused or await self.guards.judged(call.replace(verdict=verdict))
        if self._tightened(verdict, wanted).action != "ask":
            return await self._decide(call, self._tightened(verdict, wanted), context)
        async with self._in_turn():
            # An "always" may have come in while this waited.
            verdict = self._judged(call, confines=confines)
            return await self._decide(call, self._tightened(verdict, wanted), context)

    def _judged(self, call: GuardedCall, *, confines: bool) -> Verdict:
        source = "" if call.tool is None else call.tool.source
        return self._policy.judge(call.name, call.touches, sandboxed=confines, source=source)

    def take_back(self, reason: str) -> None:
        """No longer count what was refused for this reason, which holds no more."""
        early = {about for about, why in self.denied.items() if why == reason}
        self.refused[:] = [about for about in self.refused if about not in early]
        for about in early:
            del self.denied[about]

    @asynccontextmanager
    async def _in_turn(self) -> AsyncIterator[None]:
        """One question at a time, in the order of the calls."""
        self._waiting += 1
        try:
            await self._asking.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._asking.release()

    def _tightened(self, verdict: Verdict, wanted: Verdict | None) -> Verdict:
        """Return the policy's verdict, tightened by the guards; `--yes` also answers what they ask.

        What only the user may permit is asked even with `--yes`, if there is someone to ask.
        """
        if wanted is not None and not (wanted.action == "ask" and self._policy.yes):
            verdict = stricter(verdict, wanted)
        return verdict.replace(action="ask") if verdict.person_may and self.ask is not None else verdict

    async def _decide(self, call: GuardedCall, verdict: Verdict, context: ToolContext) -> Admission:
        if verdict.action == "deny":
            if verdict.person_may:
                verdict = verdict.replace(reason=f"{verdict.reason}; only the user can allow it when asked")
            self._record_verdict(call, verdict)
            about = self._described(call)
            self.refused.append(about)
            self.denied[about] = self.masker.mask(verdict.reason)
            self._remember(call, "denied", verdict.reason)
            return Admission(verdict, prompt.REFUSED_BY_POLICY.format(reason=verdict.reason))
        planned = None
        context = context.replace(place=verdict.place)
        plans = call.tool is not None and call.tool.preview is not None
        try:
            if plans and any(touch.kind == "write" for touch in call.touches or ()):
                planned = await asyncio.to_thread(_planned, call, context)
                if planned.change is not None:
                    verdict = self._with_content(verdict, planned.change)
        finally:
            self._record_verdict(call, verdict)
        if verdict.action == "allow":
            return Admission(verdict, change=None if planned is None else planned.change)
        if plans:
            preview = await asyncio.to_thread(_preview, call, context, planned)
        else:
            preview = _preview(call, context, None)
        return Admission(verdict, await self._ask(call, verdict, preview, str(context.workspace)), preview.change)

    def _with_content(self, verdict: Verdict, change: Change) -> Verdict:
        """Return the verdict, stricter if the call would replace a file that the model has not seen in full.

        No mode and no rule permits that; `--yes` does. Raises ToolError if no one can be asked.
        """
        if not change.unseen or self._policy.yes:
            return verdict
        reason = f"it replaces the whole of {change.name}, of which the model has seen {change.unseen}"
        if verdict.action == "ask":
            return verdict.replace(reason=f"{verdict.reason}: {reason}", suggestion=None, lifted_by=None)
        if self.ask is None:
            from codelet.tools.planning import known_content

            known_content(change)
        return Verdict("ask", verdict.tier, reason, place=verdict.place)

    async def _ask(self, call: GuardedCall, verdict: Verdict, preview: Preview, place: str) -> str | None:
        """Return None for a yes, else the refusal for the model. `place` is the folder of a command."""
        if self.ask is None:
            self.refused.append(self._described(call))
            self._record_answer(call, "nobody to ask", verdict.reason)
            return prompt.REFUSED_UNATTENDED.format(reason=verdict.reason)
        rule = verdict.suggestion or ""
        question = Question(
            call.id,
            call.name,
            copied(call.arguments),
            verdict,
            preview.text,
            self.timeout,
            asks=preview.asks,
            touches=call.touches or (),
            where=place,
            following=self._waiting,
            covered=tuple(self._policy.covered(rule)) if rule.startswith("bash(") else (),
            change=None if preview.change is None else preview.change.reported(),
        )
        answer = await self._answered(question)
        if answer is None:
            self._record_answer(call, "no answer", f"within {self.timeout:g} s")
            return prompt.REFUSED_BY_USER.format(reason=f": no answer within {self.timeout:g} s")
        if not answer.allow:
            self._record_answer(call, "no", answer.reason)
            return prompt.REFUSED_BY_USER.format(reason=f": {answer.reason}" if answer.reason else "")
        try:
            made = self._widened(verdict, answer)
        except UsageError as error:  # a yes all the same
            self._record_answer(call, "yes", f"no rule was added: {error}")
            return None
        self._record_answer(call, "always" if made else "yes", made)
        return None

    async def put(self, name: str, asks: str, shown: str, reason: str) -> bool:
        """Ask the user about something other than a call; return True for a yes. `asks` is a short question."""
        answer = await self._put(Question("", name, {}, Verdict("ask", "read", reason), shown, self.timeout, asks=asks))
        return answer is not None and answer.allow

    async def inquire(self, name: str, asks: str, options: tuple[str, ...]) -> Answer | None:
        """Ask the user a question with choices; the answer's `reason` is the choice or their text."""
        verdict = Verdict("ask", "read", "")
        return await self._put(Question("", name, {}, verdict, "", self.timeout, asks=asks, options=options))

    async def _put(self, question: Question) -> Answer | None:
        """Ask what is no call. None if there is no one, or no answer in time."""
        if self.ask is None:
            return None
        async with self._in_turn():
            answer = await self._answered(question)
        outcome: DecisionOutcome = "no answer" if answer is None else "yes" if answer.allow else "no"
        reason = "" if answer is None else self.masker.mask(answer.reason)
        self.history.append(Decision(self.masker.mask(f"{question.tool}: {question.asks}"), outcome, reason))
        return answer

    def _widened(self, verdict: Verdict, answer: Answer) -> str:
        """Allow from now on what the user's yes covers besides this call; return a description, "" for nothing.

        Raises UsageError if the user's own rule is not valid.
        """
        if answer.mode and verdict.lifted_by is not None:
            self._policy.mode = verdict.lifted_by
            return f"mode {verdict.lifted_by}"
        if not answer.always:
            return ""
        if verdict.suggestion is not None and answer.rule:
            self._policy.add_allow(answer.rule)
            return answer.rule
        if verdict.suggestion is not None:
            self._policy.add_allow(verdict.suggestion)
            return verdict.suggestion
        if verdict.exactly is not None:
            self._policy.exact.add((verdict.exactly, verdict.parts))
            return f"exactly: {verdict.exactly}"
        return ""

    async def _answered(self, question: Question) -> Answer | None:
        """The answer to a question, which is shown without secrets; None if the time for it is over."""
        assert self.ask is not None
        try:
            async with asyncio.timeout(self.timeout):
                return await self.ask(without_secrets(question, self.masker))
        except TimeoutError:
            return None

    def _record_verdict(self, call: GuardedCall, verdict: Verdict) -> None:
        facts = {"action": verdict.action, "tier": verdict.tier, "reason": verdict.reason, "rule": verdict.rule}
        self.guards.record("verdict", call, **facts)

    def _record_answer(self, call: GuardedCall, outcome: DecisionOutcome, reason: str) -> None:
        self._remember(call, outcome, reason)
        self.guards.record("approval", call, outcome=outcome, reason=reason)

    def _described(self, call: GuardedCall) -> str:
        return self.masker.mask(call.described)

    def _remember(self, call: GuardedCall, outcome: DecisionOutcome, reason: str) -> None:
        self.history.append(Decision(self._described(call), outcome, self.masker.mask(reason)))


def _planned(call: GuardedCall, context: ToolContext) -> Preview:
    """Return what the call's tool says that it would do. Raises ToolError if it cannot be done."""
    return Preview() if call.tool is None else call.tool.previewed(context, call.arguments)


def _preview(call: GuardedCall, context: ToolContext, planned: Preview | None) -> Preview:
    """Return the text that the user approves: the difference, the tool's preview, its commands, or its title.

    For a tool whose effects are unknown these are all arguments, whatever its title says.
    """
    preview = _planned(call, context) if planned is None else planned
    text = preview.text if preview.change is None else preview.change.diff()
    commands = [touch.what for touch in call.touches or () if touch.kind == "run"]
    return preview.replace(text=text or "\n".join(commands) or _about(call))


def _about(call: GuardedCall) -> str:
    """Return what the call is about, with all arguments as JSON if no one knows what the tool touches."""
    if call.touches is not None:
        return call.described
    import json

    about = call.name if call.title == all_arguments(call.arguments) else call.described
    return f"{about}\n{json.dumps(call.arguments, indent=2, ensure_ascii=False, default=str)}"
