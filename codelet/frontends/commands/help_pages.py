"""`codelet help TOPIC`: the pages of the help folder, set for a terminal, or as they are in a pipe.

Short because rich sets them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import codelet

_FOLDER = Path(codelet.__file__).with_name("help")
_WIDEST = 110
_TO_A_PAGE = re.compile(r"\[([^\]]+)\]\(([\w-]+)\.md(?:#[\w-]*)?\)")
_TO_A_PART = re.compile(r"\[([^\]]+)\]\(#[\w-]*\)")


def topics() -> list[str]:
    """Return the names of the pages, in alphabetical order."""
    return sorted(path.stem for path in _FOLDER.glob("*.md"))


def page_text(topic: str) -> str:
    """Return the Markdown of a page."""
    return (_FOLDER / f"{topic}.md").read_text(encoding="utf-8")


def print_page(topic: str) -> None:
    """Print a page on stdout."""
    if not sys.stdout.isatty():
        print(page_text(topic), end="")
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    text = _TO_A_PART.sub(r"\1", _TO_A_PAGE.sub(r"\1 (codelet help \2)", page_text(topic)))
    console = Console(highlight=False, theme=Theme({"markdown.code": "bold cyan"}))
    console.print(Markdown(text, hyperlinks=False), width=min(console.width, _WIDEST))
