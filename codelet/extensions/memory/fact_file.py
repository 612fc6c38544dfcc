"""A file of facts that sessions share: SQLite with full-text search, one writer at a time, no waits for readers.

Each write is one transaction that waits for the lock, so no facts are lost. The last session to leave removes the side
files of the write-ahead log. A file from elsewhere is opened only if it has exactly our tables.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from codelet.errors import CodeletError, UsageError
from codelet.extensions.memory.fact import LONGEST_FACT, LONGEST_KEY, LONGEST_PROMPT, Fact, normal, plain, words_of
from codelet.record import Record
from codelet.safety.opener import open_named

MOST_STORED = 20_000
"""The most facts of a file. Beyond it, the least recently used are removed, but never the kept ones."""
UNUSED_SECONDS = 400 * 24 * 3600.0
"""A fact that is not used for this long is removed, unless it is kept."""

_APPLICATION = 0x436F6446
_VERSION = 2
_WAIT_SECONDS = 10.0
_MOST_TERMS = 24
_LARGEST_FILE = 256 * 1024 * 1024
_LONGEST_VALUE = 1_000_000
_HEADER = b"SQLite format 3\0"
_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""The first bytes of a rollback journal. A journal that names another one ends in them too."""
_TABLE = (
    "CREATE TABLE fact (id INTEGER PRIMARY KEY, text TEXT NOT NULL, normal TEXT NOT NULL UNIQUE, key TEXT NOT NULL,"
    " kept INTEGER NOT NULL, by TEXT NOT NULL, said TEXT NOT NULL, made REAL NOT NULL, used REAL NOT NULL,"
    " uses INTEGER NOT NULL DEFAULT 0)"
)
_WORDS = (
    "CREATE VIRTUAL TABLE fact_words USING fts5"
    "(text, key, content='fact', content_rowid='id', tokenize='unicode61 remove_diacritics 2')"
)
_SCHEMA = {"fact": _TABLE, "fact_words": _WORDS}
"""No triggers: they would run, also those in a stranger's file."""
_SHADOWS = frozenset(f"fact_words_{part}" for part in ("data", "idx", "docsize", "config"))
"""The tables in which FTS5 keeps the words of ours."""
_UNIQUE = ("index", "sqlite_autoindex_fact_1", "fact", None)
"""SQLite's index of the unique column."""
_ROW = "fact.id, fact.text, fact.key, fact.kept, fact.by, fact.said, fact.made, fact.uses"
_SOUND = f"typeof(fact.text) = 'text' AND length(fact.text) <= {4 * LONGEST_FACT}"

Given = TypeVar("Given")


class StoredFact(Record, kw_only=True):
    """A fact of the file with its number. `kept` facts are never pruned. `uses` counts the sessions that sent it."""

    number: int
    fact: Fact
    kept: bool
    uses: int


class FactFile:
    """The facts of a file, which is created if it is missing. Thread-safe; close it.

    `most` is the limit at `close`; `clock` returns Unix seconds. Raises UsageError if the file is not a facts file,
    CodeletError if it cannot be read or written.
    """

    def __init__(self, path: Path, *, most: int = MOST_STORED, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._used: set[int] = set()
        _checked(path)
        try:
            self._base = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise CodeletError(f"{path}: the facts cannot be opened: {error}") from None
        try:
            with _as_one_line(path):
                self._prepare()
        except BaseException:
            self._base.close()
            raise

    def add(self, facts: Iterable[Fact]) -> Fact | None:
        """Add facts in one transaction. Known facts stay; a fact replaces another of its key; the user's are kept.

        Only the user's facts replace a kept one. Returns the first kept fact that was not replaced, or None.
        """
        held: list[Fact] = []

        def write() -> None:
            for fact in facts:
                if (kept := self._kept(fact)) is None:
                    self._write(fact)
                else:
                    held.append(kept)

        self._change(write)
        return held[0] if held else None

    def find(self, text: str, most: int) -> list[StoredFact]:
        """Return the facts that share most words with a text, the best first."""
        terms = terms_of(text)
        if not terms:
            return []
        query = " OR ".join(f'"{term}"' for term in terms)
        found = self._asked(
            f"SELECT {_ROW} FROM fact_words JOIN fact ON fact.id = fact_words.rowid"
            f" WHERE fact_words MATCH ? AND {_SOUND} ORDER BY fact_words.rank LIMIT ?",
            (query, most),
        )
        self._used.update(stored.number for stored in found)
        return found

    def used(self, numbers: Iterable[int]) -> list[StoredFact]:
        """Return the facts of these numbers in order, and mark them as used."""
        found = [stored for number in numbers if (stored := self.number(number)) is not None]
        self._used.update(stored.number for stored in found)
        return found

    def statements(self) -> list[tuple[int, str]]:
        """Return numbers and texts with keys, the newest first, without invalid UTF-8."""
        query = f"SELECT id, CAST(key || ' ' || text AS BLOB) FROM fact WHERE {_SOUND} ORDER BY id DESC LIMIT ?"
        with self._lock, _as_one_line(self.path):
            rows = self._base.execute(query, (MOST_STORED,)).fetchall()
        texts = ((number, (raw or b"").decode("utf-8", "replace").strip()) for number, raw in rows)
        return [(number, text) for number, text in texts if text and "\ufffd" not in text]

    def version(self) -> tuple[int, int]:
        """Return a value that changes with every change of the file, by any process."""
        with self._lock, _as_one_line(self.path):
            return self._base.execute("PRAGMA data_version").fetchone()[0], self._base.total_changes

    def newest(self, most: int) -> list[StoredFact]:
        return self._asked(f"SELECT {_ROW} FROM fact WHERE {_SOUND} ORDER BY made DESC, id DESC LIMIT ?", (most,))

    def number(self, number: int) -> StoredFact | None:
        return next(iter(self._asked(f"SELECT {_ROW} FROM fact WHERE {_SOUND} AND id = ?", (number,))), None)

    def forget(self, number: int) -> None:
        self._change(lambda: self._delete([number]))

    def keep(self, number: int) -> None:
        self._change(lambda: self._base.execute("UPDATE fact SET kept = 1 WHERE id = ?", (number,)))

    def __len__(self) -> int:
        with self._lock, _as_one_line(self.path):
            return int(self._base.execute("SELECT count(*) FROM fact").fetchone()[0])

    def close(self) -> None:
        """Save the uses, prune, and remove the side files unless another process has the file open."""
        now = self._clock()

        def write() -> None:
            used = [(now, number) for number in self._used]
            self._base.executemany("UPDATE fact SET used = ?, uses = uses + 1 WHERE id = ?", used)
            self._delete(self._numbers("kept = 0 AND used < ?", now - UNUSED_SECONDS))
            if (over := self._base.execute("SELECT count(*) FROM fact").fetchone()[0] - self._most) > 0:
                self._delete(self._numbers("kept = 0 ORDER BY used, id LIMIT ?", over))

        try:
            self._change(write)
            with self._lock, _as_one_line(self.path):
                self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._base.close()

    def _prepare(self) -> None:
        base = self._base
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        # nothing that a file contains is run
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "synchronous = NORMAL"):
            base.execute(f"PRAGMA {pragma}")
        self._claim()
        self._waited(lambda: base.execute("PRAGMA journal_mode = WAL").fetchall())

    def _claim(self) -> None:
        """Create the tables in an empty file, otherwise check that it has exactly these."""
        base = self._base
        self._waited(lambda: base.execute("BEGIN IMMEDIATE"))
        try:
            if not base.execute("SELECT 1 FROM sqlite_master").fetchone():
                base.execute(f"PRAGMA application_id = {_APPLICATION}")
                base.execute(f"PRAGMA user_version = {_VERSION}")
                for statement in _SCHEMA.values():
                    base.execute(statement)
            else:
                _judge(base, self.path)
            base.execute("COMMIT")
        except BaseException:
            base.execute("ROLLBACK")
            raise

    def _kept(self, fact: Fact) -> Fact | None:
        """Return the kept fact that a fact of this key, which is not the user's, may not replace, or None."""
        if not fact.key or fact.by == "user":
            return None
        query = f"SELECT {_ROW} FROM fact WHERE lower(key) = lower(?) AND normal <> ? AND kept <> 0"
        rows = self._base.execute(query, (fact.key, normal(fact.text))).fetchall()
        return _stored(rows[0]).fact if rows else None

    def _write(self, fact: Fact) -> None:
        now, same = self._clock(), normal(fact.text)
        kept = int(fact.by == "user")
        if fact.key:
            self._delete(self._numbers("lower(key) = lower(?) AND normal <> ?", fact.key, same))
        known = self._numbers("normal = ?", same)
        if known:
            self._base.execute("UPDATE fact SET used = ?, kept = max(kept, ?) WHERE id = ?", (now, kept, known[0]))
            return
        row = (fact.text, same, fact.key, kept, fact.by, fact.said, fact.when or now, now, 0)
        self._base.execute(f"INSERT INTO fact VALUES (NULL{', ?' * len(row)})", row)
        self._base.execute(
            "INSERT INTO fact_words(rowid, text, key) VALUES (last_insert_rowid(), ?, ?)", (fact.text, fact.key)
        )

    def _numbers(self, condition: str, *values: object) -> list[int]:
        """Return the numbers of the facts that meet an SQL condition."""
        return [number for (number,) in self._base.execute(f"SELECT id FROM fact WHERE {condition}", values)]

    def _delete(self, numbers: Iterable[int]) -> None:
        """Remove facts with their index entries, inside a transaction."""
        rows = [(number,) for number in numbers]
        taken = "INSERT INTO fact_words(fact_words, rowid, text, key) SELECT 'delete', id, text, key FROM fact"
        self._base.executemany(f"{taken} WHERE id = ?", rows)
        self._base.executemany("DELETE FROM fact WHERE id = ?", rows)

    def _asked(self, query: str, values: Sequence[object]) -> list[StoredFact]:
        with self._lock, _as_one_line(self.path):
            return [_stored(row) for row in self._base.execute(query, values).fetchall()]

    def _change(self, write: Callable[[], object]) -> None:
        """Run `write` in one transaction, once the lock is free."""
        with self._lock, _as_one_line(self.path):
            self._waited(lambda: self._base.execute("BEGIN IMMEDIATE"))
            try:
                write()
                self._base.execute("COMMIT")
            except BaseException:
                self._base.execute("ROLLBACK")
                raise

    def _waited(self, act: Callable[[], Given]) -> Given:
        """Retry while another process has the lock: SQLite does not wait for a change of the journal mode."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                return act()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


def terms_of(text: str) -> list[str]:
    """Return the search words of a text: the longest, because they are the rarest."""
    return sorted(words_of(text), key=lambda word: (-len(word), word))[:_MOST_TERMS]


def _is_ours(kind: object, name: object, table: object, sql: object) -> bool:
    """Return whether a row of the schema is one of ours: a table, not a view, a trigger or another index.

    A trigger can have any name, even a table's or one of SQLite's own.
    """
    if (kind, name, table, sql) == _UNIQUE:
        return True
    if kind != "table" or name != table or not (isinstance(name, str) and isinstance(sql, str)):
        return False
    return sql == _SCHEMA.get(name) or (name in _SHADOWS and sql.startswith(f"CREATE TABLE '{name}'("))


def _judge(base: sqlite3.Connection, path: Path) -> None:
    """Raise UsageError unless the file has exactly our tables."""
    application = base.execute("PRAGMA application_id").fetchone()[0]
    version = base.execute("PRAGMA user_version").fetchone()[0]
    if application == _APPLICATION and version > _VERSION:
        raise UsageError(f"{path}: is a facts file of a newer codelet: update codelet")
    rows = base.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    names = {name for _, name, _, _ in rows}
    if application != _APPLICATION or not (names >= _SCHEMA.keys() and all(_is_ours(*row) for row in rows)):
        raise UsageError(f"{path}: is a database, but not a facts file, or contains more than facts")


@contextmanager
def _as_one_line(path: Path) -> Iterator[None]:
    """Raise errors of SQLite as CodeletErrors."""
    try:
        yield
    except sqlite3.Error as error:
        raise CodeletError(f"{path}: the facts cannot be read or written: {error}") from None


def _checked(path: Path) -> None:
    """Check the file before SQLite opens it, or create it with access for the user only. Raises UsageError."""
    _check_side_files(path)
    try:
        with os.fdopen(open_named(path, os.O_RDWR | os.O_CREAT), "rb") as file:
            state = os.fstat(file.fileno())
            begins = file.read(len(_HEADER)) if stat.S_ISREG(state.st_mode) else None
    except OSError as error:
        raise UsageError(f"{path}: a facts file cannot be opened there: {error.strerror or error}") from None
    if begins is None:
        raise UsageError(f"{path}: is not a regular file")
    if state.st_size > _LARGEST_FILE:
        raise UsageError(f"{path}: is larger than {_LARGEST_FILE >> 20} MiB")
    if begins not in (b"", _HEADER):
        raise UsageError(f"{path}: is not a facts file")


def _check_side_files(path: Path) -> None:
    """Check that the side files, which SQLite opens with the file, lead to no other file: it would follow links and
    write there, and a journal of several databases would make it remove a file. Raises UsageError.
    """
    real = os.path.realpath(path)
    for name in ("-journal", "-wal", "-shm"):
        side_file = f"{real}{name}"
        try:
            descriptor = os.open(side_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(f"{path}: {side_file} cannot be opened: {error.strerror or error}") from None
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
                raise UsageError(f"{path}: {side_file} is a link, or not a regular file")
            if name == "-journal":
                file.seek(max(0, state.st_size - len(_JOURNAL)))
                if file.read() == _JOURNAL and state.st_size > len(_JOURNAL):
                    raise UsageError(f"{path}: {side_file} names another file: remove it")


def _stored(row: tuple[int, str, object, object, object, object, object, object]) -> StoredFact:
    """Return a row with cleaned texts, safe to show."""
    number, text, key, kept, by, said, made, uses = row
    fact = Fact(
        text=plain(text, LONGEST_FACT),
        key=plain(key, LONGEST_KEY) if isinstance(key, str) else "",
        by="user" if by == "user" else "model" if by == "model" else "export",
        said=plain(said, LONGEST_PROMPT) if isinstance(said, str) else "",
        when=float(made) if isinstance(made, int | float) else 0.0,
    )
    return StoredFact(number=number, fact=fact, kept=bool(kept), uses=uses if isinstance(uses, int) else 0)
