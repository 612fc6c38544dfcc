"""Renders streamed Markdown block by block; the open block is plain text.

A block is text between blank lines, a list item, or some lines of code. Each character is parsed once, so the work is
linear.
"""

from __future__ import annotations

import re
from typing import Literal

from rich.text import Text

from codelet.frontends.terminal.show.console import wrap
from codelet.frontends.terminal.show.highlight import Highlighter, fence_info
from codelet.frontends.terminal.show.markdown import code_rows, markdown_rows
from codelet.frontends.terminal.show.style import MARGIN, QUIET, TEXT_COLUMNS, Signs

BLOCK_LIMIT = 4_000
"""Longer running text is cut, so that an endless paragraph stays cheap."""

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([^`]*)$")
_ITEM = re.compile(r" {0,3}([-*+]|(\d{1,9})[.)])(?:([ \t]+)\S|[ \t]*$)")
_NOT_TEXT = ("|", ">", "    ", "\t")
"""The first characters of tables, quotes, and indented code, which are never cut."""
_FEW_LINES, _MANY_LINES = 12, 24
"""Code is rendered in batches: this many lines before a line at the left edge, or at most the second number."""

_Kind = Literal["text", "more", "item", "code"]
"""`more` is text after a cut."""


class MarkdownStream:
    """One text of the model. A changed `width` applies from the next block on."""

    def __init__(self, width: int, signs: Signs) -> None:
        self.width = width
        self._signs = signs
        self._partial: list[str] = []
        self._partial_size = 0
        self._kind: _Kind = "text"
        self._lines: list[str] = []
        self._size = 0
        self._last: _Kind | None = None
        self._marker = self._last_marker = ""
        self._margin = self._indent = self._shift = 0
        self._blank = self._gap = False
        self._fence = ""
        self._code: Highlighter | None = None

    def feed(self, delta: str) -> list[Text]:
        """Add text; return finished rows."""
        rows: list[Text] = []
        first, *others = delta.split("\n")
        self._grow(first)
        for line in others:
            rows += self._take("".join(self._partial).removesuffix("\r"))
            self._partial, self._partial_size = [], 0
            self._grow(line)
        if self._partial_size > BLOCK_LIMIT and self._is_cuttable():
            rows += self._cut("".join(self._partial))
        return rows

    def finish(self) -> list[Text]:
        """Return the remaining rows."""
        rows = self._take("".join(self._partial).removesuffix("\r")) if self._partial_size else []
        self._partial, self._partial_size = [], 0
        return rows + self._set()

    def tail(self, rows: int) -> list[Text]:
        """The last rows of the open block, as plain text."""
        partial = "".join(self._partial[-rows * self.width :])
        lines = [*self._lines[-rows:], partial] if partial.strip() else self._lines[-rows:]
        room = self.width if self._kind == "code" else min(self.width, TEXT_COLUMNS)
        margin = " " * MARGIN if self._kind == "code" else ""
        found = [
            Text(margin + row.plain)
            for line in lines
            for row in wrap(Text(line[-rows * self.width :].expandtabs(4)), room - len(margin))
        ][-rows:]
        apart = self._kind != "code" and self._last is not None and self._needs_gap() and len(found) < rows
        return [Text(), *found] if found and apart else found

    def _grow(self, part: str) -> None:
        self._partial.append(part)
        self._partial_size += len(part)

    def _take(self, line: str) -> list[Text]:
        """Add a line. Block ends depend on lines alone, never on how the text was split."""
        if len(line) > BLOCK_LIMIT and self._is_cuttable(line):
            rows = self._cut(line)
            return [*rows, *self._take("".join(self._partial))]
        if self._kind == "code":
            return self._take_code(line)
        if self._fence:
            self._add(line if _indent(line) >= self._indent else " " * self._indent + line.lstrip())
            if _closes(line, self._fence):
                self._fence = ""
            return []
        if not line.strip():
            self._blank = True
            if self._kind == "item":
                self._lines.append("")
                return []
            rows = self._set()
            self._kind = "text"
            return rows
        inside = self._kind == "item" and _indent(line) >= self._margin + 2
        if (fence := _FENCE.match(line)) and not inside:
            return self._open_code(fence)
        if self._kind == "more":
            return self._add(line)
        if not inside and (item := _ITEM.match(line)) is not None and self._may_begin(item):
            return self._open_item(line, item)
        if self._kind == "item" and not inside and self._blank:
            rows = self._set()
            self._kind = "text"
            return rows + self._add(line)
        if inside:
            self._shift = self._shift or max(self._indent - _indent(line), 0)
            line = " " * self._shift + line
            self._fence = fence[1] if fence else ""
        return self._add(line)

    def _add(self, line: str) -> list[Text]:
        self._gap, self._blank = (self._blank if not self._lines else self._gap), False
        self._lines.append(line)
        self._size += len(line)
        if self._size <= BLOCK_LIMIT or self._kind == "item" or "|" in line or self._lines[0].startswith(_NOT_TEXT):
            return []
        rows = self._set()
        self._kind = "more"
        return rows

    def _is_cuttable(self, line: str = "") -> bool:
        """Return whether the incomplete line is running text."""
        line = (line or "".join(self._partial))[:BLOCK_LIMIT]
        is_text = self._kind == "more" or (self._kind == "text" and not _ITEM.match(line))
        return is_text and not line.startswith(_NOT_TEXT) and not _FENCE.match(line)

    def _cut(self, line: str) -> list[Text]:
        """Render an overlong line except its last words."""
        rows: list[Text] = []
        while len(line) > BLOCK_LIMIT:
            cut = line.rfind(" ", 1, BLOCK_LIMIT)
            cut = cut if cut > 0 else BLOCK_LIMIT
            self._gap, self._blank = (self._blank if not self._lines else self._gap), False
            self._lines.append(line[:cut])
            rows += self._set()
            self._kind, line = "more", line[cut:]
        self._partial, self._partial_size = [line], len(line)
        return rows

    def _may_begin(self, item: re.Match[str]) -> bool:
        """Return whether a list item begins. In a paragraph only a bullet or the number 1 starts a list."""
        return not self._lines or self._kind == "item" or (item[3] is not None and item[2] in (None, "1"))

    def _open_item(self, line: str, item: re.Match[str]) -> list[Text]:
        rows = self._set()
        self._kind, self._marker, self._shift = "item", "1" if item[2] else item[1], 0
        self._margin = item.start(1)
        self._indent = item.end(1) + (1 if item[3] is None or len(item[3]) > 4 else len(item[3]))
        fence = _FENCE.match(line, self._indent)
        self._fence = fence[1] if fence else ""
        return rows + self._add(line)

    def _open_code(self, fence: re.Match[str]) -> list[Text]:
        rows = self._set()
        self._kind, self._fence, self._indent = "code", fence[1], _indent(fence[0])
        self._code = Highlighter(fence[2])
        info = fence_info(fence[2].strip())
        if self._last is not None:
            rows.append(Text())
        self._last, self._blank, self._gap = "code", False, False
        return rows + (wrap(Text(info, QUIET), self.width) if info else [])

    def _take_code(self, line: str) -> list[Text]:
        if _closes(line, self._fence):
            rows = self._set()
            self._kind, self._fence, self._code = "text", "", None
            return rows
        at_edge = line[:1] not in ("", " ", "\t", ")", "]", "}")
        due = len(self._lines) >= (_FEW_LINES if at_edge else _MANY_LINES)
        rows = self._set() if due else []
        self._lines.append(line[min(self._indent, len(line) - len(line.lstrip(" "))) :])
        return rows

    def _set(self) -> list[Text]:
        """Render the open block."""
        lines, self._lines, self._size = self._lines, [], 0
        if not lines:
            return []
        if self._code is not None:
            return code_rows(self._code.lines(lines), self.width)
        rows = [Text()] if self._last is not None and self._needs_gap() else []
        self._last, self._last_marker = self._kind, self._marker
        source = "\n".join(lines).rstrip("\n")
        margin = self._margin if self._kind == "item" else 0
        found = markdown_rows(source, self.width - margin, self._signs, is_text=self._kind == "more")
        return rows + ([Text.assemble(" " * margin, row) for row in found] if margin else found)

    def _needs_gap(self) -> bool:
        """Return whether the open block needs a blank row above."""
        if self._kind == "more":
            return False
        if self._kind == self._last == "item" and self._marker == self._last_marker:
            return False
        return self._gap or self._last == "code"


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip(" "))


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip()
    return stripped.startswith(fence) and not stripped.strip(fence[0])
