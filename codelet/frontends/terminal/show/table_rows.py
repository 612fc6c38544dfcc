"""Sets a table: a bold head, a thin rule, two columns of space between; wide cells are wrapped."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from codelet.frontends.terminal.show.console import wrap
from codelet.frontends.terminal.show.style import HEADING, QUIET, Signs

_GAP = 2
_NARROWEST = 6


def table_rows(rows: list[list[Text]], width: int, signs: Signs, alignments: Sequence[str] = ()) -> list[Text]:
    """The rows of a table whose first row is its head, in at most `width` columns where that is possible.

    `alignments` says for each column whether it is set to the left, the center or the right; left without.
    """
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
    """Column widths that fit into `room`: narrow columns keep theirs, the wide ones share what is left."""
    widths = [max(1, n) for n in natural]
    if sum(widths) <= room:
        return widths
    share = max(_NARROWEST, room // len(widths))
    while True:
        wide = [i for i, n in enumerate(natural) if n > share]
        taken = sum(n for n in natural if n <= share)
        if not wide:
            return widths
        better = max(_NARROWEST, (room - taken) // len(wide))
        if better <= share:
            return [min(max(1, n), share) for n in natural]
        share = better


def _joined(cells: list[list[Text]], widths: list[int], alignments: Sequence[str]) -> list[Text]:
    """The cells of one table row side by side, as many rows as the tallest of them."""
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
