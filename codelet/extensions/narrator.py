"""The narrator: asks the model for a handoff before a compaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Self

from codelet.call_record import CallRecord
from codelet.context.narrative import INSTRUCTION, LARGEST, Handoffs, NarrativeCheck
from codelet.context.tokens import estimate_text
from codelet.extensions.base import Extension, OpenedWith
from codelet.messages import Message, user
from codelet.providers.content.inline_reasoning import split_reasoning
from codelet.providers.protocol import FinishChunk, TextChunk, UsageChunk
from codelet.system.text import is_blank
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

TRY_LIMIT = 30.0


class Narrator(Extension):
    """Sends the unchanged conversation followed by an instruction, so that the provider's cache serves it.

    A failure, a refusal or an untrue line yields nothing. After three failures in a row, including the initial
    `failures`, the narrator pauses for five turns. A try takes at most `limit` seconds. Unless `always`, no model is
    asked during a replay or with a limit on the cost.
    """

    def __init__(self, limit: float = TRY_LIMIT, failures: int = 0, *, always: bool = True) -> None:
        self.struck: tuple[str, ...] = ()
        """The rejected lines of the last handoff, each with the reason."""
        self.accepted: tuple[str, ...] = ()
        self._limit = limit
        self._handoffs = Handoffs(failures)
        self._always = always
        self._turn = 0
        self._session: SessionView

    @classmethod
    def from_settings(cls, given: OpenedWith, session: SessionView) -> Self:
        return cls(always=given.settings.narrative == "on")

    def attach(self, session: SessionView) -> None:
        session.compactor.narrator = self
        self._session = session

    @property
    def available(self) -> bool:
        meter, origin = self._session.meter, self._session.provider.origin
        may_spend = meter.limits.max_cost is None and not origin.startswith("replay:")
        return (self._always or may_spend) and meter.affords(LARGEST) and self._handoffs.allows(self._turn)

    def new_turn(self) -> None:
        """Count a turn, for the circuit breaker."""
        self._turn += 1

    async def lines(self, messages: Sequence[Message], instruction: str, room: int) -> tuple[str, ...]:
        """Return checked lines on the messages, at most `room` tokens, or nothing."""
        from codelet.context.compaction.reading import whole_text

        stable, records = list(messages), list(self._session.conversation.calls)
        check = await asyncio.to_thread(
            lambda: NarrativeCheck(list(map(whole_text, stable)), room, _runs(stable, records))
        )
        whole = f"{INSTRUCTION} At most {room * 3 // 5} words. {instruction}".strip()

        def ask() -> Awaitable[str]:
            return self._answer([*stable, user(whole)])

        found = await self._handoffs.handoff(ask, check, self._turn)
        self.struck, self.accepted = tuple(check.struck), found
        return found

    async def _answer(self, messages: list[Message]) -> str:
        request = self._session.upkeep.request(messages).replace(max_output=LARGEST)
        pieces: list[str] = []
        used: Usage | None = None
        prepared = False
        try:
            async with asyncio.timeout(self._limit), aclosing(self._session.provider.stream(request)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, TextChunk):
                        pieces.append(chunk.text)
                    elif isinstance(chunk, UsageChunk):
                        used = chunk.usage
                    elif isinstance(chunk, FinishChunk) and chunk.reason == "refused":
                        pieces.clear()
            prepared = not is_blank("".join(pieces))
        finally:
            if used is not None or pieces:
                self._session.meter.count_handoff(used, estimate_text("".join(pieces)), prepared=prepared)
        return split_reasoning("".join(pieces))[1]


def _runs(messages: Sequence[Message], records: Iterable[CallRecord]) -> Mapping[str, Sequence[str]]:
    """Return how each command ended, each time that it ran."""
    from codelet.context.compaction.observed import command_key, observations_of
    from codelet.context.compaction.reading import ReadSession
    from codelet.messages import normalise

    session = ReadSession(normalise(messages, in_flight=True).messages, {record.id: record for record in records})
    found: dict[str, list[str]] = {}
    for fact in observations_of(session):
        if fact.kind == "ran":
            found.setdefault(command_key(fact.what), []).append(fact.ending)
    return found
