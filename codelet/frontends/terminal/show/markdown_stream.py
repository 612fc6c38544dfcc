"""Turns streamed Markdown into rows: each row is returned once, as soon as nothing can change it.

Of the open piece, rows that are full and whose marks are closed count as finished; the rest is the `tail`,
which the live area shows. The work is bounded by a constant per character, whatever the length of the text.
"""

from __future__ import annotations

from rich.text import Text

from codelet.frontends.terminal.show.console import hanging, wrap
from codelet.frontends.terminal.show.highlight import Highlighter, fence_info
from codelet.frontends.terminal.show.markdown import Grammar, markdown_rows, settled_rows
from codelet.frontends.terminal.show.splitter import PIECE_LIMIT, MarkdownPiece, PieceKind, Splitter
from codelet.frontends.terminal.show.style import MARGIN, QUIET, TAB_COLUMNS, Signs


class MarkdownStream:
    """One stretch of the model's text. `width` may be changed; it holds from the next piece on."""

    def __init__(self, width: int, signs: Signs) -> None:
        self.width = width
        self._signs = signs
        self._splitter = Splitter(self._takes_one_row)
        self._partial: list[str] = []
        self._partial_size = 0
        self._uncut = False
        self._unlooked = 0
        self._given = 0
        self._piece_width = width
        self._patience = width // 2
        self._last: PieceKind | None = None
        self._last_marker: bool | None = None
        self._last_margin = 0
        self._code: Highlighter | None = None
        self._waiting: list[str] = []
        self._waiting_margin = 0
        self.work = 0
        """Characters that the parsers have read so far, which is the cost."""

    def feed(self, delta: str) -> list[Text]:
        """Take the next characters; the rows that are finished now."""
        rows: list[Text] = []
        *lines, rest = delta.split("\n")
        for line in lines:
            rows.extend(self._grow(line))
            rows.extend(self._end_line())
        rows.extend(self._grow(rest))
        rows.extend(self._code_rows())
        self._unlooked += len(rest)
        if self._unlooked >= self._patience and not self._splitter.in_fence and not self._uncut:
            found = self._look()
            # A paragraph with an open mark gives nothing for a while: look less often.
            self._patience = self._piece_width // 2 if found else min(2 * self._patience, PIECE_LIMIT // 4)
            rows.extend(found)
        return rows

    def finish(self) -> list[Text]:
        """The text is complete: the rows that are left."""
        rows = self._end_line() if self._partial_size else []
        return [*rows, *self._set_all(self._splitter.finish()), *self._code_rows()]

    def tail(self, rows: int) -> list[Text]:
        """The last `rows` rows of what is not finished yet."""
        partial = "".join(self._partial)
        if self._splitter.in_fence:
            return [Text(" " * MARGIN + partial[-self.width :])] if partial else []
        piece = self._splitter.open(partial)
        included = not partial.strip() or self._splitter.takes(partial)
        rest = [] if included else wrap(Text(partial[-rows * self.width :]), self.width)
        if piece is None:
            apart = self._splitter.after_blank and self._last is not None
            return ([Text(), *rest] if apart and partial.lstrip()[:1].isalpha() else rest)[-rows:]
        if piece.kind == "table":
            open_rows = [Text(line[: self.width]) for line in piece.source.split("\n")[-rows:]]
        else:
            open_rows = self._rows(piece)[self._given :]
        if self._given == 0 and piece.gap and self._last is not None:
            open_rows = [Text(), *open_rows]
        return [*open_rows, *rest][-rows:]

    def _end_line(self) -> list[Text]:
        line = "".join(self._partial).removesuffix("\r")
        self._partial, self._partial_size, self._unlooked, self._uncut = [], 0, 0, False
        return self._set_all(self._splitter.feed(line))

    def _grow(self, part: str) -> list[Text]:
        """Add to the line that has not ended yet. Where it is cut hangs on its length alone, not on how it came."""
        self._partial.append(part)
        self._partial_size += len(part)
        if self._partial_size <= PIECE_LIMIT or self._uncut:
            return []
        rows: list[Text] = []
        line = "".join(self._partial)
        while len(line) > PIECE_LIMIT:
            self._uncut = self._splitter.in_fence or line.lstrip().startswith("|")
            if self._uncut:
                break
            cut = line.rfind(" ", 1, PIECE_LIMIT)
            cut = cut if cut > 0 else PIECE_LIMIT
            rows.extend(self._set_all(self._splitter.feed(line[:cut])))
            rows.extend(self._set_all(self._splitter.cut_line()))
            line = line[cut:]
        self._partial, self._partial_size = [line], len(line)
        return rows

    def _look(self) -> list[Text]:
        """Look at the line that has not ended yet: its first rows may be finished."""
        self._unlooked = 0
        partial = "".join(self._partial)
        self._partial = [partial]
        rows = self._set_all(self._splitter.begin(partial))
        piece = self._splitter.open(partial)
        if piece is None or piece.kind not in ("text", "more", "item", "quote"):
            return rows
        done = self._rows(piece, settled=True)[self._given :]
        if done:
            rows.extend(self._gap(piece) if self._given == 0 else [])
            self._given += len(done)
            rows.extend(done)
        return rows

    def _set_all(self, pieces: list[MarkdownPiece]) -> list[Text]:
        """The rows of finished pieces; lines of code wait, so that those that came together are coloured together."""
        rows: list[Text] = []
        for piece in pieces:
            if piece.kind == "code":
                self._waiting.append(piece.source)
                self._waiting_margin = piece.margin
            else:
                rows.extend(self._code_rows())
                rows.extend(self._set(piece))
        return rows

    def _set(self, piece: MarkdownPiece) -> list[Text]:
        """The rows of a finished piece that were not returned yet."""
        match piece.kind:
            case "fence":
                self._code = Highlighter(piece.source)
                told = wrap(Text(fence_info(piece.source), QUIET), self.width) if fence_info(piece.source) else []
                return [*self._gap(piece), *told]
            case "fence_end":
                self._code = None
                return []
        rows = self._gap(piece) if self._given == 0 else []
        rows.extend(self._rows(piece)[self._given :])
        self._given = 0
        self._piece_width = self.width
        self._patience = self.width // 2
        return rows

    def _code_rows(self) -> list[Text]:
        """The rows of the lines of code that wait."""
        if not self._waiting:
            return []
        source, self._waiting = self._waiting, []
        self._code = self._code or Highlighter("")
        before = self._code.work
        rows = self._code.lines(source)
        self.work += max(self._code.work - before, sum(map(len, source)))
        indent = self._waiting_margin + MARGIN
        return [set_row for row in rows for set_row in _code_rows(row, indent, self.width)]

    def _rows(self, piece: MarkdownPiece, *, settled: bool = False) -> list[Text]:
        """The rows of a piece as it stands, or those of them that are final while it goes on."""
        self.work += len(piece.source)
        width = self._piece_width - piece.margin
        rows = (settled_rows if settled else markdown_rows)(piece.source, width, self._signs, _grammar(piece))
        return [Text.assemble(" " * piece.margin, row) for row in rows] if piece.margin else rows

    def _takes_one_row(self, line: str, margin: int) -> bool:
        return len(markdown_rows(line, self._piece_width - margin, self._signs, "paragraph")) == 1

    def _gap(self, piece: MarkdownPiece) -> list[Text]:
        """The blank row between the last piece and this one, or nothing."""
        if piece.kind == "more":
            return []
        last, self._last = self._last, "code" if piece.kind == "fence" else piece.kind
        marker = piece.source[:1].isdigit() if piece.kind == "item" else None
        other_list = marker is not self._last_marker and not piece.margin
        if not piece.margin:
            self._last_marker = marker
        if last is None or (last == "heading" and not piece.gap):
            return []
        if last == "item" and piece.kind == "item" and not (other_list and piece.gap):
            return []
        nested, self._last_margin = self._last_margin > 0, piece.margin
        inside_list = piece.margin > 0 or (piece.kind == "item" and last == "code" and nested)
        if inside_list and last in ("item", "code", "text"):
            return []
        if {"code", "table", "heading"} & {last, self._last}:
            return [Text()]
        return [Text()] if piece.gap else []


def _code_rows(line: Text, indent: int, width: int) -> list[Text]:
    """A line of code behind so many blanks; a longer one in several rows."""
    if not line.plain.strip():
        return [Text()]
    if "\t" in line.plain:
        line.expand_tabs(TAB_COLUMNS)
    rows = hanging(line, max(width - indent, MARGIN))
    for row in rows:
        row.pad_left(indent)
    return rows


def _grammar(piece: MarkdownPiece) -> Grammar:
    match piece.kind:
        case "text" if not piece.source.expandtabs(4).startswith("    "):
            return "paragraph"
        case "more":
            return "paragraph"
        case "text" | "item" | "quote":
            return "blocks"
        case _:
            return "all"
