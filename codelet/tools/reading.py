"""What `read` does: a page of a file as numbered lines, or a folder's entries."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO

from codelet.errors import ToolError
from codelet.tools import encoding, files
from codelet.tools.lines import Page, read_page
from codelet.tools.seen import ShownLines, Span
from codelet.tools.tool import ToolContext, ToolOutput

MOST_LINES = 2000
_MOST_BYTES = 64_000
_LINE_BYTES = 2000
_MARKED_LIMIT = 16 << 20
_MOST_ENTRIES = 50_000


async def read_path(context: ToolContext, path: str, offset: int, limit: int) -> ToolOutput:
    """The text for the model: at most `limit` lines from line `offset` (from 1). Raises ToolError."""
    resolved = files.resolve(context, path)
    name = files.shown(context, resolved)
    first, count = max(offset, 1), min(max(limit, 1), MOST_LINES)
    if files.is_folder(resolved, name):
        return ToolOutput(_listing(resolved, name, first, count))
    with files.open_regular(resolved, name) as file:
        try:
            status = os.fstat(file.fileno())
            head = file.read(encoding.SAMPLE)
            if encoding.is_binary(head):
                kind = encoding.kind_of(head)
                return ToolOutput(f"{name} is {kind}, {status.st_size} bytes; it is not shown as text")
            text = _text_file(file, head, name, status.st_size)
            page = await read_page(text, status.st_size, first, count, _LINE_BYTES, _MOST_BYTES)
        except OSError as error:
            raise files.failure(error, name) from error
    context.seen[resolved] = files.fingerprint(status)
    shown, spans = _numbered(page, name, first)
    return ToolOutput(shown, lines=ShownLines(resolved, files.fingerprint(status), spans))


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


def _numbered(page: Page, name: str, first: int) -> tuple[str, tuple[Span, ...]]:
    """The page's text, and the lines that it shows as they are: none that is cut, or has bytes that are no text."""
    if not page.lines:
        if page.total:
            raise ToolError(f"{name} has only {page.total} lines")
        return f"({name} is empty)", ()
    parts: list[str] = []
    spans: list[Span] = []
    for number, (data, cut) in enumerate(page.lines, first):
        line = _line(data, cut)
        parts.append(f"{number}\t{line}")
        if not cut and "\N{REPLACEMENT CHARACTER}" not in line:
            spans.append((spans.pop()[0] if spans and spans[-1][1] == number - 1 else number, number))
    last = first + len(page.lines) - 1
    if page.more:
        of = f" of {page.total}" if page.total else ""
        parts.append(f"[lines {first}-{last}{of}; go on with offset={last + 1}]")
    return "\n".join(parts), tuple(spans)


def _line(data: bytes, cut: int) -> str:
    if not cut:
        return encoding.decode_part(data.removesuffix(b"\r"))
    # The cut may have gone through a character of up to four bytes.
    shorter = (data[: len(data) - n] for n in range(4))
    whole = next((part for part in shorter if _is_utf8(part)), data)
    return f"{encoding.decode_part(whole)} [… {cut + len(data) - len(whole)} more bytes]"


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


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
        return f"({name} is an empty folder)"
    parts = [files.printable(entry) for entry in page]
    last = first + len(page) - 1
    if last < len(entries):
        parts.append(f"[entries {first}-{last} of {len(entries)}; go on with offset={last + 1}]")
    return "\n".join(parts)
