"""The lines of a hunk, numbered as on the new side, and how a model is shown them.

    src/app.py, lines 10 to 13
       10   def area(width, height):
       11 +     return width * height * 2
          -     return width * height

What nobody would see is shown as its code, so that the model and a person read the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from codelet.record import Record
from codelet.review.diff import FileDiff, Hunk, text_of_bytes
from codelet.safety.secrets import mask
from codelet.system.text import with_codes

LONGEST_LINE = 2_000
"""Characters of a line that are shown; a hunk with a longer one counts as truncated."""

SEPARATOR = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What would begin another row where a text is shown, and does not end a line of the file."""
_CUT = " [… {more} more characters]"


class HunkLine(Record, kw_only=True):
    """One line of a hunk. `number` is that of the new side; of a removed line it is that of the line that follows.

    `text` is the line without its end, `ending` the carriage return that it may have had; `unended` marks the last line
    of a file that does not end with a newline.
    """

    sign: str
    number: int
    text: str
    ending: str = ""
    unended: bool = False

    @property
    def shown(self) -> str:
        """The text as the model is shown it: without this process's secrets."""
        text = mask(self.text)
        if not (text.isascii() and text.isprintable()):
            text = with_codes(SEPARATOR.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text))
        if len(text) <= LONGEST_LINE:
            return text
        return text[:LONGEST_LINE] + _CUT.format(more=len(text) - LONGEST_LINE)

    @property
    def row(self) -> str:
        """The line as it stands in a request."""
        number = "" if self.sign == "-" else str(self.number)
        return f"{number:>5} {self.sign} {self.shown}".rstrip(" ")


@lru_cache(maxsize=64)
def lines_of(hunk: Hunk) -> tuple[HunkLine, ...]:
    """The hunk's lines in order."""
    return tuple(_lines(hunk))


def _lines(hunk: Hunk) -> Iterator[HunkLine]:
    number = max(hunk.new_start, 1)
    waiting: HunkLine | None = None
    for raw in text_of_bytes(hunk.body).split("\n") if hunk.body else ():
        if raw.startswith("\\"):
            if waiting is not None:
                waiting = waiting.replace(unended=True)
            continue
        if waiting is not None:
            yield waiting
        sign, text = raw[:1] or " ", raw[1:]
        ending = "\r" if text.endswith("\r") else ""
        waiting = HunkLine(sign=sign, number=number, text=text.removesuffix("\r"), ending=ending)
        if sign != "-":
            number += 1
    if waiting is not None:
        yield waiting


def hunk_heading(file: FileDiff, lines: Sequence[HunkLine], hunk: Hunk) -> str:
    """The row above a hunk's lines: the file, as a JSON text, and which of its lines follow."""
    numbers = [line.number for line in lines if line.sign != "-"]
    where = f"lines {numbers[0]} to {numbers[-1]}" if numbers else f"lines removed before line {lines[0].number}"
    moved = f", {file.state} from {json.dumps(with_codes(file.old_path))}" if file.old_path is not None else ""
    new = ", a new file" if file.state == "added" else ""
    section = with_codes(text_of_bytes(hunk.section)).strip()[:120]
    within = f", in {json.dumps(section, ensure_ascii=False)}" if section else ""
    return f"{json.dumps(with_codes(file.path), ensure_ascii=False)}{new}{moved}, {where}{within}"


def has_cut_line(lines: Sequence[HunkLine]) -> bool:
    """Whether a line is too long to be shown whole."""
    return any(len(line.text) > LONGEST_LINE for line in lines)
