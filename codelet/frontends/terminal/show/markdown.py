"""Renders Markdown block by block as it streams. A finished block is rendered once; the open one is plain text.

A block is text between blank lines, a list item, or some lines of code. Each is rendered by itself, as far in as it was
written. Each character is parsed once, so the work is linear.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.text import Text

from codelet.frontends.terminal.show.console import wrap
from codelet.frontends.terminal.show.highlight import NO_EDGE, highlight, lexer_of_fence
from codelet.frontends.terminal.show.markdown_blocks import block_rows, code_rows
from codelet.frontends.terminal.show.style import MARGIN, QUIET, TEXT_COLUMNS, Signs

if TYPE_CHECKING:
    from pygments.lexer import Lexer

BLOCK_LIMIT = 4_000
"""Longer running text is cut, so that an endless paragraph stays cheap."""

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([^`]*)$")
_ITEM = re.compile(r"([-*+]|(\d{1,9})[.)])(?:( +)(?=\S)|[ \t]*$)")
_NOT_TEXT = ("|", ">", "    ")
"""The first characters of tables, quotes, and indented code, which are never cut."""
_FEW_LINES, _MANY_LINES = 12, 200
"""Code is rendered in batches: this many lines before a line at the left edge, or at most the second number."""


def markdown_rows(source: str, width: int, signs: Signs) -> list[Text]:
    """Render a whole text."""
    stream = MarkdownStream(width, signs)
    return stream.feed(source) + stream.finish()


class MarkdownStream:
    """One text of the model. A changed `width` applies from the next block on."""

    def __init__(self, width: int, signs: Signs) -> None:
        self.width = width
        self._signs = signs
        self._partial = ""
        self._lines: list[str] = []  # the open block
        self._margin = 0  # its indentation
        self._gap = False  # it has a blank row above
        self._size = 0
        self._item = ""  # the kind of list whose item it is
        self._list = ""  # the kind of the outermost list
        self._list_margin = self._content = 0  # the indentation of that list, and of the last item's text
        self._is_begun = self._is_glued = self._blank_above = False
        self._fence = ""
        self._indent = 0  # the fence's
        self._lexer: Lexer | None = None
        self._due = _FEW_LINES

    def feed(self, delta: str) -> list[Text]:
        """Add text; return finished rows."""
        rows: list[Text] = []
        *lines, partial = (self._partial + delta).split("\n")
        for line in lines:
            found, rest = self._cut(line.removesuffix("\r"))
            rows += [*found, *self._take(rest)]
        found, self._partial = self._cut(partial)
        return rows + found

    def finish(self) -> list[Text]:
        """Return the remaining rows."""
        line, self._partial = self._partial.removesuffix("\r"), ""
        return (self._take(line) if line else []) + self._set()

    def tail(self, rows: int) -> list[Text]:
        """The last rows of the open block, as plain text."""
        lines = [*self._lines[-rows:], self._partial] if self._partial.strip() else self._lines[-rows:]
        margin = self._margin + (MARGIN if self._fence else 0)
        room = max((self.width if self._fence else min(self.width, TEXT_COLUMNS)) - margin, 1)
        found = [
            Text(" " * margin + row.plain)
            for line in lines
            for row in wrap(Text(line[-rows * self.width :].expandtabs(4)), room)
        ][-rows:]
        gap = self._gap if self._lines else self._needs_gap(0, "")
        return [Text(), *found] if found and gap and not self._fence and len(found) < rows else found

    def _cut(self, line: str) -> tuple[list[Text], str]:
        """Render an overlong line except its last words."""
        rows: list[Text] = []
        while len(line) > BLOCK_LIMIT and not self._fence and not line.startswith(_NOT_TEXT):
            cut = line.rfind(" ", 1, BLOCK_LIMIT)
            cut = cut if cut > 0 else BLOCK_LIMIT
            rows += [*self._take(line[:cut]), *self._set()]
            self._is_glued, line = True, line[cut:].lstrip()
        return rows, line

    def _take(self, line: str) -> list[Text]:
        """Add a line. Block ends depend on lines alone, never on how the text was split."""
        if self._fence:
            return self._take_code(line)
        text = line.lstrip()
        if not text:
            rows, self._blank_above = self._set(), True
            return rows
        indent = len(line[: len(line) - len(text)].expandtabs(4))
        if fence := _FENCE.match(text):
            return self._open_code(fence, indent)
        rows = []
        if (item := _ITEM.match(text)) and self._may_begin(item, indent):
            rows = self._set()
            self._open_item(item, indent)
        elif not self._lines or ("|" not in text if self._lines[0][0] == "|" else text[0] == "|"):
            rows = self._set()  # a table needs no blank line around it
            self._open(min(indent, self._content), self._needs_gap(min(indent, self._content), ""))
        self._lines.append(" " * max(indent - self._margin, 0) + text)
        self._size += len(text)
        if item and (fence := _FENCE.match(text, item.end())) and len(self._lines) == 1:
            self._lines = [item[1]]
            return [*rows, *self._open_code(fence, self._content)]
        if self._size > BLOCK_LIMIT and not self._lines[0].startswith(_NOT_TEXT) and "|" not in text:
            rows += self._set()
            self._is_glued = True
        return rows

    def _may_begin(self, item: re.Match[str], indent: int) -> bool:
        """Return whether a list item begins. In a paragraph only a bullet or the number 1 starts a list."""
        if indent >= self._content + 4 or self._is_glued:
            return False
        is_in_list = bool(self._item or self._margin)
        return not self._lines or is_in_list or (item[3] is not None and item[2] in (None, "1"))

    def _open(self, margin: int, gap: bool, item: str = "") -> None:
        self._margin, self._gap, self._item, self._size = margin, gap, item, 0
        self._is_begun, self._is_glued, self._blank_above = True, False, False
        if not margin and not item:
            self._content = 0  # the list is over

    def _needs_gap(self, margin: int, item: str) -> bool:
        """Return whether a blank row is above a block: not inside a list, nor between its items."""
        inside = self._content and (margin > self._list_margin or item == self._list)
        return self._is_begun and self._blank_above and not self._is_glued and not inside

    def _open_item(self, item: re.Match[str], indent: int) -> None:
        kind = "1" if item[2] else item[1]
        self._open(indent, self._needs_gap(indent, kind), kind)
        if not self._content or indent <= self._list_margin:
            self._list, self._list_margin = kind, indent
        self._content = indent + len(item[1]) + (len(item[3]) if item[3] and len(item[3]) <= 4 else 1)

    def _open_code(self, fence: re.Match[str], indent: int) -> list[Text]:
        rows = self._set()
        margin = min(indent, self._content)
        self._open(margin, self._is_begun and not margin)
        self._fence, self._due, self._indent = fence[1], _FEW_LINES, indent
        self._lexer, info = lexer_of_fence(fence[2].strip())
        rows += [Text()] if self._gap else []
        return rows + (wrap(Text(info, QUIET), self.width) if info else [])

    def _take_code(self, line: str) -> list[Text]:
        stripped = line.strip()
        if stripped.startswith(self._fence) and not stripped.strip(self._fence[0]):
            rows, self._fence, self._blank_above = self._set(), "", not self._margin
            return rows
        rows = []
        count = len(self._lines)
        if count >= _MANY_LINES or (count >= self._due and line[:1] not in NO_EDGE):
            code, is_inside = highlight(self._lexer, self._lines)
            if is_inside and count < _MANY_LINES:
                self._due = count * 2  # a batch that ended here would not colour the next one right
            else:
                rows, self._lines, self._due = code_rows(code, self.width, self._margin + MARGIN), [], _FEW_LINES
        self._lines.append(line[min(self._indent, len(line) - len(line.lstrip(" "))) :])
        return rows

    def _set(self) -> list[Text]:
        """Render the open block."""
        lines, self._lines = self._lines, []
        if not lines:
            return []
        if self._fence:
            return code_rows(highlight(self._lexer, lines)[0], self.width, self._margin + MARGIN)
        margin = " " * self._margin
        found = block_rows("\n".join(lines), self.width - self._margin, self._signs)
        return [*([Text()] if self._gap else []), *(Text.assemble(margin, row) if margin else row for row in found)]
