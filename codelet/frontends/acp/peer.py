"""JSON-RPC 2.0 with the editor: one message a line, requests in both directions."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

from codelet.errors import CodeletError, UsageError
from codelet.record import Record
from codelet.safety.secrets import mask
from codelet.system.text import one_line

_LONGEST_LINE = 64 * 1024 * 1024
_LONGEST_ERROR = 2_000

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMETERS, FAILED = -32700, -32600, -32601, -32602, -32603


class RpcError(Exception):
    """An error to answer a request with, or one that the editor answered with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RpcResult(Record):
    """The result of a request, and what is to be done once it is sent."""

    value: dict[str, Any]
    then: Callable[[], Awaitable[None]] | None = None


Handler = Callable[[dict[str, Any]], Awaitable[RpcResult]]


async def open_pipes(stdin: int, stdout: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open both directions. Raises ValueError if one is no pipe, socket or terminal."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(_LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(stdin, "rb", closefd=False))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(stdout, "wb"))
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


class Peer:
    """The editor at the other end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._running: set[asyncio.Future[Any]] = set()

    async def serve(self, methods: Mapping[str, Handler]) -> None:
        """Answer requests until the editor closes its end."""
        try:
            while True:
                try:
                    line = await self._reader.readline()
                except ValueError:
                    self._fail(None, RpcError(PARSE_ERROR, f"a line is longer than {_LONGEST_LINE:,} bytes"))
                    continue
                if not line:
                    return
                if line.strip():
                    self._take(line, methods)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the editor; its result. Raises RpcError."""
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._write({"id": number, "method": method, "params": params})
        try:
            answer = await waiting
        except asyncio.CancelledError:
            self._write({"method": "$/cancel_request", "params": {"requestId": number}})
            raise
        finally:
            del self._waiting[number]
        if "error" in answer:
            raise RpcError(FAILED, str(answer["error"]))
        return answer["result"]

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Tell the editor something; waits while it does not read."""
        self._write({"method": method, "params": params})
        await self._writer.drain()

    def _take(self, line: bytes, methods: Mapping[str, Handler]) -> None:
        try:
            message = json.loads(line)
        except ValueError as error:
            self._fail(None, RpcError(PARSE_ERROR, f"not JSON: {error}"))
            return
        if not isinstance(message, dict) or not message.keys() & {"method", "result", "error"}:
            self._fail(None, RpcError(INVALID_REQUEST, "neither a request nor an answer to one"))
        elif "method" not in message:
            waiting = self._waiting.get(message.get("id", 0))
            if waiting is not None and not waiting.done():  # else it came too late
                waiting.set_result(message)
        elif (handler := methods.get(message["method"])) is not None:
            self._run(handler(message.get("params") or {}), message)
        elif "id" in message:
            self._fail(message["id"], RpcError(NO_METHOD, f"there is no method {message['method']}"))

    def _run(self, work: Awaitable[Any], message: dict[str, Any]) -> None:
        """Run a handler, and answer with what comes of it. The agent continues whatever fails."""

        def ended(task: asyncio.Future[Any]) -> None:
            self._running.discard(task)
            if task.cancelled() or "id" not in message:
                return
            if (error := task.exception()) is not None:
                self._fail(message["id"], error)
                return
            self._write({"id": message["id"], "result": task.result().value})
            if task.result().then is not None:
                self._run(task.result().then(), {})

        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(ended)

    def _fail(self, number: object, error: BaseException) -> None:
        match error:
            case RpcError():
                code, text = error.code, str(error)
            case CodeletError():
                code, text = BAD_PARAMETERS if isinstance(error, UsageError) else FAILED, str(error)
            case LookupError() | TypeError() | AttributeError() | ValueError():
                code, text = BAD_PARAMETERS, f"bad parameters: {type(error).__name__}: {error}"
            case _:
                code, text = FAILED, f"failed inside codelet: {type(error).__name__}: {error}"
        self._write({"id": number, "error": {"code": code, "message": one_line(mask(text), _LONGEST_ERROR)}})

    def _write(self, message: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
