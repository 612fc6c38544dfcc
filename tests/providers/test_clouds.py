"""Azure OpenAI, Amazon Bedrock and Vertex AI: addresses from variables, the protocol of each model, what is missing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from codelet.errors import CodeletError, UsageError
from codelet.providers import open_provider
from codelet.providers.addresses.clouds import credentials, missing
from codelet.providers.anthropic_messages import AnthropicProvider
from codelet.providers.by_litellm.failed_call import translated
from codelet.providers.by_litellm.provider import LiteLLMProvider
from codelet.providers.choice.known import known_models
from codelet.providers.effort import taken_words
from codelet.providers.endpoint import endpoint_for, speaks_responses
from codelet.providers.facts import model_facts
from codelet.providers.openai_chat import OpenAIChatProvider
from codelet.providers.openai_responses import OpenAIResponsesProvider
from codelet.providers.protocol import ProviderOptions
from tests.providers.chunks import collect, joined
from tests.support.script import Reply
from tests.support.server import ModelServer

CLOUDS = (
    "AZURE_OPENAI_API_KEY AZURE_API_KEY AZURE_OPENAI_AD_TOKEN AZURE_AD_TOKEN AZURE_OPENAI_ENDPOINT AZURE_API_BASE "
    "AZURE_OPENAI_BASE_URL AWS_BEARER_TOKEN_BEDROCK BEDROCK_MANTLE_API_KEY BEDROCK_MANTLE_API_BASE AWS_REGION "
    "BEDROCK_MANTLE_REGION AWS_REGION_NAME AWS_DEFAULT_REGION GOOGLE_OAUTH_ACCESS_TOKEN VERTEXAI_PROJECT "
    "GOOGLE_CLOUD_PROJECT VERTEXAI_LOCATION GOOGLE_CLOUD_LOCATION"
).split()
AZURE = {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://us.openai.azure.com"}
BEDROCK = {"AWS_BEARER_TOKEN_BEDROCK": "k"}
VERTEX = {"GOOGLE_OAUTH_ACCESS_TOKEN": "k", "VERTEXAI_PROJECT": "our-project"}
MANTLE = "https://bedrock-mantle.us-east-1.api.aws"
AT = "https://aiplatform.googleapis.com/v1/projects/our-project/locations"


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CLOUDS:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("https://us.openai.azure.com", "https://us.openai.azure.com/openai/v1"),
        ("https://us.openai.azure.com/", "https://us.openai.azure.com/openai/v1"),
        ("https://us.openai.azure.com/openai", "https://us.openai.azure.com/openai/v1"),
        ("https://us.openai.azure.com/openai/v1/", "https://us.openai.azure.com/openai/v1"),
        ("https://us.openai.azure.com/openai/deployments/x?api-version=1", "https://us.openai.azure.com/openai/v1"),
        ("https://us.services.ai.azure.com", "https://us.services.ai.azure.com/openai/v1"),
        ("https://gateway.example/our/path", "https://gateway.example/our/path"),
        ("https://gateway.example/our/openai/v1", "https://gateway.example/our/openai/v1"),
    ],
)
def test_any_address_of_an_azure_resource_serves(given: str, base: str):
    endpoint = endpoint_for("azure/x", None, None, AZURE | {"AZURE_OPENAI_ENDPOINT": given})
    assert endpoint is not None
    assert (endpoint.base, endpoint.key, endpoint.name) == (base, "k", "Azure OpenAI")


@pytest.mark.parametrize(
    ("model", "more", "base", "name"),
    [
        ("bedrock_mantle/openai.gpt-oss-120b", {}, f"{MANTLE}/v1", "openai.gpt-oss-120b"),
        ("bedrock_mantle/openai.gpt-5.6-sol", {}, f"{MANTLE}/openai/v1", "openai.gpt-5.6-sol"),
        ("bedrock_mantle/anthropic.claude-sonnet-5-5", {}, f"{MANTLE}/anthropic", "anthropic.claude-sonnet-5-5"),
        (
            "bedrock_mantle/deepseek.v3.1",
            {"AWS_REGION": "eu-west-1"},
            "https://bedrock-mantle.eu-west-1.api.aws/v1",
            "deepseek.v3.1",
        ),
        (
            "bedrock_mantle/deepseek.v3.1",
            {"BEDROCK_MANTLE_API_BASE": "https://x/openai/v1"},
            "https://x/v1",
            "deepseek.v3.1",
        ),
        ("vertex_ai/gemini-3.8-flash", {}, f"{AT}/global/endpoints/openapi", "google/gemini-3.8-flash"),
        (
            "vertex_ai/google/gemini-3.8-flash",
            {"VERTEXAI_LOCATION": "europe-west4"},
            f"{AT}/europe-west4/endpoints/openapi".replace("//ai", "//europe-west4-ai"),
            "google/gemini-3.8-flash",
        ),
    ],
)
def test_an_account_s_model_has_its_address_and_name(model: str, more: dict[str, str], base: str, name: str):
    endpoint = endpoint_for(model, None, None, BEDROCK | VERTEX | more)
    assert endpoint is not None
    assert (endpoint.base, endpoint.model_name(model)) == (base, name)


@pytest.mark.parametrize(
    ("model", "wire"),
    [
        ("azure/gpt-5.6", OpenAIResponsesProvider),
        ("azure/our-coder", OpenAIChatProvider),
        ("azure/responses/our-coder", OpenAIResponsesProvider),
        ("azure/chat/gpt-4.1", OpenAIChatProvider),
        ("bedrock_mantle/openai.gpt-5.6-sol", OpenAIResponsesProvider),
        ("bedrock_mantle/openai.gpt-oss-120b", OpenAIChatProvider),
        ("bedrock_mantle/anthropic.claude-sonnet-5-5", AnthropicProvider),
        ("vertex_ai/gemini-3.8-flash", OpenAIChatProvider),
        ("vertex_ai/claude-sonnet-5-5", LiteLLMProvider),
        ("bedrock/anthropic.claude-sonnet-5-5", LiteLLMProvider),
    ],
)
def test_each_model_has_its_protocol(model: str, wire: type, monkeypatch: pytest.MonkeyPatch):
    for name, value in (AZURE | BEDROCK | VERTEX).items():
        monkeypatch.setenv(name, value)
    assert type(open_provider(model, ProviderOptions())) is wire


def test_the_deployment_s_name_goes_out_without_what_asks_for_a_protocol():
    for model in ("azure/our-coder", "azure/responses/our-coder", "azure/chat/our-coder"):
        endpoint = endpoint_for(model, None, None, AZURE)
        assert endpoint is not None
        assert endpoint.model_name(model) == "our-coder"
        assert speaks_responses(model, endpoint) == ("responses" in model)


@pytest.mark.parametrize("model", ["bedrock_mantle/openai.gpt-oss-120b", "vertex_ai/gemini-3.8-flash"])
def test_without_a_key_for_a_header_litellm_is_asked(model: str):
    assert type(open_provider(model, ProviderOptions())) is LiteLLMProvider


@pytest.mark.parametrize(
    ("model", "environment", "said"),
    [
        ("azure/x", {}, "set AZURE_OPENAI_ENDPOINT to https://RESOURCE.openai.azure.com"),
        ("azure/x", {"AZURE_OPENAI_ENDPOINT": "https://a"}, "set AZURE_OPENAI_API_KEY"),
        ("vertex_ai/gemini-x", {"GOOGLE_OAUTH_ACCESS_TOKEN": "k"}, "set VERTEXAI_PROJECT"),
        ("bedrock_mantle/x", BEDROCK | {"AWS_REGION": "a.example/"}, "AWS_REGION is no name"),
        ("vertex_ai/gemini-x", VERTEX | {"VERTEXAI_PROJECT": "../x@evil"}, "VERTEXAI_PROJECT is no name"),
        ("vertex_ai/gemini-x", VERTEX | {"VERTEXAI_LOCATION": "evil.example/#"}, "VERTEXAI_LOCATION is no name"),
    ],
)
def test_what_is_missing_or_wrong_is_named(model: str, environment: dict[str, str], said: str):
    with pytest.raises(UsageError, match=re.escape(said)):
        endpoint_for(model, None, None, environment)


def test_the_map_knows_their_models():
    for model in ("azure/gpt-5.6", "bedrock_mantle/anthropic.claude-sonnet-5-5", "vertex_ai/gemini-3.8-flash"):
        assert model_facts(model).prices is not None, model
    assert taken_words("vertex_ai/gemini-3.8-flash") == taken_words("gemini/gemini-3.8-flash")
    assert "high" in (taken_words("bedrock_mantle/anthropic.claude-sonnet-5-5") or ())


def test_they_are_listed_for_who_has_an_account():
    shown = {model.vendor.prefix for model in known_models({"AWS_BEARER_TOKEN_BEDROCK": "k"})}
    assert "bedrock_mantle" in shown
    assert not {"azure", "vertex_ai"} & shown


def told(model: str, error: Exception, key_name: str) -> CodeletError:
    return translated(error, model=model, place="it", key_name=key_name, begun=False, local=False)


@pytest.mark.parametrize("prefix", ["bedrock", "bedrock_mantle", "vertex_ai"])
def test_litellm_s_missing_credentials_are_named(prefix: str):
    provider = LiteLLMProvider(f"{prefix}/x", ProviderOptions())
    assert credentials(prefix)
    for text in ("Unable to locate credentials", "Your default credentials were not found. To set up …"):
        assert f"set {credentials(prefix)}" in str(told(f"{prefix}/x", ValueError(text), provider.key_name))
    assert credentials("groq") is None


def test_litellm_s_missing_package_is_named():
    for text in ("No module named 'google'", "Vertex_aiException - Google Cloud SDK not found. Install it with: …"):
        said = str(told("vertex_ai/claude-sonnet-5-5", ImportError(text), "K"))
        assert "pip install google-auth" in said
    assert "boto3" in str(told("bedrock/x", ImportError("No module named 'boto3'"), "K"))
    assert missing("groq", "No module named 'google'") is None


@pytest.mark.parametrize(
    ("model", "environment", "path", "header"),
    [
        ("azure/gpt-5.6", AZURE, "http://us.openai.azure.com:80/openai/v1/responses", "authorization"),
        (
            "bedrock_mantle/anthropic.claude-sonnet-5-5",
            BEDROCK | {"BEDROCK_MANTLE_API_BASE": "http://mantle.example"},
            "http://mantle.example:80/anthropic/v1/messages",
            "x-api-key",
        ),
        (
            "bedrock_mantle/openai.gpt-oss-120b",
            BEDROCK | {"BEDROCK_MANTLE_API_BASE": "http://mantle.example"},
            "http://mantle.example:80/v1/chat/completions",
            "authorization",
        ),
    ],
)
async def test_a_request_reaches_the_account_with_its_key(
    model: str,
    environment: dict[str, Any],
    path: str,
    header: str,
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", model_server.base)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("https:", "http:"))
    model_server.script = [Reply("here")]
    provider = open_provider(model, ProviderOptions())
    assert joined(await collect(provider))["text"] == "here"
    await provider.close()
    sent = model_server.requests[0]
    assert (sent.path, dict(sent.headers)[header].removeprefix("Bearer ")) == (path, "k")
