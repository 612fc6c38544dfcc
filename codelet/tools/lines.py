"""Reads a range of lines of a file of any size, in bounded memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import BinaryIO

_CHUNK = 1 << 20
_COUNT_LIMIT = 8 << 20
"""Up to this size the lines are counted to the end, so that the model learns how many there are."""


@dataclass
class Page:
    """Lines from a file: each one's first bytes and how many more it has.

    `more` says that lines follow, `total` is the number of lines of the file where it was counted.
    """

    lines: list[tuple[bytes, int]] = field(default_factory=list)
    more: bool = False
    total: int | None = None


async def read_page(file: BinaryIO, size: int, first: int, count: int, line_limit: int, limit: int) -> Page:
    """At most `count` lines from line `first` (from 1), `line_limit` bytes of each, `limit` bytes in all.

    Gives way to the event loop after each MiB, so that a cancel is prompt in a file of gigabytes.
    """
    page = Page()
    reader = _Reader(page, first - 1, count, line_limit, limit)
    while chunk := file.read(_CHUNK):
        if not reader.take(chunk) and size > _COUNT_LIMIT:
            return page
        await asyncio.sleep(0)
    reader.finish()
    return page


class _Reader:
    """Takes a file's chunks in order; skips, keeps, then only counts."""

    def __init__(self, page: Page, skip: int, count: int, line_limit: int, limit: int) -> None:
        self._page = page
        self._skip = skip
        self._count = count
        self._line_limit = line_limit
        self._room = limit
        self._line = b""
        self._cut = 0
        self._ended = 0
        self._open = False

    def take(self, chunk: bytes) -> bool:
        """The next bytes; False when the page is full and more follows."""
        start = 0
        if self._ended < self._skip:
            start = self._skipped(chunk)
        while start < len(chunk) and not self._full():
            end = chunk.find(b"\n", start)
            stop = len(chunk) if end < 0 else end
            self._add(chunk[start:stop])
            start = stop + 1
            if end >= 0:
                self._end_line()
        if start < len(chunk):
            self._page.more = True
            self._ended += chunk.count(b"\n", start)
            self._open = not chunk.endswith(b"\n")
        return not self._page.more

    def finish(self) -> None:
        """The file is at its end."""
        if self._open and (self._page.more or self._ended < self._skip):
            self._ended += 1
        elif self._open:
            self._end_line()
        self._page.total = self._ended

    def _full(self) -> bool:
        return len(self._page.lines) >= self._count or self._room <= 0

    def _skipped(self, chunk: bytes) -> int:
        """Count the lines to skip; where in the chunk the wanted ones begin."""
        ends = chunk.count(b"\n")
        if self._ended + ends < self._skip:
            self._ended += ends
            self._open = not chunk.endswith(b"\n")
            return len(chunk)
        position = 0
        while self._ended < self._skip:
            position = chunk.index(b"\n", position) + 1
            self._ended += 1
        self._open = False
        return position

    def _add(self, piece: bytes) -> None:
        room = self._line_limit - len(self._line)
        self._line += piece[:room]
        self._cut += max(len(piece) - room, 0)
        self._open = True

    def _end_line(self) -> None:
        self._page.lines.append((self._line, self._cut))
        self._room -= len(self._line) + 1
        self._ended += 1
        self._line, self._cut, self._open = b"", 0, False
