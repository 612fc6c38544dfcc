"""Retries: only before anything was shown, bounded in number and in time, announced, as late as the server asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.providers.failure import PATIENCE
from codelet.providers.protocol import Chunk, FinishChunk, Retries, RetryChunk, TextChunk, UsageChunk, with_retries
from codelet.usage import Usage
from tests.support.fake_clock import timed
from tests.support.waiting import happens

BUSY = ProviderError("busy", status=503, retryable=True)


class Attempts:
    """Plays one list of chunks and errors for each attempt; the last one again and again."""

    def __init__(self, *plays: list[Chunk | ProviderError]) -> None:
        self.plays = plays
        self.times: list[float] = []
        self.closed = 0

    async def __call__(self) -> AsyncGenerator[Chunk, None]:
        self.times.append(time.monotonic())  # clock: for bounds from below
        try:
            for item in self.plays[min(len(self.times), len(self.plays)) - 1]:
                if isinstance(item, ProviderError):
                    raise item
                yield item
        finally:
            self.closed += 1


async def collect(
    attempt: Callable[[], AsyncGenerator[Chunk, None]], retries: Retries
) -> tuple[list[Chunk], ProviderError | None]:
    chunks: list[Chunk] = []
    try:
        async with aclosing(with_retries(attempt, retries)) as stream:
            async for chunk in stream:
                chunks.append(chunk)
    except ProviderError as error:
        return chunks, error
    return chunks, None


QUICK = Retries(attempts=4, total_wait=5.0, asked_wait=5.0, first_wait=0.02)
ANSWER: list[Chunk | ProviderError] = [TextChunk("yes"), FinishChunk("stop")]


async def test_a_failed_attempt_is_announced_and_repeated():
    attempts = Attempts([BUSY], [BUSY], ANSWER)
    chunks, error = await collect(attempts, QUICK)
    assert error is None
    first, second, *answer = chunks
    assert isinstance(first, RetryChunk)
    assert isinstance(second, RetryChunk)
    assert (first.attempt, first.attempts, first.reason) == (2, 4, "busy")
    assert second.attempt == 3
    assert 0.015 <= first.wait <= 0.025
    assert 0.03 <= second.wait <= 0.05, "waits grow twofold, with jitter"
    assert answer == ANSWER
    assert attempts.closed == 3


async def test_the_number_of_attempts_is_bounded():
    attempts = Attempts([BUSY])
    chunks, error = await collect(attempts, QUICK)
    assert error is BUSY
    assert len(attempts.times) == 4
    assert all(isinstance(chunk, RetryChunk) for chunk in chunks)


async def test_a_server_that_does_not_answer_is_asked_as_often_as_any():
    attempts = Attempts([ProviderError("cannot reach it", retryable=True)])
    chunks, _ = await collect(attempts, QUICK)
    assert len(attempts.times) == 4
    assert [chunk.attempts for chunk in chunks if isinstance(chunk, RetryChunk)] == [4, 4, 4]


async def test_the_last_wait_is_shortened_to_what_is_left_of_all():
    attempts = Attempts([BUSY])
    chunks, error = await collect(attempts, Retries(attempts=50, total_wait=0.2, first_wait=0.04))
    waits = [chunk.wait for chunk in chunks if isinstance(chunk, RetryChunk)]
    assert sum(waits) == pytest.approx(0.2)
    assert 3 <= len(waits) <= 4
    assert error is BUSY


async def test_patience_counts_from_the_first_failure_with_the_time_that_attempts_take():
    class Slow(Attempts):
        async def __call__(self) -> AsyncGenerator[Chunk, None]:
            await asyncio.sleep(0.2 if self.times else 0.0)  # clock: how long an attempt takes
            async for chunk in super().__call__():
                yield chunk

    attempts = Slow([ProviderError("stalled", retryable=True, patience=0.1)])
    _, error = await collect(attempts, QUICK)
    assert str(error) == "stalled"
    assert len(attempts.times) == 2


async def test_the_time_that_the_server_asks_for_is_waited():
    attempts = Attempts([ProviderError("busy", status=429, retryable=True, retry_after=0.4)], ANSWER)
    chunks, error = await collect(attempts, QUICK)
    assert error is None
    assert chunks[0] == RetryChunk(attempt=2, attempts=4, wait=0.4, reason="busy")
    assert attempts.times[1] - attempts.times[0] >= 0.4


@pytest.mark.parametrize("asked", [5.1, 3600.0, float("inf")])
async def test_all_waits_together_are_bounded(asked: float):
    attempts = Attempts([ProviderError("busy", status=429, retryable=True, retry_after=asked)])
    chunks, error = await collect(attempts, QUICK)
    assert (chunks, len(attempts.times)) == ([], 1)
    assert "busy; waiting" in str(error)
    assert "5 s" in str(error)
    assert error is not None
    assert error.status == 429


async def test_each_wait_that_the_server_asks_for_counts():
    asked = ProviderError("busy", status=429, retryable=True, retry_after=0.1)
    attempts = Attempts([asked])
    chunks, error = await collect(attempts, Retries(attempts=9, total_wait=5.0, asked_wait=0.25, first_wait=0.01))
    assert [chunk.wait for chunk in chunks if isinstance(chunk, RetryChunk)] == [0.1, 0.1]
    assert "0 s" in str(error)
    attempts = Attempts([asked])
    chunks, _ = await collect(attempts, Retries(attempts=3, total_wait=5.0, asked_wait=0.2, first_wait=0.01))
    assert len(chunks) == 2, "the limit itself is not passed"


async def test_waits_that_the_server_asks_for_do_not_use_up_the_others():
    asked = ProviderError("busy", status=429, retryable=True, retry_after=0.2)
    attempts = Attempts([asked], [asked], [BUSY], ANSWER)
    _, error = await collect(attempts, Retries(attempts=5, total_wait=0.1, asked_wait=1.0, first_wait=0.01))
    assert error is None
    assert len(attempts.times) == 4


async def test_what_no_repetition_cures_is_not_repeated():
    attempts = Attempts([ProviderError("wrong key", status=401)])
    chunks, _ = await collect(attempts, QUICK)
    assert (chunks, len(attempts.times)) == ([], 1)


async def test_nothing_is_repeated_after_the_first_chunk():
    attempts = Attempts([TextChunk("be"), BUSY])
    chunks, error = await collect(attempts, QUICK)
    assert chunks == [TextChunk("be")]
    assert error is BUSY
    assert len(attempts.times) == 1


async def test_usage_alone_has_shown_nothing_yet():
    attempts = Attempts([UsageChunk(Usage(total_input=5)), BUSY], ANSWER)
    chunks, error = await collect(attempts, QUICK)
    assert error is None
    assert [type(chunk) for chunk in chunks] == [UsageChunk, RetryChunk, TextChunk, FinishChunk]


def failing(**said: Any) -> Attempts:
    return Attempts([ProviderError("busy", retryable=True, **said)])


def test_under_a_clock_of_its_own_each_wait_is_as_long_as_it_is_said_to_be():
    """The bounds that every request has, with the waits between attempts as long as they are."""
    many = Retries(attempts=100)
    (chunks, _), passed = timed(collect(failing(status=429, retry_after=50.0), many))
    assert ([chunk.wait for chunk in chunks if isinstance(chunk, RetryChunk)], passed) == ([50.0, 50.0], 100.0)
    (chunks, error), passed = timed(collect(failing(status=429, retry_after=121.0), many))
    assert (chunks, passed) == ([], 0.0)
    assert "120 s" in str(error)
    for wanted, said in ((30.0, {"status": 503}), (30.0, {"patience": PATIENCE}), (10.0, {"patience": 10.0})):
        (chunks, error), passed = timed(collect(failing(**said), many))
        waits = [chunk.wait for chunk in chunks if isinstance(chunk, RetryChunk)]
        assert (str(error), sum(waits), passed) == ("busy", pytest.approx(wanted), pytest.approx(wanted))


async def test_a_cancel_ends_the_wait_at_once():
    attempts = Attempts([ProviderError("busy", status=503, retryable=True, retry_after=3600)])
    task = asyncio.create_task(collect(attempts, QUICK.replace(asked_wait=7200.0)))
    await happens(lambda: attempts.closed)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(attempts.times) == 1
