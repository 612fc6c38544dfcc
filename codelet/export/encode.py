"""From a document to bytes. Each message is masked and encoded once; later saves reuse the bytes.

A message never changes once it is in a list, so its identity shows that its bytes are still right. A save after a step
costs the new messages and a walk over the list. Every export can be read back, and no value stops a save: a value that
no reader accepts is replaced by the nearest one that they do, and the user is notified. A server's own fields are left
out if no reader accepts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import is_
from typing import Any

import msgspec
from msgspec import UNSET

from codelet.errors import ExportError
from codelet.export.document import FILE_NAMES, FORMS, MOST_ITEMS, MOST_MESSAGES, VERSION, Document, check_free, problem
from codelet.export.redaction import Mask, Pauses, redacted
from codelet.record import Record

_BY_LINE = frozenset({"messages", "archive", "calls", "timeline", "recent_history", "segments"})
_FROM_A_SERVER = ("reasoning_details", "thinking_blocks", "blocks", "extra")
"""Fields of a message and of a call that hold what a server sent, in any form."""
_REQUIRED = {"version": b'"%s"' % VERSION.encode(), "timestamp": b"0", "token_count": b"0"}
_FREE = {"unknown": 0, "system_state": -5}
"""Fields without a form, and the depth at which reading begins to count in them."""
_SMALL = 32 * 1024
"""Bytes of a document that is encoded whole each time: it takes a millisecond, and an idle session keeps no copy."""
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
    """Encodes the documents of one session; `mask` removes secrets from every text.

    `say` gets a sentence for the user about each value that had to change. Not for two threads at the same time.
    """

    def __init__(self, mask: Mask | None, say: Callable[[str], None] = lambda _: None) -> None:
        self._mask = mask
        self._say = say
        self._said: set[str] = set()
        self._encoded: dict[str, _Encoded] = {}
        self._short: dict[str, tuple[Any, bytes]] = {}

    def parts(self, document: Document) -> list[bytes]:
        """Return the document in pieces, in order, with one line per field and message. None is omitted.

        Raises ExportError if there are more messages than can be read back.
        """
        parts: list[bytes] = []
        for field, name in FILE_NAMES.items():
            value = getattr(document, field)
            if (value is None and field not in _REQUIRED) or value is UNSET:
                continue
            if field == "messages" and document.unknown:  # they stay last
                line = self._short_line("unknown", document.unknown)[1:-1]
                parts += [b",\n", line] if line else []
            if field in _BY_LINE:
                lines = list(filter(None, self._lines(field, value)))
                content = [b"[", *(line[1:] for line in lines[:1]), *lines[1:], b"]"]  # the first without its comma
            else:
                content = [self._short_line(field, value)]
            if content[0]:
                parts += [b'%s"%s":' % (b",\n" if parts else b"{", name.encode()), *content]
        parts.append(b"}\n")
        if sum(map(len, parts)) < _SMALL:
            self._encoded.clear()
            self._short.clear()
        return parts

    def _short_line(self, field: str, value: object) -> bytes:
        """A part that is no list of items, encoded again only if it is another object than last time."""
        known = self._short.get(field)
        if known is not None and known[0] is value:
            return known[1]
        plain: Any = dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        with suppress(AttributeError, KeyError, TypeError):
            if field == "interruption" and plain["messages"]:
                plain["messages"] = list(map(_bounded, plain["messages"]))
        line = self._line(field, plain)
        if self._mask is not None and self._mask.suspects(line):
            cover = self._mask.cover
            # Of what is not known nothing is an id or signed, whatever its name is.
            within = field == "unknown"
            plain = msgspec.json.decode(line)
            line = self._line(
                field, {k: redacted(v, cover) for k, v in plain.items()} if within else redacted(plain, cover)
            )
        self._short[field] = (value, line)
        return line

    def _line(self, field: str, value: object) -> bytes:
        """Return the value of a field as JSON, or the nearest readable one, or nothing."""
        form = FORMS[field]
        try:
            msgspec.convert(value, form)
            if field in _FREE:
                check_free(value, _FREE[field])
            return msgspec.json.encode(value)
        except (OverflowError, RecursionError, TypeError, ValueError) as error:
            from codelet.export.fitting import value_that_fits

            told = value_that_fits(value, form)
            if not isinstance(error, UnicodeEncodeError):
                self._tell(field, str(error))
        try:
            msgspec.convert(told, form)
        except msgspec.ValidationError:
            return _REQUIRED.get(field, b"")
        return msgspec.json.encode(told)

    def _tell(self, field: str, error: str) -> None:
        place = error.replace("`$[0]", "`$[...]") if field in _BY_LINE else error
        told = f"saved with changes: {FILE_NAMES.get(field, 'other keys')}: {problem(place)}"
        if told not in self._said:
            self._said.add(told)
            self._say(told)

    def _lines(self, field: str, items: Sequence[object]) -> list[bytes]:
        """Each item's line, with the comma before it; a list that has only grown costs what is new."""
        if field == "messages" and len(items) > MOST_MESSAGES:
            raise ExportError(
                f"the session has {len(items):,} messages, {MOST_MESSAGES:,} can be saved: /compact first"
            )
        if field != "messages" and len(items) > MOST_ITEMS:
            self._tell(field, f"only the newest {MOST_ITEMS:,} of {len(items):,}")
            items = items[-MOST_ITEMS:]
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
                line = self._item_line(field, item)
                new.append(index)
                size += len(line)
            lines.append(line)
            if size - paused_at > _UNTIL_A_PAUSE or not index % _LINES_UNTIL_A_PAUSE:
                pauses.if_due()
                paused_at = size
            if size > _AT_ONCE:
                self._cover(field, lines, new, pauses)
                new, size, paused_at = [], 0, 0
        self._cover(field, lines, new, pauses)
        self._encoded[field] = _Encoded(items, lines)
        return lines

    def _item_line(self, field: str, item: Any) -> bytes:
        """One item's line with the comma before it; nothing if it cannot be saved. A message keeps its place."""
        with suppress(AttributeError, KeyError, TypeError):  # one of another form, which is made right below
            if field == "messages":
                item = _bounded(item)
            elif field == "archive":
                item = {**item, "message": _bounded(item["message"])}
        line = self._line(field, [item])[1:-1]
        if not line and field == "messages":
            line = b'{"role":"user","content":""}'
        return line and b",\n" + line

    def _cover(self, field: str, lines: list[bytes], new: list[int], pauses: Pauses) -> None:
        """Mask the new lines that may hold a secret, which is seldom one of many."""
        if self._mask is None or not new or not self._mask.suspects(b"".join([lines[index] for index in new])):
            return
        for index in new:
            if self._mask.suspects(lines[index]):
                item = msgspec.json.decode(lines[index][2:])
                lines[index] = self._item_line(field, redacted(item, self._mask.cover))
            pauses.if_due()


def _bounded(message: Mapping[str, object]) -> Mapping[str, object]:
    """The message (the same object if it fits) without the parts from a server that are too deep or hold a number that
    is out of range. Such a part is left out whole: a piece of signed reasoning would be refused.
    """
    calls = message.get("tool_calls")
    if isinstance(calls, list) and any(name in call for call in calls for name in _FROM_A_SERVER):
        message = {**message, "tool_calls": [_without_unbounded(call) for call in calls]}
    return _without_unbounded(message)


def _without_unbounded(part: Mapping[str, object]) -> Mapping[str, object]:
    unbounded = [name for name in _FROM_A_SERVER if name in part and not _is_bounded(part[name])]
    return {name: value for name, value in part.items() if name not in unbounded} if unbounded else part


def _is_bounded(value: object) -> bool:
    try:
        check_free(value)
    except ValueError:
        return False
    return True


def to_json(document: Document, *, mask: Mask | None) -> bytes:
    """Return the whole document; see Encoder."""
    return b"".join(Encoder(mask).parts(document))
