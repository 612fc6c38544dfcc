"""JSON on one line as bytes, as `json.dumps` writes it but in half the time where texts are long.

The encoder of the standard library looks at each character of a text; most of an export is long texts with few
characters that need a backslash, and those are found and replaced much sooner as bytes. Short texts of ASCII alone are
given to the encoder for ASCII, the faster of its two.
"""

from __future__ import annotations

import json
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any

from codelet.export.errors import ExportError
from codelet.text import valid_unicode

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_LONG = 256
"""Characters from which on a text is long; for shorter ones the standard encoder is as good."""
_EMPTY: dict[type, bytes] = {dict: b"{}", list: b"[]", tuple: b"[]"}
_TEXT_ALONE = frozenset({str})
_WORD = len("assistant")
_SHORT_ESCAPES = ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\t", b"\\t"), (b"\r", b"\\r"))
"""The backslash first: the others bring new ones."""
_OTHER_CONTROLS = bytes(sorted(set(range(32)) - set(b"\n\t\r")))


def encoded(value: Any) -> bytes:
    """The value as UTF-8 JSON without blanks; lone surrogates become U+FFFD. Raises ExportError for what is no JSON."""
    try:
        return _part(value)
    except (ValueError, RecursionError) as error:
        raise ExportError(f"the session holds a value that JSON cannot: {error}") from None


def _object(value: dict[Any, Any]) -> bytes:
    """An object whose long texts, its own or those of an object in it, are encoded apart."""
    for item in value.values():
        if (type(item) is str and len(item) >= _LONG) or type(item) is dict:
            break
    else:
        return _plain(value)
    return _members(value)


def _members(value: dict[Any, Any]) -> bytes:
    """An object, each of its values encoded apart."""
    if not _TEXT_ALONE.issuperset(map(type, value)):
        return _plain(value)
    return b"{%s}" % b",".join([b"%s:%s" % (_word(key), _part(item)) for key, item in value.items()])


def _part(item: Any) -> bytes:
    if item is None:
        return b"null"
    if not item and type(item) in _EMPTY:
        return _EMPTY[type(item)]
    if type(item) is str:
        return _word(item) if len(item) <= _WORD else _text(item)
    if type(item) is list and any(map(_holds_long_text, item)):
        return b"[%s]" % b",".join([_members(one) if type(one) is dict else _part(one) for one in item])
    return _object(item) if type(item) is dict else _plain(item)


def _holds_long_text(item: Any) -> bool:
    """Whether one of the texts of an object, such as a call's arguments, is worth being encoded apart."""
    if type(item) is not dict:
        return False
    return any(len(inner) >= _LONG if type(inner) is str else _holds_long_text(inner) for inner in item.values())


@lru_cache(maxsize=256)
def _word(text: str) -> bytes:
    """A name or a role, which come again and again."""
    return _plain(text)


def _plain(value: Any) -> bytes:
    return _bytes(_JSON.encode(value))


def _text(text: str) -> bytes:
    if len(text) < _LONG:
        plain = text.isascii() and "\x7f" not in text  # which the one for ASCII would escape
        return encode_basestring_ascii(text).encode() if plain else _plain(text)
    data = _bytes(text)
    if len(data.translate(None, _OTHER_CONTROLS)) != len(data):
        return _plain(text)
    for character, escape in _SHORT_ESCAPES:
        data = data.replace(character, escape)
    return b'"%s"' % data


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return valid_unicode(text).encode()
