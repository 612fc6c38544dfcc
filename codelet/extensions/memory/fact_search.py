"""The search by meaning, next to the one by words, for facts and for passages of sessions.

It is an extra, and no part of the memory: its module is imported once it is needed. Short because only types are here.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast


class TextSource(Protocol):
    """The searched texts by number, which can change at any time."""

    def version(self) -> Hashable:
        """Return another value once a text has changed."""

    def statements(self) -> Sequence[tuple[int, str]]:
        """Return the texts by number."""


class TextSearch(Protocol):
    """Finds texts, for any thread. `broken` is why it cannot, and then it finds nothing."""

    broken: str

    def find(self, text: str, known: Collection[int], least: float | None = None) -> list[int]:
        """Return the numbers of a few texts that fit and are not among the known ones, the best first.

        `least` is how much alike they must be, from 0 to 1.
        """


def meaning_search(texts: TextSource, model: Path | None) -> TextSearch | None:
    """Return the search with the user's model, else with the one installed; None without. Raises UsageError."""
    return cast("TextSearch | None", import_module("codelet.semantic.meaning").open_search(texts, model))
