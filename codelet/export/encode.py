"""From a snapshot to bytes: each message is masked and encoded once, then its bytes are kept.

A message is never changed once it stands in a list, so its identity tells whether its bytes are still right. A save
after a step costs the new messages and a walk over the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from codelet.export.compact_json import encoded
from codelet.export.masking import Breath, Mask, masked
from codelet.export.snapshot import FILE_NAMES, Snapshot
from codelet.record import Record

_BY_LINE = frozenset({"messages", "archive", "timeline", "recent_history", "segments"})
_AT_ONCE = 128 * 1024
"""Bytes of new lines that are looked at together for secrets."""
_A_BREATH = 16 * 1024
_A_LOOK_ROUND = 256
"""Bytes of new lines, and lines, after which it is time to see whether a pause is due."""


class _Kept(Record):
    """The items that were encoded last, alive so that their ids stay theirs, and their lines."""

    items: Sequence[Any]
    lines: list[bytes]


class Encoder:
    """Encodes snapshots of one session again and again; `mask` takes the secrets out of every text, None leaves them.

    Not for two threads at once.
    """

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask
        self._kept: dict[str, _Kept] = {}
        self._short: dict[str, tuple[Any, bytes]] = {}

    def parts(self, snapshot: Snapshot) -> list[bytes]:
        """The document in pieces, to be written in order; one line a field and a message. What is None is left out."""
        self._encode_short(snapshot)
        parts: list[bytes] = []
        for field, name in FILE_NAMES.items():
            value = getattr(snapshot, field)
            if value is None:
                continue
            parts.append(b'%s"%s":' % (b",\n" if parts else b"{", name.encode()))
            if field in _BY_LINE:
                lines = self._lines(field, value)
                parts.append(b"[")
                parts.extend(line[1:] for line in lines[:1])  # without the comma
                parts.extend(lines[1:])
                parts.append(b"]")
            else:
                parts.append(self._short[field][1])
        parts.append(b"}\n")
        return parts

    def _encode_short(self, snapshot: Snapshot) -> None:
        """The parts that are not lists, each encoded again only where it is another object than last time."""
        changed = [
            field
            for field in FILE_NAMES
            if field not in _BY_LINE
            and (field not in self._short or self._short[field][0] is not getattr(snapshot, field))
        ]
        values = [getattr(snapshot, field) for field in changed]
        plain = [dict(value) if isinstance(value, Mapping) else value for value in values]
        lines = [encoded(value) for value in plain]
        if self._mask is not None and lines and self._mask.suspects(b"\n".join(lines)):
            lines = [encoded(masked(value, self._mask.cover)) for value in plain]
        self._short.update(zip(changed, zip(values, lines, strict=True), strict=True))

    def _lines(self, field: str, items: Sequence[Any]) -> list[bytes]:
        """Each item's line, with the comma before it; a list that has only grown costs what is new."""
        old = self._kept.get(field, _Kept((), []))
        same = list(map(is_, old.items, items))
        keep = same.index(False) if False in same else len(same)
        known = {id(item): line for item, line in zip(old.items[keep:], old.lines[keep:], strict=True)}
        lines = old.lines[:keep]
        breath = Breath()
        new: list[int] = []
        size = breathed = 0
        for index, item in enumerate(items[keep:], keep):
            line = known.get(id(item))
            if line is None:
                line = b",\n" + encoded(item)
                new.append(index)
                size += len(line)
            lines.append(line)
            if size - breathed > _A_BREATH or not index % _A_LOOK_ROUND:
                breath.take()
                breathed = size
            if size > _AT_ONCE:
                self._cover(items, lines, new, breath)
                new, size, breathed = [], 0, 0
        self._cover(items, lines, new, breath)
        self._kept[field] = _Kept(items, lines)
        return lines

    def _cover(self, items: Sequence[Any], lines: list[bytes], new: list[int], breath: Breath) -> None:
        """Mask the new lines that may hold a secret, which is seldom one of many."""
        if self._mask is None or not new or not self._mask.suspects(b"".join([lines[index] for index in new])):
            return
        for index in new:
            if self._mask.suspects(lines[index]):
                lines[index] = b",\n" + encoded(masked(items[index], self._mask.cover))
            breath.take()


def to_json(snapshot: Snapshot, *, mask: Mask | None) -> bytes:
    """The whole document at once; see Encoder."""
    return b"".join(Encoder(mask).parts(snapshot))
