"""The tools that the model can call. A path is opened at the place that was judged, and every answer is bounded.

tests/safety/test_race.py swaps paths for links in between; tests/tools/test_read.py and tests/tools/test_search.py ask
for too much.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from codelet.errors import UsageError
from codelet.tools import bash, file_tools
from codelet.tools.tool import Arguments, Tool, all_arguments


@functools.cache
def all_tools() -> tuple[Tool, ...]:
    """Every tool, in the order in which the model sees them: the same bytes in every session.

    A new tool goes after the others: into the last of these modules, or into a new one.
    """
    return (*file_tools.TOOLS, *bash.TOOLS, *file_tools.SEARCH_TOOLS)


def select_tools(names: Iterable[str]) -> tuple[Tool, ...]:
    """The tools with these names, in the fixed order; raises UsageError for an unknown name."""
    wanted = set(names)
    unknown = sorted(wanted - {each.name for each in all_tools()})
    if unknown:
        known = ", ".join(each.name for each in all_tools())
        raise UsageError(f"unknown tool {unknown[0]!r}; there are {known}")
    return tuple(each for each in all_tools() if each.name in wanted)


def title_of(name: str, arguments: Arguments) -> str:
    """Return the title of a recorded call: from the tool of that name, else all arguments."""
    known = next((each for each in all_tools() if each.name == name), None)
    return all_arguments(arguments) if known is None else known.about(arguments)
