"""The parts of files that the model has seen: lines by `read`, and names by searches and commands.

It answers two questions. May `write` replace a whole file: has every line of it been shown? And may `edit` skip a
`read`: has the file stayed unchanged since a search or a command showed something of it?
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from codelet.record import Record

Fingerprint = tuple[int, int]
"""Size in bytes and time of the last change in ns: what a file had when the model last read or wrote it."""

LineSpan = tuple[int, int]
"""The first and the last of some lines, counted from 1."""


def digest_of(content: bytes) -> bytes:
    """A digest that shows whether a file has the same bytes as before, whatever its time stamp."""
    import hashlib

    return hashlib.sha256(content).digest()


EVERY: LineSpan = (1, 1 << 62)
"""All lines, however many: the model wrote the file itself."""

_MOST_NAMED = 4


class ShownLines(Record):
    """Lines of one file that the model was shown unchanged. They hold while the file has that fingerprint."""

    path: Path
    fingerprint: Fingerprint
    spans: tuple[LineSpan, ...]

    def joined(self, earlier: ShownLines | None) -> ShownLines:
        """These lines and the earlier ones; without them where the file has changed in between."""
        if earlier is None or earlier.fingerprint != self.fingerprint:
            return self
        return self.replace(spans=_merged((*earlier.spans, *self.spans)))

    def covers(self, lines: int) -> bool:
        """Return whether every line of a file with this many `lines` was shown."""
        return not lines or any(first <= 1 and last >= lines for first, last in self.spans)

    def named(self, lines: int) -> str:
        """Return a description of what was shown of a file with this many `lines`."""
        spans = [f"{first}-{min(last, lines)}" if last > first else f"{first}" for first, last in self.spans]
        more = ", …" if len(spans) > _MOST_NAMED else ""
        return f"only lines {', '.join(spans[:_MOST_NAMED])}{more} of its {lines:,}"

    def after(self, before: str, after: str, fingerprint: Fingerprint) -> ShownLines:
        """Return the seen lines after an edit: lines after it have moved, new ones are the model's own."""
        old, new = before.split("\n"), after.split("\n")
        room = min(len(old), len(new))
        head = next((at for at in range(room) if old[at] != new[at]), room)
        room -= head
        tail = next((at for at in range(room) if old[-1 - at] != new[-1 - at]), room)
        # Between the first and the last place that changed lie lines that only count where all of them were shown.
        low, high, moved = head + 1, len(old) - tail, len(new) - len(old)
        middle = any(first <= low and last >= high for first, last in self.spans)
        spans: list[LineSpan] = [(low, high + moved)] if middle and high + moved >= low else []
        for first, last in self.spans:
            spans.append((first, min(last, low - 1)))
            spans.append((max(first, high + 1) + moved, last + moved))
        return ShownLines(self.path, fingerprint, _merged(spans))


def _merged(spans: Iterable[LineSpan]) -> tuple[LineSpan, ...]:
    found: list[LineSpan] = []
    for first, last in sorted(span for span in spans if span[0] <= span[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def count_lines(text: str) -> int:
    """Lines as `read` counts them: what follows the last line end is one, too, unless it is empty."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def named_since(outputs: Iterable[tuple[int, str]], name: str, changed: int) -> bool:
    """Return whether a search or a command that began after `changed` (ns since the epoch) names the file.

    `outputs` are begin and text of each: a command's text counts as well as its output. Its last component is
    enough of a name, as commands change folders.
    """
    last = name.rpartition("/")[2]
    pattern = re.compile(rf"(?<![\w.-]){re.escape(last)}(?![\w-]|\.\w)")
    return any(began >= changed and pattern.search(text) is not None for began, text in outputs)
