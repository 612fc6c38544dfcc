"""Renders Markdown block by block as it streams. A finished block is rendered once; the open one is plain text.

A block is text between empty lines, a list item, or some lines of code. Each is rendered separately, with its
indentation, so the work is linear. markdown-it parses it: rich's own Markdown centres headings, draws boxes, sets
backgrounds, and is too slow for a stream. Raw HTML is shown unchanged. A link shows its address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from codelet.frontends.terminal.show.console import drawn_rows, hanging, wrap
from codelet.frontends.terminal.show.highlight import NO_EDGE, highlight, lexer_of_fence
from codelet.frontends.terminal.show.style import ACCENT, CODE, HEADING, MARGIN, QUIET, TAB_COLUMNS, TEXT_COLUMNS

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode
    from pygments.lexer import Lexer
    from rich.console import JustifyMethod

BLOCK_LIMIT = 4_000
"""The most characters of a paragraph that is parsed: the time for a longer one would grow with its square."""

_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*([^`]*)$")
_ITEM = re.compile(r"([-*+]|(\d{1,9})[.)])(?:( +)(?=\S)|[ \t]*$)")
_NOT_TEXT = ("|", ">", "    ")
"""The first characters of tables, quotes, and indented code, which are always parsed."""
_FEW_LINES, _MANY_LINES = 12, 200
"""Code is rendered in batches: this many lines before a line at the left edge, or at most the second number."""

_INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_HEADINGS = {"h1": f"{HEADING} underline", "h2": f"{HEADING} {ACCENT}", "h3": HEADING, "h4": f"{HEADING} italic"}
_DELIMITERS = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)*(?:\s*:?-+:?\s*)?")
"""The row below a table's head."""
_CELL = re.compile(r"(?<!\\)\|")
_DUNDER = re.compile(r"(?<!\w)__[a-z]+(?:_[a-z]+)*__(?!\w)")
_PLAIN = re.compile(r"([-*+] |#{1,6} (?=[^\n]*[^#\s]\Z))?([^\W\d_][^\n]*(?:\n *[^\W\d_][^\n]*)*)")
"""A heading, paragraph or bullet whose lines begin with a letter: it has no other blocks in it."""
_EDGES = re.compile(r"^\s*\|?|\|?\s*$")
_ALIGNMENTS: dict[str, JustifyMethod] = {"::": "center", "-:": "right"}
_DEEPEST = 100
"""The deepest nesting of blocks; the parser drops deeper ones. Its own limit is 20, or ten lists."""
_BOXES = {"[ ] ": "☐", "[x] ": "☑"}
_NARROWEST_CELL = 6
"""The narrowest column with its gap: rich drops what does not fit."""
_NARROWEST = 10
"""The narrowest text, in nested lists and quotes."""


def markdown_rows(source: str, width: int) -> list[Text]:
    """Render a whole text."""
    stream = MarkdownStream(width)
    return stream.feed(source) + stream.finish()


class MarkdownStream:
    """One text of the model. A changed `width` applies from the next block on."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._partial = ""
        self._lines: list[str] = []  # the open block
        self._margin = 0  # its indentation
        self._item = ""  # the kind of list whose item it is
        self._list = ""  # the kind of the outermost list
        self._list_margin = self._content = 0  # the indentation of that list, and of the last item's text
        self._is_begun = self._blank_above = False
        self._fence = ""
        self._indent = 0  # the fence's
        self._lexer: Lexer | None = None
        self._due = _FEW_LINES

    def feed(self, delta: str) -> list[Text]:
        """Add text; return finished rows."""
        *lines, self._partial = (self._partial + delta).split("\n")
        return [row for line in lines for row in self._take(line.removesuffix("\r"))]

    def finish(self) -> list[Text]:
        """Return the remaining rows."""
        line, self._partial = self._partial.removesuffix("\r"), ""
        return [*(self._take(line) if line else []), *self._set()]

    def tail(self, rows: int) -> list[Text]:
        """The last rows of the open block, as plain text."""
        lines = [*self._lines[-rows:], self._partial] if self._partial.strip() else self._lines[-rows:]
        margin = self._margin + (MARGIN if self._fence else 0)
        room = max((self.width if self._fence else min(self.width, TEXT_COLUMNS)) - margin, 1)
        found = [
            Text(" " * margin + row.plain)
            for line in lines
            for row in wrap(Text(line[-rows * self.width :].expandtabs(TAB_COLUMNS)), room)
        ][-rows:]
        gap = not self._lines and not self._fence and self._needs_gap(0, "")
        return [Text(), *found] if found and gap and len(found) < rows else found

    def _take(self, line: str) -> list[Text]:
        """Add a line. Block ends depend on lines alone, never on how the text was split."""
        if self._fence:
            return self._take_code(line)
        text = line.lstrip()
        if not text:
            rows, self._blank_above = self._set(), True
            return rows
        indent = len(line[: len(line) - len(text)].expandtabs(TAB_COLUMNS))
        if fence := _FENCE.match(text):
            return self._open_code(fence, indent)
        rows = []
        # In a paragraph only a bullet or the number 1 starts a list.
        is_open = not self._lines or self._item or self._margin
        item = _ITEM.match(text)
        if item and (is_open or (item[3] and item[2] in (None, "1"))) and indent < self._content + 4:
            rows = self._open_item(item, indent)
        elif not self._lines or ("|" not in text if self._lines[0][0] == "|" else text[0] == "|"):
            rows = self._open(min(indent, self._content))  # a table needs no empty line around it
        self._lines.append(" " * max(indent - self._margin, 0) + text)
        if item and (fence := _FENCE.match(text, item.end())) and len(self._lines) == 1:
            self._lines = [item[1]]
            rows += self._open_code(fence, self._content)
        return rows

    def _open(self, margin: int, item: str = "") -> list[Text]:
        """Render the open block, open another one, and return the rows so far."""
        rows = [*self._set(), *([Text()] if self._needs_gap(margin, item) else [])]
        self._margin, self._item, self._is_begun, self._blank_above = margin, item, True, False
        if not margin and not item:
            self._content = 0  # the list is over
        return rows

    def _needs_gap(self, margin: int, item: str) -> bool:
        """Return whether an empty row is above a block: not inside a list, nor between its items."""
        inside = self._content and (margin > self._list_margin or item == self._list)
        return self._is_begun and self._blank_above and not inside

    def _open_item(self, item: re.Match[str], indent: int) -> list[Text]:
        kind = "1" if item[2] else item[1]
        rows = self._open(indent, kind)
        if not self._content or indent <= self._list_margin:
            self._list, self._list_margin = kind, indent
        self._content = indent + len(item[1]) + (len(item[3]) if item[3] and len(item[3]) <= 4 else 1)
        return rows

    def _open_code(self, fence: re.Match[str], indent: int) -> list[Text]:
        margin = min(indent, self._content)
        self._blank_above = not margin
        rows = self._open(margin)
        self._fence, self._due, self._indent = fence[1], _FEW_LINES, indent
        self._lexer, info = lexer_of_fence(fence[2].strip())
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
                self._due = count * 2  # a batch that ended here would give the next one wrong colours
            else:
                rows, self._lines, self._due = _code_rows(code, self.width, self._margin + MARGIN), [], _FEW_LINES
        self._lines.append(line[min(self._indent, len(line) - len(line.lstrip(" "))) :])
        return rows

    def _set(self) -> list[Text]:
        """Render the open block."""
        lines, self._lines = self._lines, []
        if not lines:
            return []
        if self._fence:
            return _code_rows(highlight(self._lexer, lines)[0], self.width, self._margin + MARGIN)
        margin = " " * self._margin
        found = _block_rows("\n".join(lines), self.width - self._margin)
        return [Text.assemble(margin, row) for row in found] if margin else found


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Reference definitions are left as text: blocks are read one by one, so a definition would only vanish. So are
    # underlined headings: in answers a row of equals signs is most often the middle of a conflict.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    parser.enable("strikethrough").disable(["reference", "lheading"])
    parser.inline.ruler.before("emphasis", "dunder", _dunder)
    return parser


def _dunder(state: StateInline, silent: bool) -> bool:
    """A name such as `__init__`: Markdown would make the rest bold."""
    found = _DUNDER.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("dunder", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _block_rows(source: str, width: int) -> list[Text]:
    """Render a block, or several."""
    from markdown_it.tree import SyntaxTreeNode

    if len(source) > BLOCK_LIMIT and not source.startswith(_NOT_TEXT):
        return wrap(Text(source), min(width, TEXT_COLUMNS))
    lines = source.split("\n", 2)
    if len(lines) > 1 and "|" in lines[0] and _DELIMITERS.fullmatch(lines[1]):
        return _table_rows(source.split("\n"), width)
    if plain := _PLAIN.fullmatch(source):
        text, kind = _inline_text(_parser().parseInline(plain[2].rstrip())), plain[1] or ""
        if kind[:1] == "#":
            text.stylize_before(_HEADINGS.get(f"h{len(kind) - 1}", "italic"))
        marker = "• " if kind[:1] in ("-", "*", "+") else ""
        rows = wrap(text, min(max(width - len(marker), _NARROWEST), TEXT_COLUMNS))
        return [Text.assemble((" " * len(marker) if place else (marker, QUIET)), row) for place, row in enumerate(rows)]
    return _children_rows(SyntaxTreeNode(_parser().parse(source)), width)


def _code_rows(lines: Iterable[Text], width: int, margin: int = MARGIN) -> list[Text]:
    """Render code after the margin; long lines are wrapped."""
    rows: list[Text] = []
    for line in lines:
        line.expand_tabs(TAB_COLUMNS)
        for row in hanging(line, max(width - margin, margin)) if line.plain.strip() else [Text()]:
            row.pad_left(margin if row else 0)
            rows.append(row)
    return rows


def _children_rows(node: SyntaxTreeNode, width: int) -> list[Text]:
    rows: list[Text] = []
    above = None
    for child in node.children:
        if above is not None and above.type != "heading" and node.type != "list_item":
            rows.append(Text())
        rows += _node_rows(child, max(width, _NARROWEST))
        above = child
    return rows


def _node_rows(node: SyntaxTreeNode, width: int) -> list[Text]:
    match node.type:
        case "paragraph" | "heading":
            text = _inline_text(node.to_tokens())
            sign = _BOXES.get(node.children[0].content[:4].lower())  # as written: an escaped one is text
            if node.type == "heading":
                text.stylize_before(_HEADINGS.get(node.tag, "italic"))
            elif sign and node.parent and node.parent.type == "list_item":
                text = Text.assemble(sign, text[3:])
            return wrap(text, min(width, TEXT_COLUMNS))
        case "bullet_list" | "ordered_list":
            return _item_rows(node, width)
        case "blockquote":
            return [Text.assemble(("│ ", QUIET), row) for row in _children_rows(node, width - 2)]
        case "hr":
            return [Text("─" * min(width, 40), QUIET)]
        case "fence" | "code_block":
            lexer, info = lexer_of_fence(node.info.strip())
            code, _ = highlight(lexer, node.content.rstrip("\n").split("\n"))
            return [*(wrap(Text(info, QUIET), width) if info else []), *_code_rows(code, width)]
        case _:
            return wrap(Text(node.content), width) if node.content else _children_rows(node, width)


def _item_rows(node: SyntaxTreeNode, width: int) -> list[Text]:
    rows: list[Text] = []
    start = int(node.attrs.get("start", 1))
    for number, item in enumerate(node.children, start):
        marker = f"{item.info or number}. " if node.type == "ordered_list" else "• "
        first, *others = _children_rows(item, width - cell_len(marker)) or [Text()]
        has_box = first.plain.startswith(tuple(_BOXES.values()))
        rows.append(first if has_box else Text.assemble((marker, QUIET), first))
        rows += [Text.assemble(" " * len(marker), row) for row in others]
    return rows


def _table_rows(lines: list[str], width: int) -> list[Text]:
    """A table as rich sets it, with a rule below its head. markdown-it would drop cells without a head."""
    from rich.box import Box
    from rich.table import Table

    head, sides, *rows = ([cell.strip() for cell in _CELL.split(_EDGES.sub("", line))] for line in lines)
    texts = [[_inline_text(_parser().parseInline(cell.replace("\\|", "|"))) for cell in row] for row in (head, *rows)]
    table = Table(
        box=Box("\n".join(["    ", "    ", " ─  ", *["    "] * 5])),
        padding=(0, 1, 0, 0),
        show_edge=False,
        pad_edge=False,
        border_style=QUIET,
    )
    for place in range(max(map(len, texts))):
        side = sides[place] if place < len(sides) else ""
        justify = _ALIGNMENTS.get(side[:1] + side[-1:], "left")
        text = texts[0][place] if place < len(head) else ""
        table.add_column(text, header_style=HEADING, justify=justify, overflow="fold")
    for row in texts[1:]:
        table.add_row(*row)
    return drawn_rows(table, max(width, len(table.columns) * _NARROWEST_CELL))


def _inline_text(parents: Iterable[Token], style: str = "") -> Text:
    """The text in these tokens with its styles."""
    text, styles = Text(), [style]
    links: list[tuple[int, Token]] = []
    for token in (child for parent in parents for child in parent.children or ()):
        match token.type:
            case "text" | "text_special" | "dunder":  # inside the label of an image escapes and entities stay apart
                text.append(token.content, styles[-1] or None)
            case "code_inline":
                text.append(token.content, f"{styles[-1]} {CODE}".strip())
            case "softbreak":
                text.append(" ")
            case "hardbreak":
                text.append("\n")
            case "link_open":
                links.append((len(text), token))
            case "link_close":
                _link(text, *links.pop())
            case "image":
                begin = len(text)
                text.append_text(_inline_text([token], styles[-1]))
                _link(text, begin, token)
            case _ if token.nesting > 0:
                styles.append(f"{styles[-1]} {_INLINE_STYLES.get(token.tag, '')}".strip())
            case _:
                styles.pop()
    return text


def _link(text: Text, begin: int, token: Token) -> None:
    """Mark the end of the text as a link's label, and name its target if that differs."""
    target = str(token.attrs.get("href") or token.attrs.get("src") or "")
    named = f' "{title}"' if (title := token.attrs.get("title")) else ""
    label = text.plain[begin:]
    text.stylize("underline", begin)
    if named or (target and label not in (target, target.removeprefix("mailto:"))):
        text.append(f" ({target}{named})", QUIET)  # always: a label may name another address than it leads to
