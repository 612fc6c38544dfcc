"""JSON-RPC 2.0 with the editor: one message a line, requests in both directions."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine, Mapping
from itertools import count

import msgspec
from msgspec import UNSET, Struct, UnsetType

from codelet.errors import CodeletError, UsageError
from codelet.frontends.acp.parameters import Params
from codelet.record import Record
from codelet.safety.secrets import mask
from codelet.system.text import one_line

Json = dict[str, object]

_LONGEST_LINE = 64 * 1024 * 1024
_LONGEST_ERROR = 2_000

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMETERS, FAILED = -32700, -32600, -32601, -32602, -32603


class RpcError(Exception):
    """An error to answer a request with, or the editor's answer to ours."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class RpcResult(Record):
    """A request's result, and what to do after it is sent."""

    value: Json
    then: Callable[[], Coroutine[object, object, None]] | None = None


class _Message(Struct):
    """A request or notification (`method`), or an answer (`result` or `error`)."""

    id: int | str | UnsetType | None = UNSET
    method: str | None = None
    params: object = None
    result: object = UNSET
    error: object = UNSET


Handler = Callable[[Params], Coroutine[object, object, RpcResult]]


async def open_pipes(stdin: int, stdout: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open both directions. Raises ValueError if one is not a pipe, a socket or a terminal."""
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
        self._waiting: dict[object, asyncio.Future[_Message]] = {}
        self._running: set[asyncio.Task[RpcResult | None]] = set()

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

    async def request(self, method: str, params: Json) -> object:
        """Return the editor's result. Raises RpcError."""
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
        if answer.error is not UNSET:
            raise RpcError(FAILED, str(answer.error))
        return answer.result

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification; wait while the editor does not read."""
        self._write({"method": method, "params": params})
        await self._writer.drain()

    def _take(self, line: bytes, methods: Mapping[str, Handler]) -> None:
        try:
            message = msgspec.convert(json.loads(line), _Message)
        except msgspec.ValidationError as error:
            self._fail(None, RpcError(INVALID_REQUEST, str(error)))
        except (ValueError, RecursionError) as error:
            self._fail(None, RpcError(PARSE_ERROR, f"not JSON: {error}"))
        else:
            if message.method is not None:
                self._run(_handle(message, methods.get(message.method)), message)
            elif message.result is UNSET and message.error is UNSET:
                self._fail(None, RpcError(INVALID_REQUEST, "neither a request nor an answer to one"))
            elif (waiting := self._waiting.get(message.id)) is not None and not waiting.done():  # else it came too late
                waiting.set_result(message)

    def _run(self, work: Coroutine[object, object, RpcResult | None], message: _Message) -> None:
        """Run a method, then send its result or its error. The agent continues whatever fails."""

        def end(task: asyncio.Task[RpcResult | None]) -> None:
            self._running.discard(task)
            if task.cancelled() or message.id is UNSET:
                return
            if (error := task.exception()) is not None:
                self._fail(message.id, error)
            elif (result := task.result()) is not None:
                self._write({"id": message.id, "result": result.value})
                if result.then is not None:
                    self._run(result.then(), _Message())

        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(end)

    def _fail(self, number: object, error: BaseException) -> None:
        match error:
            case RpcError():
                code, text = error.code, str(error)
            case CodeletError():
                code, text = BAD_PARAMETERS if isinstance(error, UsageError) else FAILED, str(error)
            case msgspec.ValidationError():
                code, text = BAD_PARAMETERS, f"bad parameters: {error}"
            case _:
                code, text = FAILED, f"a bug in codelet: {type(error).__name__}: {error}"
        self._write({"id": number, "error": {"code": code, "message": one_line(mask(text), _LONGEST_ERROR)}})

    def _write(self, message: Json) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


async def _handle(message: _Message, handler: Handler | None) -> RpcResult:
    if handler is None:
        raise RpcError(NO_METHOD, f"there is no method {message.method}")
    return await handler(msgspec.convert(message.params or {}, Params))
