"""Proxies and certificates, as the usual variables name them."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import ProviderError, UsageError
from codelet.providers import open_provider
from codelet.providers.connection import context_of_folder
from codelet.providers.protocol import Deadlines, FinishChunk, ProviderOptions, Retries, TextChunk
from tests.providers.chunks import collect
from tests.support.certificates import Certificates
from tests.support.proxy import Proxy
from tests.support.raw import RawServer, event_stream, saying
from tests.support.script import Delivery, Reply
from tests.support.server import ModelServer, closed_port

YES = [TextChunk("yes"), FinishChunk("stop")]
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, *(name.lower() for name in VARIABLES), *TRUST):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def safe_server(certificates: Certificates) -> Iterator[ModelServer]:
    """A model server with TLS, whose authority is unknown."""
    with ModelServer(lambda request: Reply("yes", usage=None), tls=certificates.server_context()) as server:
        yield server


@pytest.fixture
def plain_server() -> Iterator[ModelServer]:
    with ModelServer(lambda request: Reply("yes", usage=None)) as server:
        yield server


async def answer(base: str, times: int = 1) -> None:
    options = ProviderOptions(
        f"{base}/v1", "test-key", Deadlines(connect=2, first_token=5, between_chunks=5), Retries(attempts=1)
    )
    provider = open_provider("openai/scripted", options)
    try:
        for _ in range(times):
            assert await collect(provider) == YES
    finally:
        await provider.close()
        await asyncio.sleep(0)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
async def test_a_certificate_authority_that_a_variable_names(
    safe_server: ModelServer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv(name, str(certificates.ca))
    await answer(safe_server.base, times=3)
    assert safe_server.connections == 1


async def test_the_systems_folder_of_certificates_is_looked_into_before_its_file(
    safe_server: ModelServer, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = certificates.hashed(tmp_path / "trusted")
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    context = context_of_folder()
    assert context is not None and context.cert_store_stats()["x509"] == 0, "nothing is loaded before it is needed"
    await answer(safe_server.base)
    assert safe_server.connections == 1
    for file in folder.iterdir():
        file.rename(folder / "00000000.0")
    with pytest.raises(ProviderError, match="TLS with"):
        await answer(safe_server.base)
    assert safe_server.connections == 1, "neither the folder nor the whole store vouches for it"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    assert context_of_folder() is None, "the file that somebody named is all that is trusted"


async def test_without_it_the_error_names_the_variable(safe_server: ModelServer):
    with pytest.raises(ProviderError, match=r"TLS with 127.0.0.1:\d+ failed: .*; is SSL_CERT_FILE needed\?") as caught:
        await answer(safe_server.base)
    assert not caught.value.retryable
    assert safe_server.requests == []


async def test_a_certificate_for_another_name_is_refused(certificates: Certificates, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    server = RawServer(saying(event_stream(b"")), tls=certificates.server_context(), host="127.0.0.2")
    with server, pytest.raises(ProviderError, match=r"TLS with 127\.0\.0\.2.*IP address mismatch") as caught:
        await answer(server.base)
    assert "--api-base" in str(caught.value)
    assert "SSL_CERT_FILE" not in str(caught.value), "no authority is missing"


async def test_an_expired_certificate_is_no_question_of_authorities(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    server = RawServer(saying(event_stream(b"")), tls=certificates.expired(tmp_path).server_context())
    with server, pytest.raises(ProviderError, match="expired") as caught:
        await answer(server.base)
    assert "renew" in str(caught.value)
    assert "SSL_CERT_FILE" not in str(caught.value)


async def test_a_server_that_may_want_a_client_certificate_is_named_so(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    context = certificates.server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.ca)
    server = RawServer(saying(event_stream(b"")), tls=context)
    with server, pytest.raises(ProviderError, match="client certificate"):
        await answer(server.base)


async def test_http_to_a_server_that_speaks_https(certificates: Certificates):
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"\x15\x03\x01\x00\x02\x02\x46")  # an alert of TLS, as OpenSSL answers it
        await writer.drain()

    with RawServer(handle) as server, pytest.raises(ProviderError, match="https://") as caught:
        await answer(server.base)
    assert not caught.value.retryable


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_a_file_without_certificates_is_a_wrong_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, safe_server: ModelServer, name: str
):
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing\n")
    for path, says in ((empty, "holds no certificates"), (tmp_path / "missing.pem", "No such file")):
        monkeypatch.setenv(name, str(path))
        with pytest.raises(UsageError, match=says) as caught:
            await answer(safe_server.base)
        assert name in str(caught.value)
        assert str(path) in str(caught.value)


async def test_https_to_a_server_that_speaks_http():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    with RawServer(handle) as server, pytest.raises(ProviderError, match="speak https"):
        await answer(server.base.replace("http:", "https:"))


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_http_goes_through_the_proxy(
    plain_server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv(name, proxy.address)
    await answer(plain_server.base, times=3)
    assert proxy.targets == [f"127.0.0.1:{plain_server.port}"]
    assert plain_server.connections == 1, "the connection through the proxy is kept"
    assert plain_server.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize("address", ["{0}", "127.0.0.1:{1}"])
async def test_https_goes_through_a_tunnel(
    safe_server: ModelServer, proxy: Proxy, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, address: str
):
    monkeypatch.setenv("HTTPS_PROXY", address.format(proxy.address, proxy.port))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    await answer(safe_server.base, times=3)
    assert proxy.targets == [f"127.0.0.1:{safe_server.port}"]


async def test_a_long_answer_through_a_tunnel(
    proxy: Proxy, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HTTPS_PROXY", proxy.address)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    pieces = ["x" * 10_000] * 200
    script = [Reply(pieces, usage=None, delivery=Delivery(framing="close"))]
    with ModelServer(script, tls=certificates.server_context()) as server:
        provider = open_provider(
            "openai/scripted",
            ProviderOptions(server.openai, "k", Deadlines(connect=2, first_token=5, between_chunks=5)),
        )
        chunks = await collect(provider)
        assert sum(len(chunk.text) for chunk in chunks if isinstance(chunk, TextChunk)) == 2_000_000
        await provider.close()


FORGED = event_stream(
    b'data: {"choices": [{"delta": {"content": "INJECTED"}}]}\n\n'
    b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
)


@pytest.mark.parametrize("padding", [0, 65_536])
async def test_what_a_proxy_says_in_clear_is_never_the_servers_answer(
    safe_server: ModelServer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, padding: int
):
    """The second consent ends where a reader of 64 KiB at a time would have nothing left to look at."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    start, end = b"HTTP/1.1 200 OK\r\nX: ", b"\r\n\r\n"
    consent = start + b"x" * max(0, padding - len(start) - len(end)) + end
    with Proxy(forged=FORGED, consent=consent) as forger:
        monkeypatch.setenv("HTTPS_PROXY", forger.address)
        with suppress(ProviderError):  # or the answer is the server's own
            await answer(safe_server.base)


async def test_bytes_in_clear_that_come_later_break_the_handshake(
    safe_server: ModelServer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with Proxy(forged=FORGED, apart=True) as forger:
        monkeypatch.setenv("HTTPS_PROXY", forger.address)
        with pytest.raises(ProviderError, match=r"TLS with .* failed"):
            await answer(safe_server.base)
    assert safe_server.requests == []


async def test_a_tunnel_through_a_proxy_that_is_reached_through_tls(
    safe_server: ModelServer, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    with Proxy(tls=certificates.server_context()) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        await answer(safe_server.base, times=3)
        assert proxy.targets == [f"127.0.0.1:{safe_server.port}"]
    with Proxy(tls=certificates.server_context(), forged=FORGED) as forger:
        monkeypatch.setenv("HTTPS_PROXY", forger.address)
        with suppress(ProviderError):
            await answer(safe_server.base)


async def test_the_certificate_is_checked_through_the_tunnel_too(
    safe_server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HTTPS_PROXY", proxy.address)
    with pytest.raises(ProviderError, match=f"TLS with 127.0.0.1:{safe_server.port} failed"):
        await answer(safe_server.base)


async def test_name_and_password_of_the_proxy_are_sent_to_it_alone(
    plain_server: ModelServer,
    safe_server: ModelServer,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
):
    login = b64encode(b"me:pass word").decode()
    with Proxy(password=login) as proxy:
        address = proxy.address.replace("//", "//me:pass%20word@")
        monkeypatch.setenv("HTTP_PROXY", address)
        monkeypatch.setenv("HTTPS_PROXY", address)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
        await answer(plain_server.base)
        await answer(safe_server.base)
        assert proxy.authorizations == [f"Basic {login}"] * 2
    for server in (plain_server, safe_server):
        assert server.requests[0].header("proxy-authorization") is None


async def test_a_proxy_that_refuses(plain_server: ModelServer, monkeypatch: pytest.MonkeyPatch):
    with Proxy(password="other") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        with pytest.raises(ProviderError, match=r"proxy 127\.0\.0\.1 refused .*: HTTP/1\.1 407"):
            await answer("https://127.0.0.1:9")
        with pytest.raises(ProviderError, match=r"proxy .* wants credentials \(407\)") as caught:
            await answer(plain_server.base)
        assert "key" not in str(caught.value), "the proxy's refusal is none of the API's"
    assert plain_server.requests == []


BLOCKED = b"<!DOCTYPE html>\n<html><head><title>Attention Required! | Cloudflare</title></head><body>x</body></html>"


@pytest.mark.parametrize(("status", "page"), [(b"403 Forbidden", BLOCKED), (b"401 Unauthorized", BLOCKED.lower())])
async def test_a_page_of_a_gateway_says_nothing_of_the_key(status: bytes, page: bytes):
    head = b"HTTP/1.1 " + status + b"\r\ncontent-type: text/html\r\nserver: cloudflare\r\ncontent-length: %d\r\n\r\n"
    with RawServer(saying(head % len(page) + page)) as server, pytest.raises(ProviderError) as caught:
        await answer(server.base)
    assert "gateway (cloudflare)" in str(caught.value)
    assert str(caught.value).lower().endswith("attention required! | cloudflare"), "the page's title, not its HTML"
    assert "key" not in str(caught.value)
    assert not caught.value.retryable


@pytest.mark.parametrize("says", [b"", b"220 smtp ready\r\n", b"HTTP/1.1 200", b"x" * 200_000])
async def test_a_proxy_that_is_none(monkeypatch: pytest.MonkeyPatch, says: bytes):
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(says)
        await writer.drain()

    with RawServer(handle) as server:
        monkeypatch.setenv("HTTPS_PROXY", server.base)
        with pytest.raises(ProviderError, match=r"proxy 127\.0\.0\.1 refused") as caught:
            await answer("https://127.0.0.1:9")
        assert len(str(caught.value)) < 1_000


async def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, plain_server: ModelServer):
    port = closed_port()
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
    with pytest.raises(ProviderError, match=f"proxy 127.0.0.1:{port} on the way to") as caught:
        await answer(plain_server.base)
    assert "proxy variables" in str(caught.value)


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:1", "http://me:secret@:80", "http://me:secret@host:port"])
async def test_a_proxy_of_another_kind_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch, address: str):
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(UsageError, match="http or https") as caught:
        await answer("https://127.0.0.1:9")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("exception", ["*", "127.0.0.1", "example.org,127.0.0.1", "127.0.0.1:{port}"])
async def test_no_proxy_for_the_hosts_that_are_excepted(
    plain_server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, exception: str
):
    monkeypatch.setenv("HTTP_PROXY", proxy.address)
    monkeypatch.setenv("NO_PROXY", exception.format(port=plain_server.port))
    await answer(plain_server.base)
    assert proxy.targets == []


async def test_other_exceptions_do_not_count(plain_server: ModelServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", proxy.address)
    monkeypatch.setenv("NO_PROXY", "example.org,27.0.0.1,127.0.0.1:1")
    await answer(plain_server.base)
    assert proxy.targets != []


async def test_answers_on_a_kept_connection_are_taken_as_they_come(
    plain_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short wait for more pieces is for one fast stream; many quick answers on a connection are not one."""
    waits = []
    loop = asyncio.get_running_loop()
    timer = loop.call_later

    def noted(delay: float, *rest: Any, **named: Any) -> asyncio.TimerHandle:
        waits.append(delay)
        return timer(delay, *rest, **named)

    monkeypatch.setattr(loop, "call_later", noted)
    await answer(f"http://127.0.0.1:{plain_server.port}", times=30)
    assert len({request.connection for request in plain_server.requests}) == 1
    assert [delay for delay in waits if delay < 0.5] == []
