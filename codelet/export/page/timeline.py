"""The timeline of a session as the page draws it: what each step read from the cache, read again and wrote."""

from __future__ import annotations

from collections.abc import Sequence

from codelet.export.document import CompactionMark, StepMark
from codelet.record import Record

_BARS = 240
_BAR_WIDTH = 10
_HEIGHT = 100
_TABLE_ROWS = 500


class BarPart(Record):
    """One colour of a bar, from the top in units of the chart."""

    kind: str
    top: str
    height: str


class Bar(Record):
    """A step, or the largest of several; `cuts` describes the compactions before it."""

    left: int
    turn: int
    told: str
    parts: tuple[BarPart, ...]
    cuts: tuple[str, ...]


class Row(Record):
    """A row of the table: a step's cells, or what a compaction did."""

    turn: str
    compaction: str = ""
    cells: tuple[str, ...] = ()


class Timeline(Record):
    """The chart, ten units a bar in width and 100 in height, stretched to the available room; and its numbers."""

    title: str
    most: str
    bars: tuple[Bar, ...]
    cuts: int
    rows: tuple[Row, ...]
    left_out: int
    width: int
    height: int = _HEIGHT


def timeline(marks: Sequence[StepMark | CompactionMark]) -> Timeline:
    """Return what is to be drawn; no bars where no step was recorded."""
    merged = _merged(marks)
    most = max([1, *(_total(step) for step, _ in merged)])
    steps = sum(mark["kind"] == "step" for mark in marks)
    rows = tuple(map(_row, marks[-_TABLE_ROWS:]))
    return Timeline(
        title=f"Tokens of {steps} steps, the largest {most:,}",
        most=f"{most:,}",
        bars=tuple(_bar(number, step, cuts, most) for number, (step, cuts) in enumerate(merged)),
        cuts=sum(len(cuts) for _, cuts in merged),
        rows=rows,
        left_out=len(marks) - len(rows),
        width=_BAR_WIDTH * max(len(merged), 12),
    )


def _total(step: StepMark) -> int:
    return max(step["total_input"], step["cache_read"]) + step["output"]


def _merged(marks: Sequence[StepMark | CompactionMark]) -> list[tuple[StepMark, list[CompactionMark]]]:
    """The steps in order, each with the compactions before it; of too many the largest of every few."""
    single: list[tuple[StepMark, list[CompactionMark]]] = []
    waiting: list[CompactionMark] = []
    for mark in marks:
        if mark["kind"] == "compaction":
            waiting.append(mark)
        else:
            single.append((mark, waiting))
            waiting = []
    each = max(1, -(-len(single) // _BARS))
    groups = [single[start : start + each] for start in range(0, len(single), each)]
    return [
        (max((step for step, _ in group), key=_total), [cut for _, cuts in group for cut in cuts]) for group in groups
    ]


def _bar(number: int, step: StepMark, cuts: Sequence[CompactionMark], most: int) -> Bar:
    cached = step["cache_read"]
    fresh = max(0, step["total_input"] - cached)
    parts: list[BarPart] = []
    foot = float(_HEIGHT)
    for kind, tokens in (("cached", cached), ("fresh", fresh), ("output", step["output"])):
        height = _HEIGHT * tokens / most
        foot -= height
        parts.append(BarPart(kind, f"{foot:.2f}", f"{height:.2f}"))
    told = f"turn {step['turn']}: {cached:,} cached, {fresh:,} new, {step['output']:,} written"
    compactions = (f"compaction: {cut['before']:,} to {cut['after']:,} tokens ({cut['reason']})" for cut in cuts)
    return Bar(_BAR_WIDTH * number, step["turn"], told, tuple(parts), tuple(compactions))


def _row(mark: StepMark | CompactionMark) -> Row:
    if mark["kind"] == "compaction":
        return Row(str(mark["turn"]), f"compaction: {mark['before']:,} to {mark['after']:,}")
    anew = max(0, mark["total_input"] - mark["cache_read"])
    cells = (mark["turn"], mark["cache_read"], anew, mark["output"], mark["context"])
    return Row("", cells=tuple(f"{cell:,}" for cell in cells))
