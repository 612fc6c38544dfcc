"""The model server itself: what the other tests lean on must hold."""

from __future__ import annotations

import gc
import http.client
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.certificates import Certificates
from tests.support.program import ROOT
from tests.support.proxy import Proxy
from tests.support.raw import RawServer, saying
from tests.support.script import Body, Call, Delivery, HttpError, Insert, Reply, Stop, StreamError, Tokens
from tests.support.server import ModelServer, closed_port, deaf_port
from tests.support.waiting import PATIENCE, Neighbour

TWO_CALLS = Reply(
    text=("Let me ", "look."),
    reasoning=("hm",),
    calls=(Call("a", "read", {"path": "x"}, (3, 7)), Call("b", "grep", {"pattern": "y"})),
    usage=Tokens(120, cache_read=100, cache_write=5, output=7, reasoning=2),
)


def ask(server: ModelServer | int, path: str = "/v1/chat/completions", timeout: float = 5.0) -> tuple[int, bytes]:
    port = server if isinstance(server, int) else server.port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        body = json.dumps({"model": "m", "stream": True, "stream_options": {"include_usage": True}})
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def data_of(raw: bytes) -> list[dict]:
    lines = [line[6:] for line in raw.splitlines() if line.startswith(b"data: ") and line != b"data: [DONE]"]
    return [json.loads(line) for line in lines]


def test_chat_completions_carries_text_calls_and_usage():
    with ModelServer([TWO_CALLS]) as server:
        status, raw = ask(server)
    chunks = data_of(raw)
    assert status == 200
    assert raw.endswith(b"data: [DONE]\n\n")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Let me look."
    parts = [part for delta in deltas for part in delta.get("tool_calls", ())]
    assert [part["id"] for part in parts if "id" in part] == ["a", "b"]
    pieces = [part["function"]["arguments"] for part in parts if part["index"] == 0]
    assert pieces == ["", '{"p', 'ath"', ': "x"}']
    assert chunks[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] == 100


def test_messages_carries_thinking_calls_and_usage():
    with ModelServer([TWO_CALLS]) as server:
        _, raw = ask(server, "/v1/messages")
    events = data_of(raw)
    assert events[0]["message"]["usage"]["input_tokens"] == 15
    starts = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
    assert starts == ["thinking", "text", "tool_use", "tool_use"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-1] == {"type": "message_stop"}


@pytest.mark.parametrize("odd", [{"odd_chunks": True}, {"framing": "length"}, {"framing": "close"}, {"piece": 3}])
def test_every_framing_carries_the_same_bytes(odd):
    with ModelServer([TWO_CALLS, Reply("x"), Reply("x", delivery=Delivery(**odd))]) as server:
        ask(server)
        assert ask(server) == ask(server)
        assert [request.number for request in server.requests] == [0, 1, 2]


def test_errors_carry_each_vendors_body():
    with ModelServer([HttpError(429, "slow down", retry_after=3)] * 2) as server:
        status, openai = ask(server)
        _, anthropic = ask(server, "/v1/messages")
    assert status == 429
    assert json.loads(openai)["error"]["message"] == "slow down"
    assert json.loads(anthropic)["error"]["type"] == "rate_limit_error"


def test_raw_bytes_error_events_and_pages():
    script = [
        Reply("x", fault=Insert(b"data: {nonsense\n\n")),
        Reply("x", fault=StreamError("full")),
        Body(b"<html>"),
    ]
    with ModelServer(script) as server:
        assert b"data: {nonsense\n\n" in ask(server)[1]
        assert data_of(ask(server, "/v1/messages")[1])[-1]["error"]["message"] == "full"
        assert ask(server) == (200, b"<html>")


@pytest.mark.parametrize("how", ["cut", "half_close"])
def test_a_cut_stream_lacks_its_end(how):
    with ModelServer([Reply("x", fault=Stop(how, 2))]) as server, pytest.raises(http.client.IncompleteRead):
        ask(server)


def test_reset_and_cut_before_the_headers():
    with ModelServer([Reply(fault=Stop("reset", 1)), Stop("cut")]) as server:
        with pytest.raises(ConnectionResetError):
            ask(server)
        with pytest.raises(http.client.RemoteDisconnected):
            ask(server)


def test_a_clean_end_lacks_the_finish_marker():
    with ModelServer([Reply("x", fault=Stop("clean_end", 2))]) as server:
        status, raw = ask(server)
    assert status == 200
    assert all(chunk["choices"][0]["finish_reason"] is None for chunk in data_of(raw))


@pytest.mark.parametrize("after", [None, 0, 2])
def test_a_stall_lasts_until_the_client_leaves(after):
    with ModelServer([Reply("x", fault=Stop("stall", after))]) as server:
        with pytest.raises(TimeoutError):
            ask(server, timeout=0.3)
        assert server.requests[0].gone.wait(PATIENCE)
        assert not server.requests[0].done.is_set()


def test_a_short_stall_goes_on():
    with ModelServer([Reply("x", fault=Stop("stall", 2, seconds=0.2))]) as server:
        with Neighbour() as clock:
            assert b"[DONE]" in ask(server)[1]
        assert clock.waited >= 0.2


def test_the_connection_is_kept_or_closed_as_told():
    with ModelServer([Reply("x"), Reply("x", delivery=Delivery(close="silent"))]) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        for _ in range(2):
            connection.request("POST", "/v1/messages", "{}")
            connection.getresponse().read()
        assert server.connections == 1
        assert connection.sock.recv(1) == b""
        connection.close()


def test_tls_and_the_proxys_tunnel(certificates: Certificates):
    with ModelServer([Reply("safe")], tls=certificates.server_context()) as server, Proxy() as proxy:
        trust = ssl.create_default_context(cafile=str(certificates.ca))
        connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, timeout=5, context=trust)
        connection.set_tunnel("localhost", server.port)
        connection.request("POST", "/v1/messages", "{}")
        assert b"safe" in connection.getresponse().read()
        assert proxy.targets == [f"localhost:{server.port}"]
        connection.close()


def test_it_runs_alone_with_a_script_from_a_file(tmp_path: Path):
    call = {"id": "c{n}", "name": "read", "arguments": {"path": "{n}.txt"}}
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"calls": [call], "repeat": 2}, {"text": "end", "usage": {"output": 3}}]))
    command = [sys.executable, "-m", "tests.support.server", "--script", str(script)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout
    try:
        port = json.loads(child.stdout.readline())["port"]
        answers = [ask(port)[1] for _ in range(3)]
    finally:
        child.communicate(timeout=10)
    assert b'"c0"' in answers[0]
    assert b"1.txt" in answers[1]
    assert data_of(answers[2])[-1]["usage"]["completion_tokens"] == 3
    assert child.returncode == 0


def test_ports_that_refuse_or_do_not_answer():
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", closed_port()), timeout=1)
    with deaf_port() as port, pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", port), timeout=0.3)


@pytest.mark.parametrize("make", [ModelServer, Proxy, lambda: RawServer(saying())])
def test_a_connection_that_comes_as_the_server_ends_is_closed(make: Callable[[], ModelServer | Proxy | RawServer]):
    """What stays open is told when it is collected, in the middle of another test."""
    for _ in range(30):
        with make() as server, socket.socket() as client:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", server.port))
    gc.collect()
