"""Files of other agents, in the forms that the documents behind the product print; their texts are ours."""

from __future__ import annotations

from typing import Any

PROCESS = {"pid": 41, "name": "firefox", "cpu_percent": 2.3, "memory_mb": 800}


def context(entries: int = 3) -> dict[str, Any]:
    """A persistent agent's context (000), with every field of its struct."""
    roles = ("user", "tool", "assistant")
    history = [
        {
            "timestamp": 1_771_800_000 + number,
            "role": roles[number % 3],
            "content": f"entry {number}: item{number} is value{number}",
            "token_count": 12 if number % 2 else None,
        }
        for number in range(entries)
    ]
    return {
        "session_id": "agent-7",
        "system_state": {"mode": "quiet"},
        "facts": ["the user wants long output", "tests run with make", "tests run with make"],
        "recent_history": history,
        "long_term_summary": "The shop's parser was rewritten in March.",
        "active_tasks": [
            {
                "id": "t1",
                "description": "watch the build",
                "status": "Running",
                "progress": 0.5,
                "created_at": 1_771_800_000,
                "updated_at": 1_771_800_100,
            }
        ],
        "tool_stats": {"total_calls": 2, "by_tool": {"file_write": 2}, "failures": 1},
        "last_known_environment": {
            "workspace": "/home/ann/shop",
            "processes": [PROCESS],
            "memory_used_mb": 8200,
            "memory_total_mb": 16_000,
            "disk_usage_percent": 45.0,
            "battery_percent": 78,
            "uptime_seconds": 190_800,
        },
        "token_usage": {"total_input": 40, "output": 9},
        "oauth_tokens": None,
    }


def snapshot(**changed: Any) -> dict[str, Any]:
    """A context snapshot (002): its time in milliseconds, its summary beside the messages."""
    messages = [{"role": "user", "content": "Write file Z."}, {"role": "assistant", "content": "I may not write it."}]
    summary = "The user works on project X. File Y was read, file Z could not be written."
    known = {"version": "1.0", "timestamp": 1_771_800_000_000, "tokenCount": 21, "messages": messages}
    return known | {"summary": summary} | changed


def injected_summary() -> dict[str, Any]:
    """A snapshot (002) whose summary stands in a system message of the list."""
    told = "[Memory Summary] Before: the user works on project X; file Z could not be written."
    return snapshot(messages=[{"role": "system", "content": told}, {"role": "user", "content": "Try again."}])


def message_list() -> list[dict[str, Any]]:
    """A REPL's message list (004), with calls and results as parts."""
    reminder = "<system-reminder>\n<!-- type:environment -->\nPlatform: linux\n</system-reminder>"
    call = {"type": "tool-call", "toolCallId": "123", "toolName": "Write", "args": {"file": "a.txt"}}
    return [
        {"role": "user", "content": reminder},
        {"role": "user", "content": "Make a file"},
        {"role": "assistant", "content": [{"type": "text", "text": "I make it."}, call]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "123", "result": "File made"}]},
        {"role": "assistant", "content": "It is there."},
    ]
