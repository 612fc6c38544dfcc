"""An export of codelet as a trajectory in ATIF, the Agent Trajectory Interchange Format of Harbor.

Use: python -m scripts.bench.atif EXPORT.json > trajectory.json

Needs Python alone, so that it also runs where only Harbor is installed. Make the export with `--export-archive`:
a compaction takes messages out of the list, and the archive holds them. Without it the trajectory begins at the
oldest message that is left, and its notes say so. ATIF: https://github.com/laude-institute/harbor, RFC 0001.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REMINDER = "<system-reminder>"


def trajectory(export: dict[str, Any], version: str = "unknown") -> dict[str, Any]:
    """Return the trajectory of one export; `version` is codelet's."""
    archived = [entry["message"] for entry in export.get("archive") or ()]
    requests = [mark for mark in export["timeline"] if mark["kind"] == "step"]
    steps = list(_steps([*archived, *export["messages"]]))
    answers = [step for step in steps if step["source"] == "agent"]
    # Requests that failed or were stopped leave no answer: only equal numbers can be matched.
    if len(answers) == len(requests):
        for step, request in zip(answers, requests, strict=True):
            step["timestamp"] = datetime.fromtimestamp(request["timestamp"], UTC).isoformat()
            step["metrics"] = _metrics(request, "")
    for number, step in enumerate(steps, 1):
        step["step_id"] = number
    made: dict[str, Any] = {
        "schema_version": "ATIF-v1.7",
        "session_id": export["session_id"],
        "agent": {"name": "codelet", "version": version, "model_name": export["model"]},
        "steps": steps,
        "final_metrics": _metrics(export["token_usage"], "total_") | {"total_steps": len(steps)},
    }
    if export.get("segments") and not archived:
        made["notes"] = "The conversation was compacted and exported without its archive: earlier steps are missing."
    return made


def _metrics(usage: dict[str, Any], prefix: str) -> dict[str, Any]:
    found = {
        "prompt_tokens": usage["total_input"], "completion_tokens": usage["output"],
        "cached_tokens": usage["cache_read"], "cost_usd": usage.get("cost"),
    }  # fmt: skip
    return {prefix + name: value for name, value in found.items() if value is not None}


def _steps(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One step a message; the results of calls join the step that made them."""
    open_calls: dict[str, dict[str, Any]] = {}
    for message in messages:
        text = message["content"] or ""
        match message["role"]:
            case "assistant":
                step: dict[str, Any] = {"source": "agent", "message": text}
                if reasoning := message.get("reasoning_content") or message.get("reasoning"):
                    step["reasoning_content"] = reasoning
                if calls := message.get("tool_calls"):
                    step["tool_calls"] = [_call(call) for call in calls]
                    open_calls.update((call["id"], step) for call in calls)
                yield step
            case "tool" if (made_by := open_calls.pop(message["tool_call_id"], None)) is not None:
                results = made_by.setdefault("observation", {"results": []})["results"]
                results.append({"source_call_id": message["tool_call_id"], "content": text})
            case "tool":
                yield {"source": "system", "message": text}
            case "user" if not text.startswith(REMINDER):
                yield {"source": "user", "message": text}
            case _:
                yield {"source": "system", "message": text}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = function["arguments"]
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
    return {"tool_call_id": call["id"], "function_name": function["name"], "arguments": arguments}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit((__doc__ or "").split("\n\n")[1])
    json.dump(trajectory(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), sys.stdout, indent=2)
    print()
