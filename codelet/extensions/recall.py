"""Recall: what is too large is cut on its way into the list, and the model reads on in it, or in what was compacted.

The tool is in the first request and in every later one, because tools come before everything else in a request: a late
one would cost the provider's cache of the whole conversation. If the user chose the tools, it joins them once there is
something to recall; if the user chose none, never.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from codelet.context.entry import Entry
from codelet.errors import ToolError
from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.prompt import RECALL_TOOL
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool

if TYPE_CHECKING:
    from codelet.context.archive import Archive, Archived, ShownRange
    from codelet.extensions.session_view import SessionView

_RANGE = r"\s*L?([0-9]{1,12})\s*(?:(-|:|\.\.)\s*L?([0-9]{1,12})?)?\s*"
_LARGEST = 10**12


class Recall(Extension, Guard):
    """The tool over one session's archive. The session's entry bounds each answer, and keeps account of what it shows.

    Every result of a call is cut to what may enter the list; the whole text is kept in memory where it fits.
    """

    in_subsessions = False

    def __init__(self) -> None:
        self.guards = (self,)
        self._session: SessionView

    def attach(self, session: SessionView) -> None:
        self._session = session
        self.tools = (recall_tool(lambda: session.compactor.archive, session.entry),)

    def offered(self) -> Sequence[Tool]:
        return self.tools if self._session.compactor.can_recall else ()

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """Return the output with its text cut to size."""
        text = self._session.entry.result(output.text, output.most)
        return output if text is output.text else output.replace(text=text)


def recall_tool(archive: Callable[[], Archive], own: Entry) -> Tool:
    """The tool over an archive; `own` is the entry of the same session."""

    async def recall(
        context: ToolContext,
        progress: Progress,
        *,
        entry: str = "",
        lines: str = "",
        byte_range: str = "",
        pattern: str = "",
        turn: int = 0,
    ) -> ToolOutput:
        ranges: Sequence[ShownRange]
        found = archive().entry(entry) if entry else None
        if entry and found is None:
            raise ToolError(f"recall: nothing in memory has the id {entry!r}")
        if pattern:
            text, ranges = archive().find(pattern, entry, _bounds("lines", lines, 1)[0], own.piece_room())
        elif found is not None:
            text, ranges = _piece(found, lines, byte_range, own.piece_room())
        elif turn:
            return ToolOutput(archive().by_turn(turn))
        else:
            raise ToolError("recall: give an entry, a pattern or a turn")
        own.recalled(ranges, text)
        return ToolOutput(text)

    recall.__doc__ = RECALL_TOOL
    return tool(recall)


def _piece(entry: Archived, lines: str, byte_range: str, room: int) -> tuple[str, Sequence[ShownRange]]:
    """One piece of an entry, with a line above it that says which one and how to continue."""
    from codelet.context.archive import ShownRange, text_in
    from codelet.context.inputs import byte_length, line_at, line_count, place_of_byte, place_of_line

    text = text_in(entry)
    if byte_range:
        first, last = _bounds("byte_range", byte_range, 0)
        start, wanted = place_of_byte(text, first), place_of_byte(text, last + 1)
    else:
        first, last = _bounds("lines", lines, 1)
        start, wanted = place_of_line(text, first), place_of_line(text, last + 1)
    size, count = byte_length(text), line_count(text)
    if start >= len(text) and text:
        raise ToolError(f"recall: {entry.id} has only {count} lines, {size} bytes")
    end = min(wanted, start + room)
    if end < wanted:  # at a line's end, unless the line is longer than what there is room for
        end = text.rfind("\n", start, end) + 1 or end
    whole = start == 0 and end == len(text)
    head = f"[{entry.id}, turn {entry.turn}, {entry.message.get('role')}"
    if not whole:
        last_line = line_at(text, max(start, end - 1))
        head += f", lines {line_at(text, start)}-{last_line} of {count}"
        head += f", bytes {byte_length(text[:start])}-{byte_length(text[:end]) - 1} of {size}"
    if end < wanted:
        at_line = text[end - 1] == "\n"
        head += f"; continue with {f'lines={last_line + 1}-' if at_line else f'byte_range={byte_length(text[:end])}-'}"
    return f"{head}]\n{text[start:end]}", [ShownRange(entry.id, start, end)]


def _bounds(name: str, text: str, least: int) -> tuple[int, int]:
    """The first and the last number of a range such as `201-600`, `201-` or `201`; all of it without one."""
    if not text.strip():
        return least, _LARGEST
    found = re.fullmatch(_RANGE, text, re.IGNORECASE)
    if found is None:
        raise ToolError(f"recall: {name} must be a range such as 201-600 or 201-, not {text[:40]!r}")
    first = max(least, int(found[1]))
    last = int(found[3]) if found[3] else _LARGEST if found[2] else first
    if last < first:
        raise ToolError(f"recall: {name} must be a range that grows, not {text[:40]!r}")
    return first, last
