"""Writes the reports of a review: each file whole or not at all, stdout for the one that goes there.

On a terminal the text is wrapped to its width, with the severities and the changes in colour.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_PROVIDER, CodeletError
from codelet.frontends.streams import say
from codelet.review.formats import ReportFile, replace_file, written

if TYPE_CHECKING:
    from codelet.review.findings import Report
    from codelet.review.repeats import Repeats

_HEAD = re.compile(r"(critical|high|medium|low|info)(  \S.*)")
_SEVERITIES = {"critical": "1;31", "high": "31", "medium": "33", "low": "36", "info": "2"}
_CODE = ("    | ", "      ")
_BOLD, _ADDED, _REMOVED, _FAILED = "1", "32", "31", "31"


def write_reports(outputs: Sequence[ReportFile], report: Report) -> int:
    """Write all reports; the exit status, which is 5 if one could not be written and all else succeeded."""
    status = report.exit
    for output in outputs:
        text = written(output.format, report)
        try:
            if output.path is None:
                print_report(text, output.format)
            else:
                replace_file(output.path, text)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, CodeletError) as error:
            say(f"codelet: the report could not be written: {error}")
            status = unwritten(status)
    return status


def save_baseline(repeats: Repeats, report: Report, status: int) -> int:
    """Write the baseline if requested; return the exit status. A review without any answer does not change it."""
    text = repeats.updated(report)
    if text is None or repeats.target is None or report.exit == EXIT_PROVIDER:
        return status
    try:
        replace_file(repeats.target, text)
    except CodeletError as error:
        say(f"codelet: the baseline could not be written: {error}")
        return unwritten(status)
    return status


def unwritten(status: int) -> int:
    """The exit status after a file could not be written."""
    return EXIT_INCOMPLETE if status in (EXIT_DONE, EXIT_FINDINGS) else status


def print_report(text: str, form: str) -> None:
    """Write a report to stdout; in a pipeline nothing in it is a command to the runner, but in `github` ours are."""
    from codelet.frontends.streams import in_ci

    if in_ci():
        text = _without_commands(text, form)
    if form == "text":
        text = on_terminal(text)
    sys.stdout.write(text)
    sys.stdout.flush()


def _without_commands(text: str, form: str) -> str:
    """The report with every runner's command broken; what a program reads of JSON, XML and HTML stays the same."""
    match form:
        case "github":
            return text
        case "text" | "markdown":
            from codelet.system.text import Cleaner

            cleaner = Cleaner(ci=True)
            return cleaner.feed(text) + cleaner.flush()
        case "junit":
            text = text.replace("##", "#&#35;")
            return re.sub(r"(?m)^([^\S\n]*(?:section_start|section_end|travis_fold|travis_time)?):", r"\1&#58;", text)
        case _:
            return text.replace("##", "#\\u0023")


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
