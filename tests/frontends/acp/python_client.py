"""The official Python client drives codelet: `python python_client.py WORKSPACE COMMAND…`, with the package `acp`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse


class Judge:
    def __init__(self) -> None:
        self.updates: list[str] = []
        self.asked: list[list[str]] = []
        self.waits = asyncio.Event()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **more: Any
    ) -> RequestPermissionResponse:
        self.asked.append([option.kind for option in options])
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=options[0].option_id))

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update.session_update)
        if self.updates.count("tool_call") == 3:
            self.waits.set()

    def on_connect(self, connection: Any) -> None:
        return


async def main(workspace: str, command: str, *arguments: str) -> None:
    judge = Judge()
    async with spawn_agent_process(judge, command, *arguments, env=dict(os.environ)) as (agent, _):
        about = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        opened = await agent.new_session(cwd=workspace, mcp_servers=[])
        first = await agent.prompt(session_id=opened.session_id, prompt=[text_block("go")])
        running = asyncio.create_task(agent.prompt(session_id=opened.session_id, prompt=[text_block("wait")]))
        await judge.waits.wait()
        await agent.cancel(session_id=opened.session_id)
        second = await running
    loaded = Judge()
    async with spawn_agent_process(loaded, command, *arguments, env=dict(os.environ)) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        listed = await agent.list_sessions(cwd=workspace)
        await agent.load_session(cwd=workspace, session_id=opened.session_id, mcp_servers=[])
    seen = {"updates": judge.updates, "asked": judge.asked, "version": about.protocol_version}
    seen |= {"options": [each.id for each in opened.config_options]}
    seen |= {"listed": [each.session_id for each in listed.sessions] == [opened.session_id], "loaded": loaded.updates}
    print(json.dumps(seen | {"first": first.stop_reason, "second": second.stop_reason}))


asyncio.run(main(*sys.argv[1:]))
