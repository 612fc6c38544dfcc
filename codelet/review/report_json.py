"""The report as a JSON document, and back: the same names, nothing left out, unknown is null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from codelet.errors import UsageError
from codelet.record import Record
from codelet.review.findings import REPORT_VERSION, Finding, Gate, HunkCoverage, Report, SetAside
from codelet.usage import Usage

_LISTS: dict[str, type[Record]] = {"findings": Finding, "aside": SetAside, "hunks": HunkCoverage}
_PARTS: dict[str, type[Record]] = {"gate": Gate, "usage": Usage}
_TUPLES = ("before", "after")


def report_document(report: Report) -> dict[str, Any]:
    """The report as an object; `outcome`, `states`, `coverage` and `set_aside` are counted from the rest."""
    return {
        **{name: _plain(getattr(report, name)) for name in report.fields},
        "outcome": report.outcome,
        "states": report.states,
        "coverage": None if report.coverage is None else round(report.coverage, 2),
        "set_aside": report.set_aside,
        "duration": round(report.duration, 3),
    }


def report_as_json(report: Report) -> str:
    """The document as ASCII text, so that nothing in it can act on a terminal or a log."""
    return json.dumps(report_document(report), indent=1) + "\n"


def read_report(path: Path) -> Report:
    """The report in a file. Raises UsageError that names it."""
    try:
        return report_from(json.loads(path.read_bytes()), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError, MemoryError):
        raise UsageError(f"{path}: is not a JSON report of a review") from None


def report_from(document: object, source: str) -> Report:
    """The report in a document. Raises UsageError that begins with `source` for anything else."""
    if not isinstance(document, dict) or document.get("version") != REPORT_VERSION:
        raise UsageError(f"{source}: is not a report of a review of version {REPORT_VERSION}")
    fields = {name: value for name, value in document.items() if name in Report.fields}
    try:
        for name, kind in _LISTS.items():
            fields[name] = tuple(_record(kind, each) for each in fields.get(name, ()))
        for name, part in _PARTS.items():
            if fields.get(name) is not None:
                fields[name] = _record(part, fields[name])
        fields["fallbacks"] = tuple(fields.get("fallbacks", ()))
        return Report(**fields)
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{source}: is not a report of a review: {error}") from None


def _plain(value: object) -> Any:
    if isinstance(value, Record):
        return {name: _plain(getattr(value, name)) for name in value.fields}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _record(kind: type[Record], fields: dict[str, Any]) -> Any:
    """A record of what a newer version may have added to: names that are not known are passed over."""
    known = {name: value for name, value in fields.items() if name in kind.fields}
    return kind(**{name: tuple(value) if name in _TUPLES else value for name, value in known.items()})
