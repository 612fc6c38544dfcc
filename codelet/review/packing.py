"""The contents of a request: the outline of the whole change, the same in all requests, and a chunk of its hunks.

Hunks are in the order of the diff, but a file and its test are together. A hunk that is larger than a chunk is split
between lines. The sizes are estimates: a third of the characters, gutters included.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from codelet.record import Record
from codelet.review.diff import (
    LONGEST_LINE,
    FileDiff,
    Hunk,
    HunkLine,
    has_cut_line,
    hunk_heading,
    lines_of,
    text_of_bytes,
)
from codelet.review.findings import HunkCoverage, HunkState
from codelet.review.left_out import REMOVED, is_new_name, why_left_out
from codelet.system.text import with_codes

CHUNK_TOKENS = 24_000
"""The largest sum of the hunks of a chunk, unless the user sets one or the window is small."""

WHOLE_TOKENS = 40_000
"""The size up to which a change is one chunk unless the user sets one: halves would each show less."""
_GUTTER = 8
_HEADING = 80
_CHARACTERS_PER_TOKEN = 3
_TEST = re.compile(r"^tests?[-_]|[-_]?(?:tests?|specs?)$")
_EVERYWHERE = frozenset(
    ("", "index", "main", "mod", "lib", "__init__", "init", "readme", "makefile", "package", "conftest")
)
"""Names that are in many folders and say nothing of what a file is about."""
_COMBINED = "the combined diff of a merge: review its commits, or the diff against one parent"
_NEW_NAME = "it is large, and would be left out for a name that is new in this change: --generated reviews it"
_COUNTS = ("old_start", "old_lines", "new_start", "new_lines", "added", "removed")
_UNASKED = "it was not asked about"
_LONG_LINES = f"it has lines of more than {LONGEST_LINE:,} characters; only the beginning was sent"


class Piece(Record, kw_only=True):
    """A hunk in a chunk, or a part of one: `hunk` holds the lines that are meant, and says where they begin.

    `number` is the whole hunk's place in the plan's list.
    """

    number: int
    file: FileDiff
    hunk: Hunk
    tokens: int

    @property
    def lines(self) -> tuple[HunkLine, ...]:
        return lines_of(self.hunk)

    def text(self) -> str:
        return "\n".join([hunk_heading(self.file, self.lines, self.hunk), *(line.row for line in self.lines)])


class DiffChunk(Record):
    """The pieces of one request; `number` counts from 1."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    def text(self) -> str:
        return "\n\n".join(piece.text() for piece in self.pieces)


class ReviewPlan(Record, kw_only=True):
    """Every hunk of a change, in order, and the chunks. Hunks in no chunk have their final state."""

    hunks: tuple[HunkCoverage, ...]
    chunks: tuple[DiffChunk, ...]

    @property
    def tokens(self) -> int:
        return sum(chunk.tokens for chunk in self.chunks)


def delimited(name: str, text: str) -> str:
    """Text from outside between two marks with its own hash, which nothing in it can contain."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f'<{name} id="{mark}">\n{text}\n</{name} id="{mark}">'


def planned(files: Sequence[FileDiff], *, most: int = CHUNK_TOKENS, generated: bool = False) -> ReviewPlan:
    """The plan for a change with chunks of at most `most` tokens; with `generated` such files are reviewed, too."""
    reasons = [why_left_out(file, generated=generated) for file in files]
    removed = [file for file, why in zip(files, reasons, strict=True) if why == REMOVED and file.hunks]
    # A change that does nothing but remove is reviewed, if it fits one request.
    if all(reasons) and sum(map(_file_size, removed)) <= WHOLE_TOKENS:
        reasons = [None if file in removed else why for file, why in zip(files, reasons, strict=True)]
    total = sum(_file_size(file) for file, why in zip(files, reasons, strict=True) if why is None)
    if most == CHUNK_TOKENS and total <= WHOLE_TOKENS:
        most = WHOLE_TOKENS
    hunks: list[HunkCoverage] = []
    pieces: list[Piece] = []
    for file, reason in zip(files, reasons, strict=True):
        why = _COMBINED if file.combined else reason
        if why is None and not generated and is_new_name(file) and _file_size(file) > most:
            why = _NEW_NAME
        state: HunkState = "failed" if why in (_COMBINED, _NEW_NAME) else "skipped"
        if why is not None and not file.hunks:
            hunks.append(HunkCoverage(path=file.path, old_path=file.old_path, state=state, why=why))
        for hunk in file.hunks:
            entry = HunkCoverage(path=file.path, old_path=file.old_path, state=state, why=why or "")
            entry = entry.replace(**{name: getattr(hunk, name) for name in _COUNTS})
            if why is None:
                entry = entry.replace(state="failed" if hunk.body else "truncated", why=hunk.flaw or _UNASKED)
                if hunk.body:
                    parts = [hunk] if _size(hunk) <= most else _parts(hunk, most)
                    pieces += [Piece(number=len(hunks), file=file, hunk=part, tokens=_size(part)) for part in parts]
            hunks.append(entry)
    return ReviewPlan(hunks=tuple(hunks), chunks=tuple(_packed(pieces, most)))


def ended(entry: HunkCoverage, pieces: Sequence[Piece]) -> HunkCoverage:
    """The entry of a hunk after an answer to all of its pieces."""
    flaw = next((piece.hunk.flaw for piece in pieces if piece.hunk.flaw), "")
    if flaw:
        return entry.replace(state="truncated", why=flaw)
    # Whether a line may be too long is asked without decoding it.
    longest = (max(map(len, piece.hunk.body.split(b"\n"))) for piece in pieces)
    if any(n > LONGEST_LINE and has_cut_line(piece.lines) for n, piece in zip(longest, pieces, strict=True)):
        return entry.replace(state="truncated", why=_LONG_LINES)
    return entry.replace(state="reviewed", why="")


def _file_size(file: FileDiff) -> int:
    return sum(map(_size, file.hunks))


def _size(hunk: Hunk) -> int:
    """The estimate of a hunk's rows and heading."""
    return _tokens(_HEADING + sum(min(len(line), LONGEST_LINE) + _GUTTER for line in hunk.body.split(b"\n")))


def _parts(hunk: Hunk, most: int) -> Iterator[Hunk]:
    """Yield the hunk in parts that each fit a chunk, cut between lines."""
    old, new = hunk.old_start, max(hunk.new_start, 1)
    lines = hunk.body.split(b"\n")
    first, size = 0, _HEADING
    for place in range(len(lines) + 1):
        length = min(len(lines[place]), LONGEST_LINE) + _GUTTER if place < len(lines) else 0
        is_note = place < len(lines) and lines[place][:1] == b"\\"  # belongs to the line before
        if place < len(lines) and (place == first or is_note or _tokens(size + length) <= most):
            size += length
            continue
        signs = [line[:1] for line in lines[first:place]]
        added, removed = signs.count(b"+"), signs.count(b"-")
        context = len(signs) - added - removed - signs.count(b"\\")
        yield hunk.replace(
            old_start=old,
            old_lines=removed + context,
            new_start=new,
            new_lines=added + context,
            body=b"\n".join(lines[first:place]),
            added=added,
            removed=removed,
            flaw=hunk.flaw if place == len(lines) else "",
        )
        old, new = old + removed + context, new + added + context
        first, size = place, _HEADING + length


def _tokens(length: int) -> int:
    return -(-length // _CHARACTERS_PER_TOKEN)


def _packed(pieces: Sequence[Piece], most: int) -> Iterator[DiffChunk]:
    """The pieces in chunks as full as they get. A file and its test share one if they fit."""
    number, size = 1, 0
    held: list[Piece] = []
    for group in _groups(pieces, most):
        if held and size + sum(piece.tokens for piece in group) > most:
            yield DiffChunk(number, tuple(held))
            number, size, held = number + 1, 0, []
        held += group
        size += sum(piece.tokens for piece in group)
    if held:
        yield DiffChunk(number, tuple(held))


def _groups(pieces: Sequence[Piece], most: int) -> Iterator[list[Piece]]:
    """Yield pieces that belong in one chunk, in the diff's order: a file with its test, a file, or single pieces."""
    by_name: dict[str, list[Piece]] = defaultdict(list)
    for piece in pieces:
        by_name[_subject(piece.file.path)].append(piece)
    for group in by_name.values():
        if sum(piece.tokens for piece in group) <= most:
            yield group
            continue
        by_path: dict[str, list[Piece]] = defaultdict(list)
        for piece in group:
            by_path[piece.file.path].append(piece)
        for own in by_path.values():
            yield from [own] if sum(piece.tokens for piece in own) <= most else ([piece] for piece in own)


def _subject(path: str) -> str:
    """The subject of a file: the same for `src/cart.py` and `tests/test_cart.py`."""
    name = path.rpartition("/")[2].lower()
    stem = name.partition(".")[0] if not name.startswith(".") else name
    about = _TEST.sub("", stem)
    return about if about not in _EVERYWHERE else path


MOST_TOKENS = 1_500
"""The largest outline."""


def outline_of(files: Sequence[FileDiff]) -> str:
    """One row for each file, at most MOST_TOKENS in all: those first that others may depend on, left out ones last."""

    def rank(file: FileDiff) -> int:
        if file.state in ("removed", "renamed") or file.submodule or file.modes is not None:
            return 0
        return 2 if why_left_out(file) is not None else 1

    room = MOST_TOKENS * _CHARACTERS_PER_TOKEN - 40
    shown: list[str] = []
    for file in sorted(files, key=rank):
        row = _row(file)
        room -= len(row) + 1
        if room < 0:
            return "\n".join([*shown, f"and {len(files) - len(shown):,} more files"])
        shown.append(row)
    return "\n".join(shown)


def _row(file: FileDiff) -> str:
    added, removed = sum(hunk.added for hunk in file.hunks), sum(hunk.removed for hunk in file.hunks)
    facts = []
    if file.state != "changed":
        facts.append(file.state if file.old_path is None else f"{file.state} from {_name(file.old_path)}")
    if file.modes is not None:
        facts.append(f"mode {file.modes[0]} to {file.modes[1]}")
    if file.submodule:
        ids = [row.split(" ")[-1][:12] for hunk in file.hunks for row in text_of_bytes(hunk.body).split("\n")]
        facts.append(f"submodule {'..'.join(ids)}")
    elif (why := why_left_out(file)) is not None and file.state != "removed" and file.modes is None:
        facts.append(f"not shown: {why}")
    return f"{_name(file.path)} (+{added} -{removed}{''.join(f', {fact}' for fact in facts)})"


def _name(path: str) -> str:
    """A file's name on one row, as a JSON text."""
    return json.dumps(with_codes(path), ensure_ascii=False)
