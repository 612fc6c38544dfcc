"""The program against the model server, its commands and files watched from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codelet import prompt
from codelet.calls import CallRunner, Safeguards, Toolbox, equip
from codelet.loop.conversation import Conversation
from codelet.messages import tool_result
from codelet.policy import Policy
from codelet.policy.verdict import Ask
from codelet.tools import all_tools
from codelet.tools.tool import ToolContext
from tests.e2e.conftest import Codelet
from tests.repl.conftest import start
from tests.support.server import ModelServer

__all__ = ["start"]


@pytest.fixture
def codelet(model_server: ModelServer, repo: Path, home: Path) -> Codelet:
    """codelet in a small git repository, speaking Chat Completions."""
    return Codelet(model_server, repo, home)


def toolbox(workspace: Path, policy: Policy, ask: Ask | None = None, **more: Any) -> Toolbox:
    """All tools, guarded as a session guards them."""
    return equip(all_tools(), ToolContext(workspace), policy, ask, Safeguards(**more))


async def call(box: Toolbox, name: str, **arguments: Any) -> tuple[str, str]:
    """Make one call as a turn does; its status and what the model is told."""
    made = {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    conversation = Conversation()
    conversation.append(
        {"role": "assistant", "content": None, "tool_calls": [made]},
        tool_result("c", prompt.INTERRUPTED),
    )
    runner = CallRunner([made], box, conversation, cut=False)
    status = ""
    async for event in runner.run():
        status = getattr(event, "status", status)
    return status, conversation.messages[-1]["content"]
