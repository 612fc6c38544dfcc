"""The agent loop: one turn, as an async generator of events.

A turn is steps: one model request each, then the tool calls that it asks for. The assistant message and a
placeholder result for each of its calls are put into the list together, so there is no moment at which a
cancel leaves a call without its result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Literal
from weakref import ref

from codelet import events, prompt
from codelet.conversation import Conversation
from codelet.errors import LimitReached, ProviderError, UsageError
from codelet.loop.meter import Meter
from codelet.loop.toolbox import Toolbox
from codelet.loop.upkeep import Upkeep
from codelet.messages import assistant
from codelet.providers.protocol import NoteChunk, Provider, RetryChunk
from codelet.system.text import is_blank
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.loop.calls import CallRunner
    from codelet.loop.reply import Reply
    from codelet.loop.route import ModelChange, Route


class TurnState:
    """What one turn works with and what it has come to."""

    def __init__(
        self, conversation: Conversation, standby: Standby, toolbox: Toolbox, upkeep: Upkeep, meter: Meter
    ) -> None:
        self.conversation = conversation
        self.standby = standby
        self.toolbox = toolbox
        self.upkeep = upkeep
        self.meter = meter
        self.steps = 0
        self.usage = Usage()
        self.reply: Reply | None = None
        self.calls: CallRunner | None = None
        self.unusable_steps = 0
        self.overflow: Literal["no", "now", "handled"] = "no"
        self.asked_again = False
        self.objected = False
        self.wrote_call = False
        self.open = True

    @property
    def answer(self) -> Reply:
        """What has come of the answer; what folds it is imported once the request has left."""
        if self.reply is None:
            from codelet.loop.reply import Reply

            self.reply = Reply()
        return self.reply

    def again(self) -> None:
        """The request is sent once more. Raises LimitReached where what it has used until now passes a limit."""
        self.meter.retries += 1
        self.spend_reported()
        self.meter.check()

    def spend_reported(self) -> None:
        """Count what an answer that broke off has used until then: it was spent."""
        if self.reply is not None:
            self.usage += self.meter.broke_off(self.reply) or Usage()

    def handoffs(self) -> list[events.Handoff]:
        """The requests for a handoff that have ended since the last look; they count in the turn's usage."""
        ended = self.meter.handoffs()
        for handoff in ended:
            self.usage += handoff.usage or Usage()
        return ended

    def end(self, reason: events.EndReason, error: str | None = None) -> events.TurnEnd:
        """The turn's last event."""
        return events.TurnEnd(reason, self.steps, self.usage, error, self.upkeep.cut)

    def settle(self, reason: str | None = None) -> events.Interrupted:
        """Leave a valid list that says what happened: partial text kept, open calls answered.

        `reason` is the limit or the failure that ended the turn; without one the user did, or the time limit.
        """
        if reason is None and self.meter.is_out_of_time:
            reason = self.meter.out_of_time
        note = prompt.INTERRUPTED_TEXT if reason is None else prompt.CUT_TEXT.format(reason=reason)
        receipt = events.Interrupted(done=(), half_done=(), not_done=())
        self.spend_reported()
        if self.reply is not None and not is_blank(self.reply.text):
            self.conversation.append(assistant(f"{self.reply.text}\n\n{note}"))
        if self.calls is not None:
            receipt = self.calls.settle(prompt.BY_USER if reason is None else prompt.BECAUSE.format(reason=reason))
        self.conversation.interruption = receipt
        return receipt


class Standby:
    """Who answers a session: the model that was chosen, or one of those that stand by for when it fails.

    What decides on that, the `route`, is imported with the first failure. `use` makes a provider the session's.
    """

    def __init__(
        self,
        chosen: Provider,
        standing_by: Sequence[Provider],
        use: Callable[[Provider], None],
        clock: Callable[[], float],
    ) -> None:
        self.route: Route | None = None
        self._chosen = chosen
        self._left: list[Provider] = []
        self._standing_by = standing_by
        self._use = use
        self._clock = clock

    @property
    def provider(self) -> Provider:
        """The one that is asked now."""
        return self._chosen if self.route is None else self.route.current

    def choose(self, provider: Provider) -> None:
        """The user chose another one."""
        self._left.append(self._chosen)
        self._chosen = provider
        if self.route is not None:
            self.route.choose(provider)

    @property
    def stands_in_for(self) -> Provider | None:
        """The chosen model, where another one answers in its place."""
        return None if self.route is None or self.route.current is self.route.chosen else self.route.chosen

    def replace(self, before: Provider, provider: Provider) -> None:
        """Ask `provider` wherever `before` was asked; the caller closes that one."""
        self._chosen = provider if self._chosen is before else self._chosen
        self._standing_by = [provider if one is before else one for one in self._standing_by]
        if self.route is not None:
            self.route.replace(before, provider)

    def begin_turn(self) -> None:
        """A turn begins: the chosen model may be asked again by now."""
        if self.route is not None:
            self.route.begin_turn()

    def opened(self) -> Route:
        """The route, made where there is none yet."""
        if self.route is None:
            from codelet.loop.route import Route

            self.route = Route(self._chosen, self._standing_by, self._use, self._clock)
        return self.route

    def told(self) -> Iterator[events.Event]:
        """What is to be shown of changes of the model, each once."""
        while self.route is not None and self.route.told:
            yield self.route.told.pop(0)

    @property
    def changes(self) -> list[ModelChange]:
        """Which models stood in for which so far."""
        return [] if self.route is None else self.route.changes

    async def close(self) -> None:
        """Close all providers."""
        every = {id(provider): provider for provider in (*self._left, self._chosen, *self._standing_by)}
        for provider in every.values():
            await provider.close()


class BegunTurn:
    """A turn's place among those of a session: a reference to its events, while someone holds them."""

    events: ref[AsyncGenerator[events.Event, None]]


class OpenTurn:
    """The one turn that a session runs, so that no other one begins meanwhile, and so that one which its caller left in
    the middle can be ended.
    """

    def __init__(self) -> None:
        self._running: BegunTurn | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(
        self, make: Callable[[BegunTurn], AsyncGenerator[events.Event, None]]
    ) -> AsyncGenerator[events.Event, None]:
        """Return a turn that runs once its first event is asked for."""
        begun = BegunTurn()
        turn = make(begun)
        begun.events = ref(turn)
        return turn

    def check_idle(self) -> None:
        """Raise UsageError while a turn runs that someone follows."""
        if self._running is not None and self._running.events() is not None:
            raise UsageError("a turn is running in this session: wait for its end, or close it, and then go on")

    async def idle(self) -> None:
        """Wait for the end of a turn that no one holds any more: the event loop is closing it. Raises UsageError."""
        while self._running is not None:
            self.check_idle()
            await self._idle.wait()

    async def runs(self, begun: BegunTurn) -> None:
        """Its first event is asked for. Raises UsageError while another turn runs."""
        await self.idle()
        self._running = begun
        self._idle.clear()

    def is_over(self) -> None:
        """Nothing of it runs any more."""
        self._running = None
        self._idle.set()

    async def end(self) -> None:
        """End it where nobody asks for its events any more; one that another task follows goes on."""
        turn = None if self._running is None else self._running.events()
        if turn is None:
            await self._idle.wait()  # nobody holds it: the event loop is closing it
        else:
            with suppress(RuntimeError):
                await turn.aclose()


async def run_turn(
    conversation: Conversation, standby: Standby, toolbox: Toolbox, upkeep: Upkeep, meter: Meter
) -> AsyncGenerator[events.Event, None]:
    """Steps until the model stops calling tools, or something else ends the turn.

    What an early end left is in `conversation.interruption`. Raises what ended it early, after the list is settled and
    its TurnEnd is out: CancelledError, ProviderError or LimitReached.
    """
    turn = TurnState(conversation, standby, toolbox, upkeep, meter)
    try:
        await standby.provider.warm()
        for event in standby.told():
            yield event
        for event in await upkeep.before_turn():
            yield event
        while turn.open:
            async with aclosing(_run_step(turn)) as step:
                async for event in step:
                    yield event
        for event in [*await upkeep.learnt(), *await upkeep.between_turns()]:
            yield event
        for event in turn.handoffs():
            yield event
        yield turn.end("done")
    except asyncio.CancelledError:
        yield turn.settle()
        for event in turn.handoffs():
            yield event
        yield turn.end("interrupted")
        raise
    except ProviderError as error:
        error.args = (toolbox.masker.mask(str(error)),)
        turn.settle(str(error))
        for event in turn.handoffs():
            yield event
        yield turn.end("failed", str(error))
        raise
    except LimitReached as error:
        turn.settle(str(error))
        for event in [*upkeep.said(), *turn.handoffs()]:
            yield event
        yield turn.end("limit", str(error))
        raise
    except GeneratorExit:
        turn.settle()
        raise
    finally:
        if standby.route is not None:
            standby.route.end_turn()


async def _before_step(turn: TurnState) -> AsyncGenerator[events.Event, None]:
    """What comes before a request: limits, what the user wrote meanwhile, who answers, a list that fits.

    Raises LimitReached, and ProviderError where nobody may be asked.
    """
    turn.meter.check(turn.steps)
    if turn.steps:
        for event in turn.upkeep.steer():
            yield event
    if turn.standby.route is not None:
        turn.standby.route.ready()
        for event in turn.standby.told():
            yield event
    async with aclosing(turn.upkeep.before_step(turn.overflow == "now")) as preparation:
        async for event in preparation:
            yield event
    for handoff in turn.handoffs():
        yield handoff
    if turn.overflow == "now":
        turn.overflow = "handled"


async def _run_step(turn: TurnState) -> AsyncGenerator[events.Event, None]:
    async with aclosing(_before_step(turn)) as preparation:
        async for event in preparation:
            yield event
    room = turn.meter.admit()
    turn.steps += 1
    yield events.StepStart(turn.steps)
    begun, replaced, sent = False, False, time.monotonic()
    try:
        async with aclosing(turn.standby.provider.stream(turn.upkeep.request(max_output=room))) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, RetryChunk):
                    turn.again()
                    if not chunk.other_form and turn.standby.opened().failed(chunk.reason):
                        replaced = True
                        break
                elif not begun and not isinstance(chunk, NoteChunk):
                    begun = True
                    turn.upkeep.answering()
                shown = turn.answer.add(chunk)
                if shown is not None:
                    yield shown
    except ProviderError as error:
        from codelet.loop.step_result import once_more

        for event in once_more(turn, error):
            yield event
        replaced = True
    if replaced:  # the step is made once more, of a shorter list or by another model
        turn.steps -= 1
        turn.reply = None
        for event in turn.standby.told():
            yield event
        return
    if turn.standby.route is not None:
        turn.standby.route.worked()
    turn.meter.answered(time.monotonic() - sent)
    turn.overflow = "no"
    from codelet.loop.step_result import act_on  # behind the first request

    async with aclosing(act_on(turn, turn.answer)) as acting:
        async for event in acting:
            yield event


async def end_of(turn: AsyncGenerator[events.Event, None], reason: str) -> events.TurnEnd:
    """The last event of a turn that the time limit ended."""
    async for event in turn:
        if isinstance(event, events.TurnEnd):
            return event.replace(reason="limit", error=reason)
    raise LimitReached(reason)
