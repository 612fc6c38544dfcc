"""The tokens of the first request before the user's words: the system prompt and the tools.

Use: python -m scripts.bench.prompt_size

Counted with o200k_base in a request that was really sent, for both wires. The encoding comes with litellm: nothing
is downloaded.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

from scripts.bench.child import CODELET, Row, place, show
from tests.support.program import run
from tests.support.script import Reply
from tests.support.server import ModelServer


def tokens(text: str) -> int:
    """The number of o200k_base tokens in the text."""
    found = importlib.util.find_spec("litellm")
    if found is None or found.origin is None:
        raise SystemExit("prompt_size: litellm is not installed, its tokenizer files are needed")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(found.origin).parent / "litellm_core_utils" / "tokenizers")
    import tiktoken

    return len(tiktoken.get_encoding("o200k_base").encode(text, disallowed_special=()))


def measure(wire: str) -> list[Row]:
    with place() as where, ModelServer([Reply("ok")]) as server:
        base = server.openai if wire == "openai" else server.anthropic
        arguments = ["--model", f"{wire}/scripted", "--api-base", base, "-p", "say hello"]
        run(*arguments, cwd=where.cwd, env=where.environment(), command=CODELET)
        request = server.requests[0].json
    messages = request["messages"]
    if wire == "openai":
        system, messages = messages[0]["content"], messages[1:]
    else:
        parts = request["system"]
        system = parts if isinstance(parts, str) else "".join(part["text"] for part in parts)
    tools = json.dumps(request["tools"])
    both = tokens(system) + tokens(tools)
    return [
        Row(f"{wire}: system prompt", "tokens", [tokens(system)]),
        Row(f"{wire}: {len(request['tools'])} tools", "tokens", [tokens(tools)]),
        Row(f"{wire}: system prompt and tools", "tokens", [both], promise=2200),
        Row(f"{wire}: messages (prompt and reminders)", "tokens", [tokens(json.dumps(messages))]),
    ]


def main() -> int:
    return show([row for wire in ("openai", "anthropic") for row in measure(wire)])


if __name__ == "__main__":
    sys.exit(main())
