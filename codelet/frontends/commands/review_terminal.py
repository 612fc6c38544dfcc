"""The text report on a terminal: wrapped to its width, with the severities and the changes in colour."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap

_HEAD = re.compile(r"(critical|high|medium|low|info)(  \S.*)")
_SEVERITIES = {"critical": "1;31", "high": "31", "medium": "33", "low": "36", "info": "2"}
_CODE = ("    | ", "      ")
_BOLD, _ADDED, _REMOVED, _FAILED = "1", "32", "31", "31"


def on_terminal(text: str) -> str:
    """Return the report for stdout: unchanged for a file or a pipe, laid out for a terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return text
    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return laid_out(text, shutil.get_terminal_size().columns, colours=colours)


def laid_out(text: str, width: int, *, colours: bool) -> str:
    """The report in rows of at most `width` columns; lines of code stay whole."""
    rows = [row for line in text.split("\n") for row in _wrapped(line, width)]
    return "\n".join(map(_coloured, rows) if colours else rows)


def _wrapped(line: str, width: int) -> list[str]:
    if len(line) <= width or line.startswith(_CODE):
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    further = indent + ("" if len(indent) == len(_CODE[0]) - 2 else "  ")
    return textwrap.wrap(
        line, width, subsequent_indent=further, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )


def _coloured(row: str) -> str:
    if found := _HEAD.fullmatch(row):
        return f"{_style(found[1], _SEVERITIES[found[1]])}{_style(found[2], _BOLD)}"
    if row.startswith("      +"):
        return _style(row, _ADDED)
    if row.startswith("      -"):
        return _style(row, _REMOVED)
    if row.startswith(("  failed: ", "  truncated: ", "INCOMPLETE: ")):
        return _style(row, _FAILED)
    return row


def _style(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"
