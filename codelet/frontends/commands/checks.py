"""`codelet policy check` explains a verdict or judges a file of cases; `codelet audit verify` checks an audit file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from codelet.errors import EXIT_DONE, EXIT_INCOMPLETE, UsageError
from codelet.frontends.commands.policy_cases import JudgedCase, judge_cases, read_cases
from codelet.safety import Policy
from codelet.safety.audit.verify import AuditReport, verify
from codelet.safety.verdict import Touch, Verdict
from codelet.system.text import visible


def run_check(arguments: argparse.Namespace) -> int:
    """Run the check that the arguments ask for (see `arguments.py`); return the exit status. Raises UsageError."""
    if (arguments.shell_command is None) == (arguments.cases is None):
        raise UsageError("policy check takes a COMMAND or --cases FILE")
    sandboxed = arguments.check_sandbox != "off"
    if arguments.cases is None:
        policy = Policy(Path.cwd(), arguments.check_mode or "ask")
        verdict = policy.judge("bash", [Touch("run", arguments.shell_command)], sandboxed=sandboxed)
        covered = policy.covered(verdict.suggestion) if verdict.suggestion else []
        explained = _verdict_explained(arguments.shell_command, verdict, covered)
        fields = ("action", "tier", "reason", "rule", "suggestion", "sandbox")
        as_json = {"verdict": verdict.action} | {name: getattr(verdict, name) for name in fields}
        print(json.dumps(as_json) if arguments.json else explained)
        return EXIT_DONE
    judged: list[JudgedCase] = []
    cases = read_cases(Path(arguments.cases))
    for one in judge_cases(cases, arguments.check_mode or "read-only", sandboxed=sandboxed):
        judged.append(one)
        if arguments.json:
            print(json.dumps({"id": one.case.id, "verdict": one.verdict, "reason": one.reason}))
    if not arguments.json:
        print(score(judged))
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


def score(judged: Sequence[JudgedCase]) -> str:
    """The score by kind, and every case whose verdict is not the expected one."""
    lines = []
    for kind in ("shell", "path", "ansi"):
        known = [one for one in judged if one.case.kind == kind and one.case.expected]
        if known:
            lines.append(f"{kind}: {sum(one.right for one in known)} of {len(known)} as expected")
    unsafe = [one for one in judged if one.case.expected in ("ask", "deny")]
    benign = [one for one in judged if one.case.expected == "allow"]
    lines.append(f"unsafe allowed: {sum(one.verdict == 'allow' for one in unsafe)} of {len(unsafe)}")
    lines.append(f"benign not allowed: {sum(one.verdict != 'allow' for one in benign)} of {len(benign)}")
    for one in judged:
        if one.case.expected and not one.right:
            shown = visible(one.case.input[:120])
            lines.append(f"{one.case.id}: {one.verdict}, expected {one.case.expected}: {shown} ({one.reason})")
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
