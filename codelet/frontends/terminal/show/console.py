"""The front ends' console, and wrapping of rich text into rows."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from io import StringIO
from itertools import pairwise
from typing import Any, NoReturn

from rich.console import COLOR_SYSTEMS, Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from codelet.frontends.terminal.show.style import Ground, look_of

_COLOURS = {"256": 256, "truecolor": 1 << 24}


class OutputConsole(Console):
    """rich's console on stdout: no markup, emoji names, or highlighting."""

    def __init__(self, theme: str = "auto", ground: Ground = "", **options: Any) -> None:
        # "auto" finds out whether there are colours at all, and how many.
        super().__init__(**{"markup": False, "highlight": False, "emoji": False, "color_system": "auto", **options})
        self._styles: dict[str | Style, Style] = {}
        self.set_look(theme, ground)

    def set_look(self, theme: str, ground: Ground) -> None:
        """Change the theme or the background."""
        self.look = look_of(theme, ground, 0 if self.no_color else _COLOURS.get(self.color_system or "", 16))
        self._styles.clear()

    def get_style(self, name: str | Style, *, default: Style | str | None = None) -> Style:
        """Return a style as the theme shows it."""
        found = self._styles.get(name)
        if found is None:
            words = " ".join(self.look.words.get(word, word) for word in str(name).split())
            found = super().get_style(words, default=default)
            found = self._styles[name] = found.without_color if self.look.is_plain else found
        return found

    def written(self, row: Text) -> str:
        """Render a row with its line end: what `print` would write, without layout."""
        if "\t" in row.plain:
            row = row.copy()
            row.expand_tabs(8)
        system = COLOR_SYSTEMS.get(self.color_system or "")
        parts = [style.render(text, color_system=system) if style else text for text, style, _ in self._segments(row)]
        return "".join([*parts, "\n"])

    def _segments(self, row: Text) -> Iterable[Segment]:
        style = self.get_style(row.style)
        if not row.spans:  # rich leaves the style of the whole to `print` then
            return [Segment(row.plain, style)]
        if style or any(after.start < before.end for before, after in pairwise(row.spans)):
            return row.render(self)
        text, at = row.plain, 0
        segments: list[Segment] = []
        for start, end, named in row.spans:  # consecutive spans, as in code: rich would sort and combine them
            segments += (Segment(text[at:start]), Segment(text[start:end], self.get_style(named)))
            at = end
        return [*segments, Segment(text[at:])]

    def on_broken_pipe(self) -> NoReturn:
        """Leave a broken pipe to the command line."""
        raise BrokenPipeError


@lru_cache(maxsize=1)
def _ruler() -> Console:
    """A console for measuring, which rich needs to wrap. Without both sizes it would read them from the environment."""
    return Console(file=StringIO(), width=80, height=25, no_color=True, markup=False, highlight=False)


def drawn_rows(drawing: RenderableType, width: int) -> list[Text]:
    """Render one of rich's drawings as rows."""
    lines = _ruler().render_lines(drawing, _ruler().options.update(width=width), pad=False)
    rows = [Text.assemble(*((text, style or "") for text, style, _ in line)) for line in lines]
    for row in rows:
        row.rstrip()
    return rows


def wrap(text: Text, width: int) -> list[Text]:
    """Wrap text between words; a longer word is broken anywhere."""
    if "\n" not in text.plain and "\t" not in text.plain and text.cell_len <= width:
        if not text.plain[-1:].isspace():
            return [text]
        row = text.copy()
        row.rstrip()
        return [row]
    rows = list(text.wrap(_ruler(), max(width, 1), overflow="fold", tab_size=4))
    for row in rows:
        row.rstrip()
    return rows or [Text()]


def wrap_indented(text: Text, width: int, margin: str) -> list[Text]:
    """Wrap text and indent every row."""
    return [Text.assemble(margin, row) for row in wrap(text, max(width - len(margin), 1))]


def wrap_behind_sign(line: Text, width: int) -> list[Text]:
    """Wrap a line that begins with a sign; further rows are indented below its words."""
    lead = line.plain.find(" ") + 1
    first, *more = wrap(line[lead:], width - lead)
    return [Text.assemble(line[:lead], first), *(Text.assemble(" " * lead, row) for row in more)]


def hanging(line: Text, width: int) -> list[Text]:
    """Wrap a line of code; further rows are indented two columns deeper."""
    if len(line) <= width // 2 or line.cell_len <= width:  # no sign is wider than two cells
        return [line]
    begins = len(line.plain) - len(line.plain.lstrip())
    lead = line[: min(begins, width // 2)]
    first, *more = wrap(line[begins:], max(width - len(lead) - 2, 1))
    return [lead + first, *(Text.assemble(" " * (len(lead) + 2), row) for row in more)]


def truncate(text: Text, width: int) -> Text:
    """Cut a row to the width and mark the cut."""
    row = text.copy()
    row.expand_tabs(4)
    if row.cell_len <= width:
        return row
    row.truncate(max(width - 1, 0), overflow="crop")
    row.append("…")
    return row
