"""Full-text search over sessions, in an index that is built in memory for one search and then gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from codelet.errors import ExportError
from codelet.export.snapshot import Snapshot
from codelet.messages import Message
from codelet.record import Record

BEGIN, END = "\x02", "\x03"
"""What stands around each word that was found, in `Passage.excerpt`."""

_EXCERPT_WORDS = 16


class Passage(Record, kw_only=True):
    """One place where all words occur: a session, what it is (`message 3, user`, `fact`, …), and the words around."""

    session: str
    place: str
    excerpt: str


class Index:
    """Sessions that can be searched."""

    def __init__(self) -> None:
        self._base = sqlite3.connect(":memory:")
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

    def add(self, session: str, snapshot: Snapshot) -> None:
        """Take a session in under a name."""
        rows = ((text, session, place) for place, text in _texts(snapshot) if text)
        self._base.executemany("INSERT INTO line VALUES (?, ?, ?)", rows)

    def search(self, words: str, *, most: int = 50) -> list[Passage]:
        """The best places that hold all words, as words or the beginnings of words; "…" is one phrase.

        Raises ExportError where there is nothing to look for.
        """
        query = " AND ".join(_terms(words))
        if not query:
            raise ExportError("search needs a word with a letter or a digit")
        rows = self._base.execute(
            f"SELECT session, place, snippet(line, 0, '{BEGIN}', '{END}', '…', {_EXCERPT_WORDS}) FROM line"
            " WHERE line MATCH ? ORDER BY rank, session, rowid LIMIT ?",
            (query, most),
        )
        return [Passage(session=session, place=place, excerpt=excerpt) for session, place, excerpt in rows]


def _terms(words: str) -> Iterator[str]:
    """Each word or quoted phrase as a literal of the query language, the end of it open."""
    for number, piece in enumerate(words.split('"')):
        for term in [piece] if number % 2 else piece.split():
            if any(character.isalnum() for character in term):
                yield '"' + term.replace("\0", " ") + '"*'


def _texts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Everything in a session that is worth finding, with what it is."""
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
    for number, message in enumerate(snapshot.messages):
        yield _of_message(f"message {number}", message)
    for entry in snapshot.archive or ():
        yield _of_message(f"archive {entry['id']}", entry["message"])


def _of_message(name: str, message: Message) -> tuple[str, str]:
    called = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
    return f"{name}, {message['role']}", "\n".join(filter(None, [message["content"], *called]))
