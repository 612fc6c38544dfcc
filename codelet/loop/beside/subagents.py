"""Subagents: the model hands a task to a subsession, and gets its answer as the result of a call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from itertools import count

from codelet import events
from codelet.errors import CodeletError, SpendingLimit, ToolError, UsageError
from codelet.extensions.base import Extension, subsession_guards
from codelet.extensions.services import profile_in_force
from codelet.extensions.session_view import ExtensionSettings, SessionView
from codelet.loop.beside.subsession import Borrowed, Spending, open_beside
from codelet.loop.session import Session
from codelet.safety.verdict import Answer, Question
from codelet.tools import all_tools
from codelet.tools.tool import Arguments, Progress, ToolContext, ToolOutput, tool

MOST_STEPS = 20
_MOST_AT_ONCE = 4
_LONGEST_ANSWER = 20_000
_READS = ("read", "listed", "searched")

_SYSTEM = """\
You are a subagent: the prompt comes from another agent, which gets nothing but your last message, as the result of \
its call. Do the task by yourself, without questions. Your last message must hold everything that the task asks for: \
what you found or did, with the places as path:line, and what you did not do or could not check."""
_LAST_STEP = "This is your last step. Answer now with what you have. Calls are no longer possible."
_CUT_SHORT = "the subagent did not finish: {why}"
_SO_FAR = "\n\nIts last words were:\n{answer}"
_USED = "\n\n[subagent: {calls} call{s}, {tokens:,} tokens{cost}]"


class Subagents(Extension):
    """The tool `task`. At most four subagents of a session work together; subagents cannot start others."""

    def __init__(self, settings: ExtensionSettings) -> None:
        self.tools = (tool(self.task, title=_title),)
        self._settings = settings
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)
        self._spending: Spending | None = None
        self._session: Session

    def attach(self, session: SessionView) -> None:
        assert isinstance(session, Session)
        self._session = session

    async def task(
        self, context: ToolContext, progress: Progress, *, about: str, prompt: str, agent: str = ""
    ) -> ToolOutput:
        """Hand a task to a subagent, which works alone in a separate conversation and sees nothing of this one.
        Use it for a search or a question that needs many calls, if you need only the answer. Several calls in one step
        run side by side. Without an agent it can read but not write. You get its last message.

        about: What the task is, in three to six words, for the user.
        prompt: The whole task, with everything that it has to know and what its answer must contain.
        agent: The name of a profile, which says what the subagent is for and which tools it has. Mostly left out.
        """
        async with self._slots:
            child = self._open(agent)
            spending = self._spending = self._spending or Spending(self._session.meter.limits, self._session.meter)
            spending.watch(child)
            try:
                return await _answer(child, prompt, spending, progress)
            finally:
                spending.settle(child)
                ours, theirs = self._session.toolbox.approvals, child.toolbox.approvals
                ours.refused += theirs.refused
                ours.denied |= theirs.denied
                ours.history += theirs.history
                await child.close()

    def _open(self, agent: str) -> Session:
        """Open the session of a subagent. Raises ToolError for an agent that cannot be used."""
        own, session = {"fetch", *(each.name for each in all_tools())}, self._session
        offered = session.toolbox.tools.values()
        extensions: list[Extension] = [Borrowed((), subsession_guards(session.extensions))]
        if agent:
            try:
                extensions.append(profile_in_force(self._settings, session.workspace, agent))
            except UsageError as error:
                raise ToolError(f"task: {error}") from None
        return open_beside(
            session,
            session.provider,
            tools=[each for each in offered if each.name in own or each.source],
            system=f"{session.upkeep.system}\n\n{_SYSTEM}",
            mode=session.policy.mode if agent else "read-only",
            most_steps=MOST_STEPS,
            extensions=extensions,
            bare="claudeMd" not in session.reminders.sourced,
            permits=True,
            ask=None if session.toolbox.ask is None else self._ask,
        )

    async def _ask(self, question: Question) -> Answer:
        """Ask the user as for a call of the session, but do not offer another mode."""
        ask = self._session.toolbox.ask
        if ask is None:
            return Answer(False)
        verdict = question.verdict
        return await ask(
            question.replace(verdict=verdict.replace(lifted_by=None, reason=f"asked by a subagent; {verdict.reason}"))
        )


async def _answer(child: Session, prompt: str, spending: Spending, progress: Progress) -> ToolOutput:
    """Run a subagent's turn; return its answer and usage. Raises ToolError without an answer."""
    from codelet.providers.content.inline_reasoning import split_reasoning

    steps, pieces, why = count(2), list[str](), ""

    def before_step() -> Sequence[str]:
        """Run before each step but the first: in the last step, remove the tools and ask for the answer."""
        if next(steps) != (child.meter.limits.max_turns or MOST_STEPS):
            return ()
        child.upkeep.offer_only(())
        return (_LAST_STEP,)

    child.upkeep.unseen, child.upkeep.steering = True, before_step
    try:
        spending.bound(child)
        async with aclosing(child.send(prompt)) as turn:
            async for event in turn:
                match event:
                    case events.StepStart():
                        spending.check()
                        spending.bound(child)
                        pieces.clear()
                    case events.Retry():
                        pieces.clear()
                    case events.Text():
                        pieces.append(event.delta)
                    case events.ToolCallStarted():
                        progress(f"{event.name} {event.title}".strip() + "\n")
    except CodeletError as error:
        why = str(spending.limit_of_run(error)) if isinstance(error, SpendingLimit) else str(error)
    answer = split_reasoning("".join(pieces))[1].strip()
    if why:
        raise ToolError(_CUT_SHORT.format(why=why) + (_SO_FAR.format(answer=answer) if answer else ""))
    records = list(child.conversation.calls)
    spent, cost = child.meter.spent.total, child.meter.spent_cost
    paid = "" if cost is None else f", ${cost:.4f}"
    used = _USED.format(calls=len(records), s="" if len(records) == 1 else "s", tokens=spent, cost=paid)
    files = [fact for record in records for fact in record.files if fact.effect not in _READS]
    return ToolOutput(answer + used, most=_LONGEST_ANSWER, files=files)


def _title(arguments: Arguments) -> str:
    agent = arguments.get("agent")
    return f"{arguments['about']} ({agent})" if agent else str(arguments["about"])
