"""The report as a JSON document, and back: the same names, nothing left out, unknown is null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from codelet.errors import UsageError
from codelet.review.findings import REPORT_VERSION, Report
from codelet.usage import Usage


def report_document(report: Report) -> dict[str, Any]:
    """The report as an object; `outcome`, `states`, `coverage` and `set_aside` are counted from the rest."""
    document = msgspec.to_builtins(report, enc_hook=lambda usage: {name: getattr(usage, name) for name in Usage.fields})
    return {
        **document,
        "aside": [{**each, "line": each["line"] or None} for each in document["aside"]],
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
    try:
        aside = [{**each, "line": each.get("line") or 0} for each in document.get("aside", ())]
        return msgspec.convert({**document, "aside": aside}, Report, dec_hook=_usage)
    except (msgspec.ValidationError, TypeError, AttributeError) as error:
        raise UsageError(f"{source}: is not a report of a review: {error}") from None


def _usage(kind: type, value: Any) -> Any:
    return kind(**{name: number for name, number in value.items() if name in Usage.fields})
