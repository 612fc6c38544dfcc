"""A unified diff as bytes to files and hunks: what git writes, and what `diff -u` does.

Bytes may come in pieces of any size; the work is linear in them, and a hunk is kept as one piece of bytes. Hunks end
where their headers say, so no line inside one is taken for a header. What a header does not say is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from codelet.errors import UsageError
from codelet.record import Record

FileState = Literal["changed", "added", "removed", "renamed", "copied"]

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
_PREFIXES = ((b"a/", b"b/"), (b"i/", b"w/"), (b"c/", b"i/"), (b"c/", b"w/"), (b"o/", b"w/"), (b"1/", b"2/"))
"""What git may put before the two names: the usual pair, and those of `diff.mnemonicPrefix`, in both directions."""
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_NO_FILE = b"/dev/null"
_SUBMODULE = b"160000"
_ENDED = "the diff ends inside this hunk"
_TOO_LONG = "the diff has more lines in this hunk than its header says"
_SIGNATURE = b"-- "
"""What `git format-patch` writes behind the last hunk."""
_BROKEN = "the diff is broken inside this hunk"
_NO_HEADER = "the diff has lines here without a header that can be read"


class Hunk(Record, kw_only=True):
    """One changed place: starts count from 1. `body` holds its lines with their signs, as they stand in the diff.

    `section` is what git wrote behind the second @@. `flaw` says why lines are missing, "" where none are.
    """

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    section: bytes
    body: bytes
    added: int
    removed: int
    flaw: str = ""


class FileDiff(Record, kw_only=True):
    r"""One file of a change. `old_path` is None unless it was renamed or copied.

    Bytes of a name that are no UTF-8 are written as `\xe9`. `modes` are the old and the new one where they differ.
    `combined` marks a merge that is shown against several parents, of which no hunk is read. `unread` says why a file
    that git does not know yet was not read, "" where it was. `in_known_folder` says that the folder of
    others' code in which it lies was there before the change.
    """

    path: str
    old_path: str | None = None
    state: FileState = "changed"
    binary: bool = False
    submodule: bool = False
    combined: bool = False
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
    hunk = Hunk(
        old_start=1, old_lines=0, new_start=1, new_lines=0, section=b"", body=b"", added=0, removed=0, flaw=why
    )  # fmt: skip
    return file.replace(binary=False, hunks=(hunk,))


def parse_diff(pieces: Iterable[bytes]) -> Iterator[FileDiff]:
    """The files of a diff, each as soon as the next one begins. Raises UsageError for bytes that are no diff."""
    reader = _Reader()
    for line in _lines(pieces):
        done = reader.feed(line)
        if done is not None:
            yield done
    done = reader.finish()
    if done is not None:
        yield done
    elif reader.odd is not None and not reader.files:
        raise UsageError(f"there is no diff in it: it begins with {name_of_bytes(reader.odd[:60])!r}")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines without their newline; memory is that of the longest line and one piece."""
    rest: list[bytes] = []
    for piece in pieces:
        first, *others = piece.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            yield from others[:-1]
            rest = [others[-1]]
    last = b"".join(rest)
    if last:
        yield last


class _Reader:
    """Takes the lines of a diff in and gives back a file when it is whole.

    `odd` is the first line outside of any file that is no part of a diff: mail headers and commit messages stand there.
    """

    def __init__(self) -> None:
        self.odd: bytes | None = None
        self.files = 0
        self._file: _OpenFile | None = None
        self._hunk: _OpenHunk | None = None
        self._removed_name: bytes | None = None  # a `---` line that waits for its `+++`

    def feed(self, line: bytes) -> FileDiff | None:
        """Take one line; the file that it ends, if it ends one."""
        if self._hunk is not None:
            if self._hunk.feed(line):
                return None
            self._close_hunk(_BROKEN if self._hunk.is_open else "")
        header = line.removesuffix(b"\r")
        if header.startswith((b"diff --git ", b"diff --cc ", b"diff --combined ", b"\x1b[")):
            return self._git_header(header)
        found = _HUNK.fullmatch(header)
        if found is not None and self._file is not None and self._file.takes_hunks:
            self._hunk = _OpenHunk(found)
            return None
        return self._other_header(header)

    def finish(self) -> FileDiff | None:
        """The end of the diff: the last file, if there is one."""
        if self._hunk is not None:
            self._close_hunk(_ENDED if self._hunk.is_open else "")
        return self._close_file()

    def _git_header(self, header: bytes) -> FileDiff | None:
        if header.startswith(b"\x1b["):
            raise UsageError("the diff is coloured; make it with --no-color")
        done = self._close_file()
        self._file = _OpenFile.of_header(header)
        return done

    def _other_header(self, line: bytes) -> FileDiff | None:
        """A line between two hunks: what git says of the file, or the names of `diff -u`."""
        if self._removed_name is not None:
            old, self._removed_name = self._removed_name, None
            if line.startswith(b"+++ "):
                return self._names(old, line[4:])
        if line.startswith(b"--- "):
            self._removed_name = line[4:]
        elif self._file is None or not self._file.told(line):
            self.odd = self.odd or line or None
            if self._file is not None and line[:1] in (b"+", b"-", b" ", b"@") and line != _SIGNATURE:
                self._file.overran(line)
        return None

    def _names(self, old: bytes, new: bytes) -> FileDiff | None:
        """The two lines that name the sides; without `diff --git` they begin a file."""
        done = None
        if self._file is None or not self._file.by_git or self._file.named:
            done = self._close_file()
            self._file = _OpenFile(by_git=False)
        self._file.name(old, new)
        return done

    def _close_hunk(self, flaw: str) -> None:
        assert self._hunk is not None and self._file is not None
        self._file.hunks.append(self._hunk.closed(flaw))
        self._hunk = None

    def _close_file(self) -> FileDiff | None:
        file, self._file = self._file, None
        if file is None:
            return None
        self.files += 1
        return file.closed()


class _OpenHunk:
    """A hunk whose lines are still coming: it ends when both sides have as many as its header says."""

    def __init__(self, header: re.Match[bytes]) -> None:
        one, ones, other, others = (None if text is None else int(text) for text in header.groups()[:4])
        self._starts = one or 0, other or 0
        self._counts = 1 if ones is None else ones, 1 if others is None else others
        self._left_old, self._left_new = self._counts
        self._section = header[5]
        self._lines: list[bytes] = []
        self._added = self._removed = 0

    @property
    def is_open(self) -> bool:
        """Whether lines are still due."""
        return self._left_old > 0 or self._left_new > 0

    def feed(self, line: bytes) -> bool:
        """Take a line in; False where it is none of this hunk."""
        sign = line[:1]
        if sign == b"\\":
            self._lines.append(line)
            return True
        if not self.is_open:
            return False
        if sign in (b" ", b"", b"\r"):  # some programs drop the blank of an empty line
            if not (self._left_old and self._left_new):
                return False
            self._left_old -= 1
            self._left_new -= 1
            line = b" " + line if sign != b" " else line
        elif sign == b"+" and self._left_new:
            self._left_new -= 1
            self._added += 1
        elif sign == b"-" and self._left_old:
            self._left_old -= 1
            self._removed += 1
        else:
            return False
        self._lines.append(line)
        return True

    def closed(self, flaw: str) -> Hunk:
        return Hunk(
            old_start=self._starts[0],
            old_lines=self._counts[0],
            new_start=self._starts[1],
            new_lines=self._counts[1],
            section=self._section,
            body=b"\n".join(self._lines),
            added=self._added,
            removed=self._removed,
            flaw=flaw,
        )


class _OpenFile:
    """What the headers have said of a file so far, and its hunks."""

    def __init__(self, *, by_git: bool = True, combined: bool = False) -> None:
        self.by_git = by_git
        self.named = False
        self.hunks: list[Hunk] = []
        self._combined = combined
        self._names: tuple[bytes, bytes] = (b"", b"")
        self._renamed: dict[str, bytes] = {}
        self._state: FileState = "changed"
        self._modes: list[bytes] = []
        self._submodule = False
        self._binary = False

    @classmethod
    def of_header(cls, header: bytes) -> _OpenFile:
        """The file that a line `diff --git …` begins."""
        if not header.startswith(b"diff --git "):
            file = cls(combined=True)
            name = _unquoted(header.split(b" ", 2)[2])
            file._names = (name, name)
            return file
        file = cls()
        file._names = _header_names(header.removeprefix(b"diff --git "))
        return file

    @property
    def takes_hunks(self) -> bool:
        return self.named and not self._combined

    def name(self, old: bytes, new: bytes) -> None:
        """Take in what stands behind `---` and `+++`."""
        sides = [_unquoted(_without_time(side, quoted=side.startswith(b'"'))) for side in (old, new)]
        prefixed = self.by_git or any(
            sides[0].startswith((one, _NO_FILE)) and sides[1].startswith((other, _NO_FILE)) for one, other in _pairs()
        )
        if not self.by_git or not self._renamed:
            known = [side for side in sides if side != _NO_FILE]
            if self.by_git and self._names[0] == self._names[1] and known and self._names[0] in known:
                prefixed = False
            cut = [side if side == _NO_FILE or not prefixed else _without_prefix(side) for side in sides]
            self._names = (cut[0], cut[1])
            if not self.by_git and _NO_FILE in sides:
                self._state = "added" if sides[0] == _NO_FILE else "removed"
        self.named = True

    def overran(self, line: bytes) -> None:
        """A line of a hunk came behind the last one that its header counts, or without a header: it was not read."""
        if self._binary:
            return
        if self.hunks:
            self.hunks[-1] = self.hunks[-1].replace(flaw=self.hunks[-1].flaw or _TOO_LONG)
        elif self.named or line.startswith(b"@@ -"):
            self.hunks.append(_lost_hunk())

    def told(self, line: bytes) -> bool:
        """Take in one of git's extended headers; False where it is none."""
        word, _, rest = line.partition(b" ")
        match word:
            case b"old" | b"new" | b"deleted" if b"mode " in line:
                self._mode(line)
            case b"index":
                self._submodule = self._submodule or line.endswith(b" " + _SUBMODULE)
            case b"rename" | b"copy" if rest.startswith((b"from ", b"to ")):
                side, _, name = rest.partition(b" ")
                self._renamed[side.decode()] = _unquoted(name)
                self._state = "renamed" if word == b"rename" else "copied"
            case b"Binary" | b"GIT":
                self._binary = True
            case b"similarity" | b"dissimilarity":
                pass
            case _:
                return self._binary or self._combined  # the lines of a binary patch, of a combined diff
        return True

    def _mode(self, line: bytes) -> None:
        mode = line.rpartition(b" ")[2]
        self._submodule = self._submodule or mode == _SUBMODULE
        if line.startswith(b"new file"):
            self._state = "added"
        elif line.startswith(b"deleted file"):
            self._state = "removed"
        else:
            self._modes.append(mode)

    def closed(self) -> FileDiff:
        old, new = (self._renamed.get("from"), self._renamed.get("to")) if self._renamed else self._names
        path = new if new and new != _NO_FILE else old or b""
        moved = self._state in ("renamed", "copied") and old
        modes = [mode.decode("ascii", "replace") for mode in self._modes]
        return FileDiff(
            path=name_of_bytes(path),
            old_path=name_of_bytes(old) if moved and old is not None else None,
            state=self._state,
            binary=self._binary,
            submodule=self._submodule and all(map(_is_of_submodule, self.hunks)),
            combined=self._combined,
            modes=(modes[0], modes[1]) if len(modes) == 2 else None,
            hunks=tuple(self.hunks),
        )


def _is_of_submodule(hunk: Hunk) -> bool:
    """Whether a hunk says what git says of a submodule; anything else is read, whatever mode a header claims."""
    return all(line[1:].startswith(b"Subproject commit ") for line in hunk.body.split(b"\n") if line[:1] != b"\\")


def _lost_hunk() -> Hunk:
    """What stands for lines of which is not known where they belong."""
    return Hunk(
        old_start=0, old_lines=0, new_start=0, new_lines=0, section=b"", body=b"", added=0, removed=0, flaw=_NO_HEADER
    )  # fmt: skip


def _pairs() -> Iterator[tuple[bytes, bytes]]:
    for one, other in _PREFIXES:
        yield one, other
        yield other, one


def _header_names(names: bytes) -> tuple[bytes, bytes]:
    """The two names of `diff --git`: unless the file moved, which other headers say, they are the same one."""
    if names.startswith(b'"'):
        end = _end_of_quote(names)
        return _named(_unquoted(names[:end]), _unquoted(names[end + 1 :]))
    if names.endswith(b'"'):
        old, _, new = names.partition(b' "')
        return _named(old, _unquoted(b'"' + new))
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
    return (old, new) if old == new else (_without_prefix(old), _without_prefix(new))


def _without_prefix(name: bytes) -> bytes:
    """A name without the `a/` or `b/` before it."""
    return name[2:] if name[1:2] == b"/" else name


def _without_time(name: bytes, *, quoted: bool) -> bytes:
    """A name without what `diff -u` writes behind a tab; git ends a name that holds blanks with a tab."""
    return name if quoted else name.partition(b"\t")[0]


def _end_of_quote(text: bytes) -> int:
    """Where a quoted name that begins the text ends."""
    found = re.match(rb'"(?:[^"\\]|\\.)*"', text, re.DOTALL)
    return found.end() if found else len(text)


def _unquoted(name: bytes) -> bytes:
    """A name as git writes it in quotes, if it does; behind the quotes a tab may follow."""
    if not name.startswith(b'"') or len(name) < 2:
        return name

    def character(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8)]) if code[:1].isdigit() else _ESCAPES.get(code, code)

    return _ESCAPE.sub(character, name[1 : _end_of_quote(name) - 1])
