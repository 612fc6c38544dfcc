"""What strict chat templates refuse: each function gives the complaint of one kind of template, or None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.script import HttpError, Reply
from tests.support.server import Recorded

Messages = Sequence[dict[str, Any]]


def gemma(messages: Messages) -> str | None:
    """Every message but the system's counts; a tool's result is taken for the user's."""
    roles = ["user" if message["role"] == "tool" else message["role"] for message in messages[1:]]
    if roles == (["user", "assistant"] * len(roles))[: len(roles)]:
        return None
    return "Conversation roles must alternate user/assistant/user/assistant/..."


def mistral(messages: Messages) -> str | None:
    """Messages with calls and tools' results do not count."""
    roles = [m["role"] for m in messages[1:] if m["role"] != "tool" and not m.get("tool_calls")]
    if roles == (["user", "assistant"] * len(roles))[: len(roles)]:
        return None
    return (
        "After the optional system message, conversation roles must alternate user and assistant roles "
        "except for tool calls and results."
    )


TEMPLATES = (gemma, mistral)


def strict(
    script: Callable[[Recorded], Reply], template: Callable[[Messages], str | None], *, status: int = 400
) -> Callable[[Recorded], Reply | HttpError]:
    """The script behind a template: what that refuses is answered with its complaint."""

    def answer(request: Recorded) -> Reply | HttpError:
        complaint = template(request.json["messages"])
        return script(request) if complaint is None else HttpError(status, complaint)

    return answer
