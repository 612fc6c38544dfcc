"""Numbers of thousands of digits, where a tool's output or a command may have one, end no compaction.

Python reads no number of more than 4,300 digits: printing one could end a session.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet import compact

N = "9" * 5_000
OUTPUTS = [
    f"@@ -{N},{N} +{N},{N} @@\n-a\n+b", f"[exit code {N}]", f"Exit Code: {N}", f"Process exited with code {N}",
    f"Ran {N} tests in 0.1s\n\nOK", f"{N} passed, {N} failed in 1s", f"FAILED ({N} failures)", f"a.py:{N}: error: x",
    f"[main {N}] x\n {N} files changed, {N} insertions(+)", f"HEAD is now at {N} x", f"lines {N}-{N} of {N}",
    f'<compacted turns="{N}-{N}">\nx', f'{{"exit_code": {N}, "output": "x"}}', f"src/a.ts:{N}:{N} - error TS{N}: x",
    f"test result: FAILED. {N} passed; {N} failed", f"*** Update File: a.py\n@@ {N}\n-a\n+b",
    f'  File "a.py", line {N}, in x\nValueError: {N}', f"{N}c{N}\n< a\n> b",
]  # fmt: skip
COMMANDS = [
    f"git reset --hard HEAD~{N}", f"git revert HEAD~{N}", f"git checkout @{{-{N}}}", f"git stash pop stash@{{{N}}}",
    f"pytest --maxfail={N}", f"sed -n {N},{N}p a.py", f"tail -{N} a.py", f"timeout {N} pytest", f"exit {N}",
]  # fmt: skip


def session(command: str, output: str, said: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    calls = [("bash", {"command": command}), ("edit", {"path": "a.py", "old": "a", "new": output})]
    for number in range(12):
        name, arguments = calls[number % 2]
        function = {"name": name, "arguments": json.dumps(arguments)}
        called = {"role": "assistant", "content": None}
        messages += [
            {"role": "user", "content": f"do step {said}"},
            {**called, "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": output},
            {"role": "assistant", "content": f"done {said} " + "word " * 200},
        ]
    return messages


@pytest.mark.parametrize(
    ("command", "output"),
    [*(("git diff", each) for each in OUTPUTS), *((each, "[main abc1234] x") for each in COMMANDS)],
)
def test_a_number_without_end(command: str, output: str) -> None:
    once = compact(session(command, output, N[:4_400]), 4_000)
    assert once.report.after < once.report.before
    again = compact([*once.messages, *session(command, output, "on")], 4_000)
    assert again.report.after < again.report.before
