"""Checks of what is set up: `codelet policy check`, `codelet audit verify`, `codelet mcp check`, `codelet profiles`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from codelet.errors import EXIT_DONE, EXIT_INCOMPLETE, EXIT_USAGE
from codelet.extensions.services import mcp_servers, profile_places
from codelet.frontends.streams import say
from codelet.safety import Policy
from codelet.safety.audit import AuditReport, verify
from codelet.safety.secrets import mask
from codelet.safety.verdict import Touch, Verdict
from codelet.settings import Settings, current_folder
from codelet.system.process import end_supervisor
from codelet.system.text import clean, one_line, visible

_LONGEST_PROBLEM = 1_000


def run_check(settings: Settings, arguments: argparse.Namespace) -> int:
    """Print the verdict on a command, as a session with these settings would judge it; return the exit status."""
    rules = (settings.allow, settings.deny, settings.yes)
    policy = Policy(current_folder(), arguments.check_mode or settings.mode, *rules, ask=settings.ask)
    command = Touch("run", arguments.shell_command)
    verdict = policy.judge("bash", [command], sandboxed=(arguments.check_sandbox or settings.sandbox) != "off")
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
    if arguments.json:
        problems = [{"line": line, "what": what} for line, what in report.problems]
        fields = {"records": report.records, "problems": problems, "unclosed": report.unclosed}
        print(json.dumps(fields | {"last_hash": report.last_hash}))
    else:
        print(_report_explained(report, may_run=arguments.open))
    if other_end:
        print("the last hash is not the expected one: the end was cut off or rewritten")
    cut = bool(report.unclosed) and not arguments.open
    return EXIT_INCOMPLETE if report.problems or other_end or cut or not report.records else EXIT_DONE


def _report_explained(report: AuditReport, *, may_run: bool) -> str:
    lines = [f"line {line}: {what}" for line, what in report.problems]
    if report.unclosed:
        hint = "" if may_run else "; --open if they may still run"
        lines.append(f"sessions without a closing record (running, killed or cut off): {len(report.unclosed)}{hint}")
    whole = not report.problems and (may_run or not report.unclosed) and report.records
    verdict = "whole" if whole else "not whole"
    return "\n".join([*lines, f"{report.records} records, {verdict}; last hash {report.last_hash}"])


async def run_mcp_check(settings: Settings, *, as_json: bool) -> int:
    """Print a block for each server, or one JSON object; the exit status is 2 if one cannot be used.

    Raises UsageError for a server that is not set up in order.
    """
    servers = mcp_servers(settings, current_folder())
    servers.start(current_folder(), lambda name, text: None)
    try:
        text = await servers.text(*servers.servers)
        print(mask(json.dumps(servers.reported() or {"mcp": []})) if as_json else clean(mask(text)))
    finally:
        await servers.close()
        end_supervisor()
    return EXIT_DONE if all(each.state == "ready" for each in servers.servers.values()) else EXIT_USAGE


def run_profiles(settings: Settings) -> int:
    """Print them; return the exit status, 2 if one is invalid: its file, line and reason go to stderr."""
    folder = current_folder()
    places = profile_places(settings, folder)
    status = EXIT_DONE
    for found in places.listed():
        if found.profile is not None:
            print(found.line)
        else:
            say(f"codelet: {one_line(found.problem, _LONGEST_PROBLEM)}")
            status = EXIT_USAGE
    if not settings.trusted and any(place.is_dir() for place in places.in_project):
        say("codelet: this project has profiles too, which codelet profiles --trust reads")
    return status
