"""Amazon Bedrock's Converse, which litellm speaks for us: it says what Chat Completions says, piece for piece."""

from __future__ import annotations

from pathlib import Path

import pytest

from codelet import events
from codelet.loop.session import Session
from codelet.providers import open_provider
from codelet.providers.by_litellm.child import translated
from codelet.providers.by_litellm.provider import LiteLLMProvider
from codelet.providers.protocol import Provider, ProviderOptions
from codelet.safety import Policy
from tests.providers.chunks import collect, collect_until_error, joined, options
from tests.providers.test_conformance import ANSWERS, GREP, READ
from tests.support.converse import converse_server, encoded
from tests.support.script import Call, Delivery, HttpError, Reply
from tests.support.server import ModelServer
from tests.support.sessions import of_type, turn_until_error

MODEL = "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"
BEGUN = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hal"}}),
]
HALF = b"".join(encoded(*event) for event in BEGUN)
OPEN_CALL = encoded(
    "contentBlockStart", {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "c", "name": "bash"}}}
)


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("botocore")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def at(base: str) -> Provider:
    return open_provider(MODEL, options(base), "litellm")


@pytest.mark.parametrize("name", [name for name, reply in ANSWERS.items() if reply.delivery == Delivery()])
async def test_an_answer_over_converse_says_what_it_says_over_chat_completions(name: str, model_server: ModelServer):
    model_server.script = [ANSWERS[name]]
    chat = open_provider("openai/scripted", options(model_server.openai))
    expected = joined(await collect(chat))
    if (used := ANSWERS[name].usage) is not None:  # Chat Completions does not tell what was written to the cache
        expected["usage"] = expected["usage"].replace(cache_write=used.cache_write)
    await chat.close()
    with converse_server(ANSWERS[name]) as server:
        provider = at(server.base)
        assert joined(await collect(provider)) == expected
        await provider.close()
    [(path, key, sent)] = server.requests
    assert path.endswith("/converse-stream")
    assert key == "Bearer test-key"
    assert [each["toolSpec"]["name"] for each in sent["toolConfig"]["tools"]] == ["read", "grep"]


@pytest.mark.parametrize(
    ("step", "retryable", "said"),
    [
        (HALF, True, "finish marker"),
        (HALF + OPEN_CALL, True, "finish marker"),
        (HALF[:-5], True, "undecoded bytes"),
        (HALF + encoded("throttlingException", {"message": "slow down"}, exception=True), True, "slow down"),
        (HttpError(429, "Too many requests"), True, "reports a rate limit"),
        (HttpError(503, "unavailable"), True, "unavailable"),
        (HttpError(403, "The security token is invalid."), False, "rejected the key"),
        (HttpError(400, "Input is too long for requested model."), False, "model's window"),
    ],
)
async def test_what_goes_wrong_over_converse_is_no_answer(step: HttpError | bytes, retryable: bool, said: str):
    with converse_server(step) as server:
        provider = at(server.base)
        chunks, error = await collect_until_error(provider)
        await provider.close()
    assert error is not None
    assert said in str(error)
    assert error.retryable is retryable
    assert error.overflow is ("window" in said)
    assert joined(chunks)["finish"] == []


async def test_a_session_with_tools_goes_over_converse(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hay\nneedle\n", encoding="utf-8")
    again = Call("call_3", "grep", {"pattern": "hay"})
    with converse_server(Reply("Looking.", calls=[READ, GREP]), Reply(calls=[again]), Reply("Line 2.")) as server:
        session = Session(at(server.base), workspace=tmp_path, policy=Policy(tmp_path), window=100_000)
        seen, error = await turn_until_error(session, "look for the needle")
        await session.close()
    assert error is None
    assert [event.name for event in of_type(seen, events.ToolCallStarted)] == ["read", "grep", "grep"]
    assert session.messages[-1]["content"] == "Line 2."
    last = server.requests[-1][2]["messages"]
    results = [
        part["toolResult"]["toolUseId"] for message in last for part in message["content"] if "toolResult" in part
    ]
    assert results == ["call_1", "call_2", "call_3"]


def told(model: str, error: Exception, key_name: str) -> str:
    return str(translated(error, model=model, place="it", key_name=key_name, begun=False, local=False))


@pytest.mark.parametrize(
    ("prefix", "name"), [("bedrock", "AWS_PROFILE"), ("vertex_ai", "VERTEXAI_PROJECT"), ("azure", "AZURE_API_BASE")]
)
def test_missing_credentials_are_named(prefix: str, name: str):
    provider = LiteLLMProvider(f"{prefix}/x", ProviderOptions())
    for text in ("Unable to locate credentials", "Your default credentials were not found. To set up …"):
        assert name in told(f"{prefix}/x", ValueError(text), provider.key_name)


def test_a_missing_package_is_named():
    for text in ("No module named 'google'", "Vertex_aiException - Google Cloud SDK not found. Install it with: …"):
        assert "pip install google-auth" in told("vertex_ai/claude-sonnet-5-5", ImportError(text), "K")
    assert "boto3" in told("bedrock/x", ImportError("No module named 'boto3'"), "K")
    assert "google-auth" not in told("groq/x", ImportError("No module named 'google'"), "K")
