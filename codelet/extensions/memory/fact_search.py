"""A search in a file of facts besides the one by words: a table names its module, which is imported once it is needed.

Whatever finds facts in another way has the two functions of `SearchModule`; it is an extra, and no part of the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from codelet.extensions.memory.fact_file import FactFile, StoredFact

SEARCHES = {"facts_model": "codelet.semantic.meaning"}
"""By the setting that names its model, the module of a search."""


class FactSearch(Protocol):
    """Finds facts of one file, for any thread. `broken` is why it cannot, and then it finds nothing."""

    broken: str

    def find(self, text: str, known: Sequence[StoredFact]) -> list[StoredFact]:
        """Return a few facts that fit a text and are not among the known ones, the best first."""


class SearchModule(Protocol):
    """What a module of a search has."""

    def open_search(self, file: FactFile, model: Path | None) -> FactSearch | None:
        """Return the search with the user's model, else with the one installed; None without. Raises UsageError."""

    def checked(self, model: Path | None) -> str | None:
        """Return what finds facts, once it has been tried; None if nothing is installed. Raises CodeletError."""


def search_module(setting: str = "facts_model") -> SearchModule:
    """Return the module of a setting's search."""
    return cast("SearchModule", import_module(SEARCHES[setting]))
