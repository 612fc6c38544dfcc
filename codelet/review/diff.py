"""A unified diff as bytes to files, hunks and their lines: what git writes, and what `diff -u` does.

The work is linear, and a hunk stays one piece of bytes. Hunks end where their headers say, so no line inside one counts
as a header. Nothing is guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal

from codelet.errors import UsageError
from codelet.record import Record
from codelet.safety.secrets import mask
from codelet.system.text import with_codes

FileState = Literal["changed", "added", "removed", "renamed", "copied"]

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
_QUOTED = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TWO_NAMES = re.compile(rb'("(?:[^"\\]|\\.)*"|[^"]*) ("(?:[^"\\]|\\.)*"|[^"]*)', re.DOTALL)
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_NO_FILE = b"/dev/null"
_SUBMODULE = b"160000"
_LARGEST_HUNK, _BINARY_IN = 16 << 20, 8_000


class Hunk(Record, kw_only=True):
    """One changed place. `body` has its lines with their signs; `flaw` says why lines are missing, else it is ""."""

    old_start: int = 0
    old_lines: int = 0
    new_start: int = 0
    new_lines: int = 0
    section: bytes = b""
    body: bytes = b""
    added: int = 0
    removed: int = 0
    flaw: str = ""


class FileDiff(Record, kw_only=True):
    """One file of a change. `old_path` is set if it was renamed or copied, `modes` if the two differ.

    `unread` says why an untracked file was not read; `in_known_folder`: its folder of others' code was there before.
    """

    path: str
    old_path: str | None = None
    state: FileState = "changed"
    binary: bool = False
    submodule: bool = False
    unread: str = ""
    in_known_folder: bool = False
    modes: tuple[str, str] | None = None
    hunks: tuple[Hunk, ...] = ()


def text_of_bytes(data: bytes) -> str:
    """Bytes of a file as text: UTF-8, else Latin-1, which takes any bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def name_of_bytes(name: bytes) -> str:
    """A name as text: what is no UTF-8 is written as its code."""
    return name.decode("utf-8", "backslashreplace")


def unread_file(file: FileDiff, why: str) -> FileDiff:
    """The file as one that should have been reviewed and could not be read."""
    return file.replace(binary=False, hunks=(Hunk(old_start=1, new_start=1, flaw=why),))


def parse_diff(given: Iterable[bytes]) -> Iterator[FileDiff]:
    """The files of a diff, given as its lines with their ends. Raises UsageError for bytes that are no diff."""
    lines = (line.removesuffix(b"\n") for line in given)
    file: _OpenFile | None = None
    odd: bytes | None = None  # the first line before any file: mail headers and commit messages are there
    line = next(lines, None)
    while line is not None:
        header = line.removesuffix(b"\r")
        if header.startswith(b"\x1b["):
            raise UsageError("the diff is coloured; make it with --no-color")
        if header.startswith((b"diff --cc ", b"diff --combined ")):
            raise UsageError("the diff is a merge's against all its parents: review its commits, or it against one")
        if file is not None and file.named and (found := _HUNK.fullmatch(header)) is not None:
            hunk, line = _read_hunk(found, lines)
            file.hunks.append(hunk)
            continue
        if header.startswith(b"--- "):
            line = next(lines, None)
            if line is None or not line.startswith(b"+++ "):
                continue
            if file is None or not file.by_git or file.named:  # without `diff --git` these lines begin a file
                if file is not None:
                    yield file.closed()
                file = _OpenFile()
            file.name(header[4:], line.removesuffix(b"\r")[4:])
        elif header.startswith(b"diff --git "):
            if file is not None:
                yield file.closed()
            file = _OpenFile(header)
        elif file is None:
            odd = header or None if odd is None else odd
        elif header.startswith(b"From "):  # the next of several mails, with its message before its changes
            yield file.closed()
            file, odd = None, b""
        elif not file.takes(header) and header[:1] in (b"+", b"-", b" ", b"@") and header != b"-- ":  # a mail's end
            file.overran(header)
        line = next(lines, None)
    if file is not None:
        yield file.closed()
    elif odd:
        raise UsageError(f"there is no diff in it: it begins with {name_of_bytes(odd[:60])!r}")


def _read_hunk(header: re.Match[bytes], lines: Iterator[bytes]) -> tuple[Hunk, bytes | None]:
    """A hunk, which ends when both sides have as many lines as its header says, and the line after it."""
    old_start, old_lines, new_start, new_lines = (int(text or 1) for text in header.groups()[:4])
    left_old, left_new = old_lines, new_lines
    body: list[bytes] = []
    added = removed = size = 0
    for line in lines:
        sign = line[:1]
        if sign == b"\\":
            pass
        elif sign in (b" ", b"", b"\r") and left_old and left_new:  # some programs drop the space of an empty line
            left_old, left_new = left_old - 1, left_new - 1
        elif sign == b"+" and left_new:
            left_new, added = left_new - 1, added + 1
        elif sign == b"-" and left_old:
            left_old, removed = left_old - 1, removed + 1
        else:
            following: bytes | None = line
            break
        if size <= _LARGEST_HUNK:
            body.append((b" " * (sign in (b"", b"\r")) + line)[:_LARGEST_HUNK])
        size += len(line) + 1
    else:
        following = None
    text, flaw = b"\n".join(body), ""
    if size > _LARGEST_HUNK:  # of a binary file the beginning is kept, to know it by
        flaw = f"it is larger than {_LARGEST_HUNK >> 20} MiB"
        text = text[:_BINARY_IN] if b"\0" in text[:_BINARY_IN] else b""
    if left_old or left_new:
        flaw = "the diff ends inside this hunk" if following is None else "the diff is broken inside this hunk"
    hunk = Hunk(
        old_start=old_start, old_lines=old_lines, new_start=new_start, new_lines=new_lines, section=header[5],
        body=text, added=added, removed=removed, flaw=flaw,
    )  # fmt: skip
    return hunk, following


class _OpenFile:
    """A file while its headers and hunks are read. `header` is the line `diff --git …`, if any."""

    def __init__(self, header: bytes = b"") -> None:
        self.by_git = bool(header)
        self.named = False
        self.hunks: list[Hunk] = []
        self._old, self._new, self._prefixed = _header_names(header.removeprefix(b"diff --git "))
        self._state: FileState = "changed"
        self._modes: list[str] = []
        self._submodule = self._binary = False

    def name(self, old: bytes, new: bytes) -> None:
        """Read the names after `---` and `+++`: `diff -u` writes a tab and a time, git ends a name with a tab."""
        self.named = True
        if self._state in ("renamed", "copied"):
            return
        old, new = (_unquoted(side if side.startswith(b'"') else side.partition(b"\t")[0]) for side in (old, new))
        if not self.by_git:
            self._prefixed = old.startswith((b"a/", _NO_FILE)) and new.startswith((b"b/", _NO_FILE))
            if _NO_FILE in (old, new):
                self._state = "added" if old == _NO_FILE else "removed"
        self._old, self._new = (side[2:] if self._prefixed and side[1:2] == b"/" else side for side in (old, new))

    def overran(self, line: bytes) -> None:
        """A line of a hunk came after the last one that its header counts, or without a header: it was not read."""
        if self.hunks and not self._binary:
            flaw = self.hunks[-1].flaw or "the diff has more lines in this hunk than its header says"
            self.hunks[-1] = self.hunks[-1].replace(flaw=flaw)
        elif not self._binary and (self.named or line.startswith(b"@@ -")):
            self.hunks.append(Hunk(flaw="the diff has lines here without a header that can be read"))

    def takes(self, line: bytes) -> bool:
        """Read one of git's extended headers; False for another line."""
        word, _, rest = line.partition(b" ")
        match word:
            case b"old" | b"new" | b"deleted" if b"mode " in line:
                mode = line.rpartition(b" ")[2]
                self._submodule = self._submodule or mode == _SUBMODULE
                if line.startswith((b"new file", b"deleted file")):
                    self._state = "added" if word == b"new" else "removed"
                else:
                    self._modes.append(mode.decode("ascii", "replace"))
            case b"index":
                self._submodule = self._submodule or line.endswith(b" " + _SUBMODULE)
            case b"rename" | b"copy" if rest.startswith(b"from "):
                self._old = _unquoted(rest.removeprefix(b"from "))
            case b"rename" | b"copy" if rest.startswith(b"to "):
                self._new = _unquoted(rest.removeprefix(b"to "))
                self._state = "renamed" if word == b"rename" else "copied"
            case b"Binary" | b"GIT":
                self._binary = True
            case b"similarity" | b"dissimilarity":
                pass
            case _:
                return self._binary  # the lines of a binary patch
        return True

    def closed(self) -> FileDiff:
        # A hunk says what git says of a submodule; anything else is read, whatever mode a header claims.
        rows = [row for hunk in self.hunks for row in hunk.body.split(b"\n") if row[:1] != b"\\"]
        return FileDiff(
            path=name_of_bytes(self._old if self._new == _NO_FILE else self._new or self._old),
            old_path=name_of_bytes(self._old) if self._state in ("renamed", "copied") else None,
            state=self._state,
            binary=self._binary,
            submodule=self._submodule and all(row[1:].startswith(b"Subproject commit ") for row in rows),
            modes=(self._modes[0], self._modes[1]) if len(self._modes) == 2 else None,
            hunks=tuple(self.hunks),
        )


def _header_names(names: bytes) -> tuple[bytes, bytes, bool]:
    """The two names of `diff --git`, and whether they have prefixes; they are empty if the file was renamed."""
    if b'"' in names and (found := _TWO_NAMES.fullmatch(names)) is not None:
        old, new = _unquoted(found[1]), _unquoted(found[2])
    else:  # names may have spaces: unless it was renamed, which other headers say, both are the same one
        middle = len(names) // 2
        old, new = names[:middle], names[middle + 1 :]
    if old == new:
        return old, new, False
    return (old[2:], new[2:], True) if old[2:] == new[2:] else (b"", b"", True)


def _unquoted(name: bytes) -> bytes:
    """A name as git writes it in quotes, if it does; after the quotes a tab may follow."""
    quoted = _QUOTED.match(name)
    if quoted is None:
        return name

    def character(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8)]) if code[:1].isdigit() else _ESCAPES.get(code, code)

    return _ESCAPE.sub(character, quoted.group()[1:-1])


LONGEST_LINE = 2_000
"""Characters of a line that are shown; a hunk with a longer one counts as truncated."""

SEPARATOR = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Characters that begin a new row on a screen and do not end a line of the file."""


class HunkLine(Record, kw_only=True):
    """One line of a hunk, without its end. `number` is that of the new side, of a removed line the next one's."""

    sign: str
    number: int
    text: str
    has_return: bool = False

    @property
    def shown(self) -> str:
        """The text in a request, without this process's secrets."""
        text = mask(self.text)
        if not (text.isascii() and text.isprintable()):
            text = with_codes(SEPARATOR.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text))
        if len(text) <= LONGEST_LINE:
            return text
        return text[:LONGEST_LINE] + f" [… {len(text) - LONGEST_LINE} more characters]"

    @property
    def row(self) -> str:
        number = "" if self.sign == "-" else str(self.number)
        return f"{number:>5} {self.sign} {self.shown}".rstrip(" ")


@lru_cache(maxsize=64)
def lines_of(hunk: Hunk) -> tuple[HunkLine, ...]:
    """The hunk's lines in order."""
    number = max(hunk.new_start, 1)
    lines: list[HunkLine] = []
    for raw in text_of_bytes(hunk.body).split("\n") if hunk.body else ():
        if not raw.startswith("\\"):
            sign, text, bare = raw[:1] or " ", raw[1:], raw[1:].removesuffix("\r")
            lines.append(HunkLine(sign=sign, number=number, text=bare, has_return=bare != text))
            number += sign != "-"
    return tuple(lines)


def hunk_heading(file: FileDiff, lines: Sequence[HunkLine], hunk: Hunk) -> str:
    """The row above a hunk's lines: the file, as a JSON text, and which of its lines follow."""
    numbers = [line.number for line in lines if line.sign != "-"]
    where = f"lines {numbers[0]} to {numbers[-1]}" if numbers else f"lines removed before line {lines[0].number}"
    moved = f", {file.state} from {json.dumps(with_codes(file.old_path))}" if file.old_path is not None else ""
    new = ", a new file" if file.state == "added" else ""
    section = with_codes(text_of_bytes(hunk.section)).strip()[:120]
    within = f", in {json.dumps(section, ensure_ascii=False)}" if section else ""
    return f"{json.dumps(with_codes(file.path), ensure_ascii=False)}{new}{moved}, {where}{within}"
