"""Renders Markdown as rows of rich text.

markdown-it parses it. rich's own Markdown centres headings, draws boxes and sets backgrounds. Raw HTML is shown
unchanged. A link shows its address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from codelet.frontends.terminal.show.console import hanging, wrap
from codelet.frontends.terminal.show.highlight import Highlighter, fence_info
from codelet.frontends.terminal.show.style import ACCENT, CODE, HEADING, MARGIN, QUIET, TAB_COLUMNS, TEXT_COLUMNS, Signs

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.tree import SyntaxTreeNode

_INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_HEADINGS = {"h1": f"{HEADING} underline", "h2": f"{HEADING} {ACCENT}", "h3": HEADING, "h4": f"{HEADING} italic"}
_DELIMITERS = re.compile(r"[ \t|:-]*-[ \t|:-]*$")
_DUNDER = re.compile(r"(?<!\w)__[a-z]+(?:_[a-z]+)*__(?!\w)")
_DEEPEST = 100
"""The deepest nesting of blocks; the parser drops deeper ones. Its own limit is 20, or ten lists."""
_MOST_CODE = 20_000
"""The most characters of code in a list or quote that are coloured."""
_GAP = 2
_NARROWEST_CELL = 6
_NARROWEST = 10
"""The narrowest text, in nested lists and quotes."""


@lru_cache(maxsize=2)
def _parser(is_text: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Reference definitions are left as text: blocks are read one by one, so a definition would only vanish. So are
    # underlined headings: in answers a row of equals signs is most often the middle of a conflict.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    parser.enable(["strikethrough", "table"]).disable(["reference", "lheading"])
    parser.inline.ruler.before("emphasis", "dunder", _dunder)
    parser.block.ruler.at("table", _whole_table, {"alt": ["paragraph"]})
    if is_text:
        parser.disable([rule for rule in parser.get_active_rules()["block"] if rule != "paragraph"])
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


def _whole_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table whose rows have no more cells than its head: Markdown would drop the extra ones."""
    from markdown_it.rules_block import table

    if "|" not in state.src:
        return False
    lines = [state.src[state.bMarks[n] + state.tShift[n] : state.eMarks[n]] for n in range(start, end)]
    rows = lines[: lines.index("")] if "" in lines else lines
    return max(map(_cells, rows)) == _cells(rows[0]) and table(state, start, end, silent)


def _cells(line: str) -> int:
    cells = re.split(r"(?<!\\)\|", line.strip())
    return len(cells) - (cells[0] == "") - (len(cells) > 1 and cells[-1] == "")


def _widened(source: str) -> str:
    """Widen a table's head to its longest row: Markdown drops cells without a head."""
    if "|" not in source:
        return source
    lines = source.split("\n")
    missing = max(map(_cells, lines)) - _cells(lines[0])
    if len(lines) < 2 or missing <= 0 or "|" not in lines[0] or not _DELIMITERS.match(lines[1]):
        return source
    for number, cell in enumerate((" |", "---|")):
        line = lines[number].rstrip()
        lines[number] = line + ("" if re.search(r"(?<!\\)\|$", line) else "|") + cell * missing
    return "\n".join(lines)


def markdown_rows(source: str, width: int, signs: Signs, *, is_text: bool = False) -> list[Text]:
    """Render Markdown; `is_text` reads it as one paragraph."""
    from markdown_it.tree import SyntaxTreeNode

    tree = SyntaxTreeNode(_parser(is_text).parse(source if is_text else _widened(source)))
    return _RowMaker(signs).children(tree, width)


def code_rows(lines: Iterable[Text], width: int) -> list[Text]:
    """Render code after the margin; long lines are wrapped."""
    rows: list[Text] = []
    for line in lines:
        if not line.plain.strip():
            rows.append(Text())
            continue
        if "\t" in line.plain:
            line.expand_tabs(TAB_COLUMNS)
        for row in hanging(line, max(width - MARGIN, MARGIN)):
            row.pad_left(MARGIN)
            rows.append(row)
    return rows


class _RowMaker:
    def __init__(self, signs: Signs) -> None:
        self.signs = signs

    def children(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows: list[Text] = []
        width = max(width, _NARROWEST)
        for number, child in enumerate(node.children):
            above = node.children[number - 1] if number and node.type != "list_item" else None
            if above is not None and not (
                above.type == "heading" and above.map and child.map and above.map[1] == child.map[0]
            ):
                rows.append(Text())
            rows.extend(self.block(child, width))
        return rows

    def block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        match node.type:
            case "paragraph":
                return wrap(self.inline(node), min(width, TEXT_COLUMNS))
            case "heading":
                text = self.inline(node)
                text.stylize_before(_HEADINGS.get(node.tag, "italic"))
                return wrap(text, min(width, TEXT_COLUMNS))
            case "bullet_list" | "ordered_list":
                return self.items(node, width)
            case "blockquote":
                return self.quote(node, width)
            case "table":
                head = node.children[0].children[0].children
                styles = [str(cell.attrs.get("style", "")).removeprefix("text-align:") for cell in head]
                cells = [
                    [self.inline(cell) for cell in row.children] for part in node.children for row in part.children
                ]
                return table_rows(cells, width, self.signs, styles)
            case "hr":
                return [Text(self.signs.rule * min(width, 40), QUIET)]
            case "fence" | "code_block":
                info = fence_info(node.info.strip())
                lines = node.content.rstrip("\n").split("\n")
                code = Highlighter(node.info).lines(lines) if len(node.content) <= _MOST_CODE else map(Text, lines)
                return [*(wrap(Text(info, QUIET), width) if info else []), *code_rows(code, width)]
            case _:
                return wrap(Text(node.content), width) if node.content else self.children(node, width)

    def items(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows: list[Text] = []
        start = int(node.attrs.get("start", 1))
        for number, item in enumerate(node.children):
            ordered = node.type == "ordered_list"
            marker = f"{item.info or start + number}. " if ordered else f"{self.signs.bullet} "
            hanging = " " * cell_len(marker)
            inner = self.children(item, width - cell_len(marker)) or [Text()]
            if inner[0].plain.startswith((self.signs.box, self.signs.checked)):
                marker = ""
            for index, row in enumerate(inner):
                rows.append(Text.assemble((marker, QUIET) if index == 0 else hanging, row))
        return rows

    def quote(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        bar = f"{self.signs.quote} "
        return [Text.assemble((bar, QUIET), row) for row in self.children(node, width - cell_len(bar))]

    def inline(self, node: SyntaxTreeNode) -> Text:
        """A block's inline text with its styles."""
        text = Text()
        for child in node.children:
            self._inline(child, text, "")
        written = node.children[0].content if node.children else ""
        for mark, sign in (
            ("[ ] ", self.signs.box),
            ("[x] ", self.signs.checked),
            ("[X] ", self.signs.checked),
        ):
            boxed = written.startswith(mark) and text.plain.startswith(mark)
            if boxed and node.parent and node.parent.type == "list_item":
                return Text.assemble(sign, text[3:])
        return text

    def _inline(self, node: SyntaxTreeNode, text: Text, style: str) -> None:
        match node.type:
            case "text" | "text_special" | "dunder":  # inside the label of an image escapes and entities stay apart
                text.append(node.content, style or None)
            case "code_inline":
                text.append(node.content, f"{style} {CODE}".strip())
            case "softbreak":
                text.append(" ")
            case "hardbreak":
                text.append("\n")
            case "link" | "image":
                self._link(node, text, style)
            case _:
                inner = f"{style} {_INLINE_STYLES.get(node.type, '')}".strip()
                for child in node.children:
                    self._inline(child, text, inner)

    def _link(self, node: SyntaxTreeNode, text: Text, style: str) -> None:
        target = str(node.attrs.get("href") or node.attrs.get("src") or "")
        named = f' "{title}"' if (title := node.attrs.get("title")) else ""
        label = Text()
        for child in node.children:
            self._inline(child, label, style)
        label.stylize("underline")
        if named or (target and label.plain not in (target, target.removeprefix("mailto:"))):
            label.append(f" ({target}{named})", QUIET)  # always: a label may name another address than it leads to
        text.append_text(label)


def table_rows(rows: list[list[Text]], width: int, signs: Signs, alignments: Sequence[str] = ()) -> list[Text]:
    """Render a table whose first row is its head. `alignments` are left, center or right per column."""
    columns = max((len(row) for row in rows), default=0)
    if not columns:
        return []
    natural = [max((row[i].cell_len if i < len(row) else 0) for row in rows) for i in range(columns)]
    widths = _fitted(natural, width - _GAP * (columns - 1))
    done: list[Text] = []
    for number, row in enumerate(rows):
        cells = [wrap(row[i] if i < len(row) else Text(), widths[i]) for i in range(columns)]
        lines = _joined(cells, widths, alignments)
        if number == 0:
            for line in lines:
                line.stylize_before(HEADING)
            lines.append(Text((" " * _GAP).join(signs.rule * w for w in widths), QUIET))
        done.extend(lines)
    return done


def _fitted(natural: list[int], room: int) -> list[int]:
    """Column widths that fit: narrow columns keep theirs, wide ones share the rest."""
    widths = [max(1, n) for n in natural]
    if sum(widths) <= room:
        return widths
    share = max(_NARROWEST_CELL, room // len(widths))
    while True:
        wide = [i for i, n in enumerate(natural) if n > share]
        taken = sum(n for n in natural if n <= share)
        if not wide:
            return widths
        better = max(_NARROWEST_CELL, (room - taken) // len(wide))
        if better <= share:
            return [min(max(1, n), share) for n in natural]
        share = better


def _joined(cells: list[list[Text]], widths: list[int], alignments: Sequence[str]) -> list[Text]:
    """The cells of a table row side by side, with as many rows as the tallest cell."""
    done = []
    for level in range(max(len(cell) for cell in cells)):
        line = Text()
        for column, cell in enumerate(cells):
            part = cell[level] if level < len(cell) else Text()
            free = max(widths[column] - part.cell_len, 0)
            aligned = alignments[column] if column < len(alignments) else "left"
            before = free if aligned == "right" else free // 2 if aligned == "center" else 0
            line.append(" " * before).append_text(part).append(" " * (free - before))
            if column < len(cells) - 1:
                line.append(" " * _GAP)
        line.rstrip()
        done.append(line)
    return done
