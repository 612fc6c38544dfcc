"""The program against the model server, its commands and files watched from outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from codelet import events, prompt
from codelet.conversation import Conversation
from codelet.extensions.base import Guard
from codelet.loop.calls import CallRunner
from codelet.loop.toolbox import Safeguards, Toolbox
from codelet.messages import tool_result
from codelet.safety import Policy
from codelet.safety.verdict import Ask
from codelet.tools import all_tools
from codelet.tools.tool import ToolContext
from tests.e2e.conftest import Codelet
from tests.support.server import ModelServer


@pytest.fixture
def codelet(model_server: ModelServer, repo: Path, home: Path) -> Codelet:
    """codelet in a small git repository, speaking Chat Completions."""
    return Codelet(model_server, repo, home)


def toolbox(
    workspace: Path, policy: Policy, ask: Ask | None = None, *, guards: Sequence[Guard] = (), **more: Any
) -> Toolbox:
    """All tools, guarded as a session guards them."""
    return Toolbox(all_tools(), ToolContext(workspace), policy, ask, Safeguards(**more), guards)


async def calls(box: Toolbox, name: str, **arguments: Any) -> list[events.Event]:
    """Make one call as a turn does; its events."""
    return [event async for event in _runner(box, name, arguments).run()]


async def call(box: Toolbox, name: str, **arguments: Any) -> tuple[str, str]:
    """Make one call as a turn does. Returns its status and the text for the model."""
    conversation = Conversation()
    status = ""
    async for event in _runner(box, name, arguments, conversation).run():
        status = getattr(event, "status", status)
    return status, conversation.messages[-1]["content"]


def _runner(box: Toolbox, name: str, arguments: dict[str, Any], conversation: Conversation | None = None) -> CallRunner:
    conversation = Conversation() if conversation is None else conversation
    made = {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    conversation.append(
        {"role": "assistant", "content": None, "tool_calls": [made]}, tool_result("c", prompt.INTERRUPTED)
    )
    return CallRunner([made], box, conversation.answer, cut=False)
