"""A Redis address: `redis[s]://[user[:password]@]host[:port][/database][/NAME][?ttl=30d&lease=30s]`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from codelet.errors import ExportError
from codelet.export.store_target import seconds
from codelet.record import Record

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Address(Record):
    """Where a Redis database is, the session's name in it, and times in seconds; a `ttl` of 0 keeps for ever."""

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
    """The address in `url`; a password may stand in CODELET_REDIS_PASSWORD instead. Raises ExportError."""
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
    """Database and name; the name may stand alone."""
    pieces = [piece for piece in path.split("/") if piece]
    database = 0
    if pieces and re.fullmatch(r"\d{1,5}", pieces[0]):
        database = int(pieces.pop(0))
    name = pieces.pop(0) if pieces else ""
    if pieces or (name and not _NAME.fullmatch(name)):
        raise ExportError("the session's name in a Redis address is made of letters, digits, '.', '_' and '-'")
    return database, name
