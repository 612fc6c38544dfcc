"""The tool `edit`: replaces exact text in a file, several places at once. Short: each tool has a file of its own."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from codelet.tools.tool import Arguments, Preview, Progress, ToolContext, ToolOutput


class Replacement(TypedDict):
    """One of an edit's replacements: `old` must occur exactly once unless `all` is set."""

    old: str
    new: str
    all: NotRequired[bool]


def preview(context: ToolContext, arguments: Arguments) -> Preview:
    """The change; raises ToolError where it cannot be made."""
    from codelet.tools.planning import plan_edit

    return Preview(change=plan_edit(context, arguments["path"], arguments["edits"]))


async def edit(context: ToolContext, progress: Progress, *, path: str, edits: list[Replacement]) -> ToolOutput:
    """Replace exact text in a file that is unchanged since you read it, or grep or a command showed it.

    Each `old` must occur once, unless `all`. They apply in order, all or none.
    """
    from codelet.tools.planning import make_change, plan_edit

    change = context.change or plan_edit(context, path, edits)
    diff = change.diff()
    make_change(change, context)
    return ToolOutput(change.summary, display=diff)
