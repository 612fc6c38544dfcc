"""A finding's place: the lines that its quote names, and none other.

The quote is looked for letter by letter, then with blanks counted alike, then as a part of one line; what was shown
decides, since the model has seen nothing else. Where several places hold it, the line number that came with it
decides: that line, else the nearest one that was added, else the nearest. A quote that stands nowhere has no place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from codelet.record import Record
from codelet.review.findings import Finding, SetAside
from codelet.review.hunk_lines import HunkLine
from codelet.review.model_answers import Claim
from codelet.review.packing import DiffChunk, Piece
from codelet.safety.secrets import mask
from codelet.system.text import clean, one_line, valid_unicode, with_codes

NEIGHBOURS = 3
"""Lines on either side of a quote that a finding keeps."""

_LONGEST_TITLE = 160
_LEAST_PART = 6
_GUTTER = re.compile(r"^ {0,5}\d* ?[+ ] ?", re.MULTILINE)


class _Place(Record, kw_only=True):
    """Lines `first` to `last` (left out) of the new side of a piece."""

    piece: Piece
    side: Sequence[HunkLine]
    first: int
    last: int
    touched: bool

    @property
    def number(self) -> int:
        return self.side[self.first].number


def placed(claim: Claim, chunk: DiffChunk) -> tuple[Finding | None, SetAside | None]:
    """The finding on its lines, or what is reported of one without a place.

    One on lines that the change leaves as they were keeps its severity: a change can make them wrong.
    """
    names = files_named(claim.path, list(dict.fromkeys(piece.file.path for piece in chunk.pieces)))
    pieces = [piece for piece in chunk.pieces if piece.file.path in names]
    found = _places(claim.quote, pieces)
    if not found:
        return None, _misplaced(claim, _why_nowhere(claim, pieces))
    place = min(found, key=lambda each: (each.number != claim.line, not each.touched, abs(each.number - claim.line)))
    return _finding(claim, place), None


def files_named(path: str, names: Sequence[str]) -> list[str]:
    """The files that a model may mean, the likeliest first: as it is, as it was shown, with git's prefix, by its end.

    The end of a path names a file only if it is the end of no other one.
    """
    bare = path.strip('"').removeprefix("./")
    words = dict.fromkeys((path, bare, bare[2:] if bare[:2] in ("a/", "b/") else bare))
    found = [name for word in words for name in names if word in (name, with_codes(name))]
    ends = [name for name in names if bare and name.endswith(f"/{bare}")]
    return found or (ends if len(ends) == 1 else [])


def _places(quote: str, pieces: Sequence[Piece]) -> list[_Place]:
    """All places of the quote, by the first way of comparing that finds any."""
    text = quote.replace("\r\n", "\n").strip("\n")
    without_gutter = _GUTTER.sub("", text)
    for wanted in dict.fromkeys((text, without_gutter)):
        for form in (_exactly, _by_words):
            if found := [place for piece in pieces for place in _whole_lines(wanted, piece, form)]:
                return found
    return [place for piece in pieces for place in _parts_of_lines(text.strip(), piece)]


def _exactly(text: str) -> str:
    return text.rstrip("\r")


def _by_words(text: str) -> str:
    return " ".join(text.split())


def _whole_lines(quote: str, piece: Piece, form: Callable[[str], str]) -> Iterator[_Place]:
    wanted = [form(line) for line in quote.split("\n")]
    if not any(line.strip() for line in wanted):
        return
    side = _new_side(piece)
    shown = [form(line.shown) for line in side]
    for first in range(len(shown) - len(wanted) + 1):
        if shown[first] == wanted[0] and shown[first : first + len(wanted)] == wanted:
            yield _place(piece, side, first, first + len(wanted))


def _parts_of_lines(quote: str, piece: Piece) -> Iterator[_Place]:
    if "\n" in quote or len("".join(quote.split())) < _LEAST_PART:
        return
    side = _new_side(piece)
    for first, line in enumerate(side):
        if quote in line.shown:
            yield _place(piece, side, first, first + 1)


def _new_side(piece: Piece) -> list[HunkLine]:
    return [line for line in piece.lines if line.sign != "-"]


def _place(piece: Piece, side: Sequence[HunkLine], first: int, last: int) -> _Place:
    """The place; it is touched where one of its lines was added, or stands right beside removed ones."""
    numbers = {line.number for line in side[first:last]}
    # A removed line has the number of the line that follows it; at the end of a hunk, of a line that is not shown.
    removed = {line.number for line in piece.lines if line.sign == "-"}
    beside = removed | {number - 1 for number in removed}
    touched = any(line.sign == "+" for line in side[first:last]) or bool(numbers & beside)
    return _Place(piece=piece, side=side, first=first, last=last, touched=touched)


def _why_nowhere(claim: Claim, pieces: Sequence[Piece]) -> str:
    if not pieces:
        return "the file that it names is not in this part of the change"
    wanted = _by_words(claim.quote)
    removed = (_by_words(line.shown) for piece in pieces for line in piece.lines if line.sign == "-")
    if any(wanted == line for line in removed):
        return "it quotes a removed line"
    return "the quoted lines are not in this part of the change"


def _finding(claim: Claim, place: _Place) -> Finding:
    side, first, last = place.side, place.first, place.last
    lines = side[first:last]
    return Finding(
        rule=claim.rule,
        title=one_line(mask(claim.title, patterns=True), _LONGEST_TITLE),
        explanation=_prose(claim.explanation),
        severity=claim.severity,
        category=claim.category,
        confidence=claim.confidence,
        path=place.piece.file.path,
        line=lines[0].number,
        end_line=lines[-1].number,
        quote=_code("\n".join(line.text for line in lines)),
        before=tuple(_code(line.text) for line in side[max(0, first - NEIGHBOURS) : first]),
        after=tuple(_code(line.text) for line in side[last : last + NEIGHBOURS]),
        unchanged=not place.touched,
        suggestion=None if claim.replacement is None else _patch(place, claim.replacement),
    )


def _prose(text: str) -> str:
    """A model's text, clean and without secrets."""
    return clean(mask(valid_unicode(text), patterns=True)).strip()


def _code(text: str) -> str:
    """A line of the change, as it is but for secrets of this process."""
    return mask(valid_unicode(text))


def _patch(place: _Place, replacement: str) -> str | None:
    """A unified patch that puts other lines in the quote's place; None where they are the same."""
    side, first, last = place.side, place.first, place.last
    old = side[first:last]
    new = clean(valid_unicode(replacement)).removesuffix("\n").split("\n") if replacement else []
    if [line.text for line in old] == new:
        return None
    before, after = side[max(0, first - NEIGHBOURS) : first], side[last : last + NEIGHBOURS]
    rows = [_row(" ", line) for line in before] + [_row("-", line) for line in old]
    ending = next((line.ending for line in (*old, *before, *after) if not line.unended), "")
    for number, text in enumerate(new):
        unended = old[-1].unended and number == len(new) - 1
        rows.append(_row("+", old[0].replace(text=text, ending="" if unended else ending, unended=unended)))
    rows += [_row(" ", line) for line in after]
    start = (before or old)[0].number
    counts = len(before) + len(after)
    path = place.piece.file.path
    head = f"--- {_patch_name('a/', path)}\n+++ {_patch_name('b/', path)}\n"
    sizes = f"@@ -{start},{counts + len(old)} +{start if counts + len(new) else 0},{counts + len(new)} @@\n"
    return mask(head + sizes + "".join(rows))


def _row(sign: str, line: HunkLine) -> str:
    note = "\\ No newline at end of file\n" if line.unended else ""
    return f"{sign}{line.text}{line.ending}\n{note}"


def _patch_name(prefix: str, path: str) -> str:
    """A file's name as a patch spells it: in quotes where it holds what would end it."""
    name = prefix + path
    if not any(sign in name for sign in '"\\\n\t\r'):
        return name + ("\t" if " " in name else "")
    signs = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(signs.get(sign, sign) for sign in name) + '"'


def _misplaced(claim: Claim, why: str) -> SetAside:
    return SetAside(
        kind="misplaced",
        why=why,
        rule=claim.rule,
        title=one_line(mask(claim.title, patterns=True), _LONGEST_TITLE),
        severity=claim.severity,
        path=one_line(claim.path, _LONGEST_TITLE),
        explanation=_prose(claim.explanation),
        quote=clean(mask(valid_unicode(claim.quote), patterns=True)).strip("\n"),
    )
