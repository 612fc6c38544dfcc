"""The tools that the model can call: the list, written out."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from codelet.errors import UsageError
from codelet.tools.bash import bash
from codelet.tools.edit import edit
from codelet.tools.find import find
from codelet.tools.grep import grep
from codelet.tools.read import read
from codelet.tools.tool import Tool, tool
from codelet.tools.write import write


@functools.cache
def all_tools() -> tuple[Tool, ...]:
    """Every tool, in the order in which the model sees them: the same bytes in every session."""
    return (
        tool(read, "read"),
        tool(write, "write"),
        tool(edit, "write"),
        tool(bash, "execute"),
        tool(grep, "read"),
        tool(find, "read"),
    )


def select_tools(names: Iterable[str]) -> tuple[Tool, ...]:
    """The tools with these names, in the fixed order; raises UsageError for a name that is none."""
    wanted = set(names)
    unknown = sorted(wanted - {each.name for each in all_tools()})
    if unknown:
        known = ", ".join(each.name for each in all_tools())
        raise UsageError(f"unknown tool {unknown[0]!r}; there are {known}")
    return tuple(each for each in all_tools() if each.name in wanted)
