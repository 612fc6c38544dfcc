"""The model that answers: the chosen one, or after failures in a row the next fallback; and what its server says.

Each provider that failed has a circuit breaker. A fallback answers for the rest of a turn; with a new turn, once the
pause is over, the chosen model is asked again. The list stays unchanged: each wire writes it in its own form, and a
step is repeated only if nothing of its answer has come, so no call that ran is ever run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from codelet.context import ContextLimits, ContextWindow
from codelet.errors import ProviderError
from codelet.events import Notices
from codelet.loop.meter import Meter
from codelet.providers.facts import Circuit, ModelChange, ModelFacts, facts_of
from codelet.providers.protocol import Provider, ServerFacts
from codelet.system.text import one_line

if TYPE_CHECKING:
    from codelet.context.tokens import Budget
    from codelet.loop.toolbox import Toolbox
    from codelet.providers.choice.breaker import CircuitBreaker

_LONGEST_REASON = 200
_ANSWER_WAIT = 1.0
"""Seconds for which a request waits at most for what the server says of the model."""
_OF_THE_PROVIDER = (402, 408, 409, 425, 429)
_FOR_GOOD = (402, 429)
"""Statuses that, where no other attempt is worth it, say that this provider answers nothing for now."""


class Models:
    """The providers of one session: `current` answers, `chosen` is the user's choice.

    The session's meter, window and cache follow the current one. `limits` are the window and the budget that the user
    named. `changes` are the fallbacks that answered so far. `clock` gives seconds.
    """

    def __init__(
        self,
        chosen: Provider,
        standing_by: Sequence[Provider],
        limits: ContextLimits,
        meter: Meter,
        window: ContextWindow,
        clock: Callable[[], float],
        notices: Notices,
    ) -> None:
        self.chosen = self.current = chosen
        self.limits = limits
        self.changes: list[ModelChange] = []
        self._standing_by = standing_by
        self._left: list[Provider] = []
        self._meter = meter
        self._window = window
        self._clock = clock
        self._notices = notices
        self._breakers: dict[tuple[str, str], tuple[Provider, CircuitBreaker]] = {}
        self._last_reason = ""  # of the attempt before, in this turn, which the user has seen

    @property
    def facts(self) -> ModelFacts:
        """Return what is known of the current model: sizes, and prices unless it answers on this machine."""
        return self._meter.facts

    @property
    def budget(self) -> Budget:
        """Return what the list may reach with the current model, and its window."""
        return self._window.budget

    @property
    def window_is_guessed(self) -> bool:
        """Return whether neither a list, nor the server, nor the user has named the window."""
        return not (self.facts.known or self.facts.told) and self.limits.window is None

    @property
    def stands_in_for(self) -> Provider | None:
        """The chosen model, if another one answers instead."""
        return None if self.current is self.chosen else self.chosen

    def switch(self, provider: Provider) -> None:
        """Continue with another model and the same list, or with the same model again: its failures are forgotten."""
        self._breakers.pop(_key(provider), None)
        self._left.append(self.chosen)
        self.chosen = provider
        self._go_to(provider)

    def change_effort(self, provider: Provider) -> None:
        """Continue with the same model and another effort; the caller closes the previous provider."""
        before = self.current
        self._keep_dropping(provider)
        self.chosen = provider if self.chosen is before else self.chosen
        self.current = provider
        self._standing_by = [provider if one is before else one for one in self._standing_by]

    def learn(self, facts: ModelFacts) -> None:
        """Keep to what the server says of the current model."""
        self._meter.facts = facts
        self._window.budget = self.limits.within(facts)

    def begin_turn(self) -> None:
        """Go back to the chosen model if its circuit allows it."""
        if self.current is not self.chosen and self._breaker(self.chosen).wait <= 0:
            self._go_to(self.chosen)
            self._notices.say(f"{self.chosen.model} is asked again")

    def end_turn(self) -> None:
        """End the turn; an interrupted probe does not count."""
        self._last_reason = ""
        if self._breakers:
            self._breaker(self.current).abandoned()

    def ready(self) -> None:
        """Choose a model whose circuit is closed. Raises ProviderError if every circuit is open."""
        if not self._breakers:
            return
        breaker = self._breaker(self.current)
        if breaker.admits() or self._stand_in(f"it failed {breaker.failures} times in a row"):
            return
        failed = f"{self.current.model} failed {breaker.failures} times in a row"
        hint = "run /model NAME to try now, with the same name or another"
        raise ProviderError(f"{failed} and is not asked for {breaker.wait:.0f} s; {hint}")

    def failed(self, reason: str) -> bool:
        """Return whether another model takes the step after a failed attempt that would be repeated.

        Raises ProviderError if it was the probe of a circuit that is open, and there is no fallback.
        """
        breaker = self._breaker(self.current)
        probe = breaker.state == "probing"
        breaker.failed()
        is_told, self._last_reason = reason == self._last_reason, reason
        if breaker.state == "closed":
            return False
        if self._stand_in(reason, is_told=is_told):
            return True
        if probe:
            raise ProviderError(reason)
        return False

    def gave_up(self, error: ProviderError, *, begun: bool) -> bool:
        """Return whether another model takes the step after a request failed for good.

        None does if its answer had `begun`, or if the request is wrong and not the provider.
        """
        status, breaker = error.status or 0, self._breaker(self.current)
        if not (error.retryable or status in _OF_THE_PROVIDER or status >= 500):
            return False
        breaker.failed(for_good=status in _FOR_GOOD and not error.retryable)
        return not begun and breaker.state != "closed" and self._stand_in(str(error))

    def worked(self) -> None:
        """The current provider has answered."""
        if self._breakers:
            self._breaker(self.current).worked()

    def circuits(self) -> Iterator[Circuit]:
        """Yield the health of each provider whose last attempt failed."""
        for provider, breaker in self._breakers.values():
            if breaker.failures == 0:
                continue
            yield Circuit(
                model=provider.model,
                provider=provider.name,
                state=breaker.state,
                failures=breaker.failures,
                wait=breaker.wait,
            )

    async def close(self) -> None:
        """Close all providers."""
        every = {id(provider): provider for provider in (*self._left, self.chosen, *self._standing_by)}
        for provider in every.values():
            await provider.close()

    def _stand_in(self, reason: str, *, is_told: bool = False) -> bool:
        """Switch to the first available fallback; return whether there is one. `is_told`: the reason is known."""
        for provider in self._standing_by:
            if not self._breaker(provider).admits():  # the current one's does not either
                continue
            before, failures = self.current, self._breaker(self.current).failures
            why = one_line(reason, _LONGEST_REASON)
            self._go_to(provider)
            self.changes.append(ModelChange(replaced=before.model, model=provider.model, reason=why))
            times = "once" if failures == 1 else f"{failures} times in a row"
            told = "" if is_told else f" ({why})"
            self._notices.say(f"{before.model} failed {times}{told}: continuing with {provider.model}")
            return True
        return False

    def _go_to(self, provider: Provider) -> None:
        self._keep_dropping(provider)
        self.current = provider
        self._meter.facts = facts_of(provider.model, local=provider.local)
        self._window.switch(self.limits.within(self.facts))

    def _keep_dropping(self, provider: Provider) -> None:
        """Keep out of requests what a server has refused, for every provider."""
        if self.current.drops_thinking and not provider.drops_thinking:
            provider.drop_thinking()

    def _breaker(self, provider: Provider) -> CircuitBreaker:
        from codelet.providers.choice.breaker import CircuitBreaker  # imported with the first failure

        return self._breakers.setdefault(_key(provider), (provider, CircuitBreaker(self._clock)))[1]


def _key(provider: Provider) -> tuple[str, str]:
    return provider.name, provider.model


class AskedServer:
    """Asks the server of the current model, once per model, for what the list of models does not tell, and has `models`
    keep to what it says; `toolbox` has the model's tools.

    The first request does not wait for it unless it is long: a server that silently cuts what does not fit would cut
    it. Sessions that work together share `replies`, by model and origin: one question is enough for all.
    """

    def __init__(self, models: Models, toolbox: Toolbox) -> None:
        self._models = models
        self._toolbox = toolbox
        self.replies: dict[tuple[str, str], asyncio.Task[ServerFacts | None]] = {}
        self._of: tuple[str, str] | None = None
        self._asking: asyncio.Task[ServerFacts | None] | None = None

    def begin(self) -> None:
        """Begin to ask what the list of models does not tell; a second time only for another model."""
        provider = self._models.current
        here = (provider.model, provider.origin)
        if here == self._of or not (provider.local or not self._models.facts.known):
            return
        if here not in self.replies:
            self.replies[here] = asyncio.create_task(provider.ask())
        self._of, self._asking = here, self.replies[here]

    async def settle(self) -> None:
        """Use the server's reply, once; wait a moment for it."""
        if self._asking is not None:
            await asyncio.wait([self._asking], timeout=_ANSWER_WAIT)
            self.take()

    def take(self) -> None:
        """Use what it has said by now."""
        if self._asking is None or not self._asking.done():
            return
        asked, self._asking = self._asking, None
        said = None if asked.cancelled() else asked.result()
        if said is None or self._of != (self._models.current.model, self._models.current.origin):
            return
        self._keep(said.window, said.max_output, said.images)
        if said.tools is False and self._toolbox.tools:
            told = "does not support tools (reported by its server): it cannot use files; choose another --model"
            self._toolbox.notices.say(f"{self._of[0]} {told}")

    def refused(self, error: ProviderError) -> bool:
        """Keep to the window that a refusal names. Return whether the prompt itself has to shrink."""
        self.begin()
        models = self._models
        if error.window is None or error.window >= models.budget.window:
            return True
        if models.limits.window is not None:
            models.limits = models.limits.replace(window=error.window)
        self._keep(error.window, None)
        told = f"the model's window is {error.window:,} tokens (reported by its server)"
        self._toolbox.notices.say(told)
        return error.prompt_size is None or error.prompt_size > models.budget.limit

    async def close(self) -> None:
        """Ask no more."""
        for each in self.replies.values():
            each.cancel()
        if self.replies:
            await asyncio.wait(self.replies.values())

    def _keep(self, window: int | None, max_output: int | None, images: bool | None = None) -> None:
        facts = self._models.facts
        if window is not None:
            facts = facts.replace(window=window, told=True)
        if max_output is not None:
            facts = facts.replace(max_output=max_output)
        if images is not None:
            facts = facts.replace(images=images)
        self._models.learn(facts)
