"""The verdicts on recorded cases and on 5,000 generated calls, with tier, reason, rule and suggestion."""

from __future__ import annotations

import json
import random
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.safety.shell.generator import PATHS, Generator

_CALLS = 5_000
_SEED = 20_261_122
_FOLDER = re.compile(r"/tmp/(?:codelet-cases-|tmp)[a-z0-9_]{8}")
_MODES = ("read-only", "ask", "auto-edit", "auto")
_TOOLS = ("read", "grep", "find", "write", "edit")
_RULES = (
    {"allow": [], "ask": [], "deny": []},
    {
        "allow": ["bash(git *)", "edit(src/**)", "write(*.txt)"],
        "ask": ["read(docs/**)"],
        "deny": ["bash(rm *)", "read(b.txt)"],
    },
)

# Runs in the version that is looked at: reads the calls on stdin, writes the verdicts.
_PROBE = """
import json, sys
from pathlib import Path
from importlib import import_module
from inspect import signature
from codelet.tools import all_tools
from codelet.tools.tool import Tool

def first(*names):
    # The last ones are those of older versions.
    for name in names:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            pass
    raise SystemExit(f"no {names[0]}")

Policy = first("codelet.safety", "codelet.safety.judge", "codelet.policy.judge").Policy
cases = first("scripts.policy_cases", "codelet.frontends.commands.policy_cases", "codelet.policy.check")
judge_cases, read_cases, workspace_of_cases = cases.judge_cases, cases.read_cases, cases.workspace_of_cases

tools = {tool.name: tool for tool in all_tools()} if "touches" in Tool.fields else {}
state_is_argument = "sandboxed" in signature(Policy.judge).parameters

def judge(policy, name, arguments, sandboxed=True):
    touched = tools[name].touches(arguments) if tools else arguments
    if state_is_argument:
        return policy.judge(name, touched, sandboxed=sandboxed)
    policy.sandboxed = sandboxed
    return policy.judge(name, touched)

given = json.load(sys.stdin)
fields = ("action", "tier", "reason", "rule", "suggestion")
told = {}
with workspace_of_cases() as (workspace, outside):
    for number, (mode, rules, sandboxed, tool, arguments) in enumerate(given["calls"]):
        policy = Policy(workspace, mode, rules["allow"], rules["deny"], ask=rules["ask"])
        verdict = judge(policy, tool, arguments, sandboxed)
        row = {name: getattr(verdict, name) for name in fields}
        shown = json.dumps([mode, tool, arguments], ensure_ascii=False)
        told[f"{number} {shown}"] = json.loads(json.dumps(row).replace(str(workspace), "WORKSPACE"))
    for name, case in given["with_rules"]:
        policy = Policy(workspace, "ask", case.get("allow", ()))
        verdict = judge(policy, "bash", {"command": case["input"]})
        row = {name: getattr(verdict, name) for name in fields}
        told[f"{name} {case['id']}"] = json.loads(json.dumps(row).replace(str(workspace), "WORKSPACE"))
for name in given["cases"]:
    for judged in judge_cases(read_cases(Path(name))):
        told[f"{Path(name).name} {judged.case.id}"] = [judged.verdict, judged.reason]
json.dump(told, sys.stdout)
"""


def main(command: Sequence[str], root: Path, names: Sequence[str]) -> dict[str, Any]:
    """The verdicts by call; `names` are files of cases."""
    with_rules = [(Path(name).name, case) for name in names for case in _cases(name) if _has_rules(case)]
    files = [str(Path(name).resolve()) for name in names if not any(map(_has_rules, _cases(name)))]
    given = json.dumps({"calls": _calls(), "with_rules": with_rules, "cases": files})
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8"}
        probe = [*command, "-c", _PROBE]
        done = subprocess.run(probe, env=environment, input=given, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(_FOLDER.sub("FOLDER", done.stdout))
    print(f"{len(found)} verdicts, seed {_SEED}")
    return found


def _cases(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text("utf-8").split("\n") if line.strip()]


def _has_rules(case: dict[str, Any]) -> bool:
    return case["kind"] in ("rule", "suggest", "approval")


def _calls() -> list[Any]:
    chance = random.Random(_SEED)
    generator = Generator(_SEED)
    calls: list[Any] = []
    for _ in range(_CALLS):
        mode, rules, sandboxed = chance.choice(_MODES), chance.choice(_RULES), chance.random() < 0.5
        if chance.random() < 0.7:
            calls.append((mode, rules, sandboxed, "bash", {"command": generator.command()}))
        else:
            tool = chance.choice(_TOOLS)
            calls.append((mode, rules, sandboxed, tool, {"path": chance.choice(PATHS)}))
    return calls
