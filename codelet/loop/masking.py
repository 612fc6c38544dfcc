"""Keeps secrets out of a turn's events: what leaves a session is masked once, here, for every front end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from codelet import events
from codelet.record import Record
from codelet.safety.secrets.masker import Masker, MaskStream


async def masked(turn: AsyncGenerator[events.Event, None], masker: Masker) -> AsyncGenerator[events.Event, None]:
    """Events without secrets; see MaskedPieces."""
    pieces = MaskedPieces(masker)
    async with aclosing(turn):
        async for event in turn:
            for settled in pieces.take(event):
                yield settled
    for settled in pieces.flush():
        yield settled


class MaskedPieces:
    """The streams of one turn without secrets: its text, its reasoning, the output of each running call.

    What comes in pieces is held back to the end of a word, so that no cut hides a secret.
    """

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._open: dict[tuple[type[events.Event], str], MaskStream] = {}

    def take(self, event: events.Event) -> list[events.Event]:
        """What can be shown by now; a piece of another kind ends the streams before it."""
        if not self._masker.has_secrets:
            return [event]
        match event:
            case events.Text() | events.Reasoning():
                others = self.flush(but=(type(event), ""))
                return [*others, *self._fed(event, (type(event), ""))]
            case events.ToolProgress():
                return self._fed(event, (events.ToolProgress, event.id))
            case events.UsageReport() | events.StepStart():
                return [*self.flush(), event]
        return [*self.flush(), without_secrets(event, self._masker)]

    def flush(self, but: tuple[type[events.Event], str] | None = None) -> list[events.Event]:
        """End all streams but one; gives what they held back."""
        ended = [key for key in self._open if key != but]
        pieces = [(key, self._open.pop(key).flush()) for key in ended]
        return [
            kind(name, rest) if kind is events.ToolProgress else kind(rest) for (kind, name), rest in pieces if rest
        ]

    def _fed(
        self, event: events.Text | events.Reasoning | events.ToolProgress, key: tuple[type[events.Event], str]
    ) -> list[events.Event]:
        if key not in self._open:
            self._open[key] = self._masker.stream()
        settled = self._open[key].feed(event.delta)
        return [event.replace(delta=settled)] if settled else []


def without_secrets(value: Any, masker: Masker) -> Any:
    """A text, or every text inside a list, a tuple, an object or a record, masked."""
    match value:
        case str():
            return masker.mask(value)
        case list():
            return [without_secrets(item, masker) for item in value]
        case tuple():
            return tuple(without_secrets(item, masker) for item in value)
        case dict():
            return {key: without_secrets(item, masker) for key, item in value.items()}
        case Record():
            return value.replace(**{name: without_secrets(getattr(value, name), masker) for name in value.fields})
    return value
