"""Renders a block of Markdown as rows of rich text: a paragraph, a list item, a table.

markdown-it parses it. rich's own Markdown centres headings, draws boxes, sets backgrounds, and is too slow for a
stream. Raw HTML is shown unchanged. A link shows its address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from codelet.frontends.terminal.show.console import drawn_rows, hanging, wrap
from codelet.frontends.terminal.show.highlight import highlight, lexer_of_fence
from codelet.frontends.terminal.show.style import ACCENT, CODE, HEADING, MARGIN, QUIET, TAB_COLUMNS, TEXT_COLUMNS, Signs

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.tree import SyntaxTreeNode
    from rich.console import JustifyMethod

_INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_HEADINGS = {"h1": f"{HEADING} underline", "h2": f"{HEADING} {ACCENT}", "h3": HEADING, "h4": f"{HEADING} italic"}
_DELIMITERS = re.compile(r"[ \t|:-]*-[ \t|:-]*$")
_DUNDER = re.compile(r"(?<!\w)__[a-z]+(?:_[a-z]+)*__(?!\w)")
_ALIGNMENTS: dict[str, JustifyMethod] = {"center": "center", "right": "right"}
_DEEPEST = 100
"""The deepest nesting of blocks; the parser drops deeper ones. Its own limit is 20, or ten lists."""
_MOST_CODE = 20_000
"""The most characters of code in a quote that are coloured."""
_NARROWEST = 10
"""The narrowest text, in nested lists and quotes."""


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Reference definitions are left as text: blocks are read one by one, so a definition would only vanish. So are
    # underlined headings: in answers a row of equals signs is most often the middle of a conflict.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    parser.enable(["strikethrough", "table"]).disable(["reference", "lheading"])
    parser.inline.ruler.before("emphasis", "dunder", _dunder)
    parser.block.ruler.at("table", _whole_table, {"alt": ["paragraph"]})
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
    lines = source.split("\n")
    missing = max(map(_cells, lines)) - _cells(lines[0])
    if len(lines) < 2 or missing <= 0 or "|" not in lines[0] or not _DELIMITERS.match(lines[1]):
        return source
    for number, cell in enumerate((" |", "---|")):
        line = lines[number].rstrip()
        lines[number] = line + ("" if re.search(r"(?<!\\)\|$", line) else "|") + cell * missing
    return "\n".join(lines)


def block_rows(source: str, width: int, signs: Signs) -> list[Text]:
    """Render a block, or several."""
    from markdown_it.tree import SyntaxTreeNode

    tree = SyntaxTreeNode(_parser().parse(_widened(source) if "|" in source else source))
    return _RowMaker(signs).children(tree, width)


def code_rows(lines: Iterable[Text], width: int, margin: int = MARGIN) -> list[Text]:
    """Render code after the margin; long lines are wrapped."""
    rows: list[Text] = []
    for line in lines:
        line.expand_tabs(TAB_COLUMNS)
        for row in hanging(line, max(width - margin, margin)) if line.plain.strip() else [Text()]:
            row.pad_left(margin if row else 0)
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
                bar = f"{self.signs.quote} "
                return [Text.assemble((bar, QUIET), row) for row in self.children(node, width - len(bar))]
            case "table":
                return self.table(node, width)
            case "hr":
                return [Text(self.signs.rule * min(width, 40), QUIET)]
            case "fence" | "code_block":
                lexer, info = lexer_of_fence(node.info.strip())
                lines = node.content.rstrip("\n").split("\n")
                code, _ = highlight(lexer if len(node.content) <= _MOST_CODE else None, lines)
                return [*(wrap(Text(info, QUIET), width) if info else []), *code_rows(code, width)]
            case _:
                return wrap(Text(node.content), width) if node.content else self.children(node, width)

    def items(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows: list[Text] = []
        start = int(node.attrs.get("start", 1))
        for number, item in enumerate(node.children, start):
            marker = f"{item.info or number}. " if node.type == "ordered_list" else f"{self.signs.bullet} "
            first, *others = self.children(item, width - cell_len(marker)) or [Text()]
            boxed = first.plain.startswith((self.signs.box, self.signs.checked))
            rows.append(first if boxed else Text.assemble((marker, QUIET), first))
            rows += [Text.assemble(" " * len(marker), row) for row in others]
        return rows

    def table(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        """A table as rich sets it, with a rule below its head."""
        from rich.box import Box
        from rich.table import Table

        rule = f" {self.signs.rule}  "
        table = Table(
            box=Box("\n".join(["    ", "    ", rule, *["    "] * 5])),
            padding=(0, 1, 0, 0),
            show_edge=False,
            pad_edge=False,
            border_style=QUIET,
        )
        head, *rows = [[self.inline(cell) for cell in row.children] for part in node.children for row in part.children]
        for cell, text in zip(node.children[0].children[0].children, head, strict=True):
            align = str(cell.attrs.get("style", "")).removeprefix("text-align:")
            table.add_column(text, header_style=HEADING, justify=_ALIGNMENTS.get(align, "left"), overflow="fold")
        for row in rows:
            table.add_row(*row)
        return drawn_rows(table, width)

    def inline(self, node: SyntaxTreeNode) -> Text:
        """A block's inline text with its styles."""
        text = Text()
        for child in node.children:
            self._inline(child, text, "")
        if node.parent and node.parent.type == "list_item" and node.children[0].content.startswith("["):
            for mark, sign in (("[ ] ", self.signs.box), ("[x] ", self.signs.checked), ("[X] ", self.signs.checked)):
                if text.plain.startswith(mark):
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
