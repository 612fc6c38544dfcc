"""A search in earlier sessions for a session that the user lets look there: `--memory DIR|URL`.

Everything is read through the checks of an import, without its secrets, into memory: when it is searched first, and
again where it has changed since. Nothing is written.
"""

from __future__ import annotations

import threading

from codelet.errors import CodeletError, UsageError
from codelet.export.decode import from_json
from codelet.export.live import default_mask
from codelet.export.search import BEGIN, END, Index, files_of_facts, texts_of
from codelet.export.store_target import is_url, open_place

_MOST_SESSIONS = 1_000
_WORDS_AROUND = 48


class SessionSearch:
    """The sessions of a folder or of a Redis database. Raises ExportError where there is no such place. It blocks."""

    def __init__(self, place: str, *, raw: bool = False) -> None:
        self._store = open_place(place)
        self._folder = None if is_url(place) else place
        self._mask = default_mask(raw=raw)
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._read: dict[str, tuple[float, int]] = {}

    def find(self, words: str, most: int) -> list[tuple[str, str]]:
        """The best passages with all of the words, else with some: where each stands, and its text.

        Raises CodeletError.
        """
        with self._lock:  # the calls of one step run at once
            if self._index is None:
                self._index = Index()
            self._bring_up_to_date(self._index)
            found = self._index.search(words, most=most, around=_WORDS_AROUND)
            if not found:
                found = self._index.search(words, most=most, some=True, around=_WORDS_AROUND)
        return [(f"{each.session}, {each.place}", each.excerpt.replace(BEGIN, "").replace(END, "")) for each in found]

    def _bring_up_to_date(self, index: Index) -> None:
        """Read what is new or has changed, the newest sessions first, and drop what is gone."""
        newest = sorted(self._store.entries(), key=lambda entry: -entry.saved)[:_MOST_SESSIONS]
        present = {entry.name: (entry.saved, entry.size) for entry in newest}
        for name in self._read.keys() - present.keys():
            index.put(name, ())
            del self._read[name]
        for name, state in present.items():
            if self._read.get(name) != state:
                index.put(name, self._texts(name))
                self._read[name] = state
        for path, texts in files_of_facts(self._folder) if self._folder is not None else ():
            if not isinstance(texts, CodeletError):
                index.put(path.name, [(place, self._covered(text)) for place, text in texts])

    def _texts(self, name: str) -> list[tuple[str, str]]:
        """The texts of one session without secrets; none where it is no export."""
        try:
            stored = self._store.load(name)
            if stored is None:
                return []
            return [(place, self._covered(text)) for place, text in texts_of(from_json(stored.data))]
        except UsageError:
            return []

    def _covered(self, text: str) -> str:
        mask = self._mask
        return text if mask is None or not mask.suspects(text.encode("utf-8", "replace")) else mask.cover(text)
