"""Chunk lists in a form that can be compared: what was said, without where the pieces were cut."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from codelet.errors import ProviderError
from codelet.messages import Message, user
from codelet.providers.by_litellm.provider import IMPORTING
from codelet.providers.protocol import (
    BlockChunk,
    BlocksChunk,
    Chunk,
    Deadlines,
    Effort,
    FinishChunk,
    NoteChunk,
    Provider,
    ProviderOptions,
    ReasoningChunk,
    Request,
    Retries,
    RetryChunk,
    TextChunk,
    ToolCallChunk,
    UsageChunk,
)

MODELS = {
    "chat completions": "openai/scripted",
    "responses": "openai/responses/scripted",
    "messages": "anthropic/claude-sonnet-4-5",
}
"""A model for each native wire, as a server on loopback has it."""

WAYS = {
    f"{wire}, {transport}": (model, transport)
    for wire, model in MODELS.items()
    for transport in ("native", "litellm")
    if (wire, transport) != ("responses", "litellm")  # litellm makes Chat Completions of what comes over Responses
}
"""The ways to a server: a model and a transport."""

IN_TEXT = {"openai/scripted": 2, "openai/responses/scripted": 5, "anthropic/claude-sonnet-4-5": 4}
"""The number of events up to the first piece of a text."""

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Does {name}.",
            "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        },
    }
    for name in ("read", "grep")
]

QUICK = Deadlines(connect=5.0, first_token=20.0, between_chunks=20.0)


def options(
    base: str, *, attempts: int = 1, deadlines: Deadlines = QUICK, effort: Effort | None = None
) -> ProviderOptions:
    """Options for a server on loopback."""
    retries = Retries(attempts=attempts, total_wait=20.0, first_wait=0.05)
    return ProviderOptions(base, "test-key", deadlines, retries, effort=effort)


def request(*messages: Message, tail: int = 0, tools: Sequence[dict[str, Any]] = ()) -> Request:
    return Request("Be brief.", list(messages) or [user("hello")], tail=tail, tools=tools)


async def collect(provider: Provider, wanted: Request | None = None) -> list[Chunk]:
    """All chunks of one answer."""
    async with aclosing(provider.stream(wanted or request(tools=TOOLS))) as stream:
        return [chunk async for chunk in stream if not _is_no_content(chunk)]


async def collect_until_error(
    provider: Provider, wanted: Request | None = None
) -> tuple[list[Chunk], ProviderError | None]:
    """The chunks of one answer and the error that ended it, if one did."""
    chunks: list[Chunk] = []
    failed: ProviderError | None = None
    async with aclosing(provider.stream(wanted or request(tools=TOOLS))) as stream:
        with contextlib.suppress(ProviderError):
            try:
                async for chunk in stream:
                    if not _is_no_content(chunk):
                        chunks.append(chunk)
            except ProviderError as error:
                failed = error
    return chunks, failed


def _is_no_content(chunk: Chunk) -> bool:
    """Return whether a chunk is only about the order of blocks, or about litellm's import."""
    return isinstance(chunk, BlockChunk | BlocksChunk) or (isinstance(chunk, NoteChunk) and chunk.text == IMPORTING)


def joined(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """The content of all chunks. Calls are separated as `codelet.loop.reply` does it, no arguments are `{}` there
    too, and a usage of nothing is none.
    """
    calls: list[list[Any]] = []
    at_index: dict[int, list[Any]] = {}
    for chunk in chunks:
        if isinstance(chunk, ToolCallChunk):
            call = at_index.get(chunk.index)
            if call is None or (chunk.id and chunk.id != call[0]):
                call = [chunk.id, "", ""]
                calls.append(call)
                at_index[chunk.index] = call
            call[1] = call[1] or chunk.name
            call[2] += chunk.arguments
    usages = [chunk.usage for chunk in chunks if isinstance(chunk, UsageChunk)]
    return {
        "order": _order(chunks),
        "text": "".join(chunk.text for chunk in chunks if isinstance(chunk, TextChunk)),
        "reasoning": "".join(chunk.text for chunk in chunks if isinstance(chunk, ReasoningChunk)),
        "blocks": [chunk.block for chunk in chunks if isinstance(chunk, ReasoningChunk) and chunk.block],
        "details": [chunk.details for chunk in chunks if isinstance(chunk, ReasoningChunk) and chunk.details],
        "calls": [(call_id, name, arguments or "{}") for call_id, name, arguments in calls],
        "usage": usages[-1] if usages and usages[-1].total else None,
        "finish": [chunk.reason for chunk in chunks if isinstance(chunk, FinishChunk)],
        "retries": [(chunk.attempt, chunk.attempts) for chunk in chunks if isinstance(chunk, RetryChunk)],
    }


def _order(chunks: Sequence[Chunk]) -> list[str]:
    """The kinds of chunks in order, neighbours of one kind as one; usage may come at any place."""
    names = [type(chunk).__name__ for chunk in chunks if not isinstance(chunk, UsageChunk)]
    return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]
