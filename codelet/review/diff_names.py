"""The names of files in a diff, as git and `diff -u` write them: prefixes, quotes, what stands behind a tab."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


def header_names(names: bytes) -> tuple[bytes, bytes]:
    """The two names of `diff --git`: unless the file moved, which other headers say, they are the same one."""
    if names.startswith(b'"'):
        end = _end_of_quote(names)
        return _named(unquoted(names[:end]), unquoted(names[end + 1 :]))
    if names.endswith(b'"'):
        old, _, new = names.partition(b' "')
        return _named(old, unquoted(b'"' + new))
    middle = len(names) // 2
    old, new = names[:middle], names[middle + 1 :]
    if len(names) % 2 and names[middle : middle + 1] == b" ":
        if old == new:  # made with --no-prefix
            return old, new
        if old[2:] == new[2:]:
            return old[2:], new[2:]
    return b"", b""


def _named(old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """The names without their prefixes; equal names have none (`diff.noprefix`)."""
    return (old, new) if old == new else (without_prefix(old), without_prefix(new))


def without_prefix(name: bytes) -> bytes:
    """A name without the `a/` or `b/` before it."""
    return name[2:] if name[1:2] == b"/" else name


def without_time(name: bytes, *, quoted: bool) -> bytes:
    """A name without what `diff -u` writes behind a tab; git ends a name that holds blanks with a tab."""
    return name if quoted else name.partition(b"\t")[0]


def _end_of_quote(text: bytes) -> int:
    """Where a quoted name that begins the text ends."""
    found = re.match(rb'"(?:[^"\\]|\\.)*"', text, re.DOTALL)
    return found.end() if found else len(text)


def unquoted(name: bytes) -> bytes:
    """A name as git writes it in quotes, if it does; behind the quotes a tab may follow."""
    if not name.startswith(b'"') or len(name) < 2:
        return name

    def character(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8)]) if code[:1].isdigit() else _ESCAPES.get(code, code)

    return _ESCAPE.sub(character, name[1 : _end_of_quote(name) - 1])
