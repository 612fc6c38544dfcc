"""The meter: what a session has used and cost, and what it may still use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from codelet import events
from codelet.context import ContextWindow
from codelet.conversation import Conversation
from codelet.errors import LimitReached, SpendingLimit
from codelet.providers.facts import ModelFacts
from codelet.record import Record
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.loop.reply import Reply

SHORTEST_ANSWER = 16
"""Output tokens that a request must be able to ask for: some providers take no smaller limit."""


class Limits(Record):
    """Bounds that the user set: steps of a turn, output tokens, dollars and seconds. None is no bound."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    timeout: float | None = None
    whose: ClassVar[str] = ""

    def passed(self, usage: Usage, cost: float | None) -> str | None:
        """Describe the limit on a whole session that its usage or cost has passed; None if none was.

        `cost` is the known part of what was paid.
        """
        if self.max_tokens is not None and usage.output >= self.max_tokens:
            return f"the{self.whose} limit of {self.max_tokens} output tokens is reached (--max-tokens)"
        if self.max_cost is not None and cost is not None and cost >= self.max_cost:
            return f"the{self.whose} limit of {self.max_cost:g} dollars is reached (--max-cost)"
        return None

    def output_left(self, most: int | None, usage: Usage) -> int | None:
        """Return what a request may still ask for, of at most `most` tokens, in a session that has used as much."""
        if self.max_tokens is None:
            return most
        left = max(1, self.max_tokens - usage.output)
        return left if most is None else min(left, most)


class _Together(Limits):
    """Limits on several sessions together."""

    whose = " shared"


class SharedLimits:
    """Limits on the total use of several sessions, `max_tokens` of output and `max_cost` in US dollars.

    The possible use of running requests counts too, so that parallel requests do not pass a limit together: a request
    that finds too little left waits for them. All sessions run in one event loop. `used` and `cost` are the use so far,
    with an estimate if it was not reported.
    """

    def __init__(self, *, max_tokens: int | None = None, max_cost: float | None = None) -> None:
        self.limits: Limits = _Together(max_tokens=max_tokens, max_cost=max_cost)
        self.used, self.cost = Usage(), 0.0
        self._in_hand: dict[Meter, tuple[int, float]] = {}
        self._ended = asyncio.Event()

    @property
    def alone(self) -> dict[str, float | None]:
        """The limits by name: what all may use is the most that one may."""
        return {"max_tokens": self.limits.max_tokens, "max_cost": self.limits.max_cost}

    def add(self, used: Usage, cost: float) -> None:
        """Count what was used."""
        self.used += used
        self.cost += cost

    def begin(self, meter: Meter, output: int, cost: float) -> None:
        """A request is about to leave, which may use as much."""
        self._in_hand[meter] = output, cost

    def end(self, meter: Meter) -> None:
        """The session's request is over."""
        if self._in_hand.pop(meter, None) is not None:
            self._ended.set()

    async def others_end(self, meter: Meter) -> bool:
        """Wait until a request of another session is over; False if none is in hand."""
        if not self._in_hand.keys() - {meter}:
            return False
        self._ended.clear()
        await self._ended.wait()
        return True

    def without(self, meter: Meter) -> tuple[Usage, float]:
        """Return what was used, and may still be used by requests of the others."""
        others = [each for other, each in self._in_hand.items() if other is not meter]
        output, cost = sum(each[0] for each in others), sum(each[1] for each in others)
        return self.used.replace(output=self.used.output + output), self.cost + cost


class Allowance(Record):
    """The `output` limit of a request, None if none need be named; `held_by` is the flag that made it smaller."""

    output: int | None
    held_by: str = ""

    @property
    def why_cut(self) -> str:
        """Return the note on an answer that this limit ended."""
        left = f": it is what {self.held_by} leaves" if self.held_by else ""
        return f"the answer reached its output limit{left}"


class Bill:
    """The total cost of requests, in dollars; free requests add nothing to it.

    `total` is None if the cost of a request is not known, or if all were free: nothing was charged then.
    """

    def __init__(self) -> None:
        self._amount: float | None = 0.0
        self._charges = self._free = False

    @property
    def total(self) -> float | None:
        """The sum."""
        return None if self._free and not self._charges else self._amount

    def begin_at(self, total: float | None) -> None:
        """Count on from a sum."""
        self._amount, self._charges = total, bool(total)

    def add(self, cost: float | None, *, free: bool) -> None:
        """Add a request; None is a cost that no one knows."""
        if free:
            self._free = True
            return
        self._charges = True
        self._amount = None if cost is None or self._amount is None else self._amount + cost

    def join(self, other: Bill) -> None:
        """Add all that another one adds up."""
        self._free = self._free or other._free
        if other._charges:
            self.add(other._amount, free=False)


class Meter:
    """Counts usage and cost in dollars against `limits`.

    `spent` and `spent_cost` leave out what the session had used before it was resumed. Limits apply to `held` and
    `charged`: the same tokens and dollars, with an estimate wherever a provider did not report them. `allowed` is what
    the last admitted request may ask for. `requests` were answered, in `waited` seconds altogether; `retries` were sent
    again. Servers left `dropped` blocks of earlier reasoning out of requests. `taken` are seconds of the time limit
    that were used before a turn could begin. `shared` are limits in common with other sessions.
    """

    shared: SharedLimits | None = None

    def __init__(self, conversation: Conversation, window: ContextWindow, facts: ModelFacts, limits: Limits) -> None:
        self.limits = limits
        self.facts = facts
        self.usage = Usage()
        self.spent = Usage()
        self.held = Usage()
        self.charged = 0.0
        self.requests = self.retries = self.dropped = 0
        self.waited = self.taken = 0.0
        self.allowed = Allowance(None)
        self._all, self._here = Bill(), Bill()
        self._asked: Usage | None = None
        self._conversation = conversation
        self._window = window
        self._doubted = False
        self._handoffs: list[events.Handoff] = []

    def limit_turns(self, most: int | None) -> None:
        """Allow at most `most` requests in a turn from now on."""
        self.limits = self.limits.replace(max_turns=most)

    @property
    def out_of_time(self) -> str:
        """Return what the time limit says once it has passed."""
        return f"the time limit of {self.limits.timeout:g} s is reached (--timeout)" if self.limits.timeout else ""

    @property
    def time_left(self) -> float | None:
        """Seconds that a turn may take, None without a limit."""
        return None if self.limits.timeout is None else max(0.1, self.limits.timeout - self.taken)

    @property
    def cost(self) -> float | None:
        """Return what the session has cost; see `Bill.total`."""
        return self._all.total

    @cost.setter
    def cost(self, total: float | None) -> None:
        self._all.begin_at(total)

    @property
    def spent_cost(self) -> float | None:
        """The same without the cost before the session was resumed."""
        return self._here.total

    async def admitted(self) -> int | None:
        """`admit`, once no other session's request may use what this one wants of the shared limits."""
        while self.shared is not None:
            try:
                if self._allowed(self._next, None) == self._alone(self._next, None):
                    break
            except SpendingLimit:
                pass
            if not await self.shared.others_end(self):
                break
        return self.admit()

    def admit(self) -> int | None:
        """The output limit for the next request, where one must or should be named: the model's, less what is used up.

        Raises LimitReached where the request, by an estimate, would pass a limit with the shortest answer: it is not to
        be sent.
        """
        self._asked = asked = self._next
        self.allowed = self._allowed(asked, None)
        if self.shared is not None:
            prices, output = self.facts.priced_at(asked.total_input or 0), self.allowed.output or 0
            cost = 0.0 if prices is None else prices.cost(asked.replace(output=output))
            self.shared.begin(self, output, cost)
        return self.allowed.output

    def beside(self, most: int | None = None) -> Allowance:
        """Admit a request next to the conversation's own, about as large, for at most `most` tokens.

        Raises LimitReached, also if a limit of the session is passed.
        """
        self.check()
        return self._allowed(self._next, most)

    def affords(self, output: int) -> bool:
        """Return whether another request may ask for that many tokens."""
        try:
            return not self.beside(output).held_by
        except LimitReached:
            return False

    @property
    def _next(self) -> Usage:
        """Return what the next request takes in, by an estimate."""
        size = self._window.size(self._conversation)
        read = min(self._window.cached, size)
        return Usage(total_input=size, cache_read=read, cache_write=size - read)

    def _allowed(self, asked: Usage, most: int | None) -> Allowance:
        """Return what a request may ask for. Raises SpendingLimit."""
        alone = self._alone(asked, most)
        if self.shared is None:
            return alone
        return self._within(self.shared.limits, *self.shared.without(self), asked, alone)

    def _alone(self, asked: Usage, most: int | None) -> Allowance:
        """The same, as far as the session's own limits go."""
        named = self.facts.known or self.facts.told or self.facts.free  # a small one may continue without end
        reserve = self._window.budget.reserve if named else None
        own = reserve if most is None else most if reserve is None else min(most, reserve)
        return self._within(self.limits, self.held, self.charged, asked, Allowance(own))

    def _within(self, limits: Limits, held: Usage, charged: float, asked: Usage, allowed: Allowance) -> Allowance:
        """Return what the limits leave, after the amounts already held and charged. Raises SpendingLimit."""
        size, own = asked.total_input or 0, allowed.output
        room = limits.output_left(own, held)
        if room is not None and room < SHORTEST_ANSWER and held.output and limits.max_tokens is not None:
            whole = f"the{limits.whose} limit of {limits.max_tokens} output tokens"
            raise SpendingLimit(f"of {whole} {room} are left (--max-tokens)")
        held_by = "--max-tokens" if room != own else allowed.held_by
        prices = self.facts.priced_at(size)
        if limits.max_cost is None or prices is None:
            return Allowance(room, held_by)
        left = limits.max_cost - charged - prices.cost(asked)
        affordable = int(left / prices.output)
        if affordable < SHORTEST_ANSWER:
            told = f"with the next request, of about {size:,} tokens, the cost would be about"
            most = f"the{limits.whose} limit of {limits.max_cost:g} dollars"
            raise SpendingLimit(f"{told} ${limits.max_cost - left:.4f}: over {most} (--max-cost)")
        return Allowance(affordable, "--max-cost") if room is None or affordable < room else Allowance(room, held_by)

    def check(self, steps: int = 0) -> None:
        """Raises LimitReached where a limit of the session is passed, or the turn has made as many steps as it may."""
        if (most := self.limits.max_turns) is not None and steps >= most:
            raise LimitReached(f"the limit of {most} {'turn' if most == 1 else 'turns'} is reached (--max-turns)")
        passed = self.limits.passed(self.held, self.charged)
        if passed is None and self.shared is not None:
            passed = self.shared.limits.passed(self.shared.used, self.shared.cost)
        if passed is not None:
            raise LimitReached(passed)

    def spend(self, usage: Usage, answered: int, written: int = 0) -> list[events.Event]:
        """Add a step's usage, and report it; its answer is right before the index `answered` of the list.

        The first report that cannot be right is followed by a note that says so. `written` is as in `count`.
        """
        self.count(usage, written)
        doubt = self._window.measured(usage, self._conversation, answered)
        budget, size = self._window.budget, self._window.size(self._conversation)
        report = events.UsageReport(usage=usage, context=size, window=budget.window, budget=budget.limit)
        if doubt is None or self._doubted:
            return [report]
        self._doubted = True
        told = f"{doubt}: the size of the list is estimated instead; usage and cost are as reported"
        return [report, events.Note(told)]

    def take_over(self, other: Meter) -> None:
        """Count the usage and cost of another session."""
        self.usage += other.spent
        self.spent += other.spent
        self.held += other.held
        for bill in (self._all, self._here):
            bill.join(other._here)
        self.charged += other.charged
        self.requests += other.requests
        self.retries += other.retries
        self.waited += other.waited
        if self.shared is not None and other.shared is not self.shared:
            self.shared.add(other.held, other.charged)

    def leave_shared(self) -> None:
        """None of the session's requests is in hand any more."""
        if self.shared is not None:
            self.shared.end(self)

    def answered(self, seconds: float) -> None:
        """Count a request that was answered after this many seconds."""
        self.requests += 1
        self.waited += seconds

    def count(self, usage: Usage | None, written: int = 0) -> None:
        """Add to the session's usage and cost; None is an answer whose usage was not reported.

        `written` is an estimate of its output, used for the limits if no output was reported.
        """
        usage = usage if usage is not None and usage.known else None
        self._record(usage)
        self._hold(usage, written)

    def count_handoff(self, usage: Usage | None, written: int, *, prepared: bool) -> None:
        """Count a request for a handoff, parallel to the turn's own; `usage` and `written` are as in `count`."""
        self.count(usage, written)
        known = usage if usage is not None and usage.known else None
        self._handoffs.append(events.Handoff(usage=known, prepared=prepared))

    def handoffs(self) -> list[events.Handoff]:
        """The requests for a handoff that have ended, each once."""
        ended, self._handoffs = self._handoffs, []
        return ended

    def _record(self, usage: Usage | None) -> None:
        """Add to the total."""
        if usage is not None:
            self.usage += usage
            self.spent += usage
        cost = self.facts.cost(usage) if usage is not None else None
        for bill in (self._all, self._here):
            bill.add(cost, free=self.facts.free)

    def broke_off(self, reply: Reply) -> Usage | None:
        """Count the reported usage of an answer that was cut off, and return it: it was spent.

        What came after the last report counts for the limits alone.
        """
        used, written, reply.usage = reply.usage, reply.newly_written(), None
        if used is not None:
            self._record(used)
        if used is not None or written:
            told = used or Usage()
            self._hold(told.replace(output=max(told.output, written)))
        return used

    def _hold(self, usage: Usage | None, written: int = 0) -> None:
        """Count for the limits alone: what was reported, and by an estimate what was not."""
        asked, told = self._asked or Usage(), usage or Usage()
        if not told.total_input:
            told = told.replace(
                total_input=asked.total_input, cache_read=asked.cache_read, cache_write=asked.cache_write
            )
        told = told.replace(output=told.output or written)
        cost = self.facts.cost(told) or 0.0
        self.held += told
        self.charged += cost
        if self.shared is not None:
            self.shared.end(self)
            self.shared.add(told, cost)
