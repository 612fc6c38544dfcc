"""Which model answers: the one that was chosen, or, after failures in a row, the next of those that stand by.

Each provider has a circuit breaker. A model stands in for the rest of a turn; with a new turn, once the pause is over,
the chosen one is asked again. What was said and done stays as it is in the list: each wire writes it in its own form,
and a step is repeated only if nothing of its answer has come, so no call that ran is ever run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from codelet.errors import ProviderError
from codelet.events import Event, Note
from codelet.providers.choice.breaker import CircuitBreaker
from codelet.providers.protocol import Provider
from codelet.record import Record
from codelet.system.text import one_line

_LONGEST_REASON = 200
_OF_THE_PROVIDER = (402, 408, 409, 425, 429)
_FOR_GOOD = (402, 429)
"""Statuses that, where no other attempt is worth it, say that this provider answers nothing for now."""


class ModelChange(Record, kw_only=True):
    """One model that stood in for another, and why."""

    replaced: str
    model: str
    reason: str


class Circuit(Record, kw_only=True):
    """How a provider stands: for people, and for an export."""

    model: str
    provider: str
    state: str
    failures: int
    wait: float


class Route:
    """The providers of one session. `use` makes one of them the session's.

    `told` are events that are still to be shown, `changes` what stood in for what so far.
    """

    def __init__(
        self,
        chosen: Provider,
        standing_by: Sequence[Provider],
        use: Callable[[Provider], None],
        clock: Callable[[], float],
    ) -> None:
        self.chosen = self.current = chosen
        self.told: list[Event] = []
        self.changes: list[ModelChange] = []
        self._standing_by = standing_by
        self._use = use
        self._clock = clock
        self._breakers: dict[tuple[str, str], tuple[Provider, CircuitBreaker]] = {}
        self._last_reason = ""  # of the attempt before, in this turn: whoever looks on has been told it

    def choose(self, provider: Provider) -> None:
        """The user chose another one, or the same anew: its failures are forgotten."""
        self._breakers.pop(_key(provider), None)
        self.chosen = self.current = provider

    def replace(self, before: Provider, provider: Provider) -> None:
        """Ask `provider` wherever `before` was asked: the same model in another way."""
        self.chosen = provider if self.chosen is before else self.chosen
        self.current = provider if self.current is before else self.current
        self._standing_by = [provider if one is before else one for one in self._standing_by]

    def begin_turn(self) -> None:
        """Go back to the chosen model where it may be asked again."""
        if self.current is not self.chosen and self._breaker(self.chosen).wait <= 0:
            self._go_to(self.chosen)
            self.told.append(Note(f"{self.chosen.model} is asked again"))

    def end_turn(self) -> None:
        """The turn is over: a probe that was stopped is none."""
        self._last_reason = ""
        self._breaker(self.current).abandoned()

    def ready(self) -> None:
        """See to it that somebody may be asked. Raises ProviderError where every circuit is open."""
        breaker = self._breaker(self.current)
        if breaker.admits():
            return
        reason = f"it failed {breaker.failures} times in a row"
        if self._stand_in(reason):
            return
        failed = f"{self.current.model} failed {breaker.failures} times in a row"
        hint = "/model NAME asks at once, also with the same name"
        raise ProviderError(f"{failed} and is not asked for {breaker.wait:.0f} s; {hint}")

    def failed(self, reason: str) -> bool:
        """An attempt failed, and another one is to follow: whether another model makes the step instead.

        Raises ProviderError where it was the probe of a circuit that is open, and nobody stands by.
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
        """A request failed for good: whether another model makes the step instead.

        None does where its answer had `begun`, or where the request is at fault and not the provider.
        """
        status = error.status or 0
        if not (error.retryable or status in _OF_THE_PROVIDER or status >= 500):
            self._breaker(self.current).abandoned()
            return False
        breaker = self._breaker(self.current)
        breaker.failed(for_good=status in _FOR_GOOD and not error.retryable)
        return not begun and breaker.state != "closed" and self._stand_in(str(error))

    def worked(self) -> None:
        """The current provider has answered."""
        self._breaker(self.current).worked()

    def circuits(self) -> Iterator[Circuit]:
        """How each provider stands whose last attempt failed."""
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

    def _stand_in(self, reason: str, *, is_told: bool = False) -> bool:
        """Go on with the first that stands by and may be asked; whether there is one. `is_told`: why is known."""
        for provider in self._standing_by:
            if _key(provider) == _key(self.current) or not self._breaker(provider).admits():
                continue
            before, failures = self.current, self._breaker(self.current).failures
            why = one_line(reason, _LONGEST_REASON)
            self._go_to(provider)
            self.changes.append(ModelChange(replaced=before.model, model=provider.model, reason=why))
            times = "once" if failures == 1 else f"{failures} times in a row"
            told = "" if is_told else f" ({why})"
            self.told.append(Note(f"{before.model} failed {times}{told}: {provider.model} goes on"))
            return True
        return False

    def _go_to(self, provider: Provider) -> None:
        self.current = provider
        self._use(provider)

    def _breaker(self, provider: Provider) -> CircuitBreaker:
        return self._breakers.setdefault(_key(provider), (provider, CircuitBreaker(self._clock)))[1]


def _key(provider: Provider) -> tuple[str, str]:
    return provider.name, provider.model
