"""The narrator: asks the model for decisions and next steps before a compaction. Off unless the user turns it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Any

from codelet.context.compaction.narrative import INSTRUCTION, LARGEST, Breaker, narrate
from codelet.extensions.base import Extension
from codelet.messages import Message, user
from codelet.providers.protocol import Provider, Request, TextChunk, UsageChunk
from codelet.usage import Usage

TRY_LIMIT = 30.0


class Narrator(Extension):
    """Sends the conversation as it is, with an instruction behind it, so that the provider's cache serves it.

    A failure, a refusal or a lie gives no lines, and after three failures in a row, `failures` of which are counted
    from the start, no model is asked for five turns. A try may take `limit` seconds.
    """

    def __init__(self, limit: float = TRY_LIMIT, failures: int = 0) -> None:
        self._limit = limit
        self._breaker = Breaker(failures)
        self._turn = 0
        self._provider: Callable[[], Provider]
        self._request: Callable[[list[Message]], Request]
        self._spend: Callable[[Usage], object]

    def attach(self, session: Any) -> None:
        """Speak for the session's compactor, at the session's cost."""
        session.compactor.narrator = self
        self._provider, self._request, self._spend = (
            lambda: session.provider,
            session.upkeep.request,
            session.meter.count,
        )

    def new_turn(self) -> None:
        """A user's prompt came in: the circuit breaker counts turns."""
        self._turn += 1

    async def lines(self, messages: Sequence[Message], instruction: str) -> tuple[str, ...]:
        """Checked lines of narrative on the messages that stay as they are, or none."""
        stable = list(messages)
        source = [message["content"] or "" for message in stable]
        whole = f"{INSTRUCTION} {instruction}".strip()

        async def ask(prompt: str) -> str:
            return await self._answer([*stable, user(prompt)])

        return await narrate(ask, whole, source, self._breaker, self._turn, sleep=asyncio.sleep)

    async def _answer(self, messages: list[Message]) -> str:
        request = self._request(messages).replace(max_output=LARGEST)
        pieces: list[str] = []
        used: Usage | None = None
        try:
            async with asyncio.timeout(self._limit), aclosing(self._provider().stream(request)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextChunk):
                        pieces.append(chunk.text)
                    elif isinstance(chunk, UsageChunk):
                        used = chunk.usage
        finally:
            if used is not None:
                self._spend(used)
        return "".join(pieces)
