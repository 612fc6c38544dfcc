"""Sessions for the page: one as they are, and one whose every text is an attack."""

from __future__ import annotations

import json

from codelet.export.document import Document, no_usage
from codelet.messages import Message, assistant, tool_call, tool_result, user

BEFORE = """def tokenize(text):
    for index in range(len(text) + 1):
        yield text[index]
"""


TEST = """from src.tokenize import tokenize


def test_empty():
    assert list(tokenize('')) == []
"""


def work() -> Document:
    """A session of some turns: a bug found and fixed, tests run."""
    edit = {"path": "src/tokenize.py", "edits": [{"old": "range(len(text) + 1)", "new": "range(len(text))"}]}
    messages: list[Message] = [
        user("<system-reminder>\n<!-- type:environment -->\nlinux, python 3.11\n</system-reminder>"),
        user("The tests fail with an IndexError since this morning. Find out why, and fix it."),
        assistant("I'll look at the failing test first.", [tool_call("1", "bash", '{"command": "pytest -q"}')]),
        tool_result("1", "exit code 1\n\nE   IndexError: string index out of range\nsrc/tokenize.py:3\n1 failed"),
        assistant(None, [tool_call("2", "read", '{"path": "src/tokenize.py"}')]),
        tool_result("2", BEFORE),
        assistant(
            "The loop runs one past the end: `range(len(text) + 1)` also yields `len(text)`.\n\nThe fix:\n\n"
            "```python\nfor index in range(len(text)):\n    yield text[index]\n```",
            [tool_call("3", "edit", json.dumps(edit)), tool_call("4", "bash", '{"command": "pytest -q"}')],
        ),
        tool_result("3", "edited src/tokenize.py: 1 replacement"),
        tool_result("4", "...........\n11 passed in 0.21s"),
        assistant("Fixed: the loop read one character past the end. All 11 tests pass."),
        user("Add a test for the empty string."),
        assistant(None, [tool_call("5", "write", json.dumps({"path": "tests/test_empty.py", "content": TEST}))]),
        tool_result("5", "wrote tests/test_empty.py (5 lines)"),
        assistant("Done. The empty string gives no tokens; the new test says so."),
    ]  # fmt: skip
    return Document(
        timestamp=1767225600.0, token_count=84_000, messages=tuple(messages),
        session_id="work", model="anthropic/claude-sonnet-5-5",
        facts=("The project's tests run with pytest -q.",),
        plan={"goal": "green tests", "current_step": 1, "status": "InProgress", "steps": [
            {"id": 0, "description": "find the IndexError", "status": "Completed", "result": None},
            {"id": 1, "description": "test the empty string", "status": "InProgress", "result": None}]},
        token_usage=no_usage() | {"total_input": 5_210_344, "cache_read": 4_700_120, "output": 61_204, "turns": 12,
                                  "cost": 3.1},
        tool_stats={"total_calls": 48, "by_tool": {"bash": 20, "read": 20, "edit": 8}, "failures": 3},
    )  # fmt: skip


def attacks(beacon: str) -> tuple[str, ...]:
    """Texts that would act if they were taken for markup; `beacon` is an address that must never be asked."""
    return (
        f"<script>document.title='owned';fetch('{beacon}/script')</script>",
        f"<img src='{beacon}/img' onerror=\"document.title='owned'\">",
        f"</pre></details></style></title><svg onload=\"document.title='owned'\"><image href='{beacon}/svg'/></svg>",
        f'"><iframe src="{beacon}/frame" srcdoc="<script>parent.document.title=1</script>"></iframe>',
        f"<link rel=stylesheet href='{beacon}/css'><style>@import '{beacon}/import'; body{{display:none}}</style>",
        f"<meta http-equiv=refresh content='0;url={beacon}/refresh'><base href='{beacon}/'>",
        "' onmouseover='document.title=1' x='", "]]><!--", "-->", "&lt;script&gt;", "{{7*7}}${7*7}",
        "```\n</code></pre><script>document.title='owned'</script>\n```",
        "\u202eevil\u2066 \x1b[2J \x00 \x0b",
        f"[link](javascript:document.title='owned') <a href=\"javascript:document.title='owned'\">x</a> {beacon}/text",
    )  # fmt: skip


def hostile(beacon: str) -> Document:
    """Every attack in every part that a page shows."""
    messages: list[Message] = []
    for number, evil in enumerate(attacks(beacon)):
        thinking = assistant(evil, [tool_call(f"{number}", evil, evil), tool_call(f"{number}b", "bash", json.dumps({
            "command": evil})), tool_call(f"{number}c", "edit", json.dumps({"path": evil, "edits": [
                {"old": evil, "new": evil + "x"}]}))])  # fmt: skip
        thinking["reasoning_content"] = evil
        messages += [user(evil), thinking]
        messages += [tool_result(f"{number}{letter}", evil) for letter in ("", "b", "c")]
        messages.append({"role": "system", "content": evil})
    every = "\n".join(attacks(beacon))
    return Document(
        timestamp=1.0, token_count=1, messages=tuple(messages),
        session_id=every[:500], model=every[:500], profile=every[:500], summary=every,
        long_term_summary=every + ".", facts=attacks(beacon),
        active_tasks=({"id": "1", "description": every, "status": every[:60], "progress": 0.5, "created_at": 1,
                       "updated_at": 1},),
        plan={"goal": every, "current_step": 0, "status": "x", "steps": [
            {"id": 0, "description": every, "status": "Pending", "result": every}]},
    )  # fmt: skip
