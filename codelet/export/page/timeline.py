"""The timeline of a session as a picture: what each step read from the cache, read anew and wrote; and compactions."""

from __future__ import annotations

from collections.abc import Sequence

from codelet.export.document import CompactionMark, StepMark
from codelet.export.markup import Markup, join, tag
from codelet.record import Record

_BARS = 240
_HEIGHT = 100
_TABLE_ROWS = 500


class _Bar(Record):
    """One bar: a step, or the largest of several where there are too many steps."""

    step: StepMark
    cuts: tuple[CompactionMark, ...]


def timeline(marks: Sequence[StepMark | CompactionMark]) -> Markup:
    """The figure with its legend, and its numbers; nothing where no step was recorded."""
    bars = _bars(marks)
    if not bars:
        return Markup()
    most = max(1, *(_total(bar.step) for bar in bars))
    cuts = sum(len(bar.cuts) for bar in bars)
    title = f"Tokens of {sum(mark['kind'] == 'step' for mark in marks)} steps, the largest {most:,}"
    chart = tag("div", _svg(bars, most, title), tag("span", f"{most:,} tokens", class_="most note"), class_="chart")
    keys = [("cached", "read from the cache"), ("fresh", "read anew"), ("output", "written")]
    legend = [tag("li", tag("span", class_=name), words) for name, words in keys]
    if cuts:
        legend.append(tag("li", tag("span", class_="cut-key"), f"compaction ({cuts})"))
    figure = tag("figure", chart, tag("figcaption", tag("ul", *legend, class_="legend")))
    return join(figure, _numbers(marks))


def _total(step: StepMark) -> int:
    return max(step["total_input"], step["cache_read"]) + step["output"]


def _bars(marks: Sequence[StepMark | CompactionMark]) -> list[_Bar]:
    """The steps in order, each with the compactions before it, merged to at most so many."""
    single: list[_Bar] = []
    waiting: list[CompactionMark] = []
    for mark in marks:
        if mark["kind"] == "compaction":
            waiting.append(mark)
        else:
            single.append(_Bar(mark, tuple(waiting)))
            waiting = []
    each = -(-len(single) // _BARS)
    groups = [single[start : start + each] for start in range(0, len(single), max(1, each))]
    return [
        _Bar(max((bar.step for bar in group), key=_total), tuple(cut for bar in group for cut in bar.cuts))
        for group in groups
    ]


def _svg(bars: Sequence[_Bar], most: int, title: str) -> Markup:
    """Ten units a bar in width, 100 in height; stretched to the room that there is."""
    shapes: list[Markup] = []
    for number, bar in enumerate(bars):
        left = 10 * number
        if bar.step["turn"] % 2:
            shapes.append(tag("rect", x=left, y=0, width=10, height=_HEIGHT, class_="turn"))
        shapes.append(_stack(bar.step, left, most))
    for number, bar in enumerate(bars):
        for cut in bar.cuts:
            told = f"compaction: {cut['before']:,} to {cut['after']:,} tokens ({cut['reason']})"
            line = {"x1": 10 * number, "x2": 10 * number, "y1": 0, "y2": _HEIGHT}
            shapes.append(tag("line", tag("title", told), class_="cut", vector_effect="non-scaling-stroke", **line))
    box = f"0 0 {10 * max(len(bars), 12)} {_HEIGHT}"
    return tag("svg", tag("title", title), *shapes, viewBox=box, preserveAspectRatio="none", role="img")


def _stack(step: StepMark, left: int, most: int) -> Markup:
    cached = step["cache_read"]
    fresh = max(0, step["total_input"] - cached)
    told = f"turn {step['turn']}: {cached:,} cached, {fresh:,} anew, {step['output']:,} written"
    shapes: list[Markup] = []
    foot = float(_HEIGHT)
    for name, tokens in (("cached", cached), ("fresh", fresh), ("output", step["output"])):
        height = _HEIGHT * tokens / most
        foot -= height
        shapes.append(tag("rect", x=left + 1, y=f"{foot:.2f}", width=8, height=f"{height:.2f}", class_=name))
    return tag("g", tag("title", told), *shapes)


def _numbers(marks: Sequence[StepMark | CompactionMark]) -> Markup:
    """The same as a table, folded away."""
    heads = tag("tr", *(tag("th", name, scope="col") for name in ("turn", "cached", "read anew", "written", "list")))
    rows = [_row(mark) for mark in marks[-_TABLE_ROWS:]]
    table = tag("table", tag("thead", heads), tag("tbody", *rows))
    left_out = len(marks) - len(rows)
    note = tag("p", f"The last {len(rows)} of {len(marks)}.", class_="note") if left_out else Markup()
    return tag("details", tag("summary", "The numbers"), note, tag("div", join(table), class_="wide"))


def _row(mark: StepMark | CompactionMark) -> Markup:
    if mark["kind"] == "compaction":
        told = f"compaction: {mark['before']:,} to {mark['after']:,}"
        return tag("tr", tag("td", str(mark["turn"])), tag("td", told, colspan=4))
    anew = max(0, mark["total_input"] - mark["cache_read"])
    cells = (mark["turn"], mark["cache_read"], anew, mark["output"], mark["context"])
    return tag("tr", *(tag("td", f"{cell:,}") for cell in cells))
