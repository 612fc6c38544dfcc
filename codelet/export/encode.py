"""From a snapshot to bytes: each message is masked and encoded once, then its bytes are kept.

A message is never changed once it stands in a list, so its identity tells whether its bytes are still right. A save
after a step costs the new messages and a walk over the list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from time import sleep
from typing import Any

from codelet.export.errors import ExportError
from codelet.export.masking import BREATH_SECONDS, PIECE, Mask, masked
from codelet.export.snapshot import FILE_NAMES, Snapshot
from codelet.text import valid_unicode

_BY_LINE = frozenset({"messages", "archive", "timeline", "recent_history", "segments"})


class Encoder:
    """Encodes snapshots of one session again and again; `mask` replaces secrets in every text, None leaves them.

    Not for two threads at once.
    """

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask
        self._kept: dict[int, tuple[Any, bytes]] = {}

    def parts(self, snapshot: Snapshot) -> list[bytes]:
        """The document in pieces, to be written in order; one line a field and a message. What is None is left out."""
        kept: dict[int, tuple[Any, bytes]] = {}
        parts: list[bytes] = []
        for field, name in FILE_NAMES.items():
            value = getattr(snapshot, field)
            if value is None:
                continue
            if isinstance(value, Mapping):
                value = dict(value)
            parts.append(b'%s"%s":' % (b",\n" if parts else b"{", name.encode()))
            if field in _BY_LINE:
                parts.append(b"[")
                parts.extend(self._lines(value, kept))
                parts.append(b"]")
            else:
                parts.append(self._encoded(value))
        parts.append(b"}\n")
        self._kept = kept
        return parts

    def _lines(self, items: Sequence[Any], kept: dict[int, tuple[Any, bytes]]) -> Iterable[bytes]:
        fresh = 0
        separator = b"\n"
        for item in items:
            known = self._kept.get(id(item))
            if known is None or known[0] is not item:
                known = (item, self._encoded(item))
                fresh += len(known[1])
                if fresh > PIECE and self._mask is not None:
                    fresh = 0
                    sleep(BREATH_SECONDS)
            kept[id(item)] = known
            yield separator
            yield known[1]
            separator = b",\n"

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
