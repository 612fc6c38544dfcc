"""A change to one file, worked out before it is made, and a unified diff of it, bounded in time and size."""

from __future__ import annotations

from pathlib import Path

from codelet.events import FileChange
from codelet.record import Record
from codelet.tools.encoding import Format, readable
from codelet.tools.seen import Fingerprint

_CONTEXT = 3
_MOST_LINES = 4000
_MOST_SHOWN = 64_000
_MOST_REPORTED = 256 * 1024
"""Characters of both texts together that an event carries."""


class Change(Record, kw_only=True):
    """One file's text before and after a change, and how to write it to the disk.

    `before` is None without an old file, or if it has no text. `summary` is the text for the model. `expected` is the
    fingerprint that the file must have when the change is made, None for a new file. `unseen` describes the parts that
    the model has not seen, if the change would replace them. `whole` marks a text that the model wrote from beginning
    to end.
    """

    path: Path
    name: str
    before: str | None
    after: str
    summary: str
    form: Format = Format()
    expected: Fingerprint | None = None
    unseen: str = ""
    whole: bool = False

    def reported(self) -> FileChange | None:
        """Return the change as events carry it; None if it is too large, or if it replaces what is not text."""
        replaces_other = self.before is None and self.expected is not None
        if replaces_other or len(self.before or "") + len(self.after) > _MOST_REPORTED:
            return None
        return FileChange(path=str(self.path), before=self.before, after=self.after)

    def diff(self) -> str:
        head = (
            f"(the diff leaves out what {self.name} held: no text)\n"
            if self.before is None and self.expected is not None
            else ""
        )
        return head + unified(self.before or "", self.after, self.name)


def unified(old: str, new: str, name: str) -> str:
    """Return the difference of two texts as `diff -u` writes it; empty if they are equal.

    Equal parts at both ends are not compared; a middle of more than 4,000 lines is shown as replaced whole.
    """
    before, after = _lines(old), _lines(new)
    start = _equal(before, after, min(len(before), len(after)))
    room = min(len(before), len(after)) - start
    end = _equal(before[::-1], after[::-1], room)
    if start == len(before) == len(after):
        return ""
    first = max(start - _CONTEXT, 0)
    a = before[first : len(before) - end + _CONTEXT if end else None]
    b = after[first : len(after) - end + _CONTEXT if end else None]
    parts = [f"--- {name}\n+++ {name}\n"]
    for group in _groups(a, b, start - first, min(end, _CONTEXT)):
        low, high = group[0], group[-1]
        parts.append(f"@@ -{_span(first, low[1], high[2])} +{_span(first, low[3], high[4])} @@\n")
        for tag, i, j, k, m in group:
            if tag == "equal":
                parts += [_line(" ", line) for line in a[i:j]]
            else:
                parts += [_line("-", line) for line in a[i:j]] + [_line("+", line) for line in b[k:m]]
    text = readable("".join(parts))
    return (
        text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}\n[… {len(text) - _MOST_SHOWN} more characters]\n"
    )


_Group = list[tuple[str, int, int, int, int]]


def _groups(a: list[str], b: list[str], head: int, tail: int) -> list[_Group]:
    if len(a) + len(b) > _MOST_LINES:
        i, j = len(a) - tail, len(b) - tail
        return [[("equal", 0, head, 0, head), ("replace", head, i, head, j), ("equal", i, i + tail, j, j + tail)]]
    from difflib import SequenceMatcher

    return list(SequenceMatcher(None, a, b).get_grouped_opcodes(_CONTEXT))


def _lines(text: str) -> list[str]:
    """The lines with their ends; str.splitlines would also cut at form feeds and the like."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _equal(a: list[str], b: list[str], most: int) -> int:
    count = 0
    while count < most and a[count] == b[count]:
        count += 1
    return count


def _span(first: int, low: int, high: int) -> str:
    # An empty range is named by the line before it, as diff does.
    start = first + low + (1 if high > low else 0)
    return f"{start}" if high - low == 1 else f"{start},{high - low}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
