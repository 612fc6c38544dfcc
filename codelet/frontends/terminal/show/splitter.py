"""Cuts streamed Markdown into pieces that can be shown as soon as they are finished.

A piece is what no later line can change: a paragraph, a heading, one list item, a table, a quote, one line
of a code fence. Each line is looked at once, so the work grows with the text and no faster. What stands
inside a piece is markdown-it's business (see `markdown.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

PieceKind = Literal["text", "more", "item", "heading", "table", "quote", "rule", "fence", "code", "fence_end"]
"""`more` is running text that goes on after an overlong piece was cut."""

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^`]*)$")
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_RULE = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$")
_ITEM = re.compile(r"[ \t]*([-*+]|(\d{1,9})[.)])(?:[ \t]+\S|[ \t]*$)")
_MARKER = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_UNDERLINE = re.compile(r"[ \t]*=+[ \t]*$")
_DELIMITERS = re.compile(r"[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*$")
_MAYBE_UNDER = re.compile(r"[ \t|:=-]*$")
"""The beginning of a line that may turn the line above it into a heading or the head of a table."""

PIECE_LIMIT = 2_000
"""Characters after which running text is cut, so that one endless paragraph stays cheap."""

_DECIDED = 12
"""Characters of a line that settle what it is: no fence, rule or heading can hide behind more."""


@dataclass(frozen=True)
class MarkdownPiece:
    """One finished piece. `margin` is the column where it begins; `gap` means that a blank line precedes it."""

    kind: PieceKind
    source: str
    margin: int = 0
    gap: bool = False


class Splitter:
    """Takes one line after the other and returns the pieces that each one finishes.

    `one_row(line, margin)` says whether a line of running text takes one row only. Only then may the line below
    it make it a heading or the head of a table: of a longer one, rows may have been shown as running text.
    """

    def __init__(self, one_row: Callable[[str, int], bool]) -> None:
        self._one_row = one_row
        self._kind: PieceKind | None = None
        self._lines: list[str] = []
        self._size = 0
        self._margin = 0
        self._gap = False
        self._blank = False
        self._in_list = False
        self._begun = False
        self._fence: str | None = None
        self._fence_margin = 0

    @property
    def in_fence(self) -> bool:
        """Whether the next line belongs to a code fence."""
        return self._fence is not None

    @property
    def after_blank(self) -> bool:
        """Whether nothing is open and a blank line came last."""
        return self._kind is None and self._blank

    def open(self, partial: str) -> MarkdownPiece | None:
        """The piece that is still open, with `partial`, the line that has not ended yet, if it surely belongs to it."""
        if self._kind is None:
            return None
        lines = self._lines
        if partial.strip() and self.takes(partial):
            lines = [*lines, self._dedented(partial)]
        return MarkdownPiece(self._kind, "\n".join(lines), self._margin, self._gap)

    def begin(self, partial: str) -> list[MarkdownPiece]:
        """Look at a line that has not ended yet: open its piece once its kind cannot change any more."""
        if self._fence is not None or self._begun or not self._decided(partial):
            return []
        kind = self._kind_of(partial)
        if kind not in ("text", "item", "quote") or self._continues(kind, partial):
            return []
        done = self._start(kind, partial, keep=False)
        self._begun = True
        return done

    def cut_line(self) -> list[MarkdownPiece]:
        """The last line was cut: the next one goes on with the open piece, whatever it looks like."""
        done = self._cut() if self._kind not in (None, "table") else []
        self._begun = self._kind is not None
        return done

    def feed(self, line: str) -> list[MarkdownPiece]:
        """Take one line without its line end."""
        if self._fence is not None:
            return self._feed_fence(line)
        if self._begun:
            self._begun = False
            return self._append(line)
        if not line.strip():
            done = self.finish()
            self._blank = True
            return done
        if fence := _FENCE.match(line):
            indent = _indent(line)
            if indent <= 3 or self._in_list:
                return self._open_fence(fence, indent)
        return self._feed_text(line)

    def finish(self) -> list[MarkdownPiece]:
        """End the open piece."""
        if self._kind is None:
            return []
        pieces = [MarkdownPiece(self._kind, "\n".join(self._lines), self._margin, self._gap)] if self._lines else []
        self._kind, self._lines, self._size, self._begun = None, [], 0, False
        return pieces

    def _feed_text(self, line: str) -> list[MarkdownPiece]:
        kind = self._kind_of(line)
        if kind == "item" and (marker := _MARKER.match(line)) and (fence := _FENCE.match(line, marker.end())):
            done = self._start("item", line[: marker.end()].rstrip())
            return done + self._open_fence(fence, _columns(marker[0]))
        if kind in ("heading", "rule"):
            done = self._start(kind, line)
            return done + self.finish()
        if kind == "text" and (above := self._made_by(line)):
            self._kind = above
            self._append(line)
            return self.finish() if above == "heading" else []
        return self._append(line) if self._continues(kind, line) else self._start(kind, line)

    def _made_by(self, line: str) -> PieceKind | None:
        """What this line makes of the only line above it, if that takes one row."""
        if self._kind != "text" or len(self._lines) != 1:
            return None
        above: PieceKind | None = "heading" if _UNDERLINE.match(line) else None
        if "|" in self._lines[0] and _DELIMITERS.match(line):
            above = "table"
        return above if above and self._one_row(self._lines[0], self._margin) else None

    def _append(self, line: str) -> list[MarkdownPiece]:
        self._lines.append(self._dedented(line))
        self._size += len(line)
        return self._cut() if self._size > PIECE_LIMIT and self._kind != "table" else []

    def _decided(self, partial: str) -> bool:
        """Whether the rest of this line can not make it something else than what it looks like."""
        if len(partial.strip()) < _DECIDED or _FENCE.match(partial) or _MAYBE_UNDER.match(partial):
            return False
        marker = _MARKER.match(partial)
        return not (marker and _FENCE.match(partial, marker.end()))

    def takes(self, partial: str) -> bool:
        """Whether the line that has not ended yet is sure to belong to the open piece."""
        if self._begun:
            return True
        if not self._decided(partial):
            return False
        kind = self._kind_of(partial)
        return kind not in ("heading", "rule") and self._continues(kind, partial)

    def _kind_of(self, line: str) -> PieceKind:
        indent = _indent(line)
        if indent <= 3 or self._in_list:
            if _RULE.match(line):
                return "rule"
            if _HEADING.match(line):
                return "heading"
            if _ITEM.match(line):
                return "item"
            if line.lstrip().startswith(">"):
                return "quote"
        return "table" if line.lstrip().startswith("|") else "text"

    def _continues(self, kind: PieceKind, line: str) -> bool:
        """Whether the line goes on with the open piece."""
        if self._kind is None:
            return False
        if kind == "item":
            number = _ITEM.match(line)
            interrupts = number is None or number[2] in (None, "1") or self._in_list
            return not interrupts
        if kind == "quote":
            return self._kind == "quote"
        if kind == "table":
            return self._kind in ("table", "quote") or self._is_item_of_table()
        return True

    def _is_item_of_table(self) -> bool:
        """Whether the open piece is a list item that begins with a row of a table."""
        marker = _MARKER.match(self._lines[0]) if self._kind == "item" and self._lines else None
        return marker is not None and self._lines[0].startswith("|", marker.end())

    def _start(self, kind: PieceKind, line: str, *, keep: bool = True) -> list[MarkdownPiece]:
        done = self.finish()
        indent = _indent(line)
        if kind == "item":
            self._in_list = True
        elif indent < 2:
            self._in_list = False
        self._kind = kind
        self._margin = indent if self._in_list else 0
        self._gap, self._blank = self._blank, False
        self._lines = [self._dedented(line)] if keep else []
        self._size = len(line) if keep else 0
        return done

    def _cut(self) -> list[MarkdownPiece]:
        """End an overlong piece; what follows goes on as text at the same margin."""
        margin, listed = self._margin, self._kind == "item"
        done = self.finish()
        self._kind, self._margin, self._gap = "more", margin + 2 if listed else margin, False
        return done

    def _open_fence(self, fence: re.Match[str], indent: int) -> list[MarkdownPiece]:
        done = self.finish()
        if indent < 2:
            self._in_list = False
        self._fence = fence[1]
        self._fence_margin = indent if self._in_list else 0
        piece = MarkdownPiece("fence", fence[2].strip(), self._fence_margin, self._blank)
        self._blank = False
        return [*done, piece]

    def _feed_fence(self, line: str) -> list[MarkdownPiece]:
        assert self._fence is not None
        stripped = line.strip()
        if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
            self._fence = None
            return [MarkdownPiece("fence_end", "", self._fence_margin)]
        return [MarkdownPiece("code", _without_indent(line, self._fence_margin), self._fence_margin)]

    def _dedented(self, line: str) -> str:
        return _without_indent(line, self._margin)


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip(" "))


def _columns(text: str) -> int:
    return len(text.expandtabs(4))


def _without_indent(line: str, columns: int) -> str:
    """The line with at most `columns` columns of leading space taken away."""
    if not columns or not line[:1].isspace():
        return line
    expanded = line.expandtabs(4)
    return expanded[min(columns, len(expanded) - len(expanded.lstrip(" "))) :]
