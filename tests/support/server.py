"""A model server on loopback that speaks three protocols and plays a script, faults included.

    with ModelServer([Reply("hello")]) as server:
        …  # server.base is "http://127.0.0.1:PORT"; Chat Completions lives at /v1/chat/completions,
        …  # Responses at /v1/responses, Messages at /v1/messages
        server.requests[0].json

It runs in a thread with its own event loop, or alone: `python -m tests.support.server --script FILE --port 0`
prints one JSON line with its address and serves until it is stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.support import wires
from tests.support.script import Body, HttpError, Insert, Reply, Script, Step, Stop, StreamError, load

T = TypeVar("T")


@dataclass
class Recorded:
    """One request as it came. Times are `time.monotonic()`.

    `started` is set when the answer's headers are out, `done` when all of it is, `gone` when the client
    has left before that.
    """

    number: int
    connection: int
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    arrived: float
    sent: float | None = None
    started: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def json(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.body)
        return parsed

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation that it carries, in the form of its protocol."""
        listed: list[dict[str, Any]] = self.json["input" if self.wire == "responses" else "messages"]
        return listed

    @property
    def wire(self) -> wires.Wire:
        """The protocol that its path names."""
        path = self.path.split("?")[0]
        return "messages" if path.endswith("/messages") else "responses" if path.endswith("/responses") else "chat"

    @property
    def anthropic(self) -> bool:
        return self.wire == "messages"

    def header(self, name: str) -> str | None:
        """The header's value, or None; the last one wins."""
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return found[-1] if found else None


class LoopThread:
    """An event loop in a thread of its own, for servers that a test starts and stops."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def stop(self) -> None:
        async def cancel_all() -> None:
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.01)  # clock: closed transports tell their protocols in the loop's next rounds

        self.run(cancel_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


async def shut(server: asyncio.Server, connections: Callable[[], Iterable[asyncio.WriteTransport]]) -> None:
    """Listen no more and end every connection, also those that are just being accepted and come in now.

    One that is left would be found when it is collected, in the middle of another test, which then fails. The server is
    closed last: asyncio loses the connection that it is accepting while that happens (`Server._attach` asserts).
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(8):  # the loop takes three rounds to accept one, and a fourth where its handler is a task
        await asyncio.sleep(0)
        for transport in list(connections()):
            # asyncio's own error, of a connection that has ended when the last of its data was sent.
            with contextlib.suppress(AttributeError):
                transport.abort()
    server.close()
    await asyncio.sleep(0)


# Below the ports that the kernel gives away, and each of them once in a long while: a client of an earlier test that
# still retries, or of one that expects a refused connection (`closed_port`), must not reach the server of another test.
_OWN_PORTS = itertools.islice(itertools.cycle(range(20_000, 32_000)), os.getpid() * 997 % 12_000, None)


class ModelServer:
    """Plays a script.

    `on_request` runs in the server's thread when a request's last byte has arrived, before any answer. `said` are its
    answers to GET requests by path, None for one that never comes; any other one is answered with its `models`.
    `asked` are their paths.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        on_request: Callable[[Recorded], None] | None = None,
        models: tuple[str, ...] = ("scripted",),
        said: Mapping[str, Any] | None = None,
    ) -> None:
        self.script = script
        self.requests: list[Recorded] = []
        self.connections = 0
        self.models = models
        self.said = dict(said or {})
        self.asked: list[str] = []
        self.on_request = on_request
        self._tls = tls
        self._port = port
        self._open: set[Connection] = set()
        self._more = threading.Condition()

    @property
    def base(self) -> str:
        """The address without a path."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def openai(self) -> str:
        """The `--api-base` of an OpenAI-like server."""
        return f"{self.base}/v1"

    @property
    def anthropic(self) -> str:
        """The `--api-base` of an Anthropic-like server."""
        return self.base

    @property
    def open_connections(self) -> int:
        """How many connections clients hold open now."""
        return len(self._open)

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        self._server = self._thread.run(self._listen())
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *exception: object) -> None:
        self._thread.run(shut(self._server, lambda: [connection.transport for connection in self._open]))
        self._thread.stop()

    async def _listen(self) -> asyncio.Server:
        if self._port:
            return await self._bind(self._port)
        for port in _OWN_PORTS:
            with contextlib.suppress(OSError):
                return await self._bind(port)
        raise AssertionError("no port is free")

    async def _bind(self, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: Connection(self), "127.0.0.1", port, ssl=self._tls)

    def drop_connections(self) -> None:
        """Close every connection that is open now, as a server does that is tired of keeping them."""

        async def drop() -> None:
            for connection in list(self._open):
                connection.abort()

        self._thread.run(drop())

    def wait_for(self, count: int, timeout: float = 60.0) -> Recorded:
        """Wait until so many requests to the model have arrived; the last of them."""
        with self._more:
            if not self._more.wait_for(lambda: len(self.requests) >= count, timeout):
                raise AssertionError(f"{len(self.requests)} requests in {timeout} s, {count} expected")
        return self.requests[count - 1]

    def take(self, recorded: Recorded) -> Step:
        """Record a request and say what to answer."""
        if self.on_request:
            self.on_request(recorded)
        with self._more:
            self.requests.append(recorded)
            self._more.notify_all()
        if callable(self.script):
            return self.script(recorded)
        if recorded.number < len(self.script):
            return self.script[recorded.number]
        return HttpError(418, f"the script has {len(self.script)} steps, this is number {recorded.number + 1}")

    def opened(self, connection: Connection) -> int:
        self._open.add(connection)
        self.connections += 1
        return self.connections

    def closed(self, connection: Connection) -> None:
        self._open.discard(connection)


class Connection(asyncio.Protocol):
    """One connection: parses requests, answers each with the next step of the script."""

    transport: asyncio.Transport

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._whole = 0  # how many bytes the request in the buffer needs at least
        self._answering: asyncio.Task[None] | None = None
        self._current: Recorded | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._left = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) >= self._whole:
            self._next(time.monotonic())  # clock: noted, not bounded

    def eof_received(self) -> bool:
        self._client_left()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._client_left()
        self._server.closed(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def abort(self) -> None:
        self.transport.abort()

    def _client_left(self) -> None:
        self._left.set()
        self._writable.set()
        if self._current and not self._current.done.is_set():
            self._current.gone.set()
        if self._answering:
            self._answering.cancel()

    def _next(self, arrived: float) -> None:
        """Start to answer if a whole request is there and none is being answered."""
        if self._answering and not self._answering.done():
            return
        parsed = _parse(self._buffer)
        if isinstance(parsed, int):
            self._whole = parsed
            return
        method, path, headers, body, size = parsed
        del self._buffer[:size]
        self._whole = 0
        if method == "GET":
            self._server.asked.append(path)
            self._answering = asyncio.get_running_loop().create_task(self._say(path))
            return
        number = len(self._server.requests)
        recorded = Recorded(number, self.number, method, path, headers, body, arrived)
        step = self._server.take(recorded)
        self._current = recorded
        self._answering = asyncio.get_running_loop().create_task(self._answer(recorded, step))
        self._answering.add_done_callback(lambda task: self._answered(task))

    def _answered(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() and not self._left.is_set():
            print("model server:", repr(task.exception()), file=sys.stderr)
            self.abort()
        if not self._left.is_set():
            self._next(time.monotonic())  # clock: noted, not bounded

    async def _say(self, path: str) -> None:
        models = [{"id": name, "object": "model"} for name in self._server.models]
        answer = self._server.said.get(path, {"object": "list", "data": models})
        if answer is None:
            await self._left.wait()
            return
        await self._plain(200, "application/json", json.dumps(answer).encode(), {})

    async def _answer(self, recorded: Recorded, step: Step) -> None:
        match step:
            case HttpError():
                headers = dict(step.headers)
                if step.retry_after is not None:
                    headers["Retry-After"] = str(step.retry_after)
                body = wires.error_body(step, wire=recorded.wire)
                await self._plain(step.status, step.content_type, body, headers)
            case Body():
                await self._plain(step.status, step.content_type, step.raw, {})
            case Stop():
                await self._stop(step)
                return
            case Reply():
                await self._stream(recorded, step)
        recorded.sent = time.monotonic()  # clock: noted, not bounded
        recorded.done.set()

    async def _plain(self, status: int, content_type: str, body: bytes, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Scripted", f"Content-Type: {content_type}"]
        lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self._write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def _stream(self, recorded: Recorded, reply: Reply) -> None:
        delivery, fault = reply.delivery, reply.fault
        if isinstance(fault, Stop) and fault.after is None and await self._stop(fault):
            return
        stream = _with_fault(reply, recorded)
        head = [f"HTTP/1.1 200 OK\r\nContent-Type: {delivery.content_type}\r\nCache-Control: no-cache"]
        if delivery.framing == "chunked":
            head.append("Transfer-Encoding: chunked")
        elif delivery.framing == "length":
            head.append(f"Content-Length: {sum(len(part) for part in stream if isinstance(part, bytes))}")
        if delivery.close == "announced" or delivery.framing == "close":
            head.append("Connection: close")
        await self._write("\r\n".join(head).encode() + b"\r\n\r\n")
        recorded.started.set()
        for part in stream:
            if isinstance(part, Stop):
                if await self._stop(part):
                    return
            elif delivery.piece is None:
                await self._pause(delivery.pause)
                await self._write(_framed(part, reply))
            else:
                for start in range(0, len(part), delivery.piece):
                    await self._pause(delivery.pause)
                    await self._write(_framed(part[start : start + delivery.piece], reply))
        if delivery.framing == "chunked":
            await self._write(b"0\r\nX-Trailer: yes\r\n\r\n" if delivery.odd_chunks else b"0\r\n\r\n")
        recorded.sent = time.monotonic()  # clock: noted, not bounded
        recorded.done.set()
        if delivery.close != "keep" or delivery.framing == "close":
            self.transport.close()

    async def _pause(self, seconds: float) -> None:
        if seconds:
            await asyncio.sleep(seconds)  # clock: the server's pace

    async def _write(self, data: bytes) -> None:
        self.transport.write(data)
        await self._writable.wait()

    async def _stop(self, stop: Stop) -> bool:
        """Do what the fault says; True if nothing follows."""
        match stop.how:
            case "stall":
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._left.wait(), stop.seconds)
                return self._left.is_set()
            case "reset":
                sock = self.transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
            case "cut":
                self.transport.close()
            case "half_close":
                self.transport.write_eof()
                await self._left.wait()
            case "clean_end":
                self.transport.write(b"0\r\n\r\n")
        return True


def _with_fault(reply: Reply, recorded: Recorded) -> list[bytes | Stop]:
    """The answer's events with its fault at its place; what can never be sent after the fault is left out."""
    request = recorded.json
    stream: list[bytes | Stop] = list(wires.events(reply, request, wire=recorded.wire))
    if reply.delivery.bom and isinstance(stream[0], bytes):
        stream[0] = b"\xef\xbb\xbf" + stream[0]
    match reply.fault:
        case Stop(after=int(after)):
            stream.insert(after, reply.fault)
        case Insert():
            stream.insert(reply.fault.after, reply.fault.raw)
        case StreamError():
            error = wires.error_event(reply, reply.fault, wire=recorded.wire)
            stream[reply.fault.after :] = [error]
    return stream


def _framed(data: bytes, reply: Reply) -> bytes:
    if reply.delivery.framing != "chunked":
        return data
    size = f"000{len(data):X};note=odd" if reply.delivery.odd_chunks else f"{len(data):x}"
    return size.encode() + b"\r\n" + data + b"\r\n"


def _parse(buffer: bytearray) -> tuple[str, str, list[tuple[str, str]], bytes, int] | int:
    """Method, path, headers, body and size of the first request in the buffer.

    Where it is not whole: how many bytes the buffer must have before it is worth looking again.
    """
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return len(buffer) + 1
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    known = {name.lower(): value for name, value in headers}
    start = end + 4
    if known.get("transfer-encoding", "").lower() == "chunked":
        unchunked = _unchunk(buffer, start)
        return len(buffer) + 1 if unchunked is None else (method, path, headers, *unchunked)
    size = int(known.get("content-length", "0"))
    if len(buffer) < start + size:
        return start + size
    return method, path, headers, bytes(buffer[start : start + size]), start + size


def _unchunk(buffer: bytearray, start: int) -> tuple[bytes, int] | None:
    body = bytearray()
    while True:
        line_end = buffer.find(b"\r\n", start)
        if line_end < 0:
            return None
        size = int(buffer[start:line_end].split(b";")[0], 16)
        start = line_end + 2
        if len(buffer) < start + size + 2:
            return None
        body += buffer[start : start + size]
        start += size + 2
        if size == 0:
            return bytes(body), start


def closed_port() -> int:
    """A port on loopback where nobody listens: connections are refused."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """A port that never answers a connection: its queue is full, connecting stalls."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port


def main() -> None:
    """Serve alone until a signal comes or stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--script", type=Path, required=True, help="a JSON file, see tests/support/script.py")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with ModelServer(load(options.script), port=options.port) as server:
        print(json.dumps({"base": server.base, "port": server.port}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
