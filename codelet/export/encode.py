"""From a snapshot to bytes: each message is masked and encoded once, then its bytes are kept.

A message is never changed once it stands in a list, so its identity tells whether its bytes are still right. A save
after a step costs the new messages and a walk over the list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import is_
from time import sleep, thread_time
from typing import Any

from codelet.export.errors import ExportError
from codelet.export.masking import BREATH_AFTER_SECONDS, BREATH_SECONDS, Mask, masked
from codelet.export.snapshot import FILE_NAMES, Snapshot
from codelet.record import Record
from codelet.text import valid_unicode

_BY_LINE = frozenset({"messages", "archive", "timeline", "recent_history", "segments"})


class _Kept(Record):
    """The items that were encoded last, alive so that their ids stay theirs, and their lines."""

    items: Sequence[Any]
    lines: list[bytes]


class Encoder:
    """Encodes snapshots of one session again and again; `mask` replaces secrets in every text, None leaves them.

    Not for two threads at once.
    """

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask
        self._kept: dict[str, _Kept] = {}
        self._short: dict[str, tuple[Any, bytes]] = {}

    def parts(self, snapshot: Snapshot) -> list[bytes]:
        """The document in pieces, to be written in order; one line a field and a message. What is None is left out."""
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
                parts.append(self._field(field, value))
        parts.append(b"}\n")
        return parts

    def _field(self, field: str, value: Any) -> bytes:
        """A short part, encoded again only where it is another object than last time."""
        old = self._short.get(field)
        if old is None or old[0] is not value:
            old = (value, self._encoded(dict(value) if isinstance(value, Mapping) else value))
            self._short[field] = old
        return old[1]

    def _lines(self, field: str, items: Sequence[Any]) -> list[bytes]:
        """Each item's line, with the comma before it; a list that has only grown costs what is new."""
        old = self._kept.get(field, _Kept((), []))
        same = list(map(is_, old.items, items))
        keep = same.index(False) if False in same else len(same)
        known = {id(item): line for item, line in zip(old.items[keep:], old.lines[keep:], strict=True)}
        lines = old.lines[:keep]
        rested = thread_time()
        for item in items[keep:]:
            line = known.get(id(item))
            if line is None:
                line = b",\n" + self._encoded(item)
                if thread_time() - rested > BREATH_AFTER_SECONDS:
                    sleep(BREATH_SECONDS)
                    rested = thread_time()
            lines.append(line)
        self._kept[field] = _Kept(items, lines)
        return lines

    def _encoded(self, value: Any) -> bytes:
        if self._mask is not None:
            value = masked(value, self._mask)
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (ValueError, RecursionError) as error:
            raise ExportError(f"the session holds a value that JSON cannot: {error}") from None
        try:
            return text.encode()
        except UnicodeEncodeError:
            return valid_unicode(text).encode()


def to_json(snapshot: Snapshot, *, mask: Mask | None) -> bytes:
    """The whole document at once; see Encoder."""
    return b"".join(Encoder(mask).parts(snapshot))
