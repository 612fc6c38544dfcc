"""HTTP for the native wires: kept connections, deadlines, and whatever a server may say or leave unsaid."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from codelet.errors import ProviderError, UsageError
from codelet.providers import open_provider
from codelet.providers.http import HttpClient
from codelet.providers.protocol import Chunk, Deadlines, FinishChunk, Provider, ProviderOptions, Retries, TextChunk
from tests.providers.chunks import collect, collect_until_error, request
from tests.support.raw import RawServer, event_stream, read_request, saying
from tests.support.script import Body, Delivery, HttpError, Reply, Stop, redirect
from tests.support.server import ModelServer, closed_port, deaf_port
from tests.support.waiting import PATIENCE, Neighbour, happens

SHORT = Deadlines(connect=0.4, first_token=0.6, between_chunks=0.3)
LONG = Deadlines(connect=5, first_token=10, between_chunks=10)
ANSWER = b'data: {"choices": [{"delta": {"content": "yes"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
YES: list[Chunk] = [TextChunk("yes"), FinishChunk("stop")]


@asynccontextmanager
async def opened(base: str, deadlines: Deadlines = LONG, wire: str = "openai") -> AsyncIterator[Provider]:
    options = ProviderOptions(base, "test-key", deadlines, Retries(attempts=1))
    provider = open_provider(f"{wire}/scripted", options)
    yield provider
    await provider.close()


async def failing(base: str, deadlines: Deadlines = LONG) -> tuple[list[Chunk], str]:
    async with opened(base, deadlines) as provider:
        chunks, error = await collect_until_error(provider)
    assert error is not None, chunks
    assert "\n" not in str(error)
    return chunks, str(error)


@pytest.mark.parametrize("wire", ["openai", "openai/responses", "anthropic"])
async def test_one_connection_serves_many_requests(wire: str):
    with ModelServer(lambda request: Reply("yes", usage=None)) as server:
        async with opened(server.base if wire == "anthropic" else server.openai, wire=wire) as provider:
            for _ in range(20):
                assert TextChunk("yes") in await collect(provider)
        assert (len(server.requests), server.connections) == (20, 1)


async def test_a_name_and_password_in_the_address_stay_here():
    with ModelServer(lambda request: Reply("yes", usage=None)) as server:
        async with opened(server.openai.replace("http://", "http://me:hush@")) as provider:
            assert TextChunk("yes") in await collect(provider)
        assert server.requests[0].header("host") == server.openai.split("/")[2]
        assert "hush" not in str(server.requests[0].headers)


async def test_a_connection_that_the_server_closed_meanwhile_is_opened_again_without_a_word():
    with ModelServer(lambda request: Reply("yes", usage=None)) as server:
        async with opened(server.openai) as provider:
            for _ in range(3):
                assert await collect(provider) == YES
                server.drop_connections()
        assert (len(server.requests), server.connections) == (3, 3)


@pytest.mark.parametrize("close", ["silent", "announced"])
async def test_a_connection_that_is_closed_after_each_answer(close: str):
    with ModelServer(lambda request: Reply("yes", usage=None, delivery=Delivery(close=close))) as server:
        async with opened(server.openai) as provider:
            for _ in range(3):
                assert await collect(provider) == YES
        assert server.connections == 3


async def test_a_connection_is_opened_ahead_once():
    with ModelServer(lambda request: Reply("yes", usage=None)) as server:
        async with opened(server.openai) as provider:
            await provider.warm()
            await provider.warm()
            assert await collect(provider) == YES
            await provider.warm()
            assert await collect(provider) == YES
        assert server.connections == 1
    async with opened(f"http://127.0.0.1:{closed_port()}") as provider:
        await provider.warm()  # a failure will show at the request
        _, error = await collect_until_error(provider)
        assert "cannot reach" in str(error)


async def test_requests_side_by_side_do_not_share_the_connection_that_was_opened_ahead():
    with ModelServer(lambda request: Reply("yes", usage=None)) as server:
        async with opened(server.openai) as provider:
            await provider.warm()
            assert await asyncio.gather(*(collect(provider) for _ in range(3))) == [YES] * 3
            assert server.connections == 3
            # One of them is kept, the others are closed.
            assert await collect(provider) == YES
            await happens(lambda: server.open_connections == 1, "the end of the other two")
            assert server.connections == 3


async def test_an_answer_that_is_left_early_gives_its_connection_up():
    with ModelServer(lambda request: Reply(["yes"] * 50, delivery=Delivery(pause=0.01))) as server:
        async with opened(server.openai) as provider:
            stream = provider.stream(request())
            await anext(stream)
            await stream.aclose()
            assert await asyncio.to_thread(server.requests[0].gone.wait, PATIENCE)


async def test_what_follows_the_end_marker_is_not_waited_for_long():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(b"%x\r\n%s\r\n" % (len(ANSWER), ANSWER))
        while not writer.is_closing():
            await asyncio.sleep(0.1)  # clock: the server's pace
            writer.write(b"9\r\n: still \n\r\n")
            await writer.drain()

    with RawServer(handle) as server:
        async with opened(server.base) as provider:
            with Neighbour() as clock:
                assert await collect(provider) == YES
            assert clock.passed < 1.5


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [CHUNKED + b"\r\n" + b"%x\r\n%s\r\n0\r\n\r\n" % (len(ANSWER), ANSWER)],
        [CHUNKED + b"\r\n" + b"000%X;a=b\r\n%s\r\n0\r\nX-Trailer: yes\r\n\r\n" % (len(ANSWER), ANSWER)],
        [CHUNKED + b"\r\n", *(b"1\r\n%c\r\n" % byte for byte in ANSWER), b"0\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", event_stream(ANSWER)],
        [b"HTTP/1.0 200 OK\r\n\r\n" + ANSWER],
        [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ANSWER), ANSWER],
        [bytes([byte]) for byte in event_stream(ANSWER)],
    ],
    ids=["chunked", "odd chunks", "a chunk a byte", "interim answers", "HTTP/1.0", "length", "byte by byte"],
)
async def test_every_framing_is_read(pieces: list[bytes]):
    with RawServer(saying(*pieces)) as server:
        async with opened(server.base) as provider:
            assert await collect(provider) == YES


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "without an answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "without an answer"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 3_000_000, "not valid HTTP"),
        (CHUNKED + b"\r\nzz\r\n", "not valid HTTP"),
        (CHUNKED + b"\r\n5\r\nda", "middle"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\ndata: ", "middle"),
        (event_stream(b"data: " + b"a" * 17_000_000), "16 MiB"),
        (event_stream(b"<html>"), "no event stream"),
    ],
    ids=["nothing", "ssh", "huge header", "bad chunk", "cut chunk", "cut body", "huge line", "page"],
)
async def test_broken_answers_are_one_line(answer: bytes, says: str):
    with RawServer(saying(answer)) as server:
        _, error = await failing(server.base)
    assert says in error
    assert len(error) < 300


async def test_a_web_page_and_a_redirect_name_the_address_as_the_culprit():
    steps = [Body(b"<html>hotel</html>"), redirect("http://127.0.0.1:9/"), HttpError(404, "no such path")]
    with ModelServer(steps) as server:
        for says in ("web page; ", "redirects elsewhere (307)", "no such path"):
            chunks, error = await failing(server.openai)
            assert chunks == []
            assert says in error
        assert len(server.requests) == 3, "a redirect is not followed"


async def test_the_deadlines():
    cases = [
        (Stop("stall", None), "no token within 0.6 seconds", 0.6, 0),
        (Stop("stall", 0), "no token within 0.6 seconds", 0.6, 0),
        (Stop("stall", 3), "no data for 0.3 seconds", 0.3, 2),
    ]
    for fault, says, seconds, texts in cases:
        with ModelServer([Reply(["a", "b", "c"], fault=fault)]) as server, Neighbour() as clock:
            chunks, error = await failing(server.openai, SHORT)
        assert says in error
        assert "stalled" in error
        assert clock.waited >= seconds
        assert clock.passed < seconds + 0.8
        assert sum(len(chunk.text) for chunk in chunks if isinstance(chunk, TextChunk)) == texts


async def test_signs_of_life_put_off_the_first_token_but_not_for_ever():
    """Some servers send comments while they read a long prompt: more time than between chunks, but a bounded one."""
    alive = [b"4\r\n: x\n\r\n"] * 30
    with RawServer(saying(CHUNKED + b"\r\n", *alive, pause=0.1)) as server:
        with Neighbour() as clock:
            _, error = await failing(server.base, SHORT)
        assert "0.6 seconds" in error
        assert clock.waited >= 0.6
        assert clock.passed < 1.4
    late = saying(CHUNKED + b"\r\n", b"", b"", b"%x\r\n%s\r\n0\r\n\r\n" % (len(ANSWER), ANSWER), pause=0.15)
    with RawServer(late) as server:
        async with opened(server.base, SHORT) as provider:
            assert await collect(provider) == YES, "0.45 s to the first token is later than between chunks"


async def test_connecting_has_a_deadline_and_a_refusal_a_reason():
    with deaf_port() as port:
        _, error = await failing(f"http://127.0.0.1:{port}", SHORT)
    assert f"127.0.0.1:{port}" in error
    _, error = await failing(f"http://127.0.0.1:{closed_port()}")
    assert os.strerror(errno.ECONNREFUSED) in error
    _, error = await failing("http://no-such-host.invalid")
    assert "no-such-host.invalid:80" in error


@pytest.mark.parametrize(
    "base",
    [
        "",
        "localhost:8080",
        "ftp://localhost/v1",
        "http://",
        "http://:80/v1",
        "http://[::1/v1",
        "http://localhost:99999/v1",
        "http://localhost:port/v1",
        "http://localhost:0/v1",
        "http://localhost/vé",
        "http://bücher.example/v1",
        "http://local host/v1",
        "http://localhost/v1\r\nX-Header: yes",
    ],
)
def test_addresses_that_are_none_are_refused_before_anything_is_sent(base: str):
    with pytest.raises(UsageError, match="--api-base must be"):
        HttpClient(base, LONG)


async def test_the_request_names_the_host_and_keeps_path_and_query():
    heads: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        heads.append(head)
        json.loads(body)
        writer.write(event_stream(ANSWER))

    with RawServer(handle) as server:
        async with opened(f"{server.base}/team/v1/?api-version=7") as provider:
            assert await collect(provider) == YES
        lines = heads[0].split("\r\n")
        assert lines[0] == "POST /team/v1/chat/completions?api-version=7 HTTP/1.1"
        assert f"Host: 127.0.0.1:{server.port}".lower() in [line.lower() for line in lines]
        assert "authorization: bearer test-key" in [line.lower() for line in lines]


async def test_a_server_that_stops_reading_is_given_up():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    with RawServer(handle) as server:
        client = HttpClient(server.base, SHORT)
        with Neighbour() as clock, pytest.raises(ProviderError, match="stopped reading"):
            async with client.post("/x", {}, b"x" * 30_000_000):
                pass
        assert clock.passed < 3
        await client.close()
