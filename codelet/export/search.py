"""Full-text search over sessions and files of facts, in an index that is built in memory and gone with its owner."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from codelet.errors import CodeletError, ExportError
from codelet.export.document import Document
from codelet.extensions.services import facts_in
from codelet.messages import Message, kind_of
from codelet.record import Record

BEGIN, END = "\x02", "\x03"
"""What stands around each word that was found, in `Passage.excerpt`."""

_EXCERPT_WORDS = 16


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
    yield "summary", snapshot.summary or ""
    yield "summary", snapshot.long_term_summary
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
