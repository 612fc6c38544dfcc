"""Exports in Redis, so that a session can move from one machine to another.

A save is one script: it compares the revision and the lock, and writes only if both still hold. The lock is a lease
that expires when its holder dies. Passwords never show in a message.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from codelet.errors import ExportError, SaveConflict, SessionHeld, StoreUnreachable
from codelet.export.decode import MOST_BYTES
from codelet.export.store_target import seconds
from codelet.export.stores.store import TICKET_SECONDS, Lease, Stored, StoredExport, lock_soon, this_process
from codelet.record import Record
from codelet.redis_store import scripts

if TYPE_CHECKING:
    from redis import Redis

RedisWord = str | bytes | int | memoryview
"""A word of a command."""
RedisReply = Any
"""A reply of Redis, whose type depends on the command."""
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_SAVE_SECONDS = 60.0
"""For a save, whose whole document is sent within that time."""
_LONGEST_NUMBER = 40
"""Letters of a size or a time that are looked at."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Address(Record):
    """The place of a session in a Redis database, and times in seconds; a `ttl` of 0 keeps for ever."""

    host: str
    port: int
    database: int
    name: str
    tls: bool = False
    user: str | None = None
    password: str | None = None
    ttl: float = 30 * 86_400.0
    lease: float = 30.0

    @property
    def shown(self) -> str:
        """The address without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' if self.tls else ''}://{host}:{self.port}/{self.database}"

    @property
    def lease_ms(self) -> int:
        return max(1, round(self.lease * 1000))

    @property
    def ttl_ms(self) -> int:
        """The time to live in whole milliseconds; 0 for ever."""
        return round(self.ttl * 1000)


def parse_address(url: str, environment: Mapping[str, str] = os.environ) -> Address:
    """The address `redis[s]://[user[:password]@]host[:port][/database][/NAME][?ttl=30d&lease=30s]`.

    The password may be in CODELET_REDIS_PASSWORD instead. Raises ExportError.
    """
    from urllib.parse import parse_qsl, unquote, urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port or 6379
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise ExportError(f"the Redis address is wrong: {error}") from None
    database, name = _path(parts.path)
    if not parts.netloc:
        raise ExportError("a Redis address is redis://[user[:password]@]host[:port][/database][/NAME]")
    if parts.fragment or "@" in parts.path:  # the rest of a password: it is not printed
        raise ExportError("in a password of a Redis address '#' is written %23, '/' %2F and '@' %40")
    if unknown := sorted(set(options) - {"ttl", "lease"}):
        raise ExportError(f"the Redis address has the unknown option {unknown[0]!r}")
    return Address(
        host=parts.hostname or "localhost",
        port=port,
        database=database,
        name=name,
        tls=parts.scheme == "rediss",
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else environment.get("CODELET_REDIS_PASSWORD"),
        ttl=seconds(options.get("ttl", "30d")),
        lease=max(1.0, seconds(options.get("lease", "30s"))),
    )


def _path(path: str) -> tuple[int, str]:
    """Database and name; the database is optional."""
    pieces = [piece for piece in path.split("/") if piece]
    database = 0
    if pieces and re.fullmatch(r"\d{1,5}", pieces[0]):
        database = int(pieces.pop(0))
    name = pieces.pop(0) if pieces else ""
    if pieces or (name and not _NAME.fullmatch(name)):
        raise ExportError("the session's name in a Redis address is made of letters, digits, '.', '_' and '-'")
    return database, name


def open_redis(url: str) -> tuple[RedisStore, str]:
    """The store at an address and the session's name in it, or "" where it names none. Connects to nothing yet."""
    address = parse_address(url)
    return RedisStore(address), address.name


class RedisLease:
    """The right to write one name for `seconds` more."""

    def __init__(self, store: RedisStore, name: str, note: bytes) -> None:
        self._store = store
        self.name = name
        self.note = note
        self.released = False
        self.tried = ""
        """The revision of the last save, which may have been made even if its answer was lost."""

    @property
    def seconds(self) -> float | None:
        return self._store.address.lease

    def renew(self) -> bool:
        if self.released:
            return False
        lock = scripts.lock_key(self.name)
        return bool(self._store.run(self.name, scripts.RENEW, [lock], self.note, self._store.address.lease_ms))

    def release(self) -> None:
        """Release the lock. It expires if Redis cannot be reached."""
        if not self.released:
            self.released = True
            with suppress(StoreUnreachable):
                self._store.run(self.name, scripts.RELEASE, [scripts.lock_key(self.name)], self.note)


class RedisStore:
    """One Redis database."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._client = _connection(address, _ANSWER_SECONDS)
        self._saving = _connection(address, _SAVE_SECONDS)
        # By itself a client's socket may be found open where it is collected together with what holds it.
        for client in (self._client, self._saving):
            weakref.finalize(self, client.close)

    def shown(self, name: str) -> str:
        return f"{self.address.shown}/{name}" if name else self.address.shown

    def load(self, name: str) -> Stored | None:
        data, revision = self._command(name, "HMGET", scripts.session_key(name), "document", "revision")
        if data is None or revision is None:
            return None
        return Stored(bytes(data), revision.decode("utf-8", "backslashreplace"))

    def revision(self, name: str) -> str | None:
        found = self._command(name, "HGET", scripts.session_key(name), "revision")
        return None if found is None else found.decode("utf-8", "backslashreplace")

    def lock(self, name: str, ticket: str = "") -> Lease:
        """A lease on `name`."""
        return self._lock(name, ticket) if ticket else lock_soon(lambda: self._lock(name, ""))

    def leave(self, name: str, ticket: str) -> None:
        with suppress(StoreUnreachable):  # the place expires
            self._command(name, "HDEL", scripts.line_key(name), ticket)

    def _lock(self, name: str, ticket: str) -> RedisLease:
        note = json.dumps(
            {"holder": this_process(), "since": time.strftime("%Y-%m-%d %H:%M:%S"), "token": secrets.token_hex(8)}
        ).encode()
        keys = [scripts.lock_key(name), scripts.line_key(name)]
        values = (note, self.address.lease_ms, ticket, int(1000 * TICKET_SECONDS))
        if (other := self.run(name, scripts.LOCK, keys, *values)) != b"locked":
            raise SessionHeld(self.shown(name), _holder(other))
        return RedisLease(self, name, note)

    def save(self, name: str, parts: Sequence[bytes], *, lease: Lease, expected: str | None) -> str:
        """One script: compare, write, set the time to live, renew the lease."""
        if not isinstance(lease, RedisLease) or lease.released or lease.name != name:
            raise SaveConflict(f"{self.shown(name)}: its lock was given up")
        document = _joined(parts, self.shown(name))
        revision = secrets.token_hex(12)
        ours = [expected or "", lease.tried, revision]
        lease.tried = revision
        keys = [scripts.session_key(name), scripts.lock_key(name)]
        limits = (self.address.lease_ms, self.address.ttl_ms)
        values = (lease.note, revision, document, len(document), f"{time.time():.3f}")
        words: tuple[RedisWord, ...] = ("EVAL", scripts.SAVE, len(keys), *keys, *ours, *limits, *values)
        answer = _answered(self._saving, words, self.shown(name))
        if answer != b"saved":
            raise SaveConflict(f"{self.shown(name)}: {_reason(answer)}")
        return revision

    def save_beside(self, name: str, parts: Sequence[bytes]) -> str:
        """`NAME.conflict-…`, under a name that no one else can have."""
        sibling = f"{name[:100]}.conflict-{secrets.token_hex(4)}"
        lease = self.lock(sibling)
        try:
            self.save(sibling, parts, lease=lease, expected=None)
        finally:
            lease.release()
        return sibling

    def entries(self) -> list[StoredExport]:
        found: list[StoredExport] = []
        cursor: RedisReply = b"0"
        while True:
            cursor, keys = self._command("", "SCAN", cursor, "MATCH", scripts.session_key("*"), "COUNT", 500)
            found += self._entries(keys)
            if cursor in (b"0", 0):
                break
        unique = {entry.name: entry for entry in found}
        return sorted(unique.values(), key=lambda entry: (-entry.saved, entry.name))

    def delete(self, name: str) -> None:
        lease = self.lock(name)
        try:
            if not self._command(name, "DEL", scripts.session_key(name)):
                raise ExportError(f"{self.shown(name)}: no such session")
        finally:
            lease.release()

    def run(self, name: str, script: str, keys: Sequence[str], *values: RedisWord) -> RedisReply:
        """One script, which Redis runs whole and alone."""
        return self._command(name, "EVAL", script, len(keys), *keys, *values)

    def _entries(self, keys: Sequence[bytes]) -> list[StoredExport]:
        """The sessions of these keys; all in one request, as a database may hold many."""
        asked = [("HMGET", key, "size", "saved") for key in keys]
        held = [("GET", key.removesuffix(b":session") + b":lock") for key in keys]
        answers = _all_answered(self._client, [*asked, *held], self.shown(""))
        pairs = zip(keys, answers[: len(keys)], answers[len(keys) :], strict=True)
        return [entry for key, values, note in pairs if (entry := _entry(key, values, note)) is not None]

    def _command(self, name: str, *words: RedisWord) -> RedisReply:
        return _answered(self._client, words, self.shown(name))


def _entry(key: bytes, values: RedisReply, note: RedisReply) -> StoredExport | None:
    """Return a session from the values of its keys, or its problem; None if it is being removed."""
    try:
        name = scripts.name_of(key)
    except UnicodeDecodeError:
        shown = key.decode("utf-8", "backslashreplace")
        return StoredExport(shown, 0, 0.0, None, problem="its name is no text in UTF-8")
    if isinstance(values, ForeignValue) or isinstance(note, ForeignValue):
        return StoredExport(name, 0, 0.0, None, problem="its keys hold something else")
    size, saved = values
    if size is None or saved is None:
        return None
    holder = None if note is None else _holder(note)
    try:
        length, when = int(size[:_LONGEST_NUMBER]), float(saved[:_LONGEST_NUMBER])
        time.localtime(when)
        if not 0 <= length < 1 << 53:
            raise OverflowError
    except (ValueError, OverflowError, OSError):
        return StoredExport(name, 0, 0.0, holder, problem="its size or its time is no number")
    return StoredExport(name, length, when, holder)


class ForeignValue(ExportError):
    """A key of a session holds what codelet never writes there."""


def _connection(address: Address, seconds: float) -> Redis:
    """A client that waits `seconds` for an answer; it connects when it is first used."""
    try:
        from redis import Redis
        from redis.backoff import ConstantBackoff
        from redis.exceptions import ConnectionError as Unconnected
        from redis.retry import Retry
    except ImportError:
        raise ExportError("redis:// needs the extra: pip install 'codelet-repl[redis]'") from None
    return Redis(
        host=address.host,
        port=address.port,
        db=address.database,
        username=address.user,
        password=address.password,
        ssl=address.tls,
        socket_connect_timeout=_CONNECT_SECONDS,
        socket_timeout=seconds,
        # A connection that broke is made again; a server that hangs would only hang for as long again.
        retry=Retry(ConstantBackoff(0.2), 1, supported_errors=(Unconnected,)),
    )


def _answered(client: Any, words: Sequence[RedisWord], shown: str) -> RedisReply:
    """The answer to one command."""
    from redis.exceptions import RedisError

    try:
        return client.execute_command(*words)
    except (RedisError, OSError) as error:
        raise _failure(error, shown) from None


def _all_answered(client: Any, commands: Sequence[Sequence[RedisWord]], shown: str) -> list[RedisReply]:
    """Return the answers to commands that are sent together; a ForeignValue if a command found another type."""
    from redis.exceptions import RedisError

    try:
        together = client.pipeline(transaction=False)
        for words in commands:
            together.execute_command(*words)
        answers = together.execute(raise_on_error=False)
    except (RedisError, OSError) as error:
        raise _failure(error, shown) from None
    failed = [_failure(answer, shown) if isinstance(answer, Exception) else answer for answer in answers]
    for each in failed:
        if isinstance(each, ExportError) and not isinstance(each, ForeignValue):
            raise each
    return failed


def _failure(error: Exception, shown: str) -> ExportError:
    """Return what went wrong, in our words."""
    from redis.exceptions import AuthenticationError, ResponseError

    if isinstance(error, AuthenticationError):
        return ExportError(f"{shown}: Redis refused the password (CODELET_REDIS_PASSWORD)")
    if isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE"):
        return ForeignValue(f"{shown}: not a codelet session")
    if isinstance(error, ResponseError):
        return StoreUnreachable(f"{shown}: Redis refused it: {error}")
    return StoreUnreachable(f"{shown}: Redis cannot be reached: {error or type(error).__name__}")


def _joined(parts: Sequence[bytes], shown: str) -> memoryview:
    """All parts in one buffer, filled piece by piece so that other threads get their turn."""
    total = sum(map(len, parts))
    if total > MOST_BYTES:
        raise StoreUnreachable(f"{shown}: not saved: the session is larger than {MOST_BYTES >> 20} MiB")
    whole = memoryview(bytearray(total))
    place = 0
    for part in parts:
        whole[place : place + len(part)] = part
        place += len(part)
    return whole


def _reason(answer: bytes) -> str:
    if answer == b"changed":
        return "another process changed it"
    return f"it is in use by {_holder(answer)}"


def _holder(note: bytes) -> str:
    try:
        known = json.loads(note)
        return re.sub(r"[^\x20-\x7e]", "?", f"{known['holder']} since {known['since']}")[:200]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "another process"
