"""Full-text search over sessions and files of facts, in an index that is built in memory and gone with its owner.

`SessionSearch` is what `--memory DIR|URL` lets a session search. Everything is read through the checks of an import,
without its secrets: at the first search, and again if it has changed since. Nothing is written.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from codelet.errors import CodeletError, ExportError, UsageError
from codelet.export.decode import from_json
from codelet.export.document import Document
from codelet.export.live import default_mask
from codelet.export.store_target import is_url, open_place
from codelet.extensions.services import facts_in
from codelet.messages import Message, kind_of
from codelet.record import Record

BEGIN, END = "\x02", "\x03"
"""What stands around each word that was found, in `Passage.excerpt`."""

_EXCERPT_WORDS = 16
_MOST_SESSIONS = 1_000
_WORDS_AROUND = 48


class Passage(Record, kw_only=True):
    """One place where words occur: a session, what it is (`turn 2, message 3, user`, `fact`, …), the words around."""

    session: str
    place: str
    excerpt: str


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
        except sqlite3.OperationalError:
            self._base.close()
            raise ExportError("search needs an SQLite with the FTS5 extension; this Python's has none") from None

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def put(self, session: str, texts: Iterable[tuple[str, str]]) -> None:
        """The texts of a session, each behind what it is, in place of what was there of it."""
        rows = [(text, session, place) for place, text in texts if text]
        with self._lock:
            self._base.execute("DELETE FROM line WHERE session = ?", (session,))
            self._base.executemany("INSERT INTO line VALUES (?, ?, ?)", rows)

    def search(self, words: str, *, most: int = 50, some: bool = False, around: int = _EXCERPT_WORDS) -> list[Passage]:
        """The best places that hold all words, as words or the beginnings of words; "…" is one phrase.

        With `some` one of the words is enough. `around` is how many words a passage has, at most 64.
        Raises ExportError where there is nothing to look for.
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


def files_of_facts(folder: str) -> Iterator[tuple[Path, list[tuple[str, str]] | CodeletError]]:
    """The files of facts in a folder, each with its texts behind what they are, or what is wrong with it."""
    for path in sorted(Path(folder).iterdir()):
        if not _begins_as_a_database(path):
            continue
        try:
            yield path, [("fact", text) for text in facts_in(path)]
        except CodeletError as error:
            yield path, error


def _begins_as_a_database(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


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
        yield _of_message(f"turn {turn}, message {number}" if turn else f"message {number}", message)
    for entry in snapshot.archive or ():
        yield _of_message(f"turn {entry['turn']}, archive {entry['id']}", entry["message"])


def _of_message(name: str, message: Message) -> tuple[str, str]:
    called = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
    return f"{name}, {message['role']}", "\n".join(filter(None, [message["content"], *called]))


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
