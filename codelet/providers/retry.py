"""Retries: a request that failed before it gave anything is sent again, a bounded number of times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from codelet.errors import ProviderError
from codelet.providers.base import Chunk, NoteChunk, Retries, RetryChunk, UsageChunk

# A server that does not answer at all is more likely off, or the address wrong, than busy.
_ATTEMPTS_WITHOUT_ANSWER = 2


async def with_retries(
    attempt: Callable[[], AsyncGenerator[Chunk, None]],
    retries: Retries,
    adapted: Callable[[ProviderError], bool] = lambda _: False,
    notes: list[str] | None = None,
) -> AsyncGenerator[Chunk, None]:
    """The chunks of the first attempt that gives any; each wait is announced by a RetryChunk.

    `adapted` is told of a failure before the first chunk: where it gives True, the next attempt is sent at once in
    the form that the server wants, and is no repetition.

    `notes` are told before the next attempt, and taken out: `adapted` may add some.

    An attempt that fails after its first chunk, usage apart, is not repeated: it has been shown already. Waits
    grow twofold with jitter, are never shorter than the server asks for, and end when their sum would pass
    `retries.total_wait`.
    """
    waited = 0.0
    number = 1
    while True:
        begun = False
        while notes:
            yield NoteChunk(notes.pop(0))
        try:
            async with aclosing(attempt()) as chunks:
                async for chunk in chunks:
                    begun = begun or not isinstance(chunk, UsageChunk)
                    yield chunk
            return
        except ProviderError as error:
            reason = str(error)
            other_form = not begun and adapted(error)
            if not other_form:
                wait, attempts = _wait_before(number + 1, retries, error.retry_after), _attempts(error, retries)
                if begun or not error.retryable or number >= attempts:
                    raise
                if waited + wait > retries.total_wait:
                    raise ProviderError(
                        f"{error}; waiting {wait:.0f} s more would pass the limit of {retries.total_wait:.0f} s",
                        status=error.status,
                    ) from None
        if other_form:
            yield RetryChunk(number, retries.attempts, 0.0, reason)
            continue
        number += 1
        yield RetryChunk(number, attempts, wait, reason)
        await asyncio.sleep(wait)
        waited += wait


def _attempts(error: ProviderError, retries: Retries) -> int:
    return retries.attempts if error.status else min(retries.attempts, _ATTEMPTS_WITHOUT_ANSWER)


def _wait_before(number: int, retries: Retries, asked: float | None) -> float:
    from random import uniform

    grown: float = retries.first_wait * 2 ** (number - 2) * uniform(0.75, 1.25)
    return grown if asked is None else max(grown, asked)
