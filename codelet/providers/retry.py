"""Retries: a request that failed before it gave anything is sent again, a bounded number of times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from codelet.errors import ProviderError
from codelet.providers.answer import AnswerSize
from codelet.providers.protocol import Chunk, NoteChunk, Retries, RetryChunk, UsageChunk


async def with_retries(
    attempt: Callable[[], AsyncGenerator[Chunk, None]],
    retries: Retries,
    adapted: Callable[[ProviderError], bool] = lambda _: False,
    notes: list[str] | None = None,
) -> AsyncGenerator[Chunk, None]:
    """The chunks of the first attempt that yields any; a RetryChunk announces each wait.

    `adapted` is called with a failure that comes before the first chunk. If it returns True, the next attempt is sent
    at once, in the form that the server wants, and does not count as a repetition.

    `notes` go out before the next attempt and are taken off the list; `adapted` may add to it.

    An attempt that fails after its first chunk (other than usage) is not repeated: it has been shown already. Each wait
    is twice the one before, with jitter, and never shorter than the server asks for; their sum is bounded.
    """
    waits = _Waits(retries)
    number = 1
    while True:
        begun = False
        size = AnswerSize()
        while notes:
            yield NoteChunk(notes.pop(0))
        try:
            async with aclosing(attempt()) as chunks:
                async for chunk in chunks:
                    size.add(chunk)
                    begun = begun or not isinstance(chunk, UsageChunk)
                    yield chunk
            return
        except ProviderError as error:
            reason = str(error)
            other_form = not begun and adapted(error)
            if not other_form:
                if begun or not error.retryable or number >= retries.attempts:
                    raise
                wait = waits.before(number + 1, error)
        if other_form:
            yield RetryChunk(attempt=number, attempts=retries.attempts, wait=0.0, reason=reason)
            continue
        number += 1
        yield RetryChunk(attempt=number, attempts=retries.attempts, wait=wait, reason=reason)
        await asyncio.sleep(wait)


class _Waits:
    """The waits before the attempts of one request, and what they come to."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._own = 0.0
        self._asked = 0.0
        self._failed: float | None = None

    def before(self, number: int, error: ProviderError) -> float:
        """The seconds to wait before that attempt, after that error.

        Raises ProviderError where none are left to wait, or where the server asks for more than is waited.
        """
        from random import uniform

        grown: float = self._retries.first_wait * 2 ** (number - 2) * uniform(0.75, 1.25)
        if error.retry_after is not None and error.retry_after >= grown:
            return self._as_asked(error, error.retry_after)
        wait = min(grown, self._left(error))
        if wait <= 0:
            raise error
        self._own += wait
        return max(wait, error.retry_after or 0.0)

    def _as_asked(self, error: ProviderError, asked: float) -> float:
        most = self._retries.asked_wait
        if self._asked + asked > most:
            message = f"{error}; waiting {asked:.0f} s more would pass the limit of {most:.0f} s"
            raise ProviderError(message, status=error.status) from None
        self._asked += asked
        return asked

    def _left(self, error: ProviderError) -> float:
        left = self._retries.total_wait - self._own
        if error.patience is None:
            return left
        now = asyncio.get_running_loop().time()
        self._failed = now if self._failed is None else self._failed
        return min(left, error.patience - (now - self._failed))
