"""The agent loop: the steps of one turn, as an async generator of events.

A step is one model request, then the tool calls that it asks for. The assistant message and a placeholder result for
each of its calls enter the list together, so there is no moment at which a cancel leaves a call without its result. One
of two functions returns what follows a step: `after_answer` or `after_failure`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Literal
from weakref import ref

from codelet import events, prompt
from codelet.conversation import Conversation
from codelet.errors import LimitReached, NoAnswer, ProviderError, UsageError
from codelet.loop.meter import Meter
from codelet.loop.models import Models
from codelet.loop.toolbox import Toolbox
from codelet.loop.upkeep import Upkeep
from codelet.messages import assistant, tool_result, user
from codelet.providers.protocol import NoteChunk, RetryChunk
from codelet.system.text import is_blank, one_line
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.loop.calls import CallRunner
    from codelet.loop.reply import Reply

_UNUSABLE_STEPS = 5
_MOST_STOPPED = 3
"""Answers of a turn after which an extension may have the model continue."""
_LONGEST_REFUSAL = 1_000
_LONGEST_NAME = 80
_CALL_IN_TEXT = "the model wrote a call of {name} as text, so nothing was run"
_CALLS_AS_TEXT = "name another --model, or have the server parse tool calls (vLLM: --enable-auto-tool-choice)"
_PAUSED = "the provider paused the answer: it is not finished"
_UNMET = "the answer does not meet the schema, also when asked again: {problem}"
_REFUSED = "the model or the provider's content filter refused to answer"

StepResult = Literal["more", "again", "shorter", "final"]
"""The result of a step: the next step, the same one again (with a shorter list), or the end of the turn."""

_Next = tuple[StepResult, Sequence[events.Event]]
"""A step's result, with events for the user."""


class Attempts:
    """The repeated requests, by reason, since the last success; and the number of unusable steps in a row.

    `stopped` counts the answers after which an extension had the model continue.
    """

    too_long = empty = as_text = unmet = False
    unusable = stopped = 0


class TurnState:
    """The parts and the progress of one turn."""

    def __init__(
        self, conversation: Conversation, models: Models, toolbox: Toolbox, upkeep: Upkeep, meter: Meter
    ) -> None:
        self.conversation = conversation
        self.models = models
        self.toolbox = toolbox
        self.upkeep = upkeep
        self.meter = meter
        self.steps = 0
        self.usage = Usage()
        self.attempts = Attempts()
        self.reply: Reply | None = None
        self.calls: CallRunner | None = None

    @property
    def answer(self) -> Reply:
        """Return what has come of the answer; what folds it is imported once the request has left."""
        if self.reply is None:
            from codelet.loop.reply import Reply

            self.reply = Reply()
        return self.reply

    def hands_over(self, retry: RetryChunk) -> bool:
        """Count an attempt that failed; return whether another model makes the step instead.

        Raises LimitReached if what was used until now passes a limit.
        """
        self.meter.retries += 1
        self.spend_reported()
        self.meter.check()
        return not retry.other_form and self.models.failed(retry.reason)

    def spend_reported(self) -> None:
        """Count what an answer that broke off has used until then: it was spent."""
        self.meter.leave_shared()
        if self.reply is not None:
            self.usage += self.meter.broke_off(self.reply) or Usage()

    def handoffs(self) -> list[events.Handoff]:
        """The requests for a handoff that have ended since the last look; they count in the turn's usage."""
        ended = self.meter.handoffs()
        for handoff in ended:
            self.usage += handoff.usage or Usage()
        return ended

    def end(self, reason: events.EndReason, error: str | None = None) -> list[events.Event]:
        """The turn's last events."""
        return [*self.handoffs(), events.TurnEnd(reason, self.steps, self.usage, error, self.upkeep.entry.cut)]

    def end_early(self, error: BaseException) -> list[events.Event]:
        """Leave a valid list that says what happened: partial text kept, open calls answered. The turn's last events.

        A cancel is the user's. A turn that its caller closed has no events: no one follows it.
        """
        if isinstance(error, ProviderError):
            error.args = (self.toolbox.masker.mask(str(error)),)
        stopped = isinstance(error, asyncio.CancelledError | GeneratorExit)
        reason = str(error)
        self.spend_reported()
        if self.reply is not None and not is_blank(self.reply.text):
            note = prompt.INTERRUPTED_TEXT if stopped else prompt.CUT_TEXT.format(reason=reason)
            self.conversation.append(assistant(f"{self.reply.text}\n\n{note}"))
        receipt = events.Interrupted(done=(), half_done=(), not_done=())
        if self.calls is not None:
            receipt = self.calls.settle(prompt.BY_USER if stopped else prompt.BECAUSE.format(reason=reason))
        self.conversation.interruption = receipt
        match error:
            case asyncio.CancelledError():
                return [receipt, *self.end("interrupted")]
            case LimitReached():
                self.upkeep.server.take()
                return self.end("limit", reason)
            case Exception():
                return self.end("failed", reason)
        return []


class BegunTurn:
    """A turn of a session: a reference to its events while a caller holds them, and its end."""

    events: ref[AsyncGenerator[events.Event, None]]

    def __init__(self) -> None:
        self.over = asyncio.Event()


class OpenTurn:
    """The one running turn of a session: no other begins during it, and one that its caller left in the middle can be
    ended.
    """

    def __init__(self) -> None:
        self._running: BegunTurn | None = None

    def begin(
        self, make: Callable[[BegunTurn], AsyncGenerator[events.Event, None]]
    ) -> AsyncGenerator[events.Event, None]:
        """Return a turn that starts when its first event is requested."""
        begun = BegunTurn()
        turn = make(begun)
        begun.events = ref(turn)
        return turn

    def check_idle(self) -> None:
        """Raise UsageError while a turn runs that someone follows."""
        if self._running is not None and self._running.events() is not None:
            raise UsageError("a turn is running in this session: wait for it to end, or close it")

    async def idle(self) -> None:
        """Wait for the end of a turn that no one holds any more: the event loop is closing it. Raises UsageError."""
        while self._running is not None:
            self.check_idle()
            await self._running.over.wait()

    async def runs(self, begun: BegunTurn) -> None:
        """Start the turn for its first event. Raises UsageError while another turn runs."""
        await self.idle()
        self._running = begun

    def is_over(self) -> None:
        """End the turn that runs."""
        if self._running is not None:
            self._running.over.set()
            self._running = None

    async def end(self) -> None:
        """End a turn that was abandoned; one that another task follows continues."""
        if self._running is None:
            return
        if (turn := self._running.events()) is None:  # no one holds it: the event loop is closing it
            await self._running.over.wait()
        else:
            with suppress(RuntimeError):
                await turn.aclose()


async def run_steps(turn: TurnState) -> AsyncGenerator[events.Event, None]:
    """Steps until the model stops calling tools. Raises what ends the turn early, which `TurnState.end_early` takes."""
    models, upkeep = turn.models, turn.upkeep
    await models.current.warm()
    async with aclosing(upkeep.before_turn()) as preparation:
        async for event in preparation:
            yield event
    came_to: StepResult | None = "more"
    while came_to != "final":
        async with aclosing(_before_step(turn, shorter=came_to == "shorter")) as preparation:
            async for event in preparation:
                yield event
        request = upkeep.request(max_output=await turn.meter.admitted())
        turn.steps += 1
        yield events.StepStart(turn.steps)
        told: Sequence[events.Event] = ()
        came_to, begun, sent = None, False, time.monotonic()
        try:
            async with aclosing(models.current.stream(request)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, RetryChunk):
                        if turn.hands_over(chunk):
                            came_to = "again"
                            break
                    elif not begun and not isinstance(chunk, NoteChunk):
                        begun = True
                        upkeep.answering()
                    if (shown := turn.answer.add(chunk)) is not None:
                        yield shown
        except ProviderError as error:
            came_to, told = after_failure(turn, error)
        if came_to is None:
            reply = turn.answer
            for event in _taken_in(turn, reply, time.monotonic() - sent):
                yield event
            came_to, told = await _concluded(turn, reply)
        if came_to in ("again", "shorter"):
            turn.steps -= 1
            turn.reply = None
        for event in told:
            yield event
        if turn.calls is not None:
            async with aclosing(turn.calls.run()) as results:
                async for event in results:
                    yield event
            _after_calls(turn, turn.calls)
    await upkeep.server.settle()
    await upkeep.between_turns()
    for event in turn.end("done"):
        yield event


async def _before_step(turn: TurnState, *, shorter: bool) -> AsyncGenerator[events.Event, None]:
    """Yield the events before a request: limits, prompts typed during the step, the model that answers, a list that
    fits.

    Raises LimitReached, and ProviderError if every circuit is open.
    """
    turn.meter.check(turn.steps)
    if turn.steps:
        for event in await turn.upkeep.steer():
            yield event
    turn.models.ready()
    async with aclosing(turn.upkeep.before_step(shorter)) as preparation:
        async for event in preparation:
            yield event
    for handoff in turn.handoffs():
        yield handoff


def after_failure(turn: TurnState, error: ProviderError) -> _Next:
    """Return how a step is made again whose request failed: after one forced compaction, or by another model.

    Raises the error if neither helps. What did not fit may have been the room for the answer alone: then a window that
    the refusal names is enough.
    """
    turn.spend_reported()  # before another model, which has other prices
    if not error.overflow:
        begun = turn.reply is not None and turn.reply.has_begun and not turn.upkeep.unseen
        if turn.models.gave_up(error, begun=begun):
            return "again", ()
        raise error
    turn.models.worked()  # it took the request in: a probe is over
    if turn.attempts.too_long:
        raise error
    if not turn.upkeep.server.refused(error):
        return "again", ()
    if not turn.upkeep.compactor.options.automatic:
        why = f"{error}; compaction is off (--compact auto)"
        raise ProviderError(why, status=error.status, overflow=True) from error
    turn.attempts.too_long = True
    return "shorter", ()


def _taken_in(turn: TurnState, reply: Reply, seconds: float) -> list[events.Event]:
    """Put the reply into the list, together with a placeholder result for each call; report what it cost."""
    turn.models.worked()
    turn.attempts.too_long = False
    turn.meter.answered(seconds)
    turn.reply = None
    answered = len(turn.conversation.messages)
    calls = reply.calls(turn.conversation.call_ids)
    if calls or not is_blank(reply.text):
        message = reply.message(calls, turn.models.current.origin)
        placeholders = [tool_result(call["id"], prompt.INTERRUPTED) for call in calls]
        answered = turn.conversation.append(message, *placeholders) + 1
    if calls:
        from codelet.loop.calls import CallRunner  # many answers ask for none

        log, answer = turn.conversation.record, turn.conversation.answer
        turn.calls = CallRunner(calls, turn.toolbox, answer, cut=reply.finish == "length", log=log)
    written = reply.newly_written()
    turn.meter.dropped += reply.dropped
    if reply.usage is None:
        turn.meter.count(None, written)
        return []
    turn.usage += reply.usage
    return turn.meter.spend(reply.usage, answered, written)


def _after_calls(turn: TurnState, calls: CallRunner) -> None:
    """Raise LimitReached after too many steps without a usable call."""
    turn.calls = None
    turn.attempts.as_text = False
    if calls.changed:
        turn.upkeep.reminders.changed()
    turn.attempts.unusable = turn.attempts.unusable + 1 if calls.all_unusable else 0
    if turn.attempts.unusable >= _UNUSABLE_STEPS:
        raise LimitReached(
            f"the model made unusable tool calls in {_UNUSABLE_STEPS} steps in a row; try another --model"
        )


async def _concluded(turn: TurnState, reply: Reply) -> _Next:
    """Return what `after_answer` does, and ask extensions whether the model may end the turn with its answer."""
    came_to, told = after_answer(turn, reply)
    may_go_on = came_to == "final" and turn.attempts.stopped < _MOST_STOPPED
    if may_go_on and await turn.upkeep.goes_on(reply.text):
        turn.attempts.stopped += 1
        return "more", told
    return came_to, told


def after_answer(turn: TurnState, reply: Reply) -> _Next:
    """Return how a turn continues after an answer: with its calls, with its end, or with the same question once more.

    Raises LimitReached and NoAnswer if the answer is not whole, or empty.
    """
    if reply.is_void:
        return _after_nothing(turn, reply)
    turn.attempts.empty = False
    if turn.calls is not None:
        return "more", ()
    refusal = "" if is_blank(reply.refusal) else f": {one_line(reply.refusal, _LONGEST_REFUSAL)}"
    match reply.finish:
        case "length":
            raise LimitReached(turn.meter.allowed.why_cut)
        case "refused":
            raise NoAnswer(f"{_REFUSED}{refusal}")
        case "paused":
            raise NoAnswer(_PAUSED)
    required, attempts = turn.upkeep.required, turn.attempts
    problem = None if required is None else required.objection(reply.text)
    name = _called_as_text(turn, reply.text) if required is None or problem is not None else None
    if name is not None:
        why = _CALL_IN_TEXT.format(name=one_line(name, _LONGEST_NAME))
        if attempts.as_text:
            raise NoAnswer(f"{why}, also when asked again; {_CALLS_AS_TEXT}")
        says = prompt.CALL_IN_TEXT.format(name=name)
    elif problem is not None:
        if attempts.unmet:
            raise NoAnswer(_UNMET.format(problem=problem))
        why, says = f"the answer does not meet the schema: {problem}", prompt.NOT_AS_ASKED.format(problem=problem)
    turn.meter.check()
    if name is None and problem is None:
        return "final", ()
    if name is None:
        attempts.unmet = True
    else:
        attempts.as_text = True
    turn.conversation.append(user(says))
    return "more", [events.Retry(attempt=2, attempts=2, wait=0.0, reason=why)]


def _called_as_text(turn: TurnState, text: str) -> str | None:
    """Return the name of a tool whose call ends the text, if the model has that tool."""
    from codelet.loop.call_in_text import called_in_text

    name = called_in_text(text) if turn.toolbox.schemas else None
    return None if name is None or turn.toolbox.tool_named(name) is None else name


def _after_nothing(turn: TurnState, reply: Reply) -> _Next:
    """Ask once more after an answer without text and calls, unless it says that the model refuses.

    Raises NoAnswer if that is final, with a note of it in the answer's place: else the next prompt would follow right
    on this one.
    """
    if not is_blank(reply.refusal):
        why = f"the model refused: {one_line(reply.refusal, _LONGEST_REFUSAL)}"
    else:
        why = _REFUSED if reply.finish == "refused" else "the model's answer is empty"
        if not turn.attempts.empty:
            turn.attempts.empty = True
            turn.meter.retries += 1
            return "again", [events.Retry(attempt=2, attempts=2, wait=0.0, reason=why)]
        why = f"{why}, also when asked again"
    turn.conversation.append(assistant(prompt.NO_TEXT.format(reason=why)))
    raise NoAnswer(why)
