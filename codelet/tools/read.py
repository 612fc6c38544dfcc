"""The tool `read`: a text file with line numbers, or a folder's entries."""

from __future__ import annotations

from codelet.tools.tool import Progress, ToolContext, ToolOutput


async def read(
    context: ToolContext, progress: Progress, *, path: str, offset: int = 1, limit: int = 2000
) -> ToolOutput:
    """Read a text file as numbered lines, `limit` from `offset` on, or list a folder."""
    from codelet.tools.reading import read_path

    return await read_path(context, path, offset, limit)
