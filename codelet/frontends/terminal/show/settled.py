"""Which part of running text stays as it is, whatever the model writes next.

A mark that has been opened may be closed later: then it vanishes, and all that follows moves. So text counts as
settled up to the first sign that may still open a mark, an address, an entity or a table, and no further.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MARKED = "\ufffc"
"""Stands for each character of a part whose marks are closed: no letter, no space, no sign."""

_SPACE = " \t\n\r\f\v\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_ENDINGS = r"|!\Z|&[#a-zA-Z0-9]*\Z|\\\Z|(?:\A|[\n\ufffc])\|"
_OPEN = re.compile(
    rf"`|~~|~\Z|\*+(?![*{_SPACE}])|(?<!\w)_+(?![_{_SPACE}])"
    rf"|\[(?![^\[\]`<\\&*_~\ufffc]*\][^(])|<(?![^\x00-\x20<>]*[\x00-\x20<>])" + _ENDINGS
)
_OPEN_AS_WRITTEN = re.compile(r"[`~*_\[<]" + _ENDINGS)
"""For text with escapes and entities: what is seen is not what was written, so every such sign counts."""


def settled_length(seen: str, source: str) -> int:
    """How many characters of `seen`, the text as it is set, are final; `source` is what it was set from.

    In `seen` a line end of the source is a line end, and what stood between closed marks is `MARKED`.
    """
    found = _open_signs(source).search(seen)
    end = found.start() if found else len(seen)
    # A mark that seems closed may be part of a longer one: of that what comes next, or is left over, decides.
    return len(seen[:end].rstrip(MARKED).rstrip())


def is_closed(node: SyntaxTreeNode, source: str) -> bool:
    """Whether nothing inside a marked part of running text can still open another mark."""
    if node.type == "link" and node.markup == "autolink":
        return True
    if node.type == "text":
        return _open_signs(source).search(node.content) is None
    return all(is_closed(child, source) for child in node.children)


def is_one_paragraph(node: SyntaxTreeNode) -> bool:
    """Whether all that the node holds is one paragraph, perhaps as a list item or a quote."""
    while len(node.children) == 1:
        node = node.children[0]
        if node.type == "paragraph":
            return True
        if node.type not in ("bullet_list", "ordered_list", "list_item", "blockquote"):
            return False
    return False


def _open_signs(source: str) -> re.Pattern[str]:
    return _OPEN_AS_WRITTEN if "\\" in source or "&" in source else _OPEN
