"""The narrator: asks the model for decisions and next steps before a compaction. Off unless the user turns it on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from codelet.compaction.narrative import INSTRUCTION, LARGEST, Breaker, narrate
from codelet.messages import Message, user
from codelet.providers.base import Provider, Request, TextChunk
from codelet.reminders import zones

_TRY_LIMIT = 60.0


class Narrator:
    """Sends the conversation as it is, with an instruction behind it, so that the provider's cache serves it.

    `request` makes the request for a list of messages. A failure, a refusal or a lie gives no lines, and after
    three failures in a row no model is asked for five turns.
    """

    def __init__(self, provider: Callable[[], Provider], request: Callable[[list[Message]], Request]) -> None:
        self._provider = provider
        self._request = request
        self._breaker = Breaker()
        self._turn = 0

    def new_turn(self) -> None:
        """A user's prompt came in: the circuit breaker counts turns."""
        self._turn += 1

    async def lines(self, messages: Sequence[Message], instruction: str) -> tuple[str, ...]:
        """Checked lines of narrative, or none."""
        stable = list(messages[: len(messages) - zones.tail_length(messages)])
        source = [message["content"] or "" for message in stable]
        wish = f"{INSTRUCTION} {instruction}".strip()

        async def ask(prompt: str) -> str:
            return await self._answer([*stable, user(prompt)])

        return await narrate(ask, wish, source, self._breaker, self._turn, sleep=asyncio.sleep)

    async def _answer(self, messages: list[Message]) -> str:
        request = self._request(messages).replace(max_output=LARGEST)
        async with asyncio.timeout(_TRY_LIMIT):
            async with aclosing(self._provider().stream(request)) as chunks:
                return "".join([chunk.text async for chunk in chunks if isinstance(chunk, TextChunk)])
