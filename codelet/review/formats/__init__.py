"""The formats of a report by name, and where they go: `--output FORMAT=FILE`.

Each format is a function from a report to text, imported when it is used. Each marks a review that is not whole: none
can pass for a clean one.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from codelet.errors import ExportError, UsageError
from codelet.record import Record
from codelet.review.findings import Report
from codelet.system.git.hardening import find_repository

FORMATS = {
    "text": "codelet.review.formats.text_report:report_as_text",
    "json": "codelet.review.findings:report_as_json",
    "markdown": "codelet.review.formats.markdown_report:markdown_report",
    "sarif": "codelet.review.formats.sarif:sarif",
    "gitlab": "codelet.review.formats.issue_lists:code_quality",
    "rdjson": "codelet.review.formats.issue_lists:rdjson",
    "github": "codelet.review.formats.issue_lists:github_annotations",
    "junit": "codelet.review.formats.issue_lists:junit",
}
"""The module and the function of each format, by the name that the user gives."""


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
    if path.is_dir():
        raise UsageError(f"--output {text}: {path} is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--output {text}: there is no folder {path.parent}; create it first")
    if (link := linked_folder(path)) is not None:
        raise UsageError(f"--output {text}: {link} is a link; name the folder that it leads to")
    return ReportFile(name, path)


def written(name: str, report: Report) -> str:
    """The report in a format."""
    module, _, function = FORMATS[name].partition(":")
    text: str = getattr(import_module(module), function)(report)
    return text


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
