"""Read transcripts of several agents as lists of Chat Completions messages.

Formats: pi's JSON lines, SWE-agent's trajectories, LangChain's serialised messages, and plain JSON lists of Chat
Completions messages. What an agent did not send to its model (model changes, its own compactions) is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Message = dict[str, Any]
SUFFIXES = {".json", ".jsonl", ".traj"}


@dataclass(frozen=True)
class Transcript:
    """One real session: its name and messages."""

    name: str
    messages: list[Message]


def read_all(folder: Path) -> list[Transcript]:
    """Every transcript below `folder` (or the one file), in order of their names."""
    paths = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES)
    found = [read(path) for path in paths]
    return [transcript for transcript in found if transcript.messages]


def read(path: Path) -> Transcript:
    """Return a transcript, in the format of the file's shape. Raises ValueError for an unknown one."""
    text = path.read_text(encoding="utf-8", errors="replace")
    name = f"{path.parent.name}/{path.name}"
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        if all("role" in row for row in rows):
            return Transcript(name, [plain(row) for row in rows])
        return Transcript(name, list(from_pi(rows)))
    data = json.loads(text)
    if isinstance(data, dict) and isinstance(data.get("history"), list):
        return Transcript(name, list(from_swe_agent(data["history"])))
    if isinstance(data, dict) and isinstance(data.get("messages"), list):
        data = data["messages"]
    if not isinstance(data, list):
        raise ValueError(f"{path}: not a transcript that can be read")
    if data and "kwargs" in data[0]:
        return Transcript(name, list(from_langchain(data)))
    return Transcript(name, [plain(row) for row in data])


def flat(content: Any) -> str:
    """Text of a content that may be a string, a list of parts, or nothing."""
    if isinstance(content, list):
        texts = [part.get("text", "") if isinstance(part, dict) else str(part) for part in content]
        return "\n".join(text for text in texts if text)
    return "" if content is None else str(content)


def plain(row: dict[str, Any]) -> Message:
    """A Chat Completions message without keys that no provider is sent."""
    keys = ("role", "content", "tool_calls", "tool_call_id")
    return {key: row[key] for key in keys if key in row}


def call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """A tool call with its arguments as JSON text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def assistant(text: str, calls: list[dict[str, Any]]) -> Message:
    """An assistant message; no content if it only calls tools."""
    message: Message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    return message


def from_pi(rows: list[dict[str, Any]]) -> Iterator[Message]:
    """Pi's session file. Thinking is left out: no Chat Completions list carries it."""
    for row in rows:
        message = row.get("message") or {}
        role, content = message.get("role"), message.get("content")
        if role == "user":
            yield {"role": "user", "content": flat(content)}
        elif role == "assistant":
            parts = content if isinstance(content, list) else []
            text = "\n".join(part["text"] for part in parts if part.get("type") == "text")
            calls = [call(p["id"], p["name"], p["arguments"]) for p in parts if p.get("type") == "toolCall"]
            if text or calls:
                yield assistant(text, calls)
        elif role == "toolResult":
            yield {"role": "tool", "tool_call_id": message["toolCallId"], "content": flat(content)}
        elif role == "bashExecution":
            yield {"role": "user", "content": f"Ran `{message['command']}`\n{message['output']}"}


def from_swe_agent(history: list[dict[str, Any]]) -> Iterator[Message]:
    """SWE-agent's history; an observation answers a call where the model called functions, else it is a user's."""
    for row in history:
        if row["role"] == "tool":
            ids = row.get("tool_call_ids") or [""]
            yield {"role": "tool", "tool_call_id": ids[0], "content": flat(row["content"])}
        elif row["role"] == "assistant":
            calls = [
                call(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in row.get("tool_calls") or []
            ]
            yield assistant(flat(row["content"]), calls)
        else:
            yield {"role": row["role"], "content": flat(row["content"])}


def from_langchain(rows: list[dict[str, Any]]) -> Iterator[Message]:
    """LangChain's serialised messages."""
    makers: dict[str, Callable[[dict[str, Any]], Message]] = {
        "human": lambda kwargs: {"role": "user", "content": flat(kwargs["content"])},
        "system": lambda kwargs: {"role": "system", "content": flat(kwargs["content"])},
        "tool": lambda kwargs: {
            "role": "tool",
            "tool_call_id": kwargs["tool_call_id"],
            "content": flat(kwargs["content"]),
        },
        "ai": lambda kwargs: assistant(
            flat(kwargs["content"]),
            [call(c["id"], c["name"], c["args"]) for c in kwargs.get("tool_calls") or []],
        ),
    }
    for row in rows:
        kwargs = row["kwargs"]
        yield makers[kwargs["type"]](kwargs)
