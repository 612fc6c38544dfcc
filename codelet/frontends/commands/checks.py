"""`codelet policy check` explains a verdict; `codelet audit verify` checks an audit file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from codelet.errors import EXIT_DONE, EXIT_INCOMPLETE
from codelet.safety import Policy
from codelet.safety.audit.log import AuditReport, verify
from codelet.safety.verdict import Touch, Verdict
from codelet.system.text import visible


def run_check(arguments: argparse.Namespace) -> int:
    """Print a command's verdict; return the exit status."""
    policy = Policy(Path.cwd(), arguments.check_mode or "ask")
    command = Touch("run", arguments.shell_command)
    verdict = policy.judge("bash", [command], sandboxed=arguments.check_sandbox != "off")
    if arguments.json:
        fields = ("action", "tier", "reason", "rule", "suggestion", "sandbox")
        print(json.dumps({"verdict": verdict.action} | {name: getattr(verdict, name) for name in fields}))
    else:
        covered = policy.covered(verdict.suggestion) if verdict.suggestion else []
        print(_verdict_explained(arguments.shell_command, verdict, covered))
    return EXIT_DONE


def _verdict_explained(command: str, verdict: Verdict, covered: Sequence[str]) -> str:
    lines = [visible(command), f"verdict: {verdict.action} ({verdict.tier})", f"because: {visible(verdict.reason)}"]
    if verdict.sandbox is not None:
        lines.append(f"sandbox: {verdict.sandbox}")
    if verdict.rule:
        lines.append(f"rule:    {visible(verdict.rule)}")
    if verdict.suggestion:
        lines.append(f"a rule that would allow it: {visible(verdict.suggestion)}")
    if len(covered) > 1:
        lines.append(f"it would also allow: {visible(', '.join(covered))}")
    return "\n".join(lines)


def run_verify(arguments: argparse.Namespace) -> int:
    """Verify the audit file; return 0 if it is whole and 5 if it is not. Raises UsageError.

    A session without its closing record counts as cut off, unless the user says that it may still run.
    """
    report = verify(Path(arguments.file))
    other_end = arguments.expect is not None and arguments.expect != report.last_hash
    print(_report_as_json(report) if arguments.json else _report_explained(report, may_run=arguments.open))
    if other_end:
        print("the last hash is not the expected one: the end was cut off or rewritten")
    cut = bool(report.unclosed) and not arguments.open
    return EXIT_INCOMPLETE if report.problems or other_end or cut or not report.records else EXIT_DONE


def _report_as_json(report: AuditReport) -> str:
    problems = [{"line": problem.line, "what": problem.what} for problem in report.problems]
    fields = {"records": report.records, "problems": problems, "unclosed": report.unclosed}
    return json.dumps(fields | {"last_hash": report.last_hash})


def _report_explained(report: AuditReport, *, may_run: bool) -> str:
    lines = [f"line {problem.line}: {problem.what}" for problem in report.problems]
    if report.unclosed:
        hint = "" if may_run else "; --open if they may still run"
        lines.append(f"sessions without a closing record (running, killed or cut off): {len(report.unclosed)}{hint}")
    whole = not report.problems and (may_run or not report.unclosed) and report.records
    verdict = "whole" if whole else "not whole"
    return "\n".join([*lines, f"{report.records} records, {verdict}; last hash {report.last_hash}"])
