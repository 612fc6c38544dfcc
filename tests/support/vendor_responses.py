"""What OpenAI refuses at /responses where nothing is stored: each check gives its complaint, or None."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

Body = dict[str, Any]

FIELDS = frozenset(
    "model tools instructions input stream store prompt_cache_key include reasoning prompt_cache_options "
    "max_output_tokens".split()
)
ITEM_FIELDS = {
    "message": "type id role status content phase",
    "reasoning": "type id summary content encrypted_content",
    "function_call": "type id call_id name arguments status",
    "function_call_output": "type call_id output",
}


def items(body: Body) -> list[tuple[int, str, Body]]:
    """The items of a Responses request: place, type and the item."""
    return [(at, item.get("type", "message"), item) for at, item in enumerate(body["input"])]


def stateless(body: Body) -> str | None:
    if body.get("store") is not False:
        return "Zero data retention: 'store' must be false."
    if "reasoning.encrypted_content" not in body.get("include", ()):
        return "Missing required parameter: 'include'."
    if body.get("max_output_tokens", 16) < 16:
        return "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
    strict = [tool["name"] for tool in body.get("tools", ()) if tool.get("strict") is not False]
    return f"Invalid schema for function '{strict[0]}': 'additionalProperties' is required." if strict else None


def item_fields(body: Body) -> str | None:
    for at, kind, item in items(body):
        if kind not in ITEM_FIELDS:
            return f"Invalid value: '{kind}'. Param: input[{at}].type"
        if odd := sorted(item.keys() - set(ITEM_FIELDS[kind].split())):
            return f"Unknown parameter: 'input[{at}].{odd[0]}'."
        own = {"message": "msg", "reasoning": "rs", "function_call": "fc"}.get(kind, "")
        if "id" in item and not re.fullmatch(rf"{own}_[a-zA-Z0-9_-]{{1,61}}", item["id"]):
            return f"Invalid 'input[{at}].id': '{item['id']}'. Expected an ID that begins with '{own}'."
        if len(item.get("call_id", "")) > 64:
            return f"Invalid 'input[{at}].call_id': string too long. Expected a string with maximum length 64."
        if kind == "function_call" and not isinstance(json.loads(item["arguments"]), dict):
            return f"Invalid 'input[{at}].arguments'"
    return None


def own_reasoning(body: Body, signer: str) -> str | None:
    """Reasoning is this vendor's own, encrypted, and something of its answer stands behind it."""
    listed = items(body)
    for at, kind, item in listed:
        if kind != "reasoning":
            continue
        if not item.get("encrypted_content"):
            return f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
        if not item["encrypted_content"].startswith(signer):
            return f"The encrypted content {item['encrypted_content']} could not be verified."
        behind = [(kind, item) for _, kind, item in listed[at + 1 : at + 2]]
        if not behind or behind[0][0] not in ("reasoning", "message", "function_call") or "id" not in behind[0][1]:
            return f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
    return None


def reasoning_before_calls(body: Body) -> str | None:
    """A call that names itself has the reasoning before it that it came with."""
    found = False
    for _, kind, item in items(body):
        if kind == "function_call_output" or item.get("role") == "user":
            found = False
        found = found or kind == "reasoning"
        if kind == "function_call" and "id" in item and not found:
            return f"Item '{item['id']}' of type 'function_call' was provided without its required 'reasoning' item."
    return None


def paired_items(body: Body) -> str | None:
    waiting: set[str] = set()
    for at, kind, item in items(body):
        if kind == "function_call":
            if item["call_id"] in waiting:
                return f"Duplicate call_id: input[{at}]"
            waiting.add(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in waiting:
                return f"No tool call found for function call output with call_id {item['call_id']}."
            waiting.remove(item["call_id"])
        elif waiting:
            break
    return f"No tool output found for function call {min(waiting)}." if waiting else None


def checks(signer: str) -> tuple[Callable[[Body], str | None], ...]:
    """All of them for a vendor whose reasoning begins so."""
    return (stateless, item_fields, partial(own_reasoning, signer=signer), reasoning_before_calls, paired_items)
