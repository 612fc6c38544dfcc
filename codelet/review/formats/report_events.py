"""The report as JSON lines: one object for each finding, hunk and finding that was set aside, between two of the whole.

Each line has a `type`: review_start, finding, set_aside, hunk, review_end. The last one is the JSON report without the
lists, so that a reader who sees it has seen all; one who does not has a review that is not whole.
"""

from __future__ import annotations

import json
from typing import Any

from codelet.review.findings import Report
from codelet.review.report_json import report_document

_LISTS = {"findings": "finding", "aside": "set_aside", "hunks": "hunk"}
_START = ("version", "subject", "base", "head", "model", "shard")


def report_events(report: Report) -> str:
    """The lines; ASCII, so that nothing in them can act on a terminal or a log."""
    document = report_document(report)
    lines: list[dict[str, Any]] = [{"type": "review_start"} | {name: document[name] for name in _START}]
    for name, kind in _LISTS.items():
        lines += [{"type": kind} | each for each in document.pop(name)]
    lines.append({"type": "review_end"} | document)
    return "".join(f"{json.dumps(line)}\n" for line in lines)
