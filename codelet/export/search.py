"""Full-text search over sessions, in an index that is built in memory and gone with its owner.

`SessionSearch` is what `--memory DIR|URL` lets a session search. Everything is read through the checks of an import,
without its secrets: at the first search, and again if it has changed since. Nothing is written.
"""

from __future__ import annotations

import sqlite3
import textwrap
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import ExportError, UsageError
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.live import default_mask
from codelet.export.store_target import open_place
from codelet.extensions.services import text_search
from codelet.messages import Message, kind_of
from codelet.record import Record

if TYPE_CHECKING:
    from codelet.extensions.services import TextSearch

BEGIN, END = "\x02", "\x03"
"""The marks around each match in `Passage.excerpt`."""

_EXCERPT_WORDS = 16
_MOST_SESSIONS = 1_000
_WORDS_AROUND = 48
_PIECE, _MOST_PIECES, _MOST_IN_ALL = 400, 20, 20_000
"""Characters of a piece whose meaning is compared, pieces of one text, and of all sessions, the newest first."""


class Passage(Record, kw_only=True):
    """One place that was found: a session, what it is (`turn 2, message 3, user`, `fact`, …), the words around.

    `by_meaning` says that it need not have one of the words.
    """

    session: str
    place: str
    excerpt: str
    by_meaning: bool = False


class Index:
    """Texts that can be searched, by the session that they are of. For any thread, one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._base.execute(
                "CREATE VIRTUAL TABLE line USING fts5"
                "(text, session UNINDEXED, place UNINDEXED, tokenize = 'unicode61 remove_diacritics 2')"
            )
            self._base.execute("CREATE TABLE piece (id INTEGER PRIMARY KEY, text, session, place)")
        except sqlite3.OperationalError:
            self._base.close()
            raise ExportError("search needs an SQLite with the FTS5 extension; this Python's has none") from None

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def put(self, session: str, texts: Iterable[tuple[str, str]]) -> None:
        """Replace the texts of a session; each comes with its place."""
        rows = [(text, session, place) for place, text in texts if text]
        said = [(text, session, place) for text, session, place in rows if not place.endswith((", tool", ", call"))]
        pieces = [(piece, *where) for text, *where in said for piece in _pieces(text)]
        with self._lock:
            for table in ("line", "piece"):
                self._base.execute(f"DELETE FROM {table} WHERE session = ?", (session,))
            self._base.executemany("INSERT INTO line VALUES (?, ?, ?)", rows)
            self._base.executemany("INSERT INTO piece VALUES (NULL, ?, ?, ?)", pieces)

    def version(self) -> int:
        """Another value once a text has changed."""
        return self._base.total_changes

    def statements(self) -> list[tuple[int, str]]:
        """Return what was said in pieces, by number, the newest first; without calls and their answers."""
        with self._lock:
            return self._base.execute(f"SELECT id, text FROM piece ORDER BY id DESC LIMIT {_MOST_IN_ALL}").fetchall()

    def pieces_of(self, found: Iterable[Passage]) -> set[int]:
        """The numbers of the pieces of these places."""
        query, places = "SELECT id FROM piece WHERE session = ? AND place = ?", {(p.session, p.place) for p in found}
        with self._lock:
            return {number for place in places for (number,) in self._base.execute(query, place)}

    def piece(self, number: int) -> Passage:
        """The piece of this number."""
        with self._lock:
            text, session, place = self._base.execute(
                "SELECT text, session, place FROM piece WHERE id = ?", (number,)
            ).fetchone()
        return Passage(session=session, place=place, excerpt=text, by_meaning=True)

    def search(self, words: str, *, most: int = 50, some: bool = False, around: int = _EXCERPT_WORDS) -> list[Passage]:
        """The best places that hold all words, as words or the beginnings of words; "…" is one phrase.

        With `some` one of the words is enough. `around` is how many words a passage has, at most 64.
        Raises ExportError if there is nothing to look for.
        """
        query = (" OR " if some else " AND ").join(_terms(words))
        if not query:
            raise ExportError("search needs a word with a letter or a digit")
        with self._lock:
            rows = self._base.execute(
                f"SELECT session, place, snippet(line, 0, '{BEGIN}', '{END}', '…', {around}) FROM line"
                " WHERE line MATCH ? ORDER BY rank, session, rowid LIMIT ?",
                (query, most),
            ).fetchall()
        return [Passage(session=session, place=place, excerpt=excerpt) for session, place, excerpt in rows]


def _pieces(text: str) -> Iterator[str]:
    """The beginning of a text in pieces of whole words."""
    yield from textwrap.wrap(text[: _PIECE * _MOST_PIECES], _PIECE, break_on_hyphens=False)[:_MOST_PIECES]


def _terms(words: str) -> Iterator[str]:
    """Each word or quoted phrase as a literal of the query language, the end of it open."""
    for number, piece in enumerate(words.split('"')):
        for term in [piece] if number % 2 else piece.split():
            if any(character.isalnum() for character in term):
                yield '"' + term.replace("\0", " ") + '"*'


def texts_of(snapshot: Document) -> Iterator[tuple[str, str]]:
    """Everything in a session that is worth finding, behind what it is."""
    yield "summary", snapshot.long_term_summary or ("" if snapshot.segments else snapshot.summary or "")
    for fact in snapshot.facts:
        yield "fact", fact
    for segment in snapshot.segments:
        yield f"summary of turns {segment['first']}-{segment['last']}", segment["text"]
    for task in snapshot.active_tasks:
        yield "task", task["description"]
    if snapshot.plan is not None:
        yield "plan", "\n".join([snapshot.plan["goal"], *(step["description"] for step in snapshot.plan["steps"])])
    turn = max((segment["last"] for segment in snapshot.segments), default=0)
    for number, message in enumerate(snapshot.messages):
        turn += kind_of(message) == "prompt"
        if kind_of(message) == "reminder":
            continue
        yield from _of_message(f"turn {turn}, message {number}" if turn else f"message {number}", message)
    for entry in snapshot.archive or ():
        yield from _of_message(f"turn {entry['turn']}, archive {entry['id']}", entry["message"])


def _of_message(name: str, message: Message) -> Iterator[tuple[str, str]]:
    yield f"{name}, {message['role']}", message["content"] or ""
    for call in message.get("tool_calls", ()):
        yield f"{name}, call", call["function"]["arguments"]


class SessionSearch:
    """The newest sessions of a folder or of a Redis database, at most `most`. Searching blocks.

    `model` is the user's own for the search by meaning. `passed_over` says what cannot be read. Raises ExportError if
    the place does not exist.
    """

    def __init__(
        self, place: str, *, raw: bool = False, model: Path | None = None, most_sessions: int = _MOST_SESSIONS
    ) -> None:
        self._store = open_place(place)
        self._mask = default_mask(raw=raw)
        self._model = model
        self._most_sessions = most_sessions
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._nearest: TextSearch | None = None
        self._read: dict[str, tuple[float, int]] = {}
        self.passed_over: list[str] = []

    def find(self, words: str, most: int) -> list[tuple[str, str]]:
        """The best passages with all of the words, else with some, and a few that are near by meaning: where each is,
        and its text.

        Raises CodeletError.
        """
        found = self.passages(words, most, some=True, around=_WORDS_AROUND)
        return [
            (
                f"{each.session}, {each.place}{', by meaning' if each.by_meaning else ''}",
                each.excerpt.replace(BEGIN, "").replace(END, ""),
            )
            for each in found
        ]

    def passages(self, words: str, most: int, *, some: bool = False, around: int = _EXCERPT_WORDS) -> list[Passage]:
        """The best passages with all of the words, with `some` also those with one, and a few that are near by meaning.

        Raises CodeletError.
        """
        with self._lock:  # the calls of one step run in parallel
            if self._index is None:
                self._index = Index()
                self._nearest = text_search(self._index, self._model)
            index = self._index
            self._bring_up_to_date(index)
            found = index.search(words, most=most, around=around)
            if not found and some:
                found = index.search(words, most=most, some=True, around=around)
            if self._nearest is None or '"' in words:
                return found
            near = self._nearest.find(words, index.pieces_of(found))
            return [*found[: max(1, most - len(near))], *map(index.piece, near)][:most]

    def _bring_up_to_date(self, index: Index) -> None:
        """Read what is new or has changed, the newest sessions last, and drop what is gone."""
        self.passed_over.clear()
        newest = sorted(self._store.entries(), key=lambda entry: -entry.saved)[: self._most_sessions]
        present = {entry.name: (entry.saved, entry.size) for entry in reversed(newest)}
        for name in self._read.keys() - present.keys():
            index.put(name, ())
            del self._read[name]
        for name, state in present.items():
            if self._read.get(name) != state:
                index.put(name, self._texts(name))
                self._read[name] = state

    def _texts(self, name: str) -> list[tuple[str, str]]:
        """Return the texts of one session without secrets; empty if it is not an export."""
        try:
            stored = self._store.load(name)
            if stored is None:
                return []
            document = from_json(stored.data, self._store.shown(name))
            return [(place, self._covered(text)) for place, text in texts_of(document)]
        except UsageError as error:
            self.passed_over.append(str(error))
            return []

    def _covered(self, text: str) -> str:
        mask = self._mask
        return text if mask is None or not mask.suspects(text.encode("utf-8", "replace")) else mask.cover(text)
