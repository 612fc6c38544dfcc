"""The recall tool: the model brings back what compaction took out of the list."""

from __future__ import annotations

from codelet.calls import Toolbox
from codelet.compaction.archive import Archive
from codelet.errors import ToolError
from codelet.tools.tool import Progress, Tool, ToolContext, ToolOutput, tool


def offer_recall(toolbox: Toolbox, archive: Archive) -> None:
    """Give the model the tool from the next request on."""
    toolbox.add(recall_tool(archive))


def recall_tool(archive: Archive) -> Tool:
    """The tool over one archive; offered only once there is something in it."""

    async def recall(
        context: ToolContext, progress: Progress, *, entry: str = "", turn: int = 0, pattern: str = ""
    ) -> ToolOutput:
        """Bring back messages that compaction took out of this conversation. Give one of entry, turn and pattern.

        entry: the id of one message, such as r17, as a marker or a search names it
        turn: all messages of this turn
        pattern: a regular expression; the lines that match it, with ids
        """
        if entry:
            return ToolOutput(archive.by_id(entry))
        if turn:
            return ToolOutput(archive.by_turn(turn))
        if pattern:
            return ToolOutput(archive.search(pattern))
        raise ToolError("recall: give an entry, a turn or a pattern")

    return tool(recall, "read")
