"""The pages of the help folder: `codelet help TOPIC` and `/help TOPIC`."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import codelet

if TYPE_CHECKING:
    from rich.text import Text


_FOLDER = Path(codelet.__file__).with_name("help")
_WIDEST = 110
_TO_A_PAGE = re.compile(r"\[([^\]]+)\]\(([\w-]+)\.md(?:#[\w-]*)?\)")
_IMAGE = re.compile(r"<img\b[^>]*>|</?a\b[^>]*>")
_TO_A_PART = re.compile(r"\[([^\]]+)\]\(#[\w-]*\)")


@cache
def topics() -> list[str]:
    """Return the names of the pages, in alphabetical order."""
    return sorted(path.stem for path in _FOLDER.glob("*.md"))


def page_text(topic: str) -> str:
    """Return the Markdown of a page."""
    return (_FOLDER / f"{topic}.md").read_text(encoding="utf-8")


def page_rows(topic: str, width: int, command: str = "codelet help") -> list[Text]:
    """Return a page as rows; a link to a page names the command that shows it."""
    from codelet.frontends.terminal.show.markdown import markdown_rows

    text = _IMAGE.sub("", page_text(topic))
    text = _TO_A_PART.sub(r"\1", _TO_A_PAGE.sub(rf"\1 ({command} \2)", text))
    return markdown_rows(text, min(width, _WIDEST))


def print_page(topic: str) -> None:
    """Print a page: formatted on a terminal, as Markdown in a pipe."""
    if not sys.stdout.isatty():
        print(page_text(topic), end="")
        return
    from codelet.frontends.terminal.show.console import OutputConsole
    from codelet.frontends.terminal.show.style import writable

    console = OutputConsole()
    for row in page_rows(topic, console.width):
        print(writable(console.written(row), sys.stdout), end="")
