"""Read messages of any shape: calls, names, arguments.

Lists come from providers, files and users: keys may be missing or of another type. Everything here answers
for every dict and raises nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

AnyMessage = Mapping[str, Any]
Estimate = Callable[[AnyMessage], int]


def calls_of(message: AnyMessage) -> list[dict[str, Any]]:
    """The tool calls of an assistant message that have the shape of one; others do not count."""
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, list):
        return []
    return [call for call in calls if isinstance(call, dict) and isinstance(call.get("id"), str)]


def call_name(call: Mapping[str, Any]) -> str:
    """The name of the function that a call asks for."""
    function = call.get("function")
    return str(function.get("name") or "") if isinstance(function, Mapping) else ""


def call_arguments(call: Mapping[str, Any]) -> str:
    """The arguments of a call as JSON text, as the model wrote them."""
    function = call.get("function")
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else json.dumps(arguments, ensure_ascii=False, default=str)
