"""Turns streamed Markdown into rows: each row is given out once, as soon as nothing can change it.

Of the open piece, rows that are full and whose marks are closed count as finished; the rest is the `tail`,
which the live area shows. The work is bounded by a constant per character, whatever the length of the text.
"""

from __future__ import annotations

import re

from rich.text import Text

from codelet.frontends.render.code import Highlighter
from codelet.frontends.render.markdown import set_markdown
from codelet.frontends.render.splitter import PIECE_LIMIT, Kind, Piece, Splitter
from codelet.frontends.render.style import MARGIN, Signs
from codelet.frontends.render.wrap import wrap

_UNSETTLED = re.compile(r"[`\[]|~~|\*(?!\s)|(?<![^\W_])_(?!\s)")
"""Signs that a mark has been opened and not closed: its row may still change."""


class MarkdownStream:
    """One stretch of the model's text. `width` may be changed; it holds from the next piece on."""

    def __init__(self, width: int, signs: Signs) -> None:
        self.width = width
        self._signs = signs
        self._splitter = Splitter()
        self._partial: list[str] = []
        self._partial_size = 0
        self._unlooked = 0
        self._given = 0
        self._piece_width = width
        self._patience = width // 2
        self._last: Kind | None = None
        self._last_marker: bool | None = None
        self._last_margin = 0
        self._code: Highlighter | None = None
        self.work = 0
        """Characters given to the parsers so far: what the cost is made of."""

    def feed(self, delta: str) -> list[Text]:
        """Take the next characters; the rows that are finished now."""
        rows: list[Text] = []
        *lines, rest = delta.split("\n")
        for line in lines:
            self._partial.append(line)
            rows.extend(self._line("".join(self._partial)))
            self._partial, self._partial_size, self._unlooked = [], 0, 0
        self._partial.append(rest)
        self._partial_size += len(rest)
        self._unlooked += len(rest)
        if self._unlooked >= self._patience and not self._splitter.in_fence:
            found = self._look()
            # A paragraph with an open mark gives nothing for a while: look less often.
            self._patience = self._piece_width // 2 if found else min(2 * self._patience, PIECE_LIMIT // 4)
            rows.extend(found)
        return rows

    def finish(self) -> list[Text]:
        """The text is complete: the rows that are left."""
        rows: list[Text] = []
        if self._partial_size:
            rows.extend(self._line("".join(self._partial)))
        self._partial, self._partial_size = [], 0
        return rows + self._set_all(self._splitter.finish())

    def tail(self, rows: int) -> list[Text]:
        """The last `rows` rows of what is not finished yet."""
        partial = "".join(self._partial)
        if self._splitter.in_fence:
            return [Text(" " * MARGIN + partial[-self.width :])] if partial else []
        piece = self._splitter.open(partial)
        if piece is None:
            return wrap(Text(partial[-rows * self.width :]), self.width)[-rows:] if partial.strip() else []
        if piece.kind == "table":
            return [Text(line[: self.width]) for line in piece.source.split("\n")[-rows:]]
        open_rows = self._rows(piece)[self._given :]
        if self._given == 0 and piece.gap and self._last is not None:
            open_rows = [Text(), *open_rows]
        return open_rows[-rows:]

    def _line(self, line: str) -> list[Text]:
        rows: list[Text] = []
        while len(line) > PIECE_LIMIT and not self._splitter.in_fence and not line.lstrip().startswith("|"):
            cut = line.rfind(" ", 1, PIECE_LIMIT)
            cut = cut if cut > 0 else PIECE_LIMIT
            rows.extend(self._set_all(self._splitter.feed(line[:cut])))
            line = line[cut:].lstrip(" ")
        return rows + self._set_all(self._splitter.feed(line))

    def _look(self) -> list[Text]:
        """Look at the line that has not ended yet: its full rows may be finished."""
        self._unlooked = 0
        partial = "".join(self._partial)
        self._partial = [partial]
        rows = self._set_all(self._splitter.begin(partial))
        if self._partial_size > PIECE_LIMIT and self._splitter.open("") is not None:
            rows.extend(self._line(partial))
            self._partial, self._partial_size = [], 0
            return rows
        piece = self._splitter.open(partial)
        if piece is None or piece.kind not in ("text", "item", "quote"):
            return rows
        done = self._rows(piece)[self._given : -1]
        for number, row in enumerate(done):
            if _UNSETTLED.search(row.plain):
                done = done[:number]
                break
        if done:
            rows.extend(self._gap(piece) if self._given == 0 else [])
            self._given += len(done)
            rows.extend(done)
        return rows

    def _set_all(self, pieces: list[Piece]) -> list[Text]:
        rows: list[Text] = []
        code: list[str] = []
        for piece in pieces:
            if piece.kind == "code":
                code.append(piece.source)
            else:
                rows.extend(self._set(piece))
        return rows + (self._code_rows(code, pieces[-1].margin) if code else [])

    def _set(self, piece: Piece) -> list[Text]:
        """The rows of a finished piece that have not been given out yet."""
        match piece.kind:
            case "fence":
                self._code = Highlighter(piece.source)
                return self._gap(piece)
            case "fence_end":
                self._code = None
                return []
        rows = self._gap(piece) if self._given == 0 else []
        rows.extend(self._rows(piece)[self._given :])
        self._given = 0
        self._piece_width = self.width
        self._patience = self.width // 2
        return rows

    def _code_rows(self, source: list[str], margin: int) -> list[Text]:
        self._code = self._code or Highlighter("")
        before = self._code.work
        rows = self._code.lines(source)
        self.work += max(self._code.work - before, sum(map(len, source)))
        indent = " " * (margin + MARGIN)
        return [Text.assemble(indent, row) if row.plain.strip() else Text() for row in rows]

    def _rows(self, piece: Piece) -> list[Text]:
        self.work += len(piece.source)
        width = max(self._piece_width - piece.margin, 10)
        rows = set_markdown(piece.source, width, self._signs, plain=self._given > 0)
        return [Text.assemble(" " * piece.margin, row) for row in rows] if piece.margin else rows

    def _gap(self, piece: Piece) -> list[Text]:
        """The blank row between the last piece and this one, where there is to be one."""
        last, self._last = self._last, "code" if piece.kind == "fence" else piece.kind
        marker = piece.source[:1].isdigit() if piece.kind == "item" else None
        other_list = marker is not self._last_marker and not piece.margin
        if not piece.margin:
            self._last_marker = marker
        if last is None or last == "heading":
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
