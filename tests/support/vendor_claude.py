"""What Anthropic's Messages refuse, and how its answers are signed, for the servers of `vendors.py`.

Sources: Anthropic's pages on extended thinking, "Preserved thinking", and "Prefix checks".
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.script import Reply

Body = dict[str, Any]
Block = dict[str, Any]


def answers(body: Body) -> list[tuple[int, Body]]:
    return [(at, message) for at, message in enumerate(body["messages"]) if message["role"] == "assistant"]


def is_thinking(block: Block) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def bare(value: Any) -> Any:
    """A part of a request as the prefix check compares it: without cache marks and thinking."""
    if isinstance(value, dict):
        return {name: bare(item) for name, item in value.items() if name != "cache_control"}
    if isinstance(value, list):
        return [bare(item) for item in value if not (isinstance(item, dict) and is_thinking({"type": "", **item}))]
    return value


def prefix_of(body: Body, at: int, blocks: Sequence[Block]) -> str:
    """The digest of all that comes before a block: the request before message `at`, and the blocks before it there.

    Each thinking block also seals the one before it.
    """
    before = [*body["messages"][:at], {"role": "assistant", "content": list(blocks)}]
    thoughts = [block["signature"] for message in before for block in message["content"] if is_thinking(block)]
    sealed = [bare(body.get("system")), bare(body.get("tools")), bare(before), thoughts[-1:]]
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()[:24]


def signed(reply: Reply, body: Body, mark: str) -> Reply:
    """The reply with two blocks of thinking, around its text, each signed for the place where it stands."""
    rest = ["call"] * len(reply.calls)
    order = reply.order or (
        ["think", "text", "think", *rest] if reply.text_pieces and rest else ["think", "text", *rest]
    )
    blocks: list[Block] = []
    signatures: list[str] = []
    texts, calls = iter(reply.text_pieces), iter(reply.calls)
    for kind in order:
        if kind == "think":
            kinds = "+".join(block["type"] for block in blocks)
            signatures.append(f"{mark}|{prefix_of(body, len(body['messages']), blocks)}|{kinds}")
            blocks.append({"type": "thinking", "signature": signatures[-1]})
        elif kind == "text" and (text := next(texts, "")):
            blocks.append({"type": "text", "text": text})
        elif kind == "call":
            call = next(calls)
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.json)})
    return replace(reply, order=order, signatures=signatures)


def _input(arguments: str) -> Any:
    """The arguments of a call as they come back: none, where they cannot be read."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {}


def fields(body: Body) -> str | None:
    allowed = {"model", "max_tokens", "messages", "system", "tools", "stream"}
    odd = sorted(body.keys() - allowed)
    if odd:
        return f"{odd[0]}: Extra inputs are not permitted"
    return None if body.get("max_tokens") else "max_tokens: Field required"


def thinking(body: Body, signer: str = "secret-of-anthropic") -> str | None:
    """Thinking is signed by this vendor, and does not come last."""
    for at, message in answers(body):
        if any(not block["signature"].startswith(signer) for block in message["content"] if is_thinking(block)):
            return f"messages.{at}.content.0: Invalid `signature` in `thinking` block"
        if is_thinking(message["content"][-1]):
            return f"messages.{at}: The final block in an assistant message cannot be `thinking`."
    return None


def thinking_first(body: Body, ids: str = "toolu_48_") -> str | None:
    """A message with calls of this vendor begins with its thinking: a rule for models before 5.5."""
    for at, message in answers(body):
        kinds = [block["type"] for block in message["content"]]
        own = any(block["type"] == "tool_use" and block["id"].startswith(ids) for block in message["content"])
        if own and kinds[0] != "thinking":
            return f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`."
    return None


def order(body: Body) -> str | None:
    """The blocks of an answer keep their order."""
    for at, message in answers(body):
        for place, block in enumerate(message["content"]):
            before = "+".join(each["type"] for each in message["content"][:place])
            if is_thinking(block) and block["signature"].count("|") == 2 and block["signature"].split("|")[2] != before:
                return (
                    f"messages.{at}.content.{place}: `thinking` or `redacted_thinking` blocks in the latest assistant "
                    "message cannot be modified. These blocks must remain as they were in the original response."
                )
    return None


def prefix(body: Body) -> str | None:
    """Thinking is valid only after the very prefix that it was made with."""
    for at, message in answers(body):
        for place, block in enumerate(message["content"]):
            if is_thinking(block) and block["signature"].count("|") == 2:
                known = prefix_of(body, at, message["content"][:place])
                if block["signature"].split("|")[1] != known:
                    return (
                        f"messages.{at}.content.{place}: Invalid `signature` in `thinking` block. The block is bound "
                        "to a different conversation. Remove the block, or set "
                        '`thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
                    )
    return None


def blocks(body: Body) -> str | None:
    roles = [message["role"] for message in body["messages"]]
    if roles[0] != "user" or any(a == b for a, b in itertools.pairwise(roles)):
        return 'messages: roles must alternate between "user" and "assistant"'
    waiting: set[str] = set()
    for at, message in enumerate(body["messages"]):
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if waiting != set(results):
            return f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after"
        waiting = {block["id"] for block in message["content"] if block["type"] == "tool_use"}
        for block in message["content"]:
            if block["type"] == "text" and not block["text"].strip():
                return "messages: text content blocks must contain non-whitespace text"
        if any(not re.fullmatch(r"[a-zA-Z0-9_-]+", call_id) for call_id in waiting):
            return f"messages.{at}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    return None


def minimax_fields(body: Body) -> str | None:
    return fields({name: value for name, value in body.items() if name != "thinking"})


def minimax_thinking(body: Body) -> str | None:
    """The whole answer goes back, what it thought with it; what another vendor signed never does."""
    for at, message in answers(body):
        blocks = message["content"]
        if any(block["type"] == "thinking" and "secret-of-minimax" not in block["signature"] for block in blocks):
            return f"invalid params, messages.{at} has a thinking block of another model"
        own = any(block["type"] == "tool_use" and block["id"].startswith("call_function_") for block in blocks)
        if own and blocks[0]["type"] != "thinking":
            return f"invalid params, messages.{at} lacks its thinking"
    return None
