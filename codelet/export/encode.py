"""From a document to bytes: each message is masked and encoded once, then its bytes are kept.

A message is never changed once it is in a list, so its identity tells whether its bytes are still right. A save
after a step costs the new messages and a walk over the list. What is written can be read back: values are bounded
where they are recorded, and what a server sent in a form of its own is left out if no reader could take it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

import msgspec
from msgspec import UNSET

from codelet.errors import ExportError
from codelet.export.document import FIELDS, FILE_NAMES, MOST_ITEMS, MOST_MESSAGES, Document, check_free
from codelet.export.redaction import Mask, Pauses, redacted
from codelet.record import Record
from codelet.system.text import valid_unicode

_BY_LINE = frozenset({"messages", "archive", "calls", "timeline", "recent_history", "segments"})
_FROM_A_SERVER = ("reasoning_details", "thinking_blocks", "blocks", "extra")
"""Fields of a message and of a call that hold what a server sent, in any form."""
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
    """Encodes documents of one session again and again; `mask` takes the secrets out of every text, None leaves them.

    Not for two threads at once.
    """

    def __init__(self, mask: Mask | None) -> None:
        self._mask = mask
        self._encoded: dict[str, _Encoded] = {}
        self._short: dict[str, tuple[Any, bytes]] = {}

    def parts(self, document: Document) -> list[bytes]:
        """Return the document in pieces, to be written in order; one line a field and a message. What is None is left
        out.

        Raises ExportError where the session is beyond what can be read back.
        """
        parts: list[bytes] = []
        for field, name in FILE_NAMES.items():
            value = getattr(document, field)
            if value is None or value is UNSET:
                continue
            if field == "messages" and document.unknown:  # they stay last
                parts += [b",\n", self._short_line("unknown", document.unknown)[1:-1]]
            parts.append(b'%s"%s":' % (b",\n" if parts else b"{", name.encode()))
            if field in _BY_LINE:
                lines = self._lines(field, value)
                parts.append(b"[")
                parts.extend(line[1:] for line in lines[:1])  # without the comma
                parts.extend(lines[1:])
                parts.append(b"]")
            else:
                parts.append(self._short_line(field, value))
        parts.append(b"}\n")
        return parts

    def _short_line(self, field: str, value: Any) -> bytes:
        """A part that is no list of items, encoded again only if it is another object than last time."""
        known = self._short.get(field)
        if known is not None and known[0] is value:
            return known[1]
        plain: Any = dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        if field == "interruption" and plain["messages"]:
            plain["messages"] = list(map(_bounded, plain["messages"]))
        if field != "unknown":
            check_field(field, plain)
        line = encoded(plain)
        if self._mask is not None and self._mask.suspects(line):
            cover = self._mask.cover
            # Of what is not known nothing is an id or signed, whatever its name is.
            within = field == "unknown"
            line = encoded({k: redacted(v, cover) for k, v in plain.items()} if within else redacted(plain, cover))
        self._short[field] = (value, line)
        return line

    def _lines(self, field: str, items: Sequence[Any]) -> list[bytes]:
        """Each item's line, with the comma before it; a list that has only grown costs what is new."""
        if len(items) > (most := MOST_MESSAGES if field == "messages" else MOST_ITEMS):
            told = f"{len(items):,} {FILE_NAMES[field]}, {most:,} can be saved"
            raise ExportError(f"the session has {told}: /compact first")
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
                line = b",\n" + encoded(_readable(field, item))
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
        for index in new:
            if self._mask.suspects(lines[index]):
                lines[index] = b",\n" + encoded(redacted(_readable(field, items[index]), self._mask.cover))
            pauses.if_due()


def _readable(field: str, item: Any) -> Any:
    """An item of a list without what no reader could take. Raises ExportError if it cannot be read at all."""
    if field == "messages":
        item = _bounded(item)
    elif field == "archive":
        item = {**item, "message": _bounded(item["message"])}
    check_field(field, [item])
    return item


def _bounded(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message (the same object if it fits) without the parts from a server that are too deep or hold a number that
    is out of range. Such a part is left out whole: a piece of signed reasoning would be refused.
    """
    calls = message.get("tool_calls", ())
    if any(name in call for call in calls for name in _FROM_A_SERVER):
        message = {**message, "tool_calls": [_without_unbounded(call) for call in calls]}
    return _without_unbounded(message)


def _without_unbounded(part: Mapping[str, Any]) -> Mapping[str, Any]:
    unbounded = [name for name in _FROM_A_SERVER if name in part and not _is_bounded(part[name])]
    return {name: value for name, value in part.items() if name not in unbounded} if unbounded else part


def _is_bounded(value: object) -> bool:
    try:
        check_free(value)
    except ValueError:
        return False
    return True


def check_field(field: str, value: Any) -> None:
    """Raise ExportError for a value of a field that could not be read back."""
    try:
        msgspec.convert(value, FIELDS[field].type)
    except msgspec.ValidationError as error:
        raise ExportError(f"the session's {FILE_NAMES[field]} cannot be saved: {error}") from None


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


def to_json(document: Document, *, mask: Mask | None) -> bytes:
    """Return the whole document at once; see Encoder."""
    return b"".join(Encoder(mask).parts(document))
