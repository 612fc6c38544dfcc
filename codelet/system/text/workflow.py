"""Break commands to a CI runner in a log: GitHub, Azure, TeamCity, GitLab, Travis.

A runner reads its commands from the log that the job prints. GitHub takes `::name::` at the start of a line
(after any spaces) and `##[` anywhere, Azure `##vso[` anywhere, TeamCity `##teamcity[`, GitLab and Travis
section marks at the start of a line. A space inside the mark is enough for none of them to see it.
"""

from __future__ import annotations

import re
from functools import cache

_LINE_MARKS = ("::", "section_start:", "section_end:", "travis_fold:", "travis_time:")
_MARKS = ("##[", "##vso[", "##teamcity[")


@cache
def _command() -> re.Pattern[str]:
    line_marks = "|".join(map(re.escape, _LINE_MARKS))
    return re.compile(rf"(?m)^(?P<blank>[^\S\n]*)(?P<line>{line_marks})|##(?=\[|vso\[|teamcity\[)")


def _broken(found: re.Match[str]) -> str:
    mark = found["line"]
    if mark is None:
        return "# #"
    return f"{found['blank']}{mark[0]} {mark[1:]}" if mark == "::" else f"{found['blank']}{mark[:-1]} :"


class RunnerCommandBreaker:
    """Breaks runner commands in text that arrives in chunks and is already free of controls."""

    def __init__(self) -> None:
        self._pending = ""
        self._at_line_start = True

    def feed(self, chunk: str) -> str:
        """The settled part of the text, with its commands broken."""
        text = self._pending + chunk
        cut = self._settled(text)
        self._pending = text[cut:]
        return self._replaced(text[:cut])

    def flush(self) -> str:
        """The rest at the end of the text."""
        rest, self._pending = self._pending, ""
        return self._replaced(rest)

    def _replaced(self, text: str) -> str:
        if not text:
            return ""
        # Text in mid-line gets a letter before it, so that the pattern's ^ does not take it for a line start.
        guard = "" if self._at_line_start else "x"
        replaced = _command().sub(_broken, guard + text)[len(guard) :]
        line = (guard + text).rpartition("\n")[2]
        self._at_line_start = not line.strip()
        return replaced

    def _settled(self, text: str) -> int:
        """Return how much of `text` no later chunk can make part of a mark."""
        newline = text.rfind("\n")
        line = text[newline + 1 :]
        if newline >= 0 or self._at_line_start:
            word = line.lstrip()
            if word and any(mark.startswith(word) and mark != word for mark in _LINE_MARKS):
                return len(text) - len(word)
        for length in range(min(len(text), max(map(len, _MARKS)) - 1), 0, -1):
            if any(mark.startswith(text[-length:]) for mark in _MARKS):
                return len(text) - length
        return len(text)
