"""From a snapshot to bytes: each message is masked and encoded once, then its bytes are kept.

A message is never changed once it stands in a list, so its identity tells whether its bytes are still right. A save
after a step costs the new messages and a walk over the list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import sleep
from typing import Any

from codelet.export.errors import ExportError
from codelet.export.snapshot import FILE_NAMES, Snapshot
from codelet.text import valid_unicode

Mask = Callable[[str], str]

_BREATH = 64 * 1024
_BY_LINE = frozenset({"messages", "archive", "timeline", "recent_history", "segments"})
_OPAQUE = frozenset({"id", "tool_call_id", "signature", "data", "encrypted_content"})
_SIGNED = ("thinking_blocks", "reasoning_details")


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
                if fresh > _BREATH:
                    fresh = 0
                    sleep(0)  # lets the thread that runs the turn go first
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


def masked(value: Any, mask: Mask) -> Any:
    """`value` with every text in it masked; the same object where nothing was found.

    A text that is itself the JSON of an object (a call's arguments) stays JSON: where masking the whole would
    break it, its own texts are masked one by one. Ids and signatures stay as they are; reasoning that its
    provider signed goes where masking changes it, since the provider would refuse it.
    """
    if type(value) is str:
        return _masked_text(value, mask)
    if isinstance(value, dict):
        items = {key: item if key in _OPAQUE else masked(item, mask) for key, item in value.items()}
        changed = [key for key, item in value.items() if items[key] is not item]
        for key in _SIGNED:
            if key in changed:
                del items[key]
        return items if changed else value
    if isinstance(value, list | tuple):
        entries = [masked(item, mask) for item in value]
        return value if all(new is old for new, old in zip(entries, value, strict=True)) else entries
    return value


def _masked_text(text: str, mask: Mask) -> str:
    covered = mask(text)
    if covered == text:
        return text
    if text.startswith("{") and _parsed(covered) is None and (inside := _parsed(text)) is not None:
        return json.dumps(masked(inside, mask), ensure_ascii=False)
    return covered


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
