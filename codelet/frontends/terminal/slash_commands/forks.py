"""Conversations saved in memory by number, and files restored since.

A conversation may claim edits that a rewind has undone: `RewoundFiles` knows which, so that the model and the user are
informed.
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
    """Saved conversations by number; the latest 20 are kept.

    `current` is the number of the one in use, if it was saved.
    """

    def __init__(self) -> None:
        self.current: int | None = None
        self._kept: dict[int, Document] = {}
        self._last = 0

    @property
    def kept(self) -> Mapping[int, Document]:
        """All, by number."""
        return dict(sorted(self._kept.items()))

    def keep(self, snapshot: Document) -> int:
        """Save a copy; return its number, an existing one if nothing changed."""
        number = next((n for n, kept in self._kept.items() if _same(kept, snapshot)), None)
        if number is None:
            self._last += 1
            number = self._last
        return self._put(number, snapshot)

    def leave(self, snapshot: Document) -> int:
        """Save the conversation being left, under its own number if it has one; return the number."""
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
    """A file restored to its state before turn `since`."""

    name: str
    since: int


class RewoundFiles:
    """Files the user restored, and which of them the model must still hear of.

    Times are turn numbers, which are unique in a session.
    """

    def __init__(self) -> None:
        self._all: list[_PutBack] = []
        self._told: dict[int, int] = {}
        self._waiting: list[int] = []
        self._first_unknown = 0

    def add(self, done: Sequence[FileBack], *, claimed: bool = True) -> None:
        """Add restored files; `claimed`: the conversation still has the undone changes."""
        first = len(self._all)
        self._all += [_PutBack(clean(back.name), min(change.turn for change in back.changes)) for back in done]
        self._waiting += range(first, len(self._all)) if claimed else ()

    def went_to(self, turn: int) -> str:
        """The conversation was rewound to before this turn (0: unknown); return the files to report."""
        turn = turn or self._first_unknown
        self._waiting = [
            number
            for number, back in enumerate(self._all)
            if back.since < turn and self._told.get(number, turn) >= turn
        ]
        return self._names()

    def replaced(self, turns: int) -> str:
        """Another conversation, saved after this many turns (0: unknown), is in use; return the files to report."""
        self._first_unknown = turns + 1 if turns else 0
        return self.went_to(0)

    def told(self, turn: int) -> list[str]:
        """Return the note on restored files for the prompt of this turn."""
        names = self._names()
        self._told.update(dict.fromkeys(self._waiting, turn))
        self._waiting = []
        return [prompt.PUT_BACK.format(names=names)] if names else []

    def _names(self) -> str:
        return ", ".join(dict.fromkeys(self._all[number].name for number in self._waiting))
