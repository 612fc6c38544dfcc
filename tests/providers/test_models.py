"""Model names: to which address and key they lead, which is taken when none is named, and what is known of each."""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from codelet.errors import ProviderError, UsageError
from codelet.providers import open_provider
from codelet.providers.catalog import vendor_of, vendors
from codelet.providers.choice.known import choose_model, local_servers
from codelet.providers.choice.names import short_names
from codelet.providers.endpoint import base_of, endpoint_for
from codelet.providers.facts import DEFAULT_WINDOW, ModelFacts, litellm_knows, model_facts
from codelet.providers.protocol import ProviderOptions
from codelet.usage import Usage
from tests.support.raw import RawServer, read_request
from tests.support.server import ModelServer, closed_port
from tests.support.waiting import Neighbour

KEYS = {name: f"key of {name}" for vendor in vendors() for name in vendor.key_names}
BY_PREFIX = {vendor.prefix: vendor for vendor in vendors()}


@pytest.mark.parametrize(
    ("model", "prefix", "name"),
    [
        ("anthropic/claude-x", "anthropic", "claude-x"),
        ("claude-x", "anthropic", "claude-x"),
        ("openai/gpt-x", "openai", "gpt-x"),
        ("gpt-x", "openai", "gpt-x"),
        ("chatgpt-x", "openai", "chatgpt-x"),
        ("o3-mini", "openai", "o3-mini"),
        ("gemini/gemini-x", "gemini", "gemini-x"),
        ("openrouter/a/b", "openrouter", "a/b"),
        ("deepseek/chat", "deepseek", "chat"),
        ("xai/grok", "xai", "grok"),
        ("mistral/devstral", "mistral", "devstral"),
        ("groq/openai/gpt-oss", "groq", "openai/gpt-oss"),
        ("ollama/qwen:7b", "ollama", "qwen:7b"),
        ("ollama_chat/qwen:7b", "ollama", "qwen:7b"),
        ("lm_studio/x", "lm_studio", "x"),
        ("llamafile/x", "llamafile", "x"),
        ("llamacpp/x", "llamafile", "x"),
        ("vllm/a/b", "hosted_vllm", "a/b"),
    ],
)
def test_each_name_leads_to_its_vendor(model: str, prefix: str, name: str):
    endpoint = endpoint_for(model, None, None, KEYS)
    assert endpoint is not None
    assert endpoint.vendor is BY_PREFIX[prefix]
    assert endpoint.base == BY_PREFIX[prefix].base
    assert endpoint.model_name(model) == name
    assert endpoint.name == BY_PREFIX[prefix].name
    names = BY_PREFIX[prefix].key_names
    assert endpoint.key == (f"key of {names[0]}" if names else None)


@pytest.mark.parametrize("model", ["bedrock/x", "llama3", "orca", "", "cohere/x", "o-x"])
def test_other_names_are_not_native_but_with_an_address(model: str):
    assert vendor_of(model) is None
    assert endpoint_for(model, None, None, {}) is None
    endpoint = endpoint_for(model, "http://here/v1/", None, {})
    assert endpoint is not None
    assert (endpoint.base, endpoint.key, endpoint.name) == ("http://here/v1", None, "http://here/v1")
    assert endpoint.model_name(model) == model


@pytest.mark.parametrize("vendor", [vendor for vendor in vendors() if not vendor.local], ids=lambda v: v.prefix)
def test_without_a_key_the_variable_is_named(vendor: Any):
    with pytest.raises(UsageError, match=f"{vendor.name}: set {vendor.key_names[0]}"):
        endpoint_for(f"{vendor.prefix}/x", None, None, {})
    assert endpoint_for(f"{vendor.prefix}/x", None, "given", {}).key == "given"
    assert endpoint_for(f"{vendor.prefix}/x", "http://here", None, {}).key is None


def test_a_key_is_taken_without_the_line_end_that_files_have():
    assert endpoint_for("gpt-x", None, None, {"OPENAI_API_KEY": " sk-1\r\n"}).key == "sk-1"
    for key in ("sk-1…", "sk\n1", "sk\x001", "ключ"):
        with pytest.raises(UsageError, match="no key has") as caught:
            endpoint_for("gpt-x", None, key, {})
        assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "base"),
    [
        ("myhost", "http://myhost:11434/v1"),
        ("myhost:9999", "http://myhost:9999/v1"),
        (":9999", "http://127.0.0.1:9999/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:80", "http://127.0.0.1:80/v1"),
        ("[::1]:9999", "http://[::1]:9999/v1"),
        ("http://myhost", "http://myhost/v1"),
        ("https://myhost:1/", "https://myhost:1/v1"),
        ("http://myhost:1/v1/", "http://myhost:1/v1"),
        ("http://myhost:1/ollama", "http://myhost:1/ollama/v1"),
        ("", "http://127.0.0.1:11434/v1"),
    ],
)
def test_where_a_variable_moves_a_local_server_to(value: str, base: str):
    assert base_of(BY_PREFIX["ollama"], {"OLLAMA_HOST": value}) == base
    assert endpoint_for("ollama/x", None, None, {"OLLAMA_HOST": value}).base == base


def test_other_vendors_are_moved_as_written_and_a_local_port_is_its_own():
    moved = {"OPENAI_BASE_URL": "https://proxy.example/openai", "LM_STUDIO_API_BASE": "myhost"}
    assert endpoint_for("gpt-x", None, None, moved).base == "https://proxy.example/openai"
    assert endpoint_for("lm_studio/x", None, None, moved).base == "http://myhost:1234/v1"
    assert endpoint_for("gpt-x", "http://flag/v1", None, moved).base == "http://flag/v1", "the flag wins"


def test_a_moved_address_that_is_none_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OLLAMA_HOST", "http://[::1")
    with pytest.raises(UsageError, match="http or https"):
        open_provider("ollama/x", ProviderOptions())


NOWHERE = {name: "http://127.0.0.1:1" for vendor in vendors() if vendor.local for name in vendor.base_names[:1]}


async def test_the_first_vendor_with_a_key():
    found = [await choose_model(environment={name: "x"}) for name in ("ANTHROPIC_API_KEY", "XAI_API_KEY")]
    assert found == [BY_PREFIX["anthropic"].default_model, BY_PREFIX["xai"].default_model]
    both = {"OPENAI_API_KEY": "x", "ANTHROPIC_API_KEY": "x", "GEMINI_API_KEY": ""}
    assert await choose_model(environment=both) == BY_PREFIX["anthropic"].default_model


async def test_without_a_key_the_first_model_of_a_local_server():
    with ModelServer(models=("nomic-embed-text", "qwen:7b", "llama")) as server:
        environment = {**NOWHERE, "OLLAMA_API_BASE": server.base}
        assert await choose_model(environment=environment) == "ollama/qwen:7b"
        vendor, models = (await local_servers(environment))[0]
        assert (vendor.prefix, models) == ("ollama", ["qwen:7b", "llama", "nomic-embed-text"])
        assert server.requests == []


async def test_without_anything_it_says_what_to_do():
    with pytest.raises(UsageError, match=r"set a key .*start a local server.*--model.*codelet demo"):
        await choose_model(environment=NOWHERE)


async def test_a_listing_that_comes_in_pieces_on_a_connection_that_stays_open():
    listing = json.dumps({"data": [{"id": "big"}]}).encode()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in (b"HTTP/1.1 200 OK\r\n", b"Content-Type: application/json\r\n\r\n", listing[:9], listing[9:]):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)  # clock: so that each piece comes by itself
        await asyncio.Event().wait()

    with RawServer(handle) as server:
        with Neighbour() as clock:
            assert await choose_model(environment={**NOWHERE, "OLLAMA_API_BASE": server.base}) == "ollama/big"
        assert clock.passed < 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 404 Not Found\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b'HTTP/1.1 200 OK\r\n\r\n{"data": 5}',
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"\xff" * 3_000_000,
    ],
)
async def test_something_else_on_the_port_is_no_model_server(answer: bytes):
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    with RawServer(handle) as server:
        assert await local_servers({**NOWHERE, "OLLAMA_API_BASE": server.base}) == []


async def test_a_port_that_is_silent_is_not_waited_for_long():
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    with RawServer(handle) as server, Neighbour() as clock:
        assert await local_servers({**NOWHERE, "OLLAMA_API_BASE": server.base}) == []
    assert clock.passed < 1.5


async def test_with_an_address_the_model_that_it_lists():
    with ModelServer(models=("text-embedding", "meta/llama")) as server:
        assert await choose_model(server.openai, environment={"ANTHROPIC_API_KEY": "x"}) == "meta/llama"
        server.models = ("openai/gpt-oss",)
        model = await choose_model(server.openai, environment={})
        endpoint = endpoint_for(model, server.openai, None, {})
        assert endpoint is not None
        assert (endpoint.model_name(model), endpoint.vendor.wire) == ("openai/gpt-oss", "openai")
        server.models = ()
        with pytest.raises(UsageError, match=r"no models: .*--model"):
            await choose_model(server.openai, environment={})
    with pytest.raises(ProviderError, match=r"does not answer.*--api-base"):
        await choose_model(f"http://127.0.0.1:{closed_port()}/v1", environment={})
    with pytest.raises(UsageError, match=r"--api-base .*http or https"):
        await choose_model("here", environment={})


KEYLESS = b'{"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}'


def refusing(status: bytes, *, length: bool = True) -> RawServer:
    """A server that wants a key: its answer comes in two pieces, on a connection that it keeps open."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        size = b"Content-Length: %d\r\n" % len(KEYLESS) if length else b""
        for piece in (b"HTTP/1.1 " + status + b"\r\n" + size + b"\r\n", KEYLESS):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)  # clock: so that each piece comes by itself
        await asyncio.Event().wait()

    return RawServer(handle)


@pytest.mark.parametrize(
    ("api_key", "environment", "says"),
    [
        (None, {}, r"wants a key \(401\); set CODELET_API_KEY or OPENAI_API_KEY: Invalid API Key"),
        ("wrong", {}, r"rejected the key \(401\); check CODELET_API_KEY: Invalid API Key"),
        (None, {"OPENAI_API_KEY": "wrong"}, r"rejected the key \(401\); check OPENAI_API_KEY: Invalid API Key"),
    ],
)
async def test_a_listing_that_wants_a_key_says_so(api_key: str | None, environment: dict[str, str], says: str):
    with refusing(b"401 Unauthorized") as server, pytest.raises(ProviderError, match=says):
        await choose_model(f"{server.base}/v1", api_key, environment)
    forbidden = says.partition(":")[0].replace("401", "403")
    with refusing(b"403 Forbidden", length=False) as server, pytest.raises(ProviderError, match=forbidden):
        await choose_model(f"{server.base}/v1", api_key, environment)


@pytest.mark.parametrize(
    ("model", "base", "api_key", "environment", "name"),
    [
        ("gpt-x", None, None, {"OPENAI_API_KEY": "x"}, "OPENAI_API_KEY"),
        ("gpt-x", None, "x", {"OPENAI_API_KEY": "y"}, "CODELET_API_KEY"),
        ("gemini/x", None, None, {"GOOGLE_API_KEY": "x"}, "GOOGLE_API_KEY"),
        ("gpt-x", "http://here/v1", None, {}, "CODELET_API_KEY or OPENAI_API_KEY"),
        ("claude-x", "http://here", None, {}, "CODELET_API_KEY or ANTHROPIC_API_KEY"),
        ("llama", "http://here/v1", None, {}, "CODELET_API_KEY or OPENAI_API_KEY"),
        ("ollama/x", "http://here/v1", None, {}, "CODELET_API_KEY"),
    ],
)
def test_the_variable_that_the_key_came_from_is_named(
    model: str, base: str | None, api_key: str | None, environment: dict[str, str], name: str
):
    endpoint = endpoint_for(model, base, api_key, environment)
    assert endpoint is not None
    assert endpoint.key_name == name


@pytest.mark.parametrize(
    "vendor", [vendor for vendor in vendors() if vendor.default_model], ids=lambda vendor: vendor.prefix
)
def test_the_default_models_are_known(vendor: Any):
    assert vendor_of(vendor.default_model) is vendor
    facts = model_facts(vendor.default_model)
    if vendor.prefix == "openrouter":  # its router names no model
        assert facts == ModelFacts()
        return
    assert facts.known
    assert facts.window >= 32_000
    assert facts.max_output
    assert facts.cost(Usage(total_input=1_000_000, output=1_000_000))


def test_facts_are_those_of_the_map_for_every_model_in_it():
    spec = find_spec("litellm")
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "model_prices_and_context_window_backup.json"
    entries = json.loads(path.read_bytes())
    assert len(entries) > 1_000
    for name in [*list(entries)[::41], *short_names().values()]:
        name = name if name in entries else name.partition("/")[2]
        if name not in entries:
            continue  # newer than the map: tests/providers/test_family.py
        entry, facts = entries[name], model_facts(name)
        assert facts.known
        priced = entry.get("input_cost_per_token") and entry.get("output_cost_per_token")
        assert (facts.prices and facts.prices.input) == (entry["input_cost_per_token"] if priced else None), name
        if isinstance(entry.get("max_input_tokens"), int):
            assert facts.window == (entry["max_input_tokens"] or facts.window), name


def test_a_model_of_the_same_name_elsewhere_lends_its_sizes_not_its_prices():
    facts = model_facts("openai/gpt-4o-mini")
    assert facts.cost(Usage(total_input=1_000_000, cache_read=500_000, cache_write=0, output=0)) == pytest.approx(
        0.075 + 0.0375
    )
    borrowed = model_facts("ollama/gpt-4o-mini")
    assert (borrowed.window, borrowed.max_output) == (facts.window, facts.max_output)
    assert borrowed.cost(Usage(total_input=1)) is None
    assert model_facts("nobody/knows-this") == ModelFacts()
    assert model_facts("nobody/knows-this").window == DEFAULT_WINDOW


def test_names_and_vendors_that_are_listed():
    assert litellm_knows("gpt-4o-mini")
    assert litellm_knows("bedrock/x")
    assert not litellm_knows("no-such-vendor/x")
    assert not litellm_knows('x": {"')
    with pytest.raises(UsageError, match="unknown model 'no-such-vendor/x'"):
        open_provider("no-such-vendor/x", ProviderOptions())
    with pytest.raises(UsageError, match="no native wire"):
        open_provider("bedrock/x", ProviderOptions(), "native")
