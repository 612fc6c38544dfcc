"""Sets one finished piece of Markdown as rows of rich text.

markdown-it reads it; the rows are made here, as rich's own Markdown centres headings, draws boxes and sets
backgrounds. Raw HTML is shown as it stands. A link shows its address, so that what is seen is where it goes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from codelet.frontends.render.style import CODE, HEADING, QUIET, TEXT_COLUMNS, Signs
from codelet.frontends.render.table import set_table
from codelet.frontends.render.wrap import wrap

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

_INLINE_STYLES = {"strong": "bold", "em": "italic", "s": "strike"}


@lru_cache(maxsize=2)
def _parser(plain: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough"])
    return parser.disable(["lheading", "reference"]) if plain else parser.enable(["table"])


def set_markdown(source: str, width: int, signs: Signs, *, plain: bool = False) -> list[Text]:
    """The rows of `source` at `width` columns; `plain` reads running text and lists only."""
    from markdown_it.tree import SyntaxTreeNode

    tree = SyntaxTreeNode(_parser(plain).parse(source))
    return _Setter(signs).children(tree, width)


class _Setter:
    def __init__(self, signs: Signs) -> None:
        self.signs = signs

    def children(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows: list[Text] = []
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
                style = f"{HEADING} underline" if node.tag == "h1" else HEADING
                text = self.inline(node)
                text.stylize_before(style)
                return wrap(text, min(width, TEXT_COLUMNS))
            case "bullet_list" | "ordered_list":
                return self.items(node, width)
            case "blockquote":
                return self.quote(node, width)
            case "table":
                return set_table(
                    [[self.inline(cell) for cell in row.children] for part in node.children for row in part.children],
                    width,
                    self.signs,
                )
            case "hr":
                return [Text(self.signs.rule * min(width, 40), QUIET)]
            case "fence" | "code_block":
                return [Text("  " + line, CODE) for line in node.content.rstrip("\n").split("\n")]
            case _:
                return wrap(Text(node.content), width) if node.content else self.children(node, width)

    def items(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows: list[Text] = []
        start = int(node.attrs.get("start", 1))
        for number, item in enumerate(node.children):
            ordered = node.type == "ordered_list"
            marker = f"{start + number}. " if ordered else f"{self.signs.bullet} "
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
        text = Text()
        for child in node.children:
            self._inline(child, text, "")
        for mark, sign in (
            ("[ ] ", self.signs.box),
            ("[x] ", self.signs.checked),
            ("[X] ", self.signs.checked),
        ):
            if node.parent and node.parent.type == "list_item" and text.plain.startswith(mark):
                return Text.assemble(sign, text[3:])
        return text

    def _inline(self, node: SyntaxTreeNode, text: Text, style: str) -> None:
        match node.type:
            case "text":
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
        label = Text()
        for child in node.children:
            self._inline(child, label, style)
        label.stylize("underline")
        text.append_text(label)
        if target and label.plain != target:
            text.append(f" ({target})", QUIET)
