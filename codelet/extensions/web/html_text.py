"""The text of a page: headings, paragraphs, lists, tables, code and links, without scripts, styles and navigation."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_LEFT_OUT = frozenset("script style noscript template svg nav footer iframe form button select".split())
_BLOCKS = frozenset(
    "p div section article main header aside ul ol table tr blockquote figure dl dt dd details summary hr h1 h2 h3 h4 "
    "h5 h6 pre li br title nav footer form iframe".split()
)
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_BLANKS = re.compile(r"[ \t\r\n\f]+")


def html_text(html: str) -> str:
    """Return the text of an HTML page."""
    reader = _PageReader()
    reader.feed(html)
    reader.close()
    lines = (line.rstrip() for line in "".join(reader.parts).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


class _PageReader(HTMLParser):
    """Collects `parts` of text; what is in an element that is left out is skipped to its end."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._skipped: list[str] = []
        self._code = 0
        self._links: list[tuple[str, int]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if self._skipped:
            if tag not in _VOID:
                self._skipped.append(tag)
            return
        if tag in _BLOCKS:
            self._break()
        if tag in _LEFT_OUT:
            self._skipped.append(tag)
            return
        if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self.parts.append(f"\n{'#' * int(tag[1])} ")
        elif tag == "li":
            self.parts.append("- ")
        elif tag in ("td", "th"):
            self.parts.append(" | ")
        elif tag == "pre":
            self._code += 1
            self.parts.append("```\n")
        elif tag == "a":
            self._links.append((dict(attributes).get("href") or "", len(self.parts)))

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            if tag in self._skipped:  # what was left open in it ends too
                del self._skipped[len(self._skipped) - 1 - self._skipped[::-1].index(tag) :]
            return
        if tag == "pre" and self._code:
            self._code -= 1
            self._break()
            self.parts.append("```")
        if tag == "a" and self._links:
            target, begun = self._links.pop()
            words = "".join(self.parts[begun:]).strip()
            if words and target.startswith(("https://", "http://", "/")):
                self.parts.append(f" <{target}>")
        if tag in _BLOCKS:
            self._break()

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        if not self._code:
            data = _BLANKS.sub(" ", data)
            if not self.parts or self.parts[-1].endswith(("\n", " ")):
                data = data.lstrip(" ")
        if data:
            self.parts.append(data)

    def _break(self) -> None:
        if self.parts and not self.parts[-1].endswith("\n"):
            self.parts.append("\n")
