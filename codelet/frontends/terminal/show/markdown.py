"""Sets one finished piece of Markdown as rows of rich text.

markdown-it reads it; the rows are made here, as rich's own Markdown centres headings, draws boxes and sets
backgrounds. Raw HTML is shown as it stands. A link shows its address, so that what is seen is where it goes.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.text import Text

from codelet.frontends.terminal.show.console import hanging, wrap
from codelet.frontends.terminal.show.highlight import fence_info
from codelet.frontends.terminal.show.links import addresses, link_to
from codelet.frontends.terminal.show.settled import MARKED, is_closed, is_one_paragraph, settled_length
from codelet.frontends.terminal.show.style import ACCENT, CODE, HEADING, QUIET, TEXT_COLUMNS, Signs
from codelet.frontends.terminal.show.table_rows import table_rows

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.tree import SyntaxTreeNode

Grammar = Literal["paragraph", "blocks", "all"]
"""How a piece is read. `paragraph`: nothing but running text. `blocks`: no line makes a heading of the one above it,
and a table begins with a bar. In both, what a paragraph begins with stays as it is when more of it comes."""

_INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_HEADINGS = {"h1": f"{HEADING} underline", "h2": f"{HEADING} {ACCENT}", "h3": HEADING, "h4": f"{HEADING} italic"}
_DELIMITERS = re.compile(r"[ \t|:-]*-[ \t|:-]*$")
_DUNDER = re.compile(r"(?<!\w)__[a-z]+(?:_[a-z]+)*__(?!\w)")
_DEEPEST = 100
"""Levels of blocks in one another. The parser leaves out what stands deeper; by itself it stops at 20, or ten lists."""
_NARROWEST = 10
"""Columns that text has at least, however deep it stands in lists and quotes."""


@lru_cache(maxsize=3)
def _parser(grammar: Grammar) -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Reference definitions are left as text: the pieces are read one by one, so a definition would only vanish.
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    parser.enable(["strikethrough", "table"]).disable("reference")
    parser.inline.ruler.before("emphasis", "dunder", _dunder)
    match grammar:
        case "paragraph":
            others = [rule for rule in parser.get_active_rules()["block"] if rule != "paragraph"]
            parser.disable(others)
        case "blocks":
            parser.disable("lheading").block.ruler.at("table", _barred_table, {"alt": ["paragraph"]})
    return parser


def _dunder(state: StateInline, silent: bool) -> bool:
    """A name such as `__init__`: Markdown would take its signs away and set the rest in bold."""
    found = _DUNDER.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("dunder", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _barred_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table whose head begins with a bar, and whose rows have no more cells than the head: those would be lost."""
    from markdown_it.rules_block import table

    first = state.bMarks[start] + state.tShift[start]
    if state.src[first : first + 1] != "|":
        return False
    lines = [state.src[state.bMarks[n] + state.tShift[n] : state.eMarks[n]] for n in range(start, end)]
    rows = lines[: lines.index("")] if "" in lines else lines
    return max(map(_cells, rows)) == _cells(rows[0]) and table(state, start, end, silent)


def _cells(line: str) -> int:
    """The cells of a table's line."""
    cells = re.split(r"(?<!\\)\|", line.strip())
    return len(cells) - (cells[0] == "") - (len(cells) > 1 and cells[-1] == "")


def _widened(source: str) -> str:
    """The table with as many columns as its longest row: Markdown drops the cells that the head has no column for."""
    lines = source.split("\n")
    missing = max(map(_cells, lines)) - _cells(lines[0])
    if len(lines) < 2 or missing <= 0 or "|" not in lines[0] or not _DELIMITERS.match(lines[1]):
        return source
    for number, cell in enumerate((" |", "---|")):
        line = lines[number].rstrip()
        lines[number] = line + ("" if re.search(r"(?<!\\)\|$", line) else "|") + cell * missing
    return "\n".join(lines)


def markdown_rows(source: str, width: int, signs: Signs, grammar: Grammar = "all") -> list[Text]:
    """The rows of `source` at `width` columns."""
    return _RowMaker(signs).children(_tree(_widened(source) if grammar == "all" else source, grammar), width)


def _alignments(table: SyntaxTreeNode) -> list[str]:
    """How each column of a table is set: left, center or right."""
    head = table.children[0].children[0].children if table.children else []
    return [str(cell.attrs.get("style", "")).removeprefix("text-align:") or "left" for cell in head]


def settled_rows(source: str, width: int, signs: Signs, grammar: Grammar) -> list[Text]:
    """Those first rows of `source` that are the same whatever follows it, none if that is not known."""
    tree = _tree(source, grammar)
    return _RowMaker(signs, settled=True).children(tree, width)[:-1] if is_one_paragraph(tree) else []


def _tree(source: str, grammar: Grammar) -> SyntaxTreeNode:
    from markdown_it.tree import SyntaxTreeNode

    return SyntaxTreeNode(_parser(grammar).parse(source))


class _RowMaker:
    def __init__(self, signs: Signs, *, settled: bool = False) -> None:
        self.signs = signs
        self._settled = settled

    def children(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows: list[Text] = []
        width = max(width, _NARROWEST)
        for number, child in enumerate(node.children):
            if number and node.type != "list_item":
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
                return table_rows(
                    [[self.inline(cell) for cell in row.children] for part in node.children for row in part.children],
                    width,
                    self.signs,
                    _alignments(node),
                )
            case "hr":
                return [Text(self.signs.rule * min(width, 40), QUIET)]
            case "fence" | "code_block":
                told = wrap(Text(fence_info(node.info.strip()), QUIET), width) if fence_info(node.info.strip()) else []
                lines = node.content.rstrip("\n").split("\n")
                return told + [row for line in lines for row in hanging(Text("  " + line, CODE), width)]
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
        """The running text of a block's inline children, with their styles."""
        text = self._settled_inline(node) if self._settled else Text()
        for child in [] if self._settled else node.children:
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

    def _settled_inline(self, node: SyntaxTreeNode) -> Text:
        """As much of the running text as no later character can change."""
        text, seen = Text(), ""
        source = node.children[0].content if node.children else ""
        for child in node.children[0].children if node.children else []:
            before = len(text)
            self._inline(child, text, "")
            if child.type in ("text", "softbreak"):
                seen += "\n" if child.type == "softbreak" else text.plain[before:]
            elif child.type in ("code_inline", "dunder") or is_closed(child, source):
                seen += MARKED * (len(text) - before)
            else:
                seen += "`"  # not closed: nothing from here on is final
                break
        return text[: settled_length(seen, source)]

    def _inline(self, node: SyntaxTreeNode, text: Text, style: str) -> None:
        match node.type:
            case "text" | "text_special" | "dunder":  # inside the label of an image escapes and entities stay apart
                if "://" in node.content:
                    text.append_text(self._with_addresses(node.content, style))
                else:
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
        if (link := link_to(target)) is not None and node.type == "link":
            label.stylize(link)
        text.append_text(label)

    def _with_addresses(self, content: str, style: str) -> Text:
        """Running text whose addresses lead where they say. One at the end may still go on while text streams."""
        text = Text(content, style)
        for start, address, end in addresses(content):
            is_open = self._settled and end == len(content)
            if not is_open and (link := link_to(address)) is not None:
                text.stylize(link, start, start + len(address))
        return text
