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
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode
    from rich.console import JustifyMethod

_INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}
_HEADINGS = {"h1": f"{HEADING} underline", "h2": f"{HEADING} {ACCENT}", "h3": HEADING, "h4": f"{HEADING} italic"}
_DELIMITERS = re.compile(r"\s*\|?(?:\s*:?-+:?\s*\|)*(?:\s*:?-+:?\s*)?")
"""The row below a table's head."""
_CELL = re.compile(r"(?<!\\)\|")
_DUNDER = re.compile(r"(?<!\w)__[a-z]+(?:_[a-z]+)*__(?!\w)")
_PLAIN = re.compile(r"([-*+] )?([^\W\d_][^\n]*(?:\n *[^\W\d_][^\n]*)*)")
"""A paragraph or a bullet whose lines begin with a letter: it has no other blocks in it."""
_EDGES = re.compile(r"^\s*\|?|\|?\s*$")
_ALIGNMENTS: dict[str, JustifyMethod] = {"::": "center", "-:": "right"}
_DEEPEST = 100
"""The deepest nesting of blocks; the parser drops deeper ones. Its own limit is 20, or ten lists."""
_MOST_CODE = 20_000
"""The most characters of code in a quote that are coloured."""
_NARROWEST_CELL = 6
"""The narrowest column with its gap: rich drops what does not fit."""
_NARROWEST = 10
"""The narrowest text, in nested lists and quotes."""


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


def block_rows(source: str, width: int, signs: Signs) -> list[Text]:
    """Render a block, or several."""
    from markdown_it.tree import SyntaxTreeNode

    lines = source.split("\n", 2)
    if len(lines) > 1 and "|" in lines[0] and _DELIMITERS.fullmatch(lines[1]):
        return _RowMaker(signs).table(source.split("\n"), width)
    if plain := _PLAIN.fullmatch(source):
        marker = f"{signs.bullet} " if plain[1] else ""
        text = _inline_text(_parser().parseInline(plain[2].rstrip()))
        rows = wrap(text, min(max(width - len(marker), _NARROWEST), TEXT_COLUMNS))
        return [Text.assemble((" " * len(marker) if place else (marker, QUIET)), row) for place, row in enumerate(rows)]
    return _RowMaker(signs).children(SyntaxTreeNode(_parser().parse(source)), width)


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
                text = _inline_text(node.to_tokens())
                boxes = {"[ ] ": self.signs.box, "[x] ": self.signs.checked, "[X] ": self.signs.checked}
                sign = boxes.get(node.children[0].content[:4])  # as written: an escaped one is text
                if sign and node.parent and node.parent.type == "list_item":
                    text = Text.assemble(sign, text[3:])
                return wrap(text, min(width, TEXT_COLUMNS))
            case "heading":
                text = _inline_text(node.to_tokens())
                text.stylize_before(_HEADINGS.get(node.tag, "italic"))
                return wrap(text, min(width, TEXT_COLUMNS))
            case "bullet_list" | "ordered_list":
                return self.items(node, width)
            case "blockquote":
                bar = f"{self.signs.quote} "
                return [Text.assemble((bar, QUIET), row) for row in self.children(node, width - len(bar))]
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

    def table(self, lines: list[str], width: int) -> list[Text]:
        """A table as rich sets it, with a rule below its head. markdown-it would drop cells without a head."""
        from rich.box import Box
        from rich.table import Table

        head, sides, *rows = ([cell.strip() for cell in _CELL.split(_EDGES.sub("", line))] for line in lines)
        texts = [
            [_inline_text(_parser().parseInline(cell.replace("\\|", "|"))) for cell in row] for row in (head, *rows)
        ]
        rule = f" {self.signs.rule}  "
        table = Table(
            box=Box("\n".join(["    ", "    ", rule, *["    "] * 5])),
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
