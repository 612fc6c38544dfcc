"""Writes the reports of a review where `--output FORMAT=FILE` says: each file whole or not at all, or stdout.

On a terminal the text is wrapped to its width, with the severities and the changes in colour.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import EXIT_DONE, EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_PROVIDER, CodeletError, UsageError
from codelet.frontends.streams import say
from codelet.record import Record
from codelet.review.formats import FORMATS, written
from codelet.system.git.hardening import find_repository
from codelet.system.text import Cleaner

if TYPE_CHECKING:
    from codelet.review.findings import Report
    from codelet.review.repeats import Repeats

_HEAD = re.compile(r"(critical|high|medium|low|info)(  \S.*)")
_SEVERITIES = {"critical": "1;31", "high": "31", "medium": "33", "low": "36", "info": "2"}
_CODE = ("    | ", "      ")
_BOLD, _ADDED, _REMOVED, _FAILED = "1", "32", "31", "31"


class ReportFile(Record):
    """A format and where it goes; None is stdout."""

    format: str
    path: Path | None


def output_named(text: str) -> ReportFile:
    """The file that `--output` names: `FORMAT=FILE`, or `FORMAT` or `FORMAT=-` for stdout. Raises UsageError."""
    name, named, file = text.partition("=")
    if name not in FORMATS:
        raise UsageError(f"--output {text}: there is no format {name!r}, only {', '.join(FORMATS)}")
    if named and not file.strip():
        raise UsageError(f"--output {text}: the file's name is empty; {name}=- is stdout")
    if file in ("", "-"):
        return ReportFile(name, None)
    path = Path(file)
    check_target(path, f"--output {text}")
    return ReportFile(name, path)


def check_target(path: Path, option: str) -> None:
    """Raise UsageError for what cannot be written, or would be written through a link of the repository."""
    if path.is_dir():
        raise UsageError(f"{option}: {path} is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{option}: there is no folder {path.parent}; create it first")
    here = os.path.realpath(os.getcwd())
    repository = find_repository(here)
    top = Path(here if repository is None else repository.folder)
    for folder in reversed(path.absolute().parents):
        if folder.is_symlink() and folder.parent.resolve().is_relative_to(top):
            raise UsageError(f"{option}: {folder} is a link; name the folder that it leads to")


def write_reports(outputs: Sequence[ReportFile], report: Report) -> int:
    """Write all reports; the exit status, which is 5 if one could not be written and all else succeeded."""
    status = report.exit
    for output in outputs:
        text = written(output.format, report)
        try:
            if output.path is None:
                print_report(text, output.format)
            else:
                _replace_file(output.path, text)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (OSError, CodeletError) as error:
            say(f"codelet: the report could not be written: {error}")
            status = unwritten(status)
    return status


def _replace_file(path: Path, text: str) -> None:
    """Make `text` the content of the file, whole or not at all; a pipe or a device (`/dev/stdout`) is written to.

    Raises ExportError, which names the file, and OSError.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            stream.write(text.encode("utf-8"))
        return
    from codelet.export.stores.file import FileStore

    store = FileStore(path.parent)
    expected = store.revision(path.name)
    lease = store.lock(path.name)
    try:
        store.save(path.name, [text.encode("utf-8")], lease=lease, expected=expected)
    finally:
        lease.release()


def save_baseline(path: Path, repeats: Repeats, report: Report, status: int) -> int:
    """Write the baseline; return the exit status. A review without any answer does not change it."""
    text = repeats.updated(report)
    if text is None or report.exit == EXIT_PROVIDER:
        return status
    try:
        _replace_file(path, text)
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
