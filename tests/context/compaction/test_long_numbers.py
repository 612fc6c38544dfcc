"""Numbers of thousands of digits end no compaction: Python reads no number of more than 4,300 digits."""

from __future__ import annotations

import pytest

from codelet import compact
from tests.context.compaction.lists import Message, calling, result, says, user

N = "9" * 5_000
OUTPUTS = [
    f"@@ -{N},{N} +{N},{N} @@\n-a\n+b", f"[exit code {N}]", f"Process exited with code {N}", f"{N} passed, {N} failed",
    f"[main {N}] x\n {N} files changed", f'<compacted turns="{N}-{N}">\nx', f'{{"exit_code": {N}, "output": "x"}}',
    f"src/a.ts:{N}:{N} - error TS{N}: x", f'  File "a.py", line {N}, in x\nValueError: {N}',
]  # fmt: skip
COMMANDS = [f"git reset --hard HEAD~{N}", f"git stash pop stash@{{{N}}}", f"pytest --maxfail={N}", f"exit {N}"]


def session(command: str, output: str, said: str) -> list[Message]:
    messages: list[Message] = []
    calls = [("bash", {"command": command}), ("edit", {"path": "a.py", "old": "a", "new": output})]
    for number in range(12):
        call = (f"c{number}", *calls[number % 2])
        messages += [user(f"do step {said}"), calling(call), result(f"c{number}", output)]
        messages += [says(f"done {said} " + "word " * 200)]
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
