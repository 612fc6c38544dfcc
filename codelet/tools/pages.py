"""Pages for `read`: part of a file of any size as numbered lines, in bounded memory, or a folder's entries."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from codelet import prompt
from codelet.call_record import FileFact
from codelet.errors import ToolError
from codelet.tools import encoding, files
from codelet.tools.pictures import kind_of_picture, media_type, read_picture
from codelet.tools.seen import LineSpan, ShownLines, digest_of
from codelet.tools.tool import ToolContext, ToolOutput

_LINES_SHOWN = "[lines {first}-{last}{of}; continue with offset={next}]"
_LINES_OF = " of {total}"
_UNSEEN_LETTERS = "[in {lines} there are characters that an editor does not show, or that turn the direction of text]"
_LINE_CUT = "{line} [… {more} more bytes]"
_GUESSED = "not UTF-8, shown as {codec}"
_GUESSED_NOTE = "[{guess}, which is a guess: an edit can put ASCII characters only into it]"
_ENTRIES_SHOWN = "[entries {first}-{last} of {total}; continue with offset={next}]"
_NOTEBOOK = "[a notebook, shown as cells; in the file each line of a cell is a JSON string: edit that string]"
_EMPTY_FILE = "({name} is empty)"
_EMPTY_FOLDER = "({name} is an empty folder)"
_PICTURE_UNSEEN = "{name} is {kind}, {size} bytes; you take no images, so it is not shown"
_NOT_TEXT = "{name} is {kind}, {size} bytes; it is not shown as text"


MOST_LINES = 2000
_MOST_BYTES = 64_000
_LINE_BYTES = 2000
_MARKED_LIMIT = 16 << 20
_MOST_ENTRIES = 50_000
_CHUNK = 1 << 20
_UNSEEN = re.compile("\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f|([\u202a-\u202e\u2066-\u2069\U000e0001-\U000e007f])")
"""Letters of the group are invisible; a flag's tags are part of the flag."""
_COUNT_LIMIT = 8 << 20
"""Up to this size the lines are counted to the end, so that the model learns how many there are."""


async def read_path(context: ToolContext, path: str, offset: int, limit: int) -> ToolOutput:
    """The text for the model: at most `limit` lines from line `offset` (from 1). Raises ToolError."""
    resolved = files.resolve(context, path)
    name = files.shown(context, resolved)
    first, count = max(offset, 1), min(max(limit, 1), MOST_LINES)
    if files.is_folder(resolved, name):
        listed = _listing(resolved, name, first, count)
        return ToolOutput(listed, counted="line", files=(FileFact("listed", name),))
    with files.open_regular(resolved, name) as file:
        try:
            status = os.fstat(file.fileno())
            head = file.read(encoding.SAMPLE)
            if (picture := media_type(head)) is not None:
                kind = kind_of_picture(picture)
                return await asyncio.to_thread(_picture, context, file, head, name, status.st_size, kind)
            if encoding.is_binary(head):
                kind = encoding.binary_kind(head)
                return ToolOutput(_NOT_TEXT.format(name=name, kind=kind, size=status.st_size), files=())
            if name.endswith(".ipynb") and (cells := _cells(file, status.st_size)) is not None:
                context.seen[resolved] = files.fingerprint(status)
                page = await read_page(cells, status.st_size, first, count, _LINE_BYTES, _MOST_BYTES)
                cells_shown = f"{_numbered(page, name, first)[0]}\n{_NOTEBOOK}"
                return ToolOutput(cells_shown, counted="line", files=(FileFact("read", name),))
            content = None
            if status.st_size <= files.LARGEST_EDITED:  # else it cannot be edited
                file.seek(0)
                content = file.read()
            text = _text_file(file if content is None else io.BytesIO(content), head, name, status.st_size)
            page = await read_page(text, status.st_size, first, count, _LINE_BYTES, _MOST_BYTES)
        except OSError as error:
            raise files.failure(error, name) from error
    current = files.fingerprint(status)
    context.seen[resolved] = current
    if content is not None:
        context.contents[resolved] = (current, digest_of(content))
    form = _form_of(page, content if content is not None else b"\n".join(data for data, _ in page.lines))
    shown, spans = _numbered(page, name, first, encoding.part_decoder(form) if form else encoding.decode_part)
    lines = ShownLines(resolved, current, spans)
    files_read = (FileFact("read", name, len(page.lines), sum(len(data) + 1 for data, _ in page.lines)),)
    if form is None or not form.guessed:
        return ToolOutput(shown, lines=lines, counted="line", files=files_read)
    guess = _GUESSED.format(codec=form.codec)
    noted = f"{shown}\n{_GUESSED_NOTE.format(guess=guess)}"
    return ToolOutput(noted, lines=lines, counted="line", caveat=guess, files=files_read)


def _form_of(page: Page, content: bytes) -> encoding.Format | None:
    """Return how the content is decoded for an edit, if that matters to the page; its lines are shown that way."""
    if encoding.with_bom(content) or all(data.isascii() for data, _ in page.lines):
        return None
    decoded = encoding.decode_text(content)
    return decoded[1] if decoded else None


def _picture(context: ToolContext, file: BinaryIO, head: bytes, name: str, size: int, kind: str) -> ToolOutput:
    """Return an image, if the model takes images. Raises ToolError for one that cannot be sent."""
    if not context.sees():
        return ToolOutput(_PICTURE_UNSEEN.format(name=name, kind=kind, size=size), files=())
    picture = read_picture(file, head, name, size)
    shown = {"name": picture["name"], "kind": kind_of_picture(picture["media_type"])}
    told = prompt.PICTURE.format(**shown, width=picture["width"], height=picture["height"])
    return ToolOutput(told, images=[picture], files=(FileFact("read", name, None, size),))


def _cells(file: BinaryIO, size: int) -> BinaryIO | None:
    """A notebook's cells as a text file; None if it is no notebook, or too large."""
    from codelet.tools.notebooks import LARGEST, cells_as_text

    if size > LARGEST:
        return None
    file.seek(0)
    text = cells_as_text(file.read())
    return None if text is None else io.BytesIO(text.encode("utf-8", "replace"))


def _text_file(file: BinaryIO, head: bytes, name: str, size: int) -> BinaryIO:
    """The file from its first character on, in a form whose lines end in the byte of a line feed."""
    marked = encoding.with_bom(head)
    if marked is None or marked.codec == "utf-8":
        file.seek(len(marked.bom) if marked else 0)
        return file
    if size > _MARKED_LIMIT:
        raise ToolError(f"{name} is {marked.codec} with {size} bytes, too many to convert: use bash with iconv")
    file.seek(len(marked.bom))
    data = file.read()
    return io.BytesIO(data.decode(marked.codec, "replace").encode("utf-8", "replace"))


_Decode = Callable[[bytes], str]


def _numbered(
    page: Page, name: str, first: int, decode: _Decode = encoding.decode_part
) -> tuple[str, tuple[LineSpan, ...]]:
    """Return the page's text, and the lines that it shows unchanged: not those that are cut, or have bytes that are no
    text.
    """
    if not page.lines:
        if page.total:
            raise ToolError(f"{name} has only {page.total} lines")
        return _EMPTY_FILE.format(name=name), ()
    parts: list[str] = []
    spans: list[LineSpan] = []
    for number, (data, cut) in enumerate(page.lines, first):
        line = _line(data, cut, decode)
        parts.append(f"{number}\t{line}")
        if not cut and "\N{REPLACEMENT CHARACTER}" not in line:
            spans.append((spans.pop()[0] if spans and spans[-1][1] == number - 1 else number, number))
    if unseen := [each.partition("\t")[0] for each in parts if any(found[1] for found in _UNSEEN.finditer(each))]:
        of = f"line {unseen[0]}" if len(unseen) == 1 else f"{len(unseen)} lines from line {unseen[0]} on"
        parts.append(_UNSEEN_LETTERS.format(lines=of))
    last = first + len(page.lines) - 1
    if page.more:
        of = _LINES_OF.format(total=page.total) if page.total else ""
        parts.append(_LINES_SHOWN.format(first=first, last=last, of=of, next=last + 1))
    return "\n".join(parts), tuple(spans)


def _line(data: bytes, cut: int, decode: _Decode) -> str:
    if not cut:
        return decode(data.removesuffix(b"\r"))
    whole = data
    for length in range(len(data), max(len(data) - 4, 0), -1):  # the cut may have gone through a character
        with suppress(UnicodeDecodeError):
            data[:length].decode()
            whole = data[:length]
            break
    return _LINE_CUT.format(line=decode(whole), more=cut + len(data) - len(whole))


def _entries(folder: Path, name: str) -> list[str]:
    """The names in a resolved folder, those of folders with a slash."""
    entries = []
    descriptor = files.open_listing(folder, name)
    try:
        with os.scandir(descriptor) as scan:
            for entry in scan:
                entries.append(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else ""))
                if len(entries) > _MOST_ENTRIES:
                    raise ToolError(f"{name} has more than {_MOST_ENTRIES} entries: use find with a pattern")
    except OSError as error:
        raise files.failure(error, name) from error
    finally:
        os.close(descriptor)
    return entries


def _listing(folder: Path, name: str, first: int, count: int) -> str:
    entries = sorted(_entries(folder, name))
    page = entries[first - 1 : first - 1 + count]
    if not page:
        if entries:
            raise ToolError(f"{name} has only {len(entries)} entries")
        return _EMPTY_FOLDER.format(name=name)
    parts = [files.printable(entry) for entry in page]
    last = first + len(page) - 1
    if last < len(entries):
        parts.append(_ENTRIES_SHOWN.format(first=first, last=last, total=len(entries), next=last + 1))
    return "\n".join(parts)


class Page:
    """At most `count` lines of a file from line `first` (from 1), taken from its chunks in order.

    `lines` has each line's first bytes, at most `line_limit`, and how many more it has; all of them have about `limit`
    bytes. `more` says that lines follow, `total` is the number of lines of the file if it was counted.
    """

    def __init__(self, first: int, count: int, line_limit: int, limit: int) -> None:
        self.lines: list[tuple[bytes, int]] = []
        self.more = False
        self.total: int | None = None
        self._skip = first - 1
        self._count = count
        self._line_limit = line_limit
        self._room = limit
        self._line = b""
        self._cut = 0
        self._ended = 0
        self._open = False

    def take(self, chunk: bytes) -> bool:
        """The next bytes; False when the page is full and more follows."""
        start = 0
        if self._ended < self._skip:
            start = self._skipped(chunk)
        while start < len(chunk) and len(self.lines) < self._count and self._room > 0:
            end = chunk.find(b"\n", start)
            stop = len(chunk) if end < 0 else end
            self._add(chunk[start:stop])
            start = stop + 1
            if end >= 0:
                self._end_line()
        if start < len(chunk):
            self.more = True
            self._ended += chunk.count(b"\n", start)
            self._open = not chunk.endswith(b"\n")
        return not self.more

    def finish(self) -> None:
        if self._open and (self.more or self._ended < self._skip):
            self._ended += 1
        elif self._open:
            self._end_line()
        self.total = self._ended

    def _skipped(self, chunk: bytes) -> int:
        """Count the lines to skip; where in the chunk the wanted ones begin."""
        ends = chunk.count(b"\n")
        if self._ended + ends < self._skip:
            self._ended += ends
            self._open = not chunk.endswith(b"\n")
            return len(chunk)
        position = 0
        while self._ended < self._skip:
            position = chunk.index(b"\n", position) + 1
            self._ended += 1
        self._open = False
        return position

    def _add(self, piece: bytes) -> None:
        room = self._line_limit - len(self._line)
        self._line += piece[:room]
        self._cut += max(len(piece) - room, 0)
        self._open = True

    def _end_line(self) -> None:
        self.lines.append((self._line, self._cut))
        self._room -= len(self._line) + 1
        self._ended += 1
        self._line, self._cut, self._open = b"", 0, False


async def read_page(file: BinaryIO, size: int, first: int, count: int, line_limit: int, limit: int) -> Page:
    """At most `count` lines from line `first` (from 1), `line_limit` bytes of each, `limit` bytes in all.

    Yields to the event loop after each MiB, so that a cancel is prompt in a file of gigabytes.
    """
    page = Page(first, count, line_limit, limit)
    while chunk := file.read(_CHUNK):
        if not page.take(chunk) and size > _COUNT_LIMIT:
            return page
        await asyncio.sleep(0)
    page.finish()
    return page
