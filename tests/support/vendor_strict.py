"""What vendors refuse beyond `vendors.py`, by the names of their dialects there: each check gives a complaint, or None.

Sources: the vendors' references of November 2026, and what users met (the words are theirs).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

Body = dict[str, Any]
Check = Callable[[Body], str | None]


def _values(tree: Any, place: str = "$") -> Iterator[tuple[str, Any]]:
    """Every object in a tree, with its place."""
    if isinstance(tree, dict):
        yield place, tree
        for name, value in tree.items():
            yield from _values(value, f"{place}.{name}")
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from _values(value, f"{place}[{number}]")


def _schemas(body: Body) -> Iterator[tuple[str, Any]]:
    for tool in body.get("tools") or ():
        yield from _values(tool["function"]["parameters"])


def claude_marks(body: Body) -> str | None:
    """At most four marks; those for an hour come first; none on thinking or on an empty text."""
    parts = [body.get("tools") or [], body.get("system") or [], body["messages"]]
    marked = [each for part in parts for _, each in _values(part) if "cache_control" in each]
    if len(marked) > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}."
    if any(each.get("type") == "thinking" or each.get("text") == "" for each in marked):
        return "cache_control cannot be set for empty text blocks"
    lives = [each["cache_control"].get("ttl", "5m") for each in marked]
    if any(pair == ("5m", "1h") for pair in itertools.combinations(lives, 2)):
        return "a ttl=1h cache_control block must not come after a ttl=5m cache_control block"
    return None


def claude_order(body: Body) -> str | None:
    """No prefill; results stand first; thinking is not switched off for models that always think."""
    if body["messages"][-1]["role"] == "assistant":
        return "This model does not support assistant message prefill."
    for at, message in enumerate(body["messages"]):
        kinds = [block["type"] for block in message["content"]]
        if "tool_result" in kinds and "tool_result" in kinds[kinds.count("tool_result") :]:
            return f"messages.{at}: tool_result blocks must come first"
    if (body.get("thinking") or {}).get("type") in ("disabled", "enabled") and re.search("-5-[5-9]", body["model"]):
        return '"thinking.type" is not supported for this model. Use "thinking.type.adaptive".'
    return None


def gemini_places(body: Body) -> str | None:
    """A call follows a prompt or results; an answer says or calls something; results are texts."""
    for before, message in itertools.pairwise(body["messages"]):
        if message["role"] == "assistant":
            if message.get("tool_calls") and before["role"] not in ("user", "tool"):
                return "Please ensure that function call turn comes immediately after a user turn."
            if not message.get("tool_calls") and not (message.get("content") or "").strip():
                return "contents.parts must not be empty"
        if message["role"] == "tool" and isinstance(message["content"], list):
            return "Invalid value at 'contents': a result is a text"
    return None


def gemini_schemas(body: Body) -> str | None:
    odd = {"$schema", "$id", "patternProperties", "if", "then", "not", "const"}
    for place, schema in _schemas(body):
        if not place.endswith(".properties") and (found := odd & schema.keys()):
            return f'Invalid JSON payload received. Unknown name "{min(found)}" at {place}'
    return None


def deepseek_content(body: Body) -> str | None:
    """Texts only, its own reasoning only, and no schema."""
    for at, message in enumerate(body["messages"]):
        if isinstance(message.get("content"), list):
            return f"messages[{at}]: unknown variant `image_url`, expected `text`"
        thought = (message.get("reasoning_content") or "").strip()
        if thought and not thought.startswith("secret-of-deepseek"):
            return f"messages[{at}]: reasoning of another model"
    return "This response_format type is unavailable now" if "response_format" in body else None


def kimi_forms(body: Body) -> str | None:
    """Names of tools, schemas in its own flavour, no empty message, and K3 always thinks."""
    for tool in body.get("tools") or ():
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{2,63}", tool["function"]["name"]):
            return f"Invalid request: function name is invalid: {tool['function']['name']}"
    for place, schema in _schemas(body):
        if "anyOf" in schema and "type" in schema:
            return f"<At path '{place}': when using anyOf, type should be defined in anyOf items>"
    for at, message in enumerate(body["messages"]):
        if not message.get("content") and not message.get("tool_calls"):
            return f"Invalid request: the message at position {at} must not be empty"
    off = (body.get("thinking") or {}).get("type") == "disabled"
    return "kimi-k3 always thinks" if off and "kimi-k3" in body["model"] else None


def mistral_answers(body: Body) -> str | None:
    empty = [m for m in body["messages"] if m["role"] == "assistant" and not (m.get("content") or m.get("tool_calls"))]
    return "Assistant message must have either content or tool_calls, but not none." if empty else None


def own_details(body: Body) -> str | None:
    """Details of reasoning are for the model that gave them, whole and in order."""
    own = f"secret-of-openrouter-{body['model'].replace('/', '-')}"
    for at, message in enumerate(body["messages"]):
        for detail in message.get("reasoning_details") or ():
            if not detail["data"].startswith(own):
                return f"messages.{at}: reasoning_details of another model"
        if "reasoning" in message and "reasoning_details" in message:
            return f"messages.{at}: reasoning is there twice"
    return None


def response_items(body: Body) -> str | None:
    """Each id once, at most four breakpoints, and an own text comes back with its status."""
    ids = [item["id"] for item in body["input"] if "id" in item]
    if len(set(ids)) < len(ids):
        return f"Duplicate item found with id {next(each for each in ids if ids.count(each) > 1)}."
    marks = json.dumps(body["input"]).count('"prompt_cache_breakpoint"')
    if marks > 4:
        return f"at most 4 prompt_cache_breakpoint, found {marks}"
    if marks and (body.get("prompt_cache_options") or {}).get("mode") != "explicit":
        return "prompt_cache_breakpoint needs prompt_cache_options.mode 'explicit'"
    return None


CHECKS: dict[str, tuple[Check, ...]] = {
    "anthropic": (claude_marks, claude_order),
    "anthropic, before 5.5": (claude_marks, claude_order),
    "gemini": (gemini_places, gemini_schemas),
    "deepseek": (deepseek_content,),
    "moonshot": (kimi_forms,),
    "mistral": (mistral_answers,),
    "openrouter": (own_details,),
    "openrouter, Claude": (own_details,),
    "openrouter, Qwen": (own_details,),
    "openai responses": (response_items,),
    "xai, Responses": (response_items,),
}
