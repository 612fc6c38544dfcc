"""An editor of our own that speaks the Agent Client Protocol with the real program, and keeps every line it gets."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Self

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.support.program import CODELET, ROOT, environment

Message = dict[str, Any]
Permission = Callable[[Message], Message]

SDK = Path(os.environ.get("CODELET_ACP_SDK") or ROOT / "node_modules" / "@agentclientprotocol" / "sdk")
"""npm's package of the protocol, which has its schema."""
NO_SDK = f"needs npm's @agentclientprotocol/sdk at {SDK} (CODELET_ACP_SDK names another folder)"

_REQUESTS = {
    "initialize": "InitializeResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/prompt": "PromptResponse",
    "session/close": "CloseSessionResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}
_OWN = {"session/update": "SessionNotification", "session/request_permission": "RequestPermissionRequest"}


def choose(option: str) -> Permission:
    """Answer every question with the option of this id."""
    return lambda asked: {"outcome": {"outcome": "selected", "optionId": option}}


@cache
def _schema(name: str) -> Draft202012Validator:
    whole = json.loads((SDK / "schema" / "v1" / "schema.json").read_text())
    registry: Registry[Any] = Registry().with_resource("urn:acp", Resource.from_contents(whole, _draft()))
    return Draft202012Validator({"$ref": f"urn:acp#/$defs/{name}"}, registry=registry)


def _draft() -> Any:
    from referencing.jsonschema import DRAFT202012

    return DRAFT202012


class Editor:
    """`async with Editor(…) as editor`. `permit` answers questions; a function that returns None never does.

    `sessions` is the folder that keeps sessions.
    """

    def __init__(
        self, *arguments: str, cwd: Path, home: Path, env: dict[str, str] | None = None, sessions: Path | None = None
    ) -> None:
        self._arguments = (*arguments, "acp", *(("--sessions", str(sessions)) if sessions is not None else ()))
        self._cwd, self._home, self._env = cwd, home, env
        self.lines: list[Message] = []
        self.permit: Callable[[Message], Message | None] = choose("yes")
        self.asked: list[Message] = []
        self.junk: list[bytes] = []
        self.seen = asyncio.Event()
        self._numbers = count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[Message]]] = {}

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            *CODELET,
            *self._arguments,
            cwd=self._cwd,
            env=environment(self._home, self._env),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=80 * 1024 * 1024,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading
        assert self.process.stderr is not None
        self.errors = (await self.process.stderr.read()).decode()

    async def end(self) -> int:
        """Close stdin and wait for the program's end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(30):
            return await self.process.wait()

    def write(self, line: bytes) -> None:
        """Send a line as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")

    def notify(self, method: str, **params: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def begin(self, method: str, **params: Any) -> asyncio.Future[Message]:
        """Send a request; its answer is to come."""
        number = next(self._numbers)
        waiting: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, waiting)
        self.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())
        return waiting

    async def ask(self, method: str, **params: Any) -> Message:
        """Send a request; the whole answer."""
        async with asyncio.timeout(60):
            return await self.begin(method, **params)

    async def open(self, folder: Path, **params: Any) -> str:
        """Open a session; its id."""
        answer = await self.ask("session/new", cwd=str(folder), **({"mcpServers": []} | params))
        return str(answer["result"]["sessionId"])

    async def prompt(self, session: str, text: str) -> str:
        """Run a turn; the reason for its end."""
        answer = await self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])
        return str(answer["result"]["stopReason"])

    def updates(self, kind: str = "") -> list[Message]:
        """The updates of this kind so far, or all of them."""
        all_updates = [each["params"]["update"] for each in self.lines if each.get("method") == "session/update"]
        return [each for each in all_updates if kind in ("", each["sessionUpdate"])]

    @property
    def text(self) -> str:
        """What the agent said."""
        return "".join(each["content"]["text"] for each in self.updates("agent_message_chunk"))

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until it holds, looking again after each line."""
        async with asyncio.timeout(60):
            while not condition():
                self.seen.clear()
                await self.seen.wait()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            try:
                message = json.loads(line)
            except ValueError:
                self.junk.append(line)
                continue
            self.lines.append(message)
            self._take(message)
            self.seen.set()

    def _take(self, message: Message) -> None:
        assert message["jsonrpc"] == "2.0"
        method = message.get("method")
        if method is None:
            asked, waiting = self._waiting.pop(message["id"], ("", None)) if message["id"] is not None else ("", None)
            if waiting is not None:
                self._judge(_REQUESTS.get(asked, ""), message.get("result"))
                waiting.set_result(message)
            return
        self._judge(_OWN.get(method, ""), message["params"])
        if method == "session/request_permission":
            self.asked.append(message["params"])
            if (answer := self.permit(message["params"])) is not None:
                self.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}).encode())

    def _judge(self, name: str, value: Any) -> None:
        if name and value is not None and SDK.is_dir():
            for error in _schema(name).iter_errors(value):
                self.junk.append(f"{name}: {error.json_path}: {error.message}"[:400].encode())
