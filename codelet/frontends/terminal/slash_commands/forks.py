"""Conversations kept in memory by number, and files restored since."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.system.text import clean

if TYPE_CHECKING:
    from codelet.export.document import Document
    from codelet.extensions.services import FileBack

_MOST_KEPT = 20


class Forks:
    """Saved conversations by number; the latest 20 are kept. `current` is the number of the one in use, if saved."""

    def __init__(self) -> None:
        self.current: int | None = None
        self.kept: dict[int, Document] = {}
        self._last = 0

    def keep(self, snapshot: Document, number: int | None = None) -> int:
        """Save a copy; return its number, an existing one if nothing changed."""
        for each, kept in self.kept.items() if number is None else ():
            if all(one is other for one, other in zip_longest(kept.messages, snapshot.messages)):
                number = each
        if number is None:
            number = self._last = self._last + 1
        self.kept.pop(number, None)
        self.kept[number] = snapshot
        if len(self.kept) > _MOST_KEPT:
            del self.kept[next(iter(self.kept))]
        return number


class RewoundFiles:
    """Files that the user restored. A conversation may claim edits that were undone: the model must hear of those.

    Times are turn numbers, which are unique in a session.
    """

    def __init__(self) -> None:
        self._all: list[tuple[str, int]] = []
        """Names, and the turn that had changed the file."""
        self._told: dict[tuple[str, int], int] = {}
        """The turn whose prompt said so."""
        self._waiting: list[tuple[str, int]] = []

    def add(self, done: Iterable[FileBack]) -> None:
        restored = [(clean(back.name), min(change.turn for change in back.changes)) for back in done]
        self._all += restored
        self._waiting += restored

    def went_to(self, turns: int) -> str:
        """A conversation that ends with this turn is in use; return the files that its model must hear of."""
        self._waiting = [each for each in self._all if each[1] <= turns < self._told.get(each, turns + 1)]
        return self._names()

    def told(self, turn: int) -> list[str]:
        """Return the note on restored files for the prompt of this turn."""
        names = self._names()
        self._told.update(dict.fromkeys(self._waiting, turn))
        self._waiting = []
        return [prompt.PUT_BACK.format(names=names)] if names else []

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(name for name, _ in self._waiting))
