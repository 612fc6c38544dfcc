"""From a document to bytes. Each message is masked and encoded once; later saves reuse the bytes.

A message never changes once it is in a list, so its identity shows that its bytes are still right. Every export can be
read back, and no value stops a save: what no reader would accept is left out, and the user is notified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from time import sleep

import msgspec
from msgspec import UNSET

from codelet.errors import ExportError
from codelet.export.document import FILE_NAMES, FORMS, MOST_ITEMS, MOST_MESSAGES, VERSION, Document, check_free, problem
from codelet.export.redaction import Mask, redacted
from codelet.system.text import valid_unicode

_BY_LINE = frozenset({"messages", "archive", "calls", "timeline", "recent_history", "segments"})
_FROM_A_SERVER = ("reasoning_details", "thinking_blocks", "blocks", "extra")
"""Fields of a message and of a call that hold what a server sent, in any form."""
_OWN = ("role", "content", "tool_calls", "tool_call_id")
_REQUIRED = {"version": b'"%s"' % VERSION.encode(), "timestamp": b"0", "token_count": b"0"}
_DEPTH = -5
"""The depth at which reading begins to count the levels of a field; 0 for the keys that it does not know."""
_UNREADABLE = (AttributeError, OverflowError, RecursionError, TypeError, ValueError)
_SMALL = 32 * 1024
"""Bytes of a document that is encoded whole each time: it takes a millisecond, and an idle session keeps no copy."""
_AT_ONCE = 32 * 1024
"""Bytes of new lines that are looked at together for secrets."""
_PAUSE_SECONDS = 0.0002
"""A pause after them, so that the thread that runs the turn goes first."""


class Encoder:
    """Encodes the documents of one session; `mask` removes secrets from every text.

    `say` gets a sentence for the user about each value that is left out. Not for two threads at the same time.
    """

    def __init__(self, mask: Mask | None, say: Callable[[str], None] = lambda _: None) -> None:
        self._mask = mask
        self._say = say
        self._said: set[str] = set()
        self._encoded: dict[str, tuple[Sequence[object], list[bytes]]] = {}
        """By field, the items that were encoded last, alive so that their ids stay theirs, and their lines."""

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
                line = self._masked_line("unknown", document.unknown)[1:-1]
                parts += [b",\n", line] if line else []
            if field in _BY_LINE:
                lines = list(filter(None, self._lines(field, value)))
                content = [b"[", *(line[1:] for line in lines[:1]), *lines[1:], b"]"]  # the first without its comma
            else:
                content = [self._masked_line(field, value)]
            if content[0]:
                parts += [b'%s"%s":' % (b",\n" if parts else b"{", name.encode()), *content]
        parts.append(b"}\n")
        if sum(map(len, parts)) < _SMALL:
            self._encoded.clear()
        return parts

    def _lines(self, field: str, items: Sequence[object]) -> list[bytes]:
        """Each item's line, with the comma before it; only new items are encoded."""
        if field == "messages" and len(items) > MOST_MESSAGES:
            raise ExportError(
                f"the session has {len(items):,} messages, {MOST_MESSAGES:,} can be saved: /compact first"
            )
        if field != "messages" and len(items) > MOST_ITEMS:
            self._tell(field, f"only the newest {MOST_ITEMS:,} of {len(items):,}")
            items = items[-MOST_ITEMS:]
        before, lines_before = self._encoded.get(field, ((), []))
        known = dict(zip(map(id, before), lines_before, strict=True))
        lines: list[bytes] = []
        new: list[int] = []
        size = 0
        for item in items:
            line = known.get(id(item))
            if line is None:
                line = self._item_line(field, item)
                new.append(len(lines))
                size += len(line)
            lines.append(line)
            if size > _AT_ONCE:
                self._mask_lines(field, lines, new)
                new, size = [], 0
                sleep(_PAUSE_SECONDS)
        self._mask_lines(field, lines, new)
        self._encoded[field] = (items, lines)
        return lines

    def _item_line(self, field: str, item: object) -> bytes:
        """One item's line with the comma before it; nothing if it cannot be saved. A message keeps its place."""
        line = self._line(field, [item])[1:-1]
        if not line and field == "messages":
            line = b'{"role":"user","content":""}'
        return line and b",\n" + line

    def _mask_lines(self, field: str, lines: list[bytes], new: Sequence[int]) -> None:
        """Mask the new lines that may hold a secret, which is seldom one of many."""
        if self._mask is None or not self._mask.suspects(b"".join([lines[index] for index in new])):
            return
        for index in new:
            if self._mask.suspects(lines[index]):
                item = msgspec.json.decode(lines[index][2:])
                lines[index] = self._item_line(field, redacted(item, self._mask.cover))

    def _masked_line(self, field: str, value: object) -> bytes:
        """A field that is no list of items."""
        line = self._line(field, dict(value) if isinstance(value, Mapping) else value)
        if self._mask is None or not self._mask.suspects(line):
            return line
        plain, cover = msgspec.json.decode(line), self._mask.cover
        if field == "unknown":  # nothing in there is an id or signed, whatever its name is
            return self._line(field, {name: redacted(item, cover) for name, item in plain.items()})
        return self._line(field, redacted(plain, cover))

    def _line(self, field: str, value: object) -> bytes:
        """The value as JSON; of one that no reader accepts what they do accept, perhaps nothing."""
        try:
            return _checked(field, value)
        except _UNREADABLE as error:
            if not isinstance(error, UnicodeEncodeError):
                self._tell(field, str(error))
        with suppress(*_UNREADABLE):
            for less in _reduced(field, _with_valid_unicode(value)):
                with suppress(*_UNREADABLE):
                    return _checked(field, less)
        return _REQUIRED.get(field, b"")

    def _tell(self, field: str, error: str) -> None:
        place = error.replace("`$[0]", "`$[...]") if field in _BY_LINE else error
        sentence = f"saved with changes: {FILE_NAMES.get(field, 'other keys')}: {problem(place)}"
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)


def _checked(field: str, value: object) -> bytes:
    """Encode a value. Raises one of _UNREADABLE if reading would refuse it."""
    msgspec.convert(value, FORMS[field])
    check_free(value, 0 if field == "unknown" else _DEPTH)
    return msgspec.json.encode(value)


def _reduced(field: str, value: object) -> Iterator[object]:
    """What to save of a value that no reader accepts, if one accepts that: the most first."""
    yield value
    match field, value:
        case ("messages", [{} as message]):
            yield [_without_the_servers(message)]
            yield [_own(message)]
        case ("archive", [{"message": {} as message, **more}]):
            yield [{**more, "message": _without_the_servers(message)}]
            yield [{**more, "message": _own(message)}]
        case ("interruption", {}):
            yield {**value, "messages": None}
        case ("unknown" | "system_state", {}):
            yield {name: item for name, item in value.items() if _is_readable(field, name, item)}


def _is_readable(field: str, name: object, item: object) -> bool:
    try:
        _checked(field, {name: item})
    except _UNREADABLE:
        return False
    return True


def _without_the_servers(message: Mapping[str, object]) -> dict[str, object]:
    """A message without what its server added, which goes whole: a part of signed reasoning would be refused."""
    kept = {name: item for name, item in message.items() if name not in _FROM_A_SERVER}
    if isinstance(calls := kept.get("tool_calls"), list):
        kept["tool_calls"] = [{k: item for k, item in call.items() if k not in _FROM_A_SERVER} for call in calls]
    return kept


def _own(message: Mapping[str, object]) -> dict[str, object]:
    """A message's text and calls alone."""
    return {name: item for name, item in _without_the_servers(message).items() if name in _OWN}


def _with_valid_unicode(value: object) -> object:
    """The value with U+FFFD for each half of a surrogate pair."""
    if isinstance(value, str):
        return valid_unicode(value)
    if isinstance(value, Mapping):
        return {_with_valid_unicode(name): _with_valid_unicode(item) for name, item in value.items()}
    return list(map(_with_valid_unicode, value)) if isinstance(value, list | tuple) else value


def to_json(document: Document, *, mask: Mask | None) -> bytes:
    """Return the whole document; see Encoder."""
    return b"".join(Encoder(mask).parts(document))
