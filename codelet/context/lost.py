"""What the loss check found missing, put back: the newest lines that held it, as one pinned segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.messages import Message, kind_of, segment

if TYPE_CHECKING:
    from codelet.compaction import CompactionReport
    from codelet.compaction.archive import Archive


def put_back(
    body: Sequence[Message], report: CompactionReport, archive: Archive
) -> tuple[list[Message], Message] | None:
    """The conversation with the lines that held what `report` counts as lost, behind its first segments; and those.

    None where the archive holds none of it any more.
    """
    from codelet.compaction.reading import read
    from codelet.compaction.segments import Segment, SegmentEntry, render

    loss = report.loss
    found = archive.lines_with((*loss.rules, *loss.paths, *loss.names, *loss.numbers))
    if not found:
        return None
    place = next((n for n, message in enumerate(body) if kind_of(message) != "segment"), len(body))
    last = read(body)[place - 1].turn if place else 0
    lines = Segment(last, last)  # it stands for no turn of its own: those behind it keep their numbers
    for role, turn, line in found:
        label = "user" if role == "user" else ""
        if lines.entries and (lines.entries[-1].turn, lines.entries[-1].label) == (turn, label):
            lines.entries[-1].lines.append(line)
        else:
            lines.entries.append(SegmentEntry(turn, label, [line]))
    message = segment(render(lines, note=False))
    return [*body[:place], message, *body[place:]], message
