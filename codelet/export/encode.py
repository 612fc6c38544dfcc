"""From a snapshot to bytes: each message is masked and encoded once, then its bytes are kept.

A message is never changed once it stands in a list, so its identity tells whether its bytes are still right. A save
after a step costs the new messages and a walk over the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

import msgspec

from codelet.errors import ExportError
from codelet.export.document import FILE_NAMES
from codelet.export.fit import field_fit, item_fit, most_items
from codelet.export.redaction import Cover, Mask, Pauses, redacted
from codelet.export.snapshot import Snapshot
from codelet.record import Record
from codelet.system.text import valid_unicode

_BY_LINE = frozenset({"messages", "archive", "timeline", "recent_history", "segments"})
_AT_ONCE = 128 * 1024
"""Bytes of new lines that are looked at together for secrets."""
_UNTIL_A_PAUSE = 16 * 1024
_LINES_UNTIL_A_PAUSE = 256
"""Bytes of new lines, and lines, after which it is time to see whether a pause is due."""


class _Encoded(Record):
    """The items that were encoded last, alive so that their ids stay theirs, and their lines."""

    items: Sequence[Any]
    lines: list[bytes]


class Encoder:
    """Encodes snapshots of one session again and again; `mask` takes the secrets out of every text, None leaves them.

    Whatever a part holds, it is written so that `from_json` takes it, see `fit`. Not for two threads at once.
    """

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask
        self._encoded: dict[str, _Encoded] = {}
        self._short: dict[str, tuple[Any, bytes]] = {}

    def parts(self, snapshot: Snapshot) -> list[bytes]:
        """The document in pieces, to be written in order; one line a field and a message. What is None is left out.

        Raises ExportError where the session is beyond what can be read back.
        """
        self._encode_short(snapshot)
        parts: list[bytes] = []
        for field, name in FILE_NAMES.items():
            value = getattr(snapshot, field)
            if value is None:
                continue
            if field == "messages" and snapshot.unknown:  # they stay last
                parts += [b",\n", self._short["unknown"][1][1:-1]]
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
            for field in (*FILE_NAMES, "unknown")
            if field not in _BY_LINE
            and (field not in self._short or self._short[field][0] is not getattr(snapshot, field))
        ]
        values = [getattr(snapshot, field) for field in changed]
        plain = [_plain(field, value) for field, value in zip(changed, values, strict=True)]
        lines = [encoded(value) for value in plain]
        if self._mask is not None and lines and self._mask.suspects(b"\n".join(lines)):
            covered = (_covered(field, value, self._mask.cover) for field, value in zip(changed, plain, strict=True))
            lines = [encoded(_plain(field, value)) for field, value in zip(changed, covered, strict=True)]
        self._short.update(zip(changed, zip(values, lines, strict=True), strict=True))

    def _lines(self, field: str, items: Sequence[Any]) -> list[bytes]:
        """Each item's line, with the comma before it; a list that has only grown costs what is new."""
        if len(items) > (most := most_items(field)):
            told = f"{len(items):,} {FILE_NAMES[field]}, {most:,} can be saved"
            raise ExportError(f"the session has {told}: /compact first")
        fit = item_fit(field)
        old = self._encoded.get(field, _Encoded((), []))
        same = list(map(is_, old.items, items))
        keep = same.index(False) if False in same else len(same)
        known = {id(item): line for item, line in zip(old.items[keep:], old.lines[keep:], strict=True)}
        lines = old.lines[:keep]
        pauses = Pauses()
        new: list[int] = []
        size = paused_at = 0
        for index, item in enumerate(items[keep:], keep):
            line = known.get(id(item))
            if line is None:
                line = b",\n" + encoded(fit(item))
                new.append(index)
                size += len(line)
            lines.append(line)
            if size - paused_at > _UNTIL_A_PAUSE or not index % _LINES_UNTIL_A_PAUSE:
                pauses.if_due()
                paused_at = size
            if size > _AT_ONCE:
                self._cover(field, items, lines, new, pauses)
                new, size, paused_at = [], 0, 0
        self._cover(field, items, lines, new, pauses)
        self._encoded[field] = _Encoded(items, lines)
        return lines

    def _cover(self, field: str, items: Sequence[Any], lines: list[bytes], new: list[int], pauses: Pauses) -> None:
        """Mask the new lines that may hold a secret, which is seldom one of many."""
        if self._mask is None or not new or not self._mask.suspects(b"".join([lines[index] for index in new])):
            return
        fit = item_fit(field)
        for index in new:
            if self._mask.suspects(lines[index]):
                lines[index] = b",\n" + encoded(fit(redacted(fit(items[index]), self._mask.cover)))
            pauses.if_due()


def _plain(field: str, value: Any) -> Any:
    """A field's value as JSON has it, and as it can be read back."""
    if value is None:
        return None
    plain = dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
    return plain if field == "unknown" else field_fit(field)(plain)


def _covered(field: str, value: Any, cover: Cover) -> Any:
    """A field's value without secrets. Of what is not known nothing is an id or signed, whatever its name is."""
    if field != "unknown":
        return redacted(value, cover)
    return {name: redacted(item, cover) for name, item in value.items()}


def encoded(value: Any) -> bytes:
    """The value as UTF-8 JSON without blanks; lone surrogates become U+FFFD. Raises ExportError for what is no JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_valid(value))
    except (OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ExportError(f"the session holds a value that JSON cannot: {error}") from None


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return valid_unicode(value)
    if isinstance(value, dict):
        return {_valid(name): _valid(item) for name, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, list | tuple) else value


def to_json(snapshot: Snapshot, *, mask: Mask | None) -> bytes:
    """The whole document at once; see Encoder."""
    return b"".join(Encoder(mask).parts(snapshot))
