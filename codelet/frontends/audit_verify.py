"""`codelet audit verify`: say whether an audit file is whole, and where it is not."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from codelet.errors import EXIT_DONE, EXIT_INCOMPLETE
from codelet.policy.audit.verify import AuditReport, verify


def run_verify(arguments: argparse.Namespace) -> int:
    """Verify the file; gives 0 where it is whole and 5 where it is not. Raises UsageError."""
    report = verify(Path(arguments.file))
    other_end = arguments.expect is not None and arguments.expect != report.last_hash
    print(_as_json(report) if arguments.json else _explained(report))
    if other_end:
        print("the last hash is not the expected one: the end was cut off or written anew")
    return EXIT_INCOMPLETE if report.problems or other_end else EXIT_DONE


def _as_json(report: AuditReport) -> str:
    problems = [{"line": problem.line, "what": problem.what} for problem in report.problems]
    fields = {"records": report.records, "problems": problems, "unclosed": report.unclosed}
    return json.dumps(fields | {"last_hash": report.last_hash})


def _explained(report: AuditReport) -> str:
    lines = [f"line {problem.line}: {problem.what}" for problem in report.problems]
    if report.unclosed:
        lines.append(f"without a closing record (running, killed or cut off): {len(report.unclosed)}")
    verdict = "not whole" if report.problems else "whole"
    return "\n".join([*lines, f"{report.records} records, {verdict}; last hash {report.last_hash}"])
