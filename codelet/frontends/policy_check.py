"""`codelet policy check`: explain the verdict on a command, or judge a file of cases."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from codelet.errors import EXIT_DONE, UsageError
from codelet.frontends.policy_cases import JudgedCase, judge_cases, read_cases
from codelet.policy import Policy
from codelet.policy.verdict import Touch, Verdict
from codelet.text import visible


def run_check(arguments: argparse.Namespace) -> int:
    """Run the check that the arguments ask for (see `arguments.py`); gives the exit status. Raises UsageError."""
    if (arguments.shell_command is None) == (arguments.cases is None):
        raise UsageError("policy check takes a COMMAND or --cases FILE")
    if arguments.cases is None:
        policy = Policy(Path.cwd(), arguments.check_mode or "ask")
        verdict = policy.judge("bash", [Touch("run", arguments.shell_command)])
        print(_as_json(verdict) if arguments.json else _explained(arguments.shell_command, verdict))
        return EXIT_DONE
    judged: list[JudgedCase] = []
    for one in judge_cases(read_cases(Path(arguments.cases)), arguments.check_mode or "read-only"):
        judged.append(one)
        if arguments.json:
            print(json.dumps({"id": one.case.id, "verdict": one.verdict, "reason": one.reason}))
    if not arguments.json:
        print(score(judged))
    return EXIT_DONE


def _as_json(verdict: Verdict) -> str:
    fields = ("action", "tier", "reason", "rule", "suggestion")
    return json.dumps({"verdict": verdict.action} | {name: getattr(verdict, name) for name in fields})


def _explained(command: str, verdict: Verdict) -> str:
    lines = [visible(command), f"verdict: {verdict.action} ({verdict.tier})", f"because: {visible(verdict.reason)}"]
    if verdict.rule:
        lines.append(f"rule:    {visible(verdict.rule)}")
    if verdict.suggestion:
        lines.append(f"a rule that would allow it: {visible(verdict.suggestion)}")
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
