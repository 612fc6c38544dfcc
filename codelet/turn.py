"""The agent loop: one turn, as an async generator of events.

A turn is steps: one model request each, then the tool calls that it asks for. The assistant message and a
placeholder result for each of its calls are put into the list together, so there is no moment at which a
cancel leaves a call without its result.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal

from codelet import events, prompt
from codelet.calls import CallRunner, Toolbox
from codelet.errors import LimitReached, NoAnswer, ProviderError
from codelet.loop.conversation import Conversation
from codelet.messages import assistant, tool_result
from codelet.providers.base import Provider, Request, RetryChunk
from codelet.record import Record
from codelet.reply import Reply
from codelet.text import one_line
from codelet.tokens.usage import Usage

_UNUSABLE_STEPS = 5
_LONGEST_REFUSAL = 1_000
_REFUSED = "the model or the provider's content filter refused to answer"


class Limits(Record):
    """Bounds that the user set: steps of a turn, output tokens, dollars and seconds. None is no bound."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    timeout: float | None = None

    def passed(self, usage: Usage, cost: float | None) -> str | None:
        """The limit on a whole session that its usage or cost has passed, in words, or None."""
        if self.max_tokens is not None and usage.output >= self.max_tokens:
            return f"the limit of {self.max_tokens} output tokens is reached (--max-tokens)"
        if self.max_cost is not None and cost is not None and cost >= self.max_cost:
            return f"the limit of {self.max_cost:g} dollars is reached (--max-cost)"
        return None

    def output_left(self, most: int | None, usage: Usage) -> int | None:
        """What a request may still ask for, of at most `most` tokens, in a session that has used as much."""
        if self.max_tokens is None:
            return most
        left = max(1, self.max_tokens - usage.output)
        return left if most is None else min(left, most)


@dataclass(eq=False, repr=False)
class Turn:
    """What one turn works with and what it has come to.

    `prepare` gathers the reminders; `before_step` compacts where that is due (or, given True, because the provider
    said that the prompt is too long) and renews the volatile reminders; `changed` is told that calls may have changed
    files, as soon as they have ended; `spend` takes a step's usage and the index behind its answer, `count` that of a
    step without a whole answer, or None where nothing was reported; `exceeded` says which limit of the session is
    passed, `max_output` what a request may still ask for; `may_compact` whether an overflow may be answered by a
    compaction. `sent` is called once the provider has begun to answer, so that it was sent the list; `cut` says what of
    the user's input was not sent whole. `timer` is the time limit's, if any; `out_of_time` is what it says when it has
    passed. `receipt` says what an early end left.
    """

    conversation: Conversation
    provider: Provider
    system: str
    toolbox: Toolbox
    limits: Limits
    prepare: Callable[[], Awaitable[list[events.Event]]]
    before_step: Callable[[bool], AsyncGenerator[events.Event, None]]
    changed: Callable[[], None]
    spend: Callable[[Usage, int], events.UsageReport]
    count: Callable[[Usage | None], None]
    exceeded: Callable[[], str | None]
    max_output: Callable[[], int | None]
    may_compact: Callable[[], bool]
    sent: Callable[[], None]
    cut: Callable[[], tuple[events.Cut, ...]]
    call_ids: set[str] = field(default_factory=set)
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    reply: Reply | None = None
    calls: CallRunner | None = None
    unusable_steps: int = 0
    overflow: Literal["no", "now", "handled"] = "no"
    asked_again: bool = False
    open: bool = True
    timer: asyncio.Timeout | None = None
    out_of_time: str = ""
    receipt: events.Interrupted | None = None

    def end(self, reason: events.EndReason, error: str | None = None) -> events.TurnEnd:
        """The turn's last event."""
        self.open = False
        return events.TurnEnd(reason, self.steps, self.usage, error, self.cut())

    def settle(self, reason: str | None = None) -> events.Interrupted:
        """Leave a valid list that says what happened: partial text kept, open calls answered.

        `reason` is the limit or the failure that ended the turn; without one the user did, or the time limit.
        """
        if reason is None and self.timer is not None and self.timer.expired():
            reason = self.out_of_time
        note = prompt.INTERRUPTED_TEXT if reason is None else prompt.CUT_TEXT.format(reason=reason)
        self.receipt = events.Interrupted((), (), ())
        if self.reply is not None:
            if self.reply.usage is not None:  # what had been reported before the answer broke off was spent
                self.usage += self.reply.usage
                self.count(self.reply.usage)
            if self.reply.text.strip():
                self.conversation.append(assistant(f"{self.reply.text}\n\n{note}"))
            self.reply = None
        if self.calls is not None:
            self.receipt = self.calls.settle(prompt.BY_USER if reason is None else prompt.BECAUSE.format(reason=reason))
            self.calls = None
        self.open = False
        return self.receipt


async def run_turn(turn: Turn) -> AsyncGenerator[events.Event, None]:
    """Steps until the model stops calling tools, or something else ends the turn.

    Raises what ended it early, after the list is settled and its TurnEnd is out: CancelledError, ProviderError
    or LimitReached.
    """
    try:
        for event in await turn.prepare():
            yield event
        while turn.open:
            async with aclosing(_run_step(turn)) as step:
                async for event in step:
                    yield event
        yield turn.end("done")
    except asyncio.CancelledError:
        yield turn.settle()
        yield turn.end("interrupted")
        raise
    except ProviderError as error:
        turn.settle(str(error))
        yield turn.end("failed", str(error))
        raise
    except LimitReached as error:
        turn.settle(str(error))
        yield turn.end("limit", str(error))
        raise
    except GeneratorExit:
        turn.settle()
        raise


async def limited_in_time(turn: Turn, seconds: float | None) -> AsyncGenerator[events.Event, None]:
    """The turn's events under a time limit, which ends it as LimitReached instead of an interrupt."""
    if seconds is None:
        async with aclosing(run_turn(turn)) as running:
            async for event in running:
                yield event
        return
    deadline = asyncio.get_running_loop().time() + seconds
    turn.out_of_time = f"the time limit of {seconds:g} s is reached (--timeout)"
    async with aclosing(run_turn(turn)) as running:
        expired = False
        while not expired:
            try:
                async with asyncio.timeout_at(deadline) as turn.timer:
                    event = await anext(running)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise LimitReached(turn.out_of_time) from None
            expired = turn.timer.expired()
            if not expired:
                yield event
        async for event in running:  # what the turn says of its own cancellation is said of the limit instead
            if isinstance(event, events.TurnEnd):
                yield event.replace(reason="limit", error=turn.out_of_time)
                break
        raise LimitReached(turn.out_of_time)


async def _run_step(turn: Turn) -> AsyncGenerator[events.Event, None]:
    _check_limits(turn)
    async with aclosing(turn.before_step(turn.overflow == "now")) as preparation:
        async for event in preparation:
            yield event
    if turn.overflow == "now":
        turn.overflow = "handled"
    turn.steps += 1
    yield events.StepStart(turn.steps)
    reply = turn.reply = Reply()
    begun = False
    try:
        async with aclosing(turn.provider.stream(_request(turn))) as chunks:
            async for chunk in chunks:
                if not begun and not isinstance(chunk, RetryChunk):
                    begun = True
                    turn.sent()
                shown = reply.add(chunk)
                if shown is not None:
                    yield shown
    except ProviderError as error:
        if not error.overflow or turn.overflow != "no":
            raise
        if not turn.may_compact():
            raise ProviderError(f"{error}; compaction is off (--compact auto)", status=error.status) from error
        turn.overflow = "now"  # one forced compaction, then the step is tried once more
        turn.steps -= 1
        turn.reply = None
        return
    turn.overflow = "no"
    answered = _take_in(turn, reply)
    if reply.usage is not None:
        turn.usage += reply.usage
        yield turn.spend(reply.usage, answered)
    else:
        turn.count(None)
    if reply.is_void:
        yield _again_or_fail(turn, reply)
        return
    turn.asked_again = False
    if turn.calls is not None:
        async with aclosing(turn.calls.run()) as results:
            async for event in results:
                yield event
        _after_calls(turn)
    else:
        _after_answer(turn, reply)


def _request(turn: Turn) -> Request:
    return Request(
        system=turn.system,
        messages=turn.conversation.sent(),
        tail=len(turn.conversation.tail),
        tools=turn.toolbox.schemas,
        max_output=turn.max_output(),
    )


def _take_in(turn: Turn, reply: Reply) -> int:
    """Put the finished reply into the list, together with a placeholder result for each call.

    Gives the index behind the assistant message.
    """
    calls = reply.calls(turn.call_ids)
    turn.reply = None
    if not calls and not reply.text.strip():
        return len(turn.conversation.messages)
    message = reply.message(calls, turn.provider.origin)
    placeholders = [tool_result(call["id"], prompt.INTERRUPTED) for call in calls]
    place = turn.conversation.append(message, *placeholders)
    if calls:
        turn.calls = CallRunner(calls, turn.toolbox, turn.conversation, cut=reply.finish == "length")
    return place + 1


def _after_calls(turn: Turn) -> None:
    assert turn.calls is not None
    if turn.calls.changed:
        turn.changed()
    turn.unusable_steps = turn.unusable_steps + 1 if turn.calls.all_unusable else 0
    turn.calls = None
    if turn.unusable_steps >= _UNUSABLE_STEPS:
        raise LimitReached(
            f"the model made unusable tool calls in {_UNUSABLE_STEPS} steps in a row; try another --model"
        )


def _again_or_fail(turn: Turn, reply: Reply) -> events.Retry:
    """An answer without text and calls: asked for once more, unless it says that the model refuses.

    Raises NoAnswer where that is final, with a note of it in the answer's place: else the next prompt would follow
    right on this one.
    """
    if reply.refusal.strip():
        why = f"the model refused: {one_line(reply.refusal, _LONGEST_REFUSAL)}"
    else:
        why = _REFUSED if reply.finish == "refused" else "the model's answer is empty"
        if not turn.asked_again:
            turn.asked_again = True
            turn.steps -= 1
            return events.Retry(2, 2, 0.0, why)
        why = f"{why}, also when asked again"
    turn.conversation.append(assistant(prompt.NO_TEXT.format(reason=why)))
    raise NoAnswer(why)


def _after_answer(turn: Turn, reply: Reply) -> None:
    turn.open = False
    if reply.finish == "length":
        raise LimitReached("the answer reached the model's output limit")
    if reply.finish == "refused":
        said = f": {one_line(reply.refusal, _LONGEST_REFUSAL)}" if reply.refusal.strip() else ""
        raise NoAnswer(f"{_REFUSED}{said}")
    if (passed := turn.exceeded()) is not None:
        raise LimitReached(passed)


def _check_limits(turn: Turn) -> None:
    if turn.limits.max_turns is not None and turn.steps >= turn.limits.max_turns:
        raise LimitReached(f"the limit of {turn.limits.max_turns} turns is reached (--max-turns)")
    if (passed := turn.exceeded()) is not None:
        raise LimitReached(passed)
