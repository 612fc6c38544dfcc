"""One of the parallel sessions of a review: it asks a question in a new conversation, and checks the answer.

All of them begin with the same bytes (system prompt, tools), so that the provider's cache serves every request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import TypeVar, cast

from codelet import events
from codelet.errors import CodeletError, LimitReached, ProviderError, SpendingLimit
from codelet.loop.beside.subsession import Spending
from codelet.loop.session import Session
from codelet.messages import JsonSchema
from codelet.providers.content.inline_reasoning import split_reasoning
from codelet.review.model_answers import BadAnswer
from codelet.review.review_prompt import AGAIN, LAST_STEP

Answered = TypeVar("Answered")

MOST_STEPS = 12
"""Requests that one question may take, with those in which the model looks something up."""

_ATTEMPTS = 2
_FINAL = frozenset((400, 401, 402, 403, 404))  # the same question would meet these again
_BUSY = frozenset((408, 425, 429, 502, 503, 504, 529))  # a server with these has no time now: it is waited for
_PATIENCE, _LONGEST_PAUSE = 60.0, 20.0
"""Seconds for which a busy server is waited for without --timeout, and between two attempts."""
_TOO_LARGE = (
    "the model's window is too small for this part of the change; "
    "codelet review --chunk-tokens N makes the parts smaller"
)


class Unanswered(Exception):
    """A question to which no usable answer came: `fatal` where no other question will be answered either."""

    def __init__(self, why: str, *, fatal: bool = False) -> None:
        super().__init__(why)
        self.fatal = fatal


class Reviewer:
    """A session that answers one question after the other; `deadline` is when it stops to wait for a busy server."""

    def __init__(self, session: Session, spending: Spending) -> None:
        self._session = session
        self._spending = spending
        self._steps = 0
        self.deadline: float | None = None
        session.upkeep.unseen = True
        session.upkeep.steering = self._before_step
        spending.watch(session)

    async def ask(self, question: str, read: Callable[[str], Answered], schema: JsonSchema) -> Answered:
        """Ask a question in a new conversation, and return the answer as `read` parses it; wait for a busy server.

        After BadAnswer the model is asked once more with the problem. Raises Unanswered and LimitReached.
        """
        end = time.monotonic() + _PATIENCE if self.deadline is None else self.deadline
        first: ProviderError | None = None
        attempt = 0
        while True:
            attempt += 1
            self._session.clear()
            try:
                return await self._answer(question, read, schema)
            except ProviderError as error:
                if error.overflow:
                    raise Unanswered(_TOO_LARGE) from None
                first = first or error  # while the server is left alone, further errors only say that
                fatal = first.status in _FINAL or error.status in _FINAL
                closed_for = max((each.wait for each in self._session.models.circuits()), default=0.0)
                pause, is_last = 0.0, attempt >= _ATTEMPTS or closed_for > 0
                if first.status in _BUSY:
                    pause = max(closed_for, min(2.0**attempt, _LONGEST_PAUSE))
                    is_last = time.monotonic() + pause >= end
                if fatal or is_last:
                    raise Unanswered(str(first), fatal=fatal) from None
            await asyncio.sleep(pause)

    async def go_on(self, text: str, read: Callable[[str], Answered], schema: JsonSchema) -> Answered:
        """Ask a further question in the same conversation, once."""
        try:
            return await self._answer(text, read, schema)
        except ProviderError as error:
            raise Unanswered(str(error)) from None

    async def close(self) -> None:
        await self._session.close()

    def _before_step(self) -> Sequence[str]:
        """Count the steps; withdraw the tools before the last one and tell the model to answer."""
        self._steps += 1
        if self._steps != MOST_STEPS - 1:
            return ()
        self._session.upkeep.offer_only(())
        return (LAST_STEP,)

    async def _answer(self, question: str, read: Callable[[str], Answered], schema: JsonSchema) -> Answered:
        self._session.upkeep.schema = schema
        self._spending.bound(self._session)
        salvaged: object = None
        try:
            for _ in range(2):
                try:
                    return read(await self._turn(question))
                except BadAnswer as problem:
                    salvaged = problem.salvaged or salvaged
                    why, question = str(problem), AGAIN.format(problem=problem)
        except SpendingLimit as reached:
            raise self._spending.limit_of_run(reached) from None
        except LimitReached as reached:
            self._spending.check()
            raise Unanswered(str(reached)) from None
        except ProviderError:
            raise
        except CodeletError as error:
            raise Unanswered(str(error)) from None
        if salvaged is None:
            raise Unanswered(f"the model's answer was not of the form asked for, twice: {why}")
        return cast("Answered", salvaged)

    async def _turn(self, text: str) -> str:
        """One turn's last text."""
        self._steps = 0
        self._session.upkeep.offer_only(None)
        answer: list[str] = []
        async with aclosing(self._session.send(text)) as turn:
            async for event in turn:
                match event:
                    case events.StepStart():
                        self._spending.check()
                        self._spending.requests += 1
                        answer.clear()
                    case events.Retry():
                        answer.clear()
                    case events.Text():
                        answer.append(event.delta)
        cut: Sequence[events.Cut] = self._session.entry.cut
        if any(each.read < each.bytes for each in cut):
            raise Unanswered(_TOO_LARGE)
        return split_reasoning("".join(answer))[1]
