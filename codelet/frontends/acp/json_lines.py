"""The Agent Client Protocol: JSON-RPC 2.0 with the editor, one message a line in both directions, and parameters."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from itertools import count
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

from codelet.errors import CodeletError, UsageError
from codelet.record import Record
from codelet.safety.secrets import mask
from codelet.system.text import one_line


class _Pair(Struct):
    name: str
    value: str


class McpServer(Struct):
    """An MCP server that the editor's user configured: a `command` or a `url`."""

    name: str
    type: str | None = None
    command: str | None = None
    args: list[str] | None = None
    url: str | None = None
    env: list[_Pair] | None = None
    headers: list[_Pair] | None = None

    def settings(self) -> tuple[str, dict[str, object]]:
        """Return its name and its table in the settings."""
        table: dict[str, object] = {
            key: value for key in ("type", "command", "args", "url") if (value := getattr(self, key)) is not None
        }
        for key, pairs in (("env", self.env), ("headers", self.headers)):
            if pairs is not None:
                table[key] = {pair.name: pair.value for pair in pairs}
        return self.name, table


class _Resource(Struct):
    uri: str
    text: str | None = None


class Block(Struct, rename="camel"):
    """One piece of a prompt's content."""

    type: str
    text: str = ""
    uri: str = ""
    resource: _Resource | None = None
    mime_type: str = ""
    data: str = ""


class Params(Struct, rename="camel"):
    """The parameters of all requests; each uses some of them."""

    cwd: str | None = None
    cursor: str | None = None
    mcp_servers: list[McpServer] | None = None
    session_id: str = ""
    prompt: list[Block] = []
    config_id: str = ""
    value: str = ""


class _Outcome(Struct, rename="camel"):
    option_id: str | None = None


class Permission(Struct):
    """The answer to `session/request_permission`; without an option if the turn was cancelled."""

    outcome: _Outcome


class PromptContent(Record, kw_only=True):
    """A prompt's words, the texts that go with them, and its images by the names that the words use."""

    words: str
    texts: str
    images: dict[str, bytes]


def content_of(blocks: Sequence[Block]) -> PromptContent:
    """Return a prompt's content. Raises UsageError for a kind that is not supported."""
    words, texts = "", ""
    images: dict[str, bytes] = {}
    for block in blocks:
        if block.type == "text":
            words += block.text
        elif block.type == "resource_link":
            path = _path_of(block.uri)
            words += block.uri if path is None else f'@"{path}"'
        elif block.type == "resource" and block.resource is not None and block.resource.text is not None:
            uri, text = block.resource.uri, block.resource.text
            texts += f"\n\n<file path={_path_of(uri) or uri!r}>\n{text}\n</file>"
        elif block.type == "image":
            name = f"image-{len(images) + 1}.{block.mime_type.partition('/')[2]}"
            try:
                images[name] = base64.b64decode(block.data)
            except binascii.Error as error:
                raise UsageError(f"an image of the prompt is not base64: {error}") from None
            words += f" @{name} "
        else:
            raise UsageError(f"content of the type {block.type} is not supported in a prompt")
    if not (words.strip() or texts or images):
        raise UsageError("the prompt is empty")
    return PromptContent(words=words, texts=texts, images=images)


def _path_of(uri: str) -> str | None:
    """Return the path in a file's URI, None for any other URI."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else None


Json = dict[str, object]

_LONGEST_LINE = 64 * 1024 * 1024
_LONGEST_ERROR = 2_000

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, BAD_PARAMETERS, FAILED = -32700, -32600, -32601, -32602, -32603


class RpcError(Exception):
    """An error to answer a request with, or the editor's answer to ours."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    def as_json(self) -> Json:
        return {"code": self.code, "message": one_line(mask(str(self)), _LONGEST_ERROR)}


class _Message(Struct):
    """A request or notification (`method`), or an answer (`result` or `error`)."""

    id: int | str | UnsetType | None = UNSET
    method: str | None = None
    params: object = None
    result: object = UNSET
    error: object = UNSET


Handler = Callable[[Params], Awaitable[Json]]


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
        self._running: set[asyncio.Task[None]] = set()

    async def serve(self, methods: Mapping[str, Handler]) -> None:
        """Answer requests until the editor closes its end."""
        try:
            while True:
                try:
                    line = await self._reader.readline()
                except ValueError:
                    self._refuse(RpcError(PARSE_ERROR, f"a line is longer than {_LONGEST_LINE:,} bytes"))
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
            self._refuse(RpcError(INVALID_REQUEST, str(error)))
        except (ValueError, RecursionError) as error:
            self._refuse(RpcError(PARSE_ERROR, f"not JSON: {error}"))
        else:
            if message.method is not None:
                self.start(self._answer(message, methods.get(message.method)))
            elif message.result is UNSET and message.error is UNSET:
                self._refuse(RpcError(INVALID_REQUEST, "neither a request nor an answer to one"))
            elif (waiting := self._waiting.get(message.id)) is not None and not waiting.done():  # else it came too late
                waiting.set_result(message)

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Run a coroutine in the background. One that a method starts runs after the method's result is sent."""
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _answer(self, message: _Message, handler: Handler | None) -> None:
        """Run a method and send its result or its error."""
        try:
            answer: Json = {"result": await _result(message, handler)}
        except RpcError as error:
            answer = {"error": error.as_json()}
        if message.id is not UNSET:
            self._write({"id": message.id, **answer})

    def _refuse(self, error: RpcError) -> None:
        """Answer what is no message."""
        self._write({"id": None, "error": error.as_json()})

    def _write(self, message: Json) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


async def _result(message: _Message, handler: Handler | None) -> Json:
    """Return a method's result. Raises RpcError whatever fails: the agent continues."""
    if handler is None:
        raise RpcError(NO_METHOD, f"there is no method {message.method}")
    try:
        return await handler(msgspec.convert(message.params or {}, Params))
    except RpcError:
        raise
    except msgspec.ValidationError as error:
        raise RpcError(BAD_PARAMETERS, f"bad parameters: {error}") from None
    except CodeletError as error:
        raise RpcError(BAD_PARAMETERS if isinstance(error, UsageError) else FAILED, str(error)) from None
    except Exception as error:
        raise RpcError(FAILED, f"a bug in codelet: {type(error).__name__}: {error}") from error
