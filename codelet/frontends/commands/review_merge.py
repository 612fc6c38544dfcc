"""`codelet review merge FILE…`: the JSON reports of all shards as one report, with its verdict."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from codelet.errors import UsageError
from codelet.frontends.commands.review_arguments import gate_of
from codelet.frontends.commands.review_known import save_baseline
from codelet.frontends.commands.review_outputs import write_reports
from codelet.frontends.review_words import check_not_empty
from codelet.review.findings import Gate, Report
from codelet.review.formats import ReportFile
from codelet.review.repeats import Repeats
from codelet.review.report_json import report_from
from codelet.review.shards import merged

_DEFAULT_GATE = Gate(min_severity="low")
_MOST_BYTES = 1 << 30


def run_merge(options: argparse.Namespace, outputs: Sequence[ReportFile]) -> int:
    """Join the reports that the options name; the exit status. Raises UsageError: what is missing makes no report."""
    if gate_of(options) != _DEFAULT_GATE:
        raise UsageError("merge takes the thresholds of the reports: give them to each shard")
    if (
        options.shard is not None
        or options.staged
        or options.uncommitted
        or options.base is not None
        or options.diff is not None
    ):
        raise UsageError("merge takes reports only: codelet review merge FILE…")
    check_not_empty(options)
    parts = [(name, read_report(Path(name))) for name in options.what[1:]]
    baseline = Path(options.baseline) if options.baseline is not None else None
    hunks = [hunk for _, report in parts for hunk in report.hunks]
    repeats = Repeats(hunks=hunks, baseline=baseline, update=options.update_baseline)
    report = merged(parts, [repeats.sifted])
    return save_baseline(repeats, report, write_reports(outputs, report))


def read_report(path: Path) -> Report:
    """The report in a file. Raises UsageError that names it."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path}: is larger than {_MOST_BYTES >> 20} MiB")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: it is not a JSON report of a review") from None
    return report_from(document, str(path))
