"""The circuit breaker: three failures in a row open it, one probe goes through after 30 seconds."""

from __future__ import annotations

from codelet.providers.choice.breaker import FAILURES, PAUSE, CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(clock)
    for _ in range(FAILURES):
        breaker.failed()
    return breaker


def test_circuit_breaker_opens_after_three_failures_in_a_row():
    breaker = CircuitBreaker(Clock())
    for _ in range(5):
        breaker.failed()
        breaker.failed()
        assert (breaker.state, breaker.admits()) == ("closed", True)
        breaker.worked()
    assert (FAILURES, PAUSE) == (3, 30.0)
    breaker = opened(Clock())
    assert (breaker.state, breaker.admits(), breaker.wait) == ("open", False, 30.0)


def test_one_probe_goes_through_after_the_pause_and_decides():
    clock = Clock()
    breaker = opened(clock)
    clock.now += 29.9
    assert not breaker.admits()
    clock.now += 0.1
    assert breaker.admits()
    assert breaker.state == "probing"
    assert not breaker.admits(), "one at a time"
    breaker.failed()
    assert (breaker.state, breaker.wait) == ("open", 30.0), "one failure is enough now"
    clock.now += 30
    assert breaker.admits()
    breaker.worked()
    assert (breaker.state, breaker.failures, breaker.admits()) == ("closed", 0, True)


def test_a_probe_that_was_stopped_is_none_and_what_is_final_opens_at_once():
    clock = Clock()
    breaker = opened(clock)
    clock.now += 30
    assert breaker.admits()
    breaker.abandoned()
    assert (breaker.state, breaker.admits()) == ("open", True)
    other = CircuitBreaker(clock)
    other.failed(for_good=True)
    assert other.state == "open"
