"""The formats of a report by name, and `--output FORMAT=FILE`: each is one function from a report to text.

The change is given where there is one: a report that was read from a file has none. Short, because each format has a
module of its own that is imported when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from codelet.errors import ExportError, UsageError
from codelet.record import Record
from codelet.review.findings import Report
from codelet.system.git.hardening import find_repository

if TYPE_CHECKING:
    from codelet.review.reviewed_change import ReviewedChange

ReportFormat = Callable[["Report", "ReviewedChange | None"], str]


def _text(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.report_text import report_as_text

    return report_as_text(report)


def _json(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.report_json import report_as_json

    return report_as_json(report)


def _markdown(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.formats.markdown_report import markdown_report

    return markdown_report(report)


def _sarif(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.formats.sarif import sarif

    return sarif(report)


def _gitlab(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.formats.code_quality import code_quality

    return code_quality(report)


def _rdjson(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.formats.rdjson import rdjson

    return rdjson(report)


def _github(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.formats.annotations import github_annotations

    return github_annotations(report)


def _junit(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.formats.junit import junit

    return junit(report)


def _stream_json(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.formats.report_events import report_events

    return report_events(report)


def _html(report: Report, change: ReviewedChange | None) -> str:
    from codelet.review.formats.review_page import review_page

    return review_page(report, change)


FORMATS: Mapping[str, ReportFormat] = {
    "text": _text,
    "json": _json,
    "stream-json": _stream_json,
    "markdown": _markdown,
    "sarif": _sarif,
    "gitlab": _gitlab,
    "rdjson": _rdjson,
    "github": _github,
    "junit": _junit,
    "html": _html,
}
"""What makes a text of a report, by the name that the user gives."""


class ReportFile(Record):
    """A format and where it goes; None is stdout."""

    format: str
    path: Path | None


def output_named(text: str) -> ReportFile:
    """What `--output` says: `FORMAT=FILE`, or `FORMAT` or `FORMAT=-` for stdout. Raises UsageError."""
    name, named, file = text.partition("=")
    if name not in FORMATS:
        raise UsageError(f"--output {text}: there is no format {name!r}, only {', '.join(FORMATS)}")
    if named and not file.strip():
        raise UsageError(f"--output {text}: the file's name is empty; {name}=- is stdout")
    if file in ("", "-"):
        return ReportFile(name, None)
    path = Path(file)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"--output {text}: {path} cannot be written there")
    if (link := linked_folder(path)) is not None:
        raise UsageError(f"--output {text}: {link} is a link; name the folder that it leads to")
    return ReportFile(name, path)


def written(output: ReportFile, report: Report, change: ReviewedChange | None) -> str:
    """The report in the output's format."""
    return FORMATS[output.format](report, change)


def replace_file(path: Path, text: str) -> None:
    """Make `text` the content of the file, whole or not at all; a pipe or a device (`/dev/stdout`) is written to.

    Raises ExportError, which names the file, and OSError.
    """
    if (link := linked_folder(path)) is not None:
        raise ExportError(f"{path}: not written: {link} is a link; name the folder that it leads to")
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


def linked_folder(path: Path) -> Path | None:
    """The first folder of the path that is a link below the top of the repository, or below the current folder."""
    here = os.path.realpath(os.getcwd())
    repository = find_repository(here)
    top = Path(here if repository is None else repository.folder)
    for folder in reversed(path.absolute().parents):
        if folder.is_symlink() and folder.parent.resolve().is_relative_to(top):
            return folder
    return None
