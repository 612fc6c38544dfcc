"""Read transcripts of several agents as lists of Chat Completions messages.

Formats: pi's JSON lines, SWE-agent's trajectories, LangChain's serialised messages, and plain JSON lists of Chat
Completions messages. What an agent did not send to its model (model changes, its own compactions) is left out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

Message = dict[str, Any]
SUFFIXES = {".json", ".jsonl", ".traj"}


class Transcript(NamedTuple):
    """One real session: its name and messages."""

    name: str
    messages: list[Message]


def read_all(folder: Path) -> list[Transcript]:
    """Every transcript below `folder` (or the one file), in order of their names."""
    paths = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES)
    found = [read(path) for path in paths]
    return [transcript for transcript in found if transcript.messages]


def read(path: Path) -> Transcript:
    """Return a transcript, each of its rows in the format of its shape. Raises ValueError for an unknown file."""
    text = path.read_text(encoding="utf-8", errors="replace")
    rows = [json.loads(line) for line in text.splitlines() if line.strip()] if path.suffix == ".jsonl" else None
    if rows is None:
        data = json.loads(text)
        rows = data.get("history", data.get("messages")) if isinstance(data, dict) else data
    if not isinstance(rows, list):
        raise ValueError(f"{path}: not a transcript that can be read")
    messages = (_message(row) for row in rows)
    return Transcript(f"{path.parent.name}/{path.name}", [message for message in messages if message])


def _message(row: dict[str, Any]) -> Message | None:
    if "kwargs" in row:
        return _from_langchain(row["kwargs"])
    if "role" not in row:
        return _from_pi(row.get("message") or {})
    if "agent" in row or "message_type" in row:
        return _from_swe_agent(row)
    return {key: row[key] for key in ("role", "content", "tool_calls", "tool_call_id") if key in row}


def _from_pi(row: dict[str, Any]) -> Message | None:
    """A row of pi's session file. Thinking is left out: no Chat Completions list carries it."""
    content = row.get("content")
    match row.get("role"):
        case "user":
            return {"role": "user", "content": _flat(content)}
        case "assistant":
            parts = content if isinstance(content, list) else []
            text = "\n".join(part["text"] for part in parts if part.get("type") == "text")
            calls = [_call(p["id"], p["name"], p["arguments"]) for p in parts if p.get("type") == "toolCall"]
            return _assistant(text, calls) if text or calls else None
        case "toolResult":
            return {"role": "tool", "tool_call_id": row["toolCallId"], "content": _flat(content)}
        case "bashExecution":
            return {"role": "user", "content": f"Ran `{row['command']}`\n{row['output']}"}
    return None


def _from_swe_agent(row: dict[str, Any]) -> Message:
    """A row of SWE-agent's history; an observation answers a call if there was one, else it is a user's."""
    text = _flat(row["content"])
    if row["role"] == "assistant":
        functions = [(call["id"], call["function"]) for call in row.get("tool_calls") or []]
        return _assistant(text, [_call(number, each["name"], each["arguments"]) for number, each in functions])
    answers = {"tool_call_id": (row.get("tool_call_ids") or [""])[0]} if row["role"] == "tool" else {}
    return {"role": row["role"], **answers, "content": text}


def _from_langchain(row: dict[str, Any]) -> Message:
    text = _flat(row["content"])
    match row["type"]:
        case "ai":
            return _assistant(text, [_call(c["id"], c["name"], c["args"]) for c in row.get("tool_calls") or []])
        case "tool":
            return {"role": "tool", "tool_call_id": row["tool_call_id"], "content": text}
        case kind:
            return {"role": {"human": "user", "system": "system"}[kind], "content": text}


def _flat(content: Any) -> str:
    """Text of a content that may be a string, a list of parts, or nothing."""
    if isinstance(content, list):
        texts = [part.get("text", "") if isinstance(part, dict) else str(part) for part in content]
        return "\n".join(text for text in texts if text)
    return "" if content is None else str(content)


def _call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """A tool call with its arguments as JSON text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _assistant(text: str, calls: list[dict[str, Any]]) -> Message:
    """An assistant message; no content if it only calls tools."""
    return {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
