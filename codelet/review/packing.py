"""The plan of a review: which files are left out and why, and the contents of each request.

A name that the change itself adds takes nothing out of the review. A request has the outline of the whole change, the
same in all requests, and a chunk of its hunks in the diff's order, but a file and its test are together. Sizes are
estimates: a third of the characters, gutters included.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from codelet.record import Record
from codelet.review.diff import LONGEST_LINE, FileDiff, Hunk, HunkLine, hunk_heading, lines_of, text_of_bytes
from codelet.review.findings import HunkCoverage, HunkState
from codelet.system.text import with_codes

CHUNK_TOKENS, WHOLE_TOKENS = 24_000, 64_000
"""The largest chunk, and the largest change that is one: at most a third of the window, since tools need room too."""
WINDOW = 200_000
MOST_TOKENS = 1_500
"""The largest outline."""
_GUTTER, _HEADING, _CHARACTERS_PER_TOKEN = 8, 80, 3
_TEST = re.compile(r"^tests?[-_]|[-_]?(?:tests?|specs?)$")
_EVERYWHERE = frozenset(
    ("", "index", "main", "mod", "lib", "__init__", "init", "readme", "makefile", "package", "conftest")
)
"""Names that are in many folders and say nothing of what a file is about."""
_NEW_NAME = "it is large, and would be left out for a name that is new in this change: --generated reviews it"
_REMOVED = "the file was removed"
_COUNTS = ("old_start", "old_lines", "new_start", "new_lines", "added", "removed")

_LOCK_FILES = frozenset(
    ("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lockb", "poetry.lock", "uv.lock",
     "pdm.lock", "Pipfile.lock", "Cargo.lock", "Gemfile.lock", "composer.lock", "go.sum", "flake.lock", "mix.lock",
     "pubspec.lock", "Podfile.lock", "packages.lock.json", "deno.lock")
)  # fmt: skip
_GENERATED = re.compile(
    r"(?:\.min\.(?:js|css|mjs)|\.(?:js|css|mjs)\.map|\.pb\.go|\.pb\.(?:cc|h)|_pb2(?:_grpc)?\.pyi?|\.g\.dart"
    r"|\.freezed\.dart|\.designer\.cs|\.generated\.\w+|\.snap)$",
    re.IGNORECASE,
)
_VENDORED = re.compile(r"(?:^|/)(?:vendor|node_modules|third_party|bower_components|Pods|\.yarn/(?:cache|releases))/")
_BUILD_FILES = frozenset(("makefile", "dockerfile", "gemfile", "rakefile", "justfile", "cmakelists.txt"))
_SOURCES = frozenset(
    (
        "adb ads asm awk bash c cc cjs clj cljs cmake conf cpp cr cs css cts cxx d dart el elm erl ex exs fish fs"
        " fsx go gradle graphql groovy h hh hpp hrl hs htm html ini java jl js jsonc json5 jsx kt kts less lisp lua"
        " m md mjs mk mm mts nim nix php pl pm pro proto ps1 py pyi r rb rkt rs s sass scala scm scss sh sol sql sv"
        " svelte svg swift tcl tex tf toml ts tsx v vhd vhdl vue xhtml xml yaml yml zig zsh"
    ).split()
)
_CONTROLS = bytes({*range(0x20)} - {*b"\t\n\f\r\x1b"})


def why_left_out(file: FileDiff, *, generated: bool = False) -> str | None:
    """Return why a file is not reviewed; None if it is. `generated` includes files that programs write."""
    if file.unread:
        return file.unread
    if file.submodule:
        return "a submodule: its commits are in another repository"
    if _is_binary(file) or (file.binary and not file.hunks):
        return "a binary file"
    if file.state == "removed":
        return _REMOVED
    if not file.hunks:
        if file.state in ("renamed", "copied"):
            return f"{file.state} without a change"
        if file.modes is not None:
            return f"only its mode changed, from {file.modes[0]} to {file.modes[1]}"
        return "an empty file" if file.state == "added" else "nothing in it changed"
    return None if generated or is_new_name(file) else _why_by_name(file.path)


def is_new_name(file: FileDiff) -> bool:
    """Return whether the change itself gives a file a name that is left out: it must not take itself out so."""
    if file.state not in ("added", "renamed", "copied") or _why_by_name(file.path) is None:
        return False
    had_such_a_name = file.old_path is not None and _why_by_name(file.old_path) is not None
    return not had_such_a_name and not (file.in_known_folder and vendored_folder(file.path))


def vendored_folder(path: str) -> str | None:
    """The folder of others' code in which a path lies."""
    found = _VENDORED.search(path)
    return path[: found.end() - 1] if found is not None else None


def _why_by_name(path: str) -> str | None:
    name = path.rpartition("/")[2]
    if name in _LOCK_FILES:
        return "a lock file, which a program writes"
    if _VENDORED.search(path):
        return "vendored: it is in a folder of third-party code"
    return "a generated file" if _GENERATED.search(name) else None


def _is_binary(file: FileDiff) -> bool:
    """Return whether a file is no text: it holds a NUL and many control characters. What runs or compiles always is."""
    name, bodies = file.path.rpartition("/")[2].lower(), [hunk.body for hunk in file.hunks]
    starts = bodies and file.hunks[0].new_start == 1 and re.search(rb"^[+ ](?:\xef\xbb\xbf)?#!", bodies[0][:100])
    if starts or name in _BUILD_FILES or name.rpartition(".")[2] in _SOURCES:
        return False
    return any(b"\0" in body and len(body) - len(body.translate(None, _CONTROLS)) > len(body) // 20 for body in bodies)


class Piece(Record, kw_only=True):
    """A hunk in a chunk, or the part of one in `hunk`; `number` is the whole hunk's place in the plan's list."""

    number: int
    file: FileDiff
    hunk: Hunk
    tokens: int

    @property
    def lines(self) -> tuple[HunkLine, ...]:
        return lines_of(self.hunk)


class DiffChunk(Record):
    """The pieces of one request; `number` counts from 1."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def tokens(self) -> int:
        return _sum(self.pieces)

    def text(self) -> str:
        return "\n\n".join(
            "\n".join([hunk_heading(piece.file, piece.lines, piece.hunk), *(line.row for line in piece.lines)])
            for piece in self.pieces
        )


class ReviewPlan(Record, kw_only=True):
    """Every hunk of a change, in order, and the chunks. Hunks in no chunk have their final state."""

    hunks: tuple[HunkCoverage, ...]
    chunks: tuple[DiffChunk, ...]


def delimited(name: str, text: str) -> str:
    """Text from outside between two marks with its own hash, which nothing in it can contain."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f'<{name} id="{mark}">\n{text}\n</{name} id="{mark}">'


def planned(
    files: Sequence[FileDiff], *, window: int = WINDOW, most: int | None = None, generated: bool = False
) -> ReviewPlan:
    """The plan for a change and the model's window; the user may set a chunk's size, and include `generated` files."""
    whole, part = (min(size, max(1, window // 3)) for size in (WHOLE_TOKENS, CHUNK_TOKENS))
    reasons = [why_left_out(file, generated=generated) for file in files]
    sizes = [sum(map(_size, file.hunks)) for file in files]
    removed = [size if why == _REMOVED else 0 for size, why in zip(sizes, reasons, strict=True)]
    # A change that does nothing but remove is reviewed, if it fits one request.
    if all(reasons) and sum(removed) <= whole:
        reasons = [None if size else why for size, why in zip(removed, reasons, strict=True)]
    total = sum(size for size, why in zip(sizes, reasons, strict=True) if why is None)
    if most is None:
        most = whole if total <= whole else part
    hunks: list[HunkCoverage] = []
    pieces: list[Piece] = []
    for file, reason, size in zip(files, reasons, sizes, strict=True):
        is_hidden = reason is None and not generated and size > most and is_new_name(file)
        why = _NEW_NAME if is_hidden else reason
        state: HunkState = "failed" if why == _NEW_NAME else "skipped"
        entry = HunkCoverage(path=file.path, old_path=file.old_path, state=state, why=why or "")
        if why is not None and not file.hunks:
            hunks.append(entry)
        for hunk in file.hunks:
            own = entry.replace(**{name: getattr(hunk, name) for name in _COUNTS})
            if why is None:
                own = own.replace(state="failed" if hunk.body else "truncated", why=hunk.flaw or "it was not sent")
                parts = _parts(hunk, most) if hunk.body else ()
                pieces += [Piece(number=len(hunks), file=file, hunk=part, tokens=_size(part)) for part in parts]
            hunks.append(own)
    return ReviewPlan(hunks=tuple(hunks), chunks=tuple(_packed(pieces, most)))


def ended(entry: HunkCoverage, pieces: Sequence[Piece]) -> HunkCoverage:
    """The entry of a hunk after an answer to all of its pieces."""
    flaw = next((piece.hunk.flaw for piece in pieces if piece.hunk.flaw), "")
    for piece in pieces:
        # Whether a line may be too long is asked without decoding it.
        is_long = max(map(len, piece.hunk.body.split(b"\n"))) > LONGEST_LINE
        if not flaw and is_long and any(len(line.text) > LONGEST_LINE for line in piece.lines):
            flaw = f"it has lines of more than {LONGEST_LINE:,} characters; only the beginning was sent"
    return entry.replace(state="truncated" if flaw else "reviewed", why=flaw)


def _size(hunk: Hunk) -> int:
    """The estimate of a hunk's rows and heading."""
    length = _HEADING + sum(min(len(line), LONGEST_LINE) + _GUTTER for line in hunk.body.split(b"\n"))
    return -(-length // _CHARACTERS_PER_TOKEN)


def _parts(hunk: Hunk, most: int) -> Iterator[Hunk]:
    """Yield the hunk in parts that each fit a chunk, cut between lines."""
    if _size(hunk) <= most:
        yield hunk
        return
    old, new = hunk.old_start, max(hunk.new_start, 1)
    lines = hunk.body.split(b"\n")
    first, size = 0, _HEADING
    for place in range(len(lines) + 1):
        length = min(len(lines[place]), LONGEST_LINE) + _GUTTER if place < len(lines) else 0
        is_note = place < len(lines) and lines[place][:1] == b"\\"  # belongs to the line before
        if place < len(lines) and (place == first or is_note or size + length <= most * _CHARACTERS_PER_TOKEN):
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


def _packed(pieces: Sequence[Piece], most: int) -> Iterator[DiffChunk]:
    """The pieces in chunks as full as they get. A file and its test share one if they fit."""
    number, held = 1, list[Piece]()
    for group in _groups(pieces, most):
        if held and _sum(held) + _sum(group) > most:
            yield DiffChunk(number, tuple(held))
            number, held = number + 1, []
        held += group
    if held:
        yield DiffChunk(number, tuple(held))


def _sum(pieces: Iterable[Piece]) -> int:
    return sum(piece.tokens for piece in pieces)


def _groups(pieces: Sequence[Piece], most: int) -> Iterator[list[Piece]]:
    """Yield pieces that belong in one chunk, in the diff's order: a file with its test, a file, or single pieces."""

    def together(some: Iterable[Piece], name: Callable[[str], str]) -> Iterable[list[Piece]]:
        groups: dict[str, list[Piece]] = defaultdict(list)
        for piece in some:
            groups[name(piece.file.path)].append(piece)
        return groups.values()

    for group in together(pieces, _subject):
        if _sum(group) <= most:
            yield group
            continue
        for own in together(group, str):
            yield from [own] if _sum(own) <= most else ([piece] for piece in own)


def _subject(path: str) -> str:
    """The subject of a file: the same for `src/cart.py` and `tests/test_cart.py`."""
    name = path.rpartition("/")[2].lower()
    about = _TEST.sub("", name if name.startswith(".") else name.partition(".")[0])
    return about if about not in _EVERYWHERE else path


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
    def name(path: str) -> str:
        return json.dumps(with_codes(path), ensure_ascii=False)

    added, removed = sum(hunk.added for hunk in file.hunks), sum(hunk.removed for hunk in file.hunks)
    facts = [f"+{added} -{removed}"]
    if file.state != "changed":
        facts.append(file.state if file.old_path is None else f"{file.state} from {name(file.old_path)}")
    if file.modes is not None:
        facts.append(f"mode {file.modes[0]} to {file.modes[1]}")
    if file.submodule:
        ids = [row.split(" ")[-1][:12] for hunk in file.hunks for row in text_of_bytes(hunk.body).split("\n")]
        facts.append(f"submodule {'..'.join(ids)}")
    elif (why := why_left_out(file)) is not None and file.state != "removed" and file.modes is None:
        facts.append(f"not shown: {why}")
    return f"{name(file.path)} ({', '.join(facts)})"
