"""Conversations that were put aside in memory, each under a number of its own, and files that were put back meanwhile.

A conversation claims edits that a rewind may have taken out of the files since: `RewoundFiles` knows which, so that
the model and the user are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.record import Record
from codelet.system.text import clean

if TYPE_CHECKING:
    from codelet.export.document import Document
    from codelet.extensions.services import FileBack

_MOST_KEPT = 20


class Forks:
    """The conversations that were put aside, by number; the 20 that were put aside last are kept.

    `current` is the number of the one that the session continues with, if it was put aside before.
    """

    def __init__(self) -> None:
        self.current: int | None = None
        self._kept: dict[int, Document] = {}
        self._last = 0

    @property
    def kept(self) -> Mapping[int, Document]:
        """All of them, in the order of their numbers."""
        return dict(sorted(self._kept.items()))

    def keep(self, snapshot: Document) -> int:
        """Put a copy of the conversation aside; gives its number, which is not a new one if it is there already."""
        number = next((n for n, kept in self._kept.items() if _same(kept, snapshot)), None)
        if number is None:
            self._last += 1
            number = self._last
        return self._put(number, snapshot)

    def leave(self, snapshot: Document) -> int:
        """Put the conversation aside that the session leaves, under its own number if it has one; gives the number."""
        if self.current is None:
            return self.keep(snapshot)
        return self._put(self.current, snapshot)

    def _put(self, number: int, snapshot: Document) -> int:
        self._kept.pop(number, None)
        self._kept[number] = snapshot
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return number


def _same(one: Document, other: Document) -> bool:
    return len(one.messages) == len(other.messages) and all(map(is_, one.messages, other.messages))


class _PutBack(Record):
    """A file that was put back to what it was before turn `since`."""

    name: str
    since: int


class RewoundFiles:
    """The files that the user put back, and which of them the model is still to be told of in this conversation.

    Times are turns, whose numbers a session gives once.
    """

    def __init__(self) -> None:
        self._all: list[_PutBack] = []
        self._told: dict[int, int] = {}
        self._waiting: list[int] = []
        self._first_unknown = 0

    def add(self, done: Sequence[FileBack], *, claimed: bool = True) -> None:
        """Files were put back; `claimed` says whether the conversation still holds the changes that are gone."""
        first = len(self._all)
        self._all += [_PutBack(clean(back.name), min(change.turn for change in back.changes)) for back in done]
        self._waiting += range(first, len(self._all)) if claimed else ()

    def went_to(self, turn: int) -> str:
        """The conversation is again as it was before this turn, 0 if that is not known; gives the names to tell of."""
        turn = turn or self._first_unknown
        self._waiting = [
            number
            for number, back in enumerate(self._all)
            if back.since < turn and self._told.get(number, turn) >= turn
        ]
        return self._names()

    def replaced(self, turns: int) -> str:
        """The conversation is another one, kept after so many turns, 0 for one from elsewhere; as `went_to`."""
        self._first_unknown = turns + 1 if turns else 0
        return self.went_to(0)

    def told(self, turn: int) -> list[str]:
        """Return what goes along with the prompt that begins this turn: the model is told of the files that wait for
        that.
        """
        names = self._names()
        self._told.update(dict.fromkeys(self._waiting, turn))
        self._waiting = []
        return [prompt.PUT_BACK.format(names=names)] if names else []

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(self._all[number].name for number in self._waiting))
