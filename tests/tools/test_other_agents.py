"""Calls as the models of other agents write them: each runs as it is meant, or is told what to send instead.

Names and shapes are those of Claude Code, Codex, Gemini CLI, aider, opencode, pi, vibe, Cline, Cursor and SWE-agent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codelet.extensions.plans import Plans
from codelet.loop.toolbox import Safeguards, Toolbox
from codelet.safety import Policy
from codelet.tools import all_tools
from codelet.tools.call_forms import understood
from codelet.tools.tool import ToolContext
from tests.safety.conftest import call
from tests.support.sessions import MakeSession

CART = "import math\n\n\ndef total(prices):\n    return sum(prices)\n\n\ndef Average(prices):\n    return math.nan\n"
OLD, NEW = "return sum(prices)", "return math.fsum(prices)"
BLOCK = f"<<<<<<< SEARCH\n    {OLD}\n=======\n    {NEW}\n>>>>>>> REPLACE"
TODO = "[x] read the cart\n[>] change it\n[ ] test it"

RUNS: list[tuple[str, str, dict[str, Any], str]] = [
    ("claude", "Bash", {"command": "cat notes.txt", "description": "Show", "timeout": 120000}, "milk"),
    ("claude", "Bash", {"command": "echo up", "run_in_background": False, "dangerouslyDisableSandbox": False}, "up"),
    ("claude", "Read", {"file_path": "src/cart.py"}, "4\tdef total"),
    ("claude", "Read", {"file_path": "src/cart.py", "offset": 4, "limit": 1}, "4\tdef total(prices):\n[lines 4-4 of 9"),
    (
        "claude",
        "Edit",
        {"file_path": "src/cart.py", "old_string": OLD, "new_string": NEW, "replace_all": False},
        "edit",
    ),
    ("claude", "MultiEdit", {"file_path": "src/cart.py", "edits": [{"old_string": OLD, "new_string": NEW}]}, "edited"),
    ("claude", "Write", {"file_path": "new/a.txt", "content": "x\n"}, "created new/a.txt"),
    ("claude", "Glob", {"pattern": "**/*.py"}, "src/cart.py"),
    ("claude", "Grep", {"pattern": "average", "-i": True, "-n": True, "output_mode": "content"}, "8:def Average"),
    ("claude", "Grep", {"pattern": "return", "-A": 1, "-B": 3, "type": "py", "head_limit": 0}, "src/cart.py-2-\n-3-"),
    ("claude", "Grep", {"pattern": "total", "output_mode": "files_with_matches", "glob": "*.py"}, "src/cart.py"),
    ("claude", "LS", {"path": "src", "ignore": ["*.pyc"]}, "cart.py"),
    (
        "claude",
        "TodoWrite",
        {
            "todos": [
                {"content": "read the cart", "status": "completed", "activeForm": "Reading"},
                {"content": "change it", "status": "in_progress", "activeForm": "Changing"},
                {"content": "test it", "status": "pending", "activeForm": "Testing"},
            ]
        },
        "[1 of 3 done]",
    ),
    (
        "claude",
        "str_replace_based_edit_tool",
        {"command": "view", "path": "notes.txt", "view_range": [2, -1]},
        "2\tegg",
    ),
    ("claude", "str_replace_editor", {"command": "create", "path": "b.txt", "file_text": "x"}, "created b.txt"),
    (
        "claude",
        "str_replace_editor",
        {"command": "str_replace", "path": "src/cart.py", "old_str": OLD, "new_str": NEW},
        "edited src/cart.py",
    ),
    ("codex", "shell", {"command": ["bash", "-lc", "cat notes.txt | head -1"], "workdir": "."}, "milk"),
    ("codex", "shell", {"command": ["cat", "a file.txt"], "timeout_ms": 1000}, "spaced"),
    ("codex", "shell", {"command": ["ls"], "workdir": "src", "justification": "look"}, "cart.py"),
    ("codex", "exec_command", {"cmd": "ls; pwd", "workdir": "src", "yield_time_ms": 1000, "login": True}, "/src"),
    (
        "codex",
        "exec_command",
        {"cmd": "ls", "sandbox_permissions": "use_default", "max_output_tokens": 99},
        "notes.txt",
    ),
    ("codex", "shell", {"command": ["ls"], "with_escalated_permissions": True, "justification": "x"}, "notes.txt"),
    ("codex", "grep_files", {"pattern": "total", "include": "*.py", "limit": 5}, "4:def total"),
    ("codex", "list_dir", {"dir_path": "src", "depth": 1}, "cart.py"),
    ("codex", "read_file", {"file_path": "src/cart.py", "offset": 8, "limit": 2, "mode": "slice"}, "8\tdef Average"),
    ("codex", "view_image", {"path": "dot.png"}, "dot.png is"),
    (
        "codex",
        "update_plan",
        {
            "explanation": "begin",
            "plan": [{"step": "read", "status": "completed"}, {"step": "do", "status": "pending"}],
        },
        "[1 of 2 done]",
    ),
    (
        "hypr-claw",
        "plan",
        {
            "goal": "ship",
            "steps": [
                {"id": 0, "description": "read", "status": "Completed", "result": "two files"},
                {"id": 1, "description": "write", "status": "InProgress", "result": None},
            ],
        },
        "[1 of 2 done]",
    ),
    ("hypr-claw", "plan", {"goal": "ship", "plan": TODO}, "[1 of 3 done]"),
    ("gemini", "read_file", {"absolute_path": "src/cart.py", "start_line": 4, "end_line": 5}, "5\t    return sum"),
    ("gemini", "run_shell_command", {"command": "ls", "description": "x", "directory": "src"}, "cart.py"),
    ("gemini", "run_shell_command", {"command": "pwd", "dir_path": "src", "is_background": False}, "/src"),
    ("gemini", "search_file_content", {"pattern": "total", "include": "*.py", "dir_path": "src"}, "4:def total"),
    ("gemini", "grep_search", {"pattern": "TOTAL", "case_sensitive": False, "context": 1}, "-3-"),
    ("gemini", "grep_search", {"pattern": "sum(prices)", "fixed_strings": True}, "5:    return sum(prices)"),
    ("gemini", "grep_search", {"pattern": "a", "exclude_pattern": "*.py", "total_max_matches": 3}, "spaced"),
    ("gemini", "glob", {"pattern": "*.py", "case_sensitive": True, "respect_git_ignore": True}, "src/cart.py"),
    (
        "gemini",
        "replace",
        {"file_path": "src/cart.py", "instruction": "exact sums", "old_string": OLD, "new_string": NEW},
        "edited",
    ),
    (
        "gemini",
        "replace",
        {"file_path": "src/cart.py", "old_string": "prices", "new_string": "costs", "allow_multiple": True},
        "3 replacements",
    ),
    ("gemini", "write_todos", {"todos": [{"description": "look", "status": "in_progress"}]}, "[0 of 1 done]"),
    ("gemini", "list_directory", {"dir_path": "src", "file_filtering_options": {}}, "cart.py"),
    ("opencode", "read", {"filePath": "notes.txt", "offset": 0, "limit": 2000}, "1\tmilk"),
    ("opencode", "write", {"filePath": "c.txt", "content": "x"}, "created c.txt"),
    (
        "opencode",
        "edit",
        {"filePath": "src/cart.py", "oldString": OLD, "newString": NEW, "replaceAll": False},
        "edited",
    ),
    ("opencode", "bash", {"command": "ls", "description": "List", "workdir": "src", "timeout": 60000}, "cart.py"),
    ("opencode", "grep", {"pattern": "def", "path": "src", "include": "*.{py,pyi}"}, "8:def Average"),
    (
        "opencode",
        "todowrite",
        {"todos": [{"content": "look", "status": "cancelled", "id": "1"}, {"content": "go", "status": "pending"}]},
        "[0 of 1 done]",
    ),
    ("pi", "edit", {"path": "src/cart.py", "oldText": OLD, "newText": NEW}, "edited src/cart.py"),
    ("pi", "grep", {"pattern": "average", "ignoreCase": True, "context": 0, "literal": False, "limit": 9}, "8:def"),
    ("pi", "find", {"pattern": "*.py", "path": ".", "limit": 100}, "src/cart.py"),
    ("pi", "ls", {"path": "src"}, "cart.py"),
    ("vibe", "search_replace", {"file_path": "src/cart.py", "content": BLOCK}, "edited src/cart.py"),
    ("vibe", "grep", {"pattern": "total", "max_matches": 9, "use_default_ignore": True}, "4:def total"),
    ("vibe", "write_file", {"path": "d.txt", "content": "x", "overwrite": True}, "created d.txt"),
    ("cline", "replace_in_file", {"path": "src/cart.py", "diff": BLOCK}, "edited src/cart.py"),
    ("cline", "execute_command", {"command": "ls src", "requires_approval": "false"}, "cart.py"),
    ("cline", "search_files", {"path": "src", "regex": "tot.l", "file_pattern": "*.py"}, "4:def total"),
    ("cursor", "grep_search", {"query": "total", "include_pattern": "*.py", "case_sensitive": True}, "4:def total"),
    ("cursor", "file_search", {"query": "*.py", "explanation": "where"}, "src/cart.py"),
    (
        "cursor",
        "read_file",
        {"target_file": "src/cart.py", "start_line_one_indexed": 4, "end_line_one_indexed_inclusive": 4},
        "4\tdef total",
    ),
    ("swe-agent", "open", {"path": "src/cart.py", "line_number": 8}, "8\tdef Average"),
    ("swe-agent", "find_file", {"file_name": "cart.py", "dir": "src"}, "src/cart.py"),
    ("swe-agent", "search_dir", {"search_term": "total", "dir": "src"}, "4:def total"),
    ("swe-agent", "edit", {"path": "src/cart.py", "search": OLD, "replace": NEW}, "edited src/cart.py"),
]

TOLD: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
    ("claude", "Grep", {"pattern": "a.*b", "multiline": True}, ("rg -U", '"pattern": string')),
    ("claude", "Grep", {"pattern": "a", "output_mode": "count"}, ("rg -c",)),
    ("claude", "Grep", {"pattern": "a", "type": "cobol"}, ("glob", "*.py")),
    ("claude", "BashOutput", {"bash_id": "1"}, ("bash", "`jobs %1`")),
    ("claude", "WebFetch", {"url": "https://a.example", "prompt": "x"}, ("curl -sL",)),
    ("claude", "Task", {"description": "x", "prompt": "y", "subagent_type": "z"}, ("your own tools",)),
    ("claude", "str_replace_editor", {"command": "insert", "path": "a", "insert_line": 3}, ("edit", "write")),
    ("codex", "apply_patch", {"input": "*** Begin Patch"}, ("edit", '"old": TEXT', "write")),
    ("codex", "exec_command", {"cmd": "ls", "tty": True}, ("no terminal", '"command": string')),
    ("codex", "write_stdin", {"session_id": 1, "chars": ""}, ("`jobs %1`",)),
    ("gemini", "read_many_files", {"paths": ["a", "b"]}, ("read once for each file",)),
    ("gemini", "glob", {"pattern": "*", "respect_git_ignore": False}, ("give its folder as path",)),
    ("vibe", "write_file", {"path": "a", "content": "x", "overwrite": False}, ("edit", '"content": string')),
    ("cline", "attempt_completion", {"result": "done"}, ("end your turn",)),
    ("opencode", "bash", {"command": "ls", "env": {"A": "1"}}, ("NAME=value",)),
    ("cursor", "edit_file", {"target_file": "a", "code_edit": "…"}, ('"edits": [{"old": string, "new": string',)),
    ("swe-agent", "edit", {"path": "a", "start_line": 1, "end_line": 2, "replacement_text": "x"}, ("by their text",)),
    ("aider", "read", {}, ("'path' is missing", '{"path": string, "offset"?: integer, "limit"?: integer}')),
]


@pytest.fixture
async def box(workspace: Path, make_session: MakeSession) -> Toolbox:
    (workspace / "src").mkdir()
    (workspace / "src/cart.py").write_text(CART)
    (workspace / "notes.txt").write_text("milk\negg\n")
    (workspace / "a file.txt").write_text("spaced\n")
    (workspace / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    context = ToolContext(workspace, sees=lambda: False)
    plans = Plans()
    plans.attach(make_session())
    return Toolbox([*all_tools(), *plans.tools], context, Policy(workspace, yes=True), None, Safeguards())


@pytest.mark.parametrize(("agent", "name", "arguments", "expected"), RUNS)
async def test_a_call_of_another_agent_runs(
    agent: str, name: str, arguments: dict[str, Any], expected: str, box: Toolbox, workspace: Path
) -> None:
    await call(box, "read", path="src/cart.py")
    status, text = await call(box, name, **arguments)
    assert status == "done", text
    assert expected in text
    if box.tool_named(name, arguments) is box.tools["edit"] and "costs" not in str(arguments):
        assert (workspace / "src/cart.py").read_text() == CART.replace(OLD, NEW)


@pytest.mark.parametrize(("agent", "name", "arguments", "expected"), TOLD)
async def test_a_call_that_cannot_run_is_told_what_to_send(
    agent: str, name: str, arguments: dict[str, Any], expected: tuple[str, ...], box: Toolbox
) -> None:
    status, text = await call(box, name, **arguments)
    assert status == "failed"
    assert "\n" not in text
    assert [each for each in expected if each not in text] == [], text


@pytest.mark.parametrize(("agent", "name", "arguments", "expected"), RUNS)
def test_reading_a_call_again_changes_nothing(
    agent: str, name: str, arguments: dict[str, Any], expected: str, box: Toolbox
) -> None:
    """It is read before and after the guards: the second time gives what the first gave."""
    tool = box.tool_named(name, arguments)
    assert tool is not None
    once = tool.understood(arguments)
    assert tool.understood(once) == once
    assert understood(tool.name, tool.parameters, once, own=True) == once


async def test_the_steps_of_a_todo_list_become_a_plan(box: Toolbox) -> None:
    todos = next(arguments for _, name, arguments, _ in RUNS if name == "TodoWrite")
    assert box.tools["plan"].understood(todos) == {"plan": TODO}


async def test_a_folder_is_gone_into_before_the_policy_judges(box: Toolbox) -> None:
    bash = box.tools["bash"]
    assert bash.understood({"command": "ls", "workdir": "a b"})["command"] == "cd 'a b' && ls"
    assert bash.understood({"command": "ls; rm x", "cwd": "src"})["command"] == "cd src || exit\nls; rm x"
    assert bash.understood({"command": "jobs %1", "cwd": "src"})["command"] == "jobs %1"
    assert bash.understood({"command": "ls", "cwd": None}) == {"command": "ls"}
