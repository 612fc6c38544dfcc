"""A request, a question or a warming that is cancelled while its connection is being opened leaves nothing open."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from codelet.providers import open_provider
from codelet.providers.protocol import Deadlines, Provider, ProviderOptions, Retries
from tests.providers.chunks import collect
from tests.support.amount import amount
from tests.support.certificates import Certificates
from tests.support.proxy import Proxy
from tests.support.script import Delivery, Reply
from tests.support.server import ModelServer
from tests.support.waiting import happens

ROUNDS = amount(40, 400)
"""The event loop's rounds after which the work is cancelled, each number once."""


@dataclass(frozen=True)
class Way:
    """The way to a server: its address, and the port that the client connects to."""

    url: str
    port: int


@pytest.fixture(params=["direct", "direct, TLS", "proxy", "proxy, TLS", "proxy with TLS, TLS"])
def way(request: pytest.FixtureRequest, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """To a model server directly or through a proxy, in the clear or by TLS."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with ExitStack() as stack:
        tls = certificates.server_context() if request.param.endswith("TLS") else None
        server = stack.enter_context(ModelServer(lambda request: Reply("yes", usage=None), tls=tls))
        port = server.port
        if request.param.startswith("proxy"):
            proxy_tls = certificates.server_context() if "with TLS" in request.param else None
            proxy = stack.enter_context(Proxy(tls=proxy_tls))
            monkeypatch.setenv("HTTPS_PROXY" if tls else "HTTP_PROXY", proxy.address)
            port = proxy.port
        yield Way(f"{server.base}/v1", port)


async def request(provider: Provider) -> None:
    await collect(provider)


async def ask(provider: Provider) -> None:
    await provider.ask()


async def warm(provider: Provider) -> None:
    await provider.warm()
    await asyncio.Event().wait()


def opened(url: str) -> Provider:
    return open_provider("openai/scripted", ProviderOptions(url, "test-key", Deadlines(), Retries(attempts=1)))


def target_of(descriptor: Path) -> str:
    """The target of a descriptor; empty if it was closed."""
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:
        return ""


async def assert_nothing_open(port: int) -> None:
    """No connection of this process leads to the port; none was left for the garbage collector to close."""

    def leading_there() -> list[str]:
        table = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
        mine = {target_of(entry) for entry in Path("/proc/self/fd").iterdir()}
        return [row[2] for row in table if row[2].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in mine]

    await happens(lambda: not leading_there(), f"the end of {leading_there()}")
    gc.collect()


@pytest.mark.parametrize("work", [request, ask, warm])
async def test_a_cancel_leaves_nothing_open(way: Way, work: Callable[[Provider], Awaitable[None]]) -> None:
    for rounds in range(ROUNDS):
        provider = opened(way.url)
        task = asyncio.ensure_future(work(provider))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await provider.close()
    await assert_nothing_open(way.port)


async def test_a_cancel_of_the_closing_leaves_nothing_open(way: Way) -> None:
    for rounds in range(ROUNDS):
        provider = opened(way.url)
        await provider.warm()
        for _ in range(rounds):
            await asyncio.sleep(0)
        closing = asyncio.ensure_future(provider.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
    await assert_nothing_open(way.port)


async def test_a_warming_beside_a_request_opens_nothing() -> None:
    slow = Reply(["yes", " indeed"], usage=None, delivery=Delivery(pause=0.05))
    with ModelServer(lambda request: slow) as server:
        provider = opened(f"{server.base}/v1")
        for count in (1, 2):
            task = asyncio.ensure_future(collect(provider))
            await happens(lambda count=count: len(server.requests) == count)
            await provider.warm()
            await task
        await provider.close()
        assert (len(server.requests), server.connections) == (2, 1)
        await assert_nothing_open(server.port)
