"""Servers' reports on a model: each kind of server, and anything else that may answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import UsageError
from codelet.loop.session import Session
from codelet.messages import Picture, user
from codelet.opening import mentioned
from codelet.providers import open_provider
from codelet.providers.asking import ask, exchange
from codelet.providers.facts import DEFAULT_WINDOW
from codelet.providers.native import NativeProvider
from codelet.providers.protocol import ServerFacts
from codelet.safety import Policy
from tests.providers.chunks import options, request
from tests.support.pictures import png
from tests.support.raw import RawServer, read_request
from tests.support.server import ModelServer, closed_port
from tests.support.sessions import TYPED
from tests.support.waiting import Neighbour

Answers = dict[str, Any]


class Asked:
    """A server with these answers by path, 404 for all others; `heads` and `bodies` are what it was asked."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        self.heads.append(head)
        self.bodies.append(body)
        found = self.answers.get(head.split(" ")[1])
        raw = found if isinstance(found, bytes) else json.dumps(found).encode()
        status = b"404 Not Found" if found is None else b"200 OK"
        lines = [b"HTTP/1.1 " + status, b"Content-Type: application/json", b"Transfer-Encoding: chunked", b"", b""]
        writer.write(b"\r\n".join(lines))
        for start in range(0, len(raw), 700):
            piece = raw[start : start + 700]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    @property
    def paths(self) -> list[str]:
        return [head.split(" ")[1] for head in self.heads]


def models(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"object": "list", "data": list(entries)}


SERVERS: dict[str, tuple[Answers, ServerFacts]] = {
    "llama.cpp": (
        {
            "/v1/models": models({"id": "other.gguf", "meta": {"n_ctx": 4096, "n_ctx_train": 131072}}),
            "/props": {
                "default_generation_settings": {"n_ctx": 2048},
                "chat_template_caps": {"supports_tools": False},
                "modalities": {"vision": True, "audio": False},
            },
        },
        ServerFacts(window=2048, tools=False, images=True),
    ),
    "vLLM": ({"/v1/models": models({"id": "org/m", "max_model_len": 32768})}, ServerFacts(window=32768)),
    "LiteLLM's proxy": (
        {"/v1/models": models({"id": "x"}, {"id": "org/m", "max_input_tokens": 200000, "max_output_tokens": 64000})},
        ServerFacts(window=200_000, max_output=64_000),
    ),
    "LM Studio": (
        {"/v1/models": models({"id": "org/m", "max_context_length": 131072, "loaded_context_length": 8192})},
        ServerFacts(window=8192),
    ),
    "OpenRouter": (
        {
            "/v1/models": models(
                {
                    "id": "org/m",
                    "context_length": 262144,
                    "top_provider": {"context_length": 131072, "max_completion_tokens": 16384},
                    "supported_parameters": ["tools", "reasoning"],
                    "architecture": {"input_modalities": ["text", "image"]},
                },
                *({"id": f"many/{number}", "context_length": 1} for number in range(2_000)),
            )
        },
        ServerFacts(window=131_072, max_output=16_384, tools=True, images=True),
    ),
    "Groq": (
        {"/v1/models": models({"id": "org/m", "context_window": 131072, "max_completion_tokens": 65536})},
        ServerFacts(window=131_072, max_output=65_536),
    ),
    "Ollama with the model running": (
        {
            "/v1/models": models({"id": "org/m"}, {"id": "x"}),
            "/api/ps": {"models": [{"name": "x", "context_length": 1}, {"model": "org/m", "context_length": 4096}]},
            "/api/show": {
                "capabilities": ["completion", "tools", "vision"],
                "model_info": {"qwen3.context_length": 40960},
            },
        },
        ServerFacts(window=4096, tools=True, images=True),
    ),
    "Ollama with a window in the model's file": (
        {
            "/v1/models": models({"id": "org/m"}),
            "/api/ps": {"models": []},
            "/api/show": {"parameters": 'stop "<|im_end|>"\nnum_ctx                        16384\ntop_k 20'},
        },
        ServerFacts(window=16_384),
    ),
    "Ollama that says only for how much the model was trained": (
        {
            "/api/ps": {"models": []},
            "/api/show": {"capabilities": ["completion"], "model_info": {"qwen3.context_length": 40960}},
        },
        ServerFacts(tools=False, images=False),
    ),
    "a list without the model": ({"/v1/models": models({"id": "a", "n_ctx": 1}, {"id": "b"})}, ServerFacts()),
    "odd sizes": (
        {"/v1/models": models({"id": "org/m", "n_ctx": True, "max_model_len": -1, "context_length": "8k", "meta": 5})},
        ServerFacts(),
    ),
    "Ollama with an odd window in the model's file": (
        {"/api/ps": {"models": [5, {"model": "org/m:latest"}]}, "/api/show": {"parameters": f"num_ctx {'9' * 5_000}"}},
        ServerFacts(),
    ),
    "no Ollama": ({"/api/ps": models(), "/api/show": {"parameters": "num_ctx 5"}}, ServerFacts()),
    "nothing": ({}, ServerFacts()),
    "no JSON": ({"/v1/models": b"<html>", "/props": b"\xff", "/api/ps": b"[" * 100_000}, ServerFacts()),
    "other JSON": ({"/v1/models": [1], "/props": {"default_generation_settings": []}, "/api/ps": 5}, ServerFacts()),
    "endless": ({"/v1/models": b" " * (9 << 20)}, ServerFacts()),
}


@pytest.mark.parametrize("name", SERVERS)
async def test_each_server_is_understood(name: str):
    answers, wanted = SERVERS[name]
    asked = Asked(answers)
    with RawServer(asked.handle) as server:
        found = await ask(f"{server.base}/v1", {"authorization": "Bearer key"}, "org/m", local=True)
    assert found == wanted
    assert all("authorization: bearer key" in head.lower() for head in asked.heads)
    assert asked.paths[:2] == ["/v1/models", "/props"]
    if "/api/show" in asked.paths:
        assert json.loads(asked.bodies[asked.paths.index("/api/show")]) == {"model": "org/m"}


async def test_a_server_elsewhere_is_asked_for_its_list_alone():
    asked = Asked({"/v1/models": models({"id": "m", "max_model_len": 9}), "/props": {"n_ctx": 5}})
    with RawServer(asked.handle) as server:
        assert await ask(f"{server.base}/v1", {}, "m", local=False) == ServerFacts(window=9)
    assert asked.paths == ["/v1/models"]


@pytest.mark.parametrize("model", ["org/m", "anthropic/m", "openai/responses/m"])
async def test_each_native_wire_asks_with_its_own_key_and_name(model: str):
    name = model.removeprefix("anthropic/").removeprefix("openai/responses/")
    asked = Asked({"/v1/models": models({"id": name, "max_model_len": 4096}, {"id": "x"})})
    with RawServer(asked.handle) as server:
        base = server.base if model.startswith("anthropic/") else f"{server.base}/v1"
        provider = open_provider(model, options(base))
        assert (await provider.ask()).window == 4096
        await provider.close()
    key = "x-api-key: test-key" if model.startswith("anthropic/") else "authorization: Bearer test-key"
    assert key.lower() in asked.heads[0].lower()


@pytest.mark.parametrize("model", ["org/m", "anthropic/m", "openai/responses/m", "gpt-4"])
@pytest.mark.parametrize("sees", [True, False])
async def test_a_model_gets_pictures_where_its_server_says_so(model: str, sees: bool):
    picture: Picture = {"name": "a.png", "media_type": "image/png", "width": 3, "height": 2, "data": "iVBORw0KGgo="}
    wanted = request(user("look", [picture]))
    with RawServer(Asked({"/props": {"modalities": {"vision": sees}}}).handle) as server:
        provider = open_provider(model, options(server.base if model.startswith("anthropic/") else f"{server.base}/v1"))
        assert isinstance(provider, NativeProvider)
        provider.body(wanted)
        assert (await provider.ask()).images is sees
        assert (b"iVBORw0KGgo=" in provider.body(wanted)) is sees
        await provider.close()


async def test_a_session_attaches_no_picture_for_a_server_that_takes_none(tmp_path: Path, model_server: ModelServer):
    (tmp_path / "a.png").write_bytes(png())
    asked = Asked({"/v1/models": models({"id": "m"}), "/props": {"modalities": {"vision": False}}})
    provider = open_provider("m", options(model_server.openai))
    session = Session(provider, workspace=tmp_path, policy=Policy(tmp_path), bare=True)
    assert await mentioned(session, "@a.png", person=TYPED) is not None
    with RawServer(asked.handle) as server:
        other = open_provider("m", options(f"{server.base}/v1"))
        session.models.switch(other)
        session.upkeep.server.begin()
        await session.upkeep.server.settle()
    with pytest.raises(UsageError, match="--model"):
        await mentioned(session, "@a.png", person=TYPED)
    await other.close()
    await provider.close()


async def test_who_does_not_answer_is_not_waited_for_long():
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    with Neighbour() as clock, RawServer(silent) as server:
        assert await ask(f"{server.base}/v1", {}, "m", local=True) == ServerFacts()
    assert clock.passed < 12
    assert await ask(f"http://127.0.0.1:{closed_port()}/v1", {}, "m", local=True) == ServerFacts()
    assert await ask("no address", {}, "m", local=True) == ServerFacts()


@pytest.mark.parametrize("status", [None, 200], ids=["in the head", "in the body"])
async def test_the_limit_is_for_the_whole_exchange(status: int | None):
    """The head comes late, the body byte by byte without an end."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await asyncio.sleep(1.5)  # clock: most of the limit
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" if status else b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)  # clock: far below the limit

    with Neighbour() as clock, RawServer(drip) as server:
        answer = await exchange(server.base, "/models", {}, timeout=2.0)
    assert clock.waited > 1.9
    assert clock.passed < 3.0
    assert (answer and answer[0]) == status
    if answer is not None:
        assert 1 <= len(answer[1]) <= 12, "those of half a second"


async def test_a_window_that_nobody_named_is_a_guess(tmp_path: Path):
    provider = open_provider("openai/house-1", options("http://127.0.0.1:1/v1"))
    guessed = Session(provider, workspace=tmp_path, policy=Policy(tmp_path), bare=True)
    assert (guessed.window.budget.window, guessed.models.window_is_guessed) == (DEFAULT_WINDOW, True)
    named = Session(provider, workspace=tmp_path, policy=Policy(tmp_path), bare=True, window=5_000)
    assert (named.window.budget.window, named.models.window_is_guessed) == (5_000, False)
    listed = open_provider("openai/gpt-4o", options("http://127.0.0.1:1/v1"))
    assert not Session(listed, workspace=tmp_path, policy=Policy(tmp_path), bare=True).models.window_is_guessed
