"""LangChain's own compaction, run for real from its package; only the model that would summarise is a stand-in."""

from __future__ import annotations

import json
from typing import Any

from context.baselines import Message, Policy, extract, window

PACKAGES = "langchain"


def policies() -> dict[str, Policy]:
    """The three policies. Raises ImportError where langchain is not installed."""
    from langchain.agents.middleware import ClearToolUsesEdit, SummarizationMiddleware
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.messages import trim_messages
    from langchain_core.runnables import RunnableLambda

    def trimmed(messages: list[Message], target: int) -> list[Message]:
        kept = trim_messages(
            to_langchain(messages),
            max_tokens=target,
            token_counter=count,
            strategy="last",
            start_on=("human", "ai"),
            include_system=True,
        )
        return from_langchain(kept)

    def cleared(messages: list[Message], target: int) -> list[Message]:
        copies = to_langchain(messages)
        ClearToolUsesEdit(trigger=0, keep=3).apply(copies, count_tokens=count)
        return window(from_langchain(copies), target)

    def summarised(messages: list[Message], target: int) -> list[Message]:
        middleware = SummarizationMiddleware(
            FakeListChatModel(responses=["unused"]),
            trigger=("tokens", 1),
            keep=("tokens", max(1, target // 2)),
            token_counter=count,
            trim_tokens_to_summarize=None,
            summarizer=RunnableLambda(lambda old: extract(from_langchain(old), target // 2)),
        )
        update = middleware.before_model({"messages": to_langchain(messages)}, None)
        return from_langchain(update["messages"][1:]) if update else messages

    return {
        "LangChain trim_messages": trimmed,
        "LangChain ClearToolUsesEdit(3) + window": cleared,
        "LangChain SummarizationMiddleware (stand-in summary)": summarised,
    }


def count(messages: list[Any]) -> int:
    """The default estimate, for LangChain's messages."""
    from codelet.context.tokens import estimate_message

    return sum(map(estimate_message, from_langchain(messages)))


def to_langchain(messages: list[Message]) -> list[Any]:
    """Chat Completions to LangChain."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    found: list[Any] = []
    for number, message in enumerate(messages):
        text = message.get("content") or ""
        if message["role"] == "assistant":
            calls = [
                {"id": c["id"], "name": c["function"]["name"], "args": _arguments(c["function"]["arguments"])}
                for c in message.get("tool_calls") or []
            ]
            found.append(AIMessage(content=text, tool_calls=calls, id=f"m{number}"))
        elif message["role"] == "tool":
            found.append(ToolMessage(content=text, tool_call_id=message["tool_call_id"], id=f"m{number}"))
        else:
            kind = SystemMessage if message["role"] == "system" else HumanMessage
            found.append(kind(content=text, id=f"m{number}"))
    return found


def _arguments(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"raw": text}


def from_langchain(messages: list[Any]) -> list[Message]:
    """LangChain to Chat Completions."""
    roles = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
    found: list[Message] = []
    for message in messages:
        made: Message = {"role": roles[message.type], "content": message.content}
        if message.type == "tool":
            made["tool_call_id"] = message.tool_call_id
        if getattr(message, "tool_calls", None):
            made["tool_calls"] = [
                {
                    "id": c["id"],
                    "type": "function",
                    "function": {"name": c["name"], "arguments": json.dumps(c["args"], ensure_ascii=False)},
                }
                for c in message.tool_calls
            ]
        found.append(made)
    return found
