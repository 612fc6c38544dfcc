"""Where the text that an edit did not find might have been meant."""

from __future__ import annotations

import re

from codelet.tools.encoding import readable

_MOST_LINES = 4000
_MOST_CHARACTERS = 200


def closest(text: str, old: str) -> str:
    """A clause that tells the model why `old` is not in the text, or which line is closest; may be empty."""
    lines, wanted = text.split("\n"), old.strip("\n").split("\n")
    if all(re.match(r"\s*\d+\t", line) for line in wanted):
        return ": leave out the line numbers that read shows"
    stripped, sought = [line.strip() for line in lines], [line.strip() for line in wanted]
    if any(sought):
        for at, line in enumerate(stripped):
            if line == sought[0] and stripped[at : at + len(sought)] == sought:
                return f": at line {at + 1} it stands with other white space; copy it exactly as read shows it"
    return _most_alike(lines, max(wanted, key=len))


def _most_alike(lines: list[str], line: str) -> str:
    import difflib

    sought = line.strip()[:_MOST_CHARACTERS]
    numbers: dict[str, int] = {}
    for number, candidate in enumerate(lines, 1):
        numbers.setdefault(candidate.strip()[:_MOST_CHARACTERS], number)
        if len(numbers) > _MOST_LINES:
            break
    found = difflib.get_close_matches(sought, numbers, 1, 0.6) if sought else []
    if not found:
        return ": read the file again and copy the text exactly"
    return f"; the closest line is {numbers[found[0]]}: {readable(found[0])}"
