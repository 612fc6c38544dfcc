"""Every provider that litellm has can be named, those too for which its list of models has no entry."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

from codelet.errors import UsageError
from codelet.providers import open_provider
from codelet.providers.facts import litellm_knows, whole_map
from codelet.providers.protocol import ProviderOptions
from tests.providers.chunks import QUICK, TOOLS, collect, joined, options
from tests.support.script import Call, Reply
from tests.support.server import ModelServer

UNLISTED = ("litellm_proxy", "github", "custom_openai", "modelscope", "poe", "chutes", "nano-gpt")
CALL = Call("c1", "read", {"path": "x"})


def provider_list() -> list[str]:
    """litellm's providers, by the syntax tree of its code: importing it takes seconds."""
    spec = find_spec("litellm")
    assert spec is not None and spec.origin is not None
    code = ast.parse(Path(spec.origin).with_name("types").joinpath("utils.py").read_text(encoding="utf-8"))
    [providers] = [node for node in code.body if isinstance(node, ast.ClassDef) and node.name == "LlmProviders"]
    values = [node.value for node in providers.body if isinstance(node, ast.Assign)]
    return [str(value.value) for value in values if isinstance(value, ast.Constant)]


def test_each_of_litellms_providers_may_be_named():
    names = provider_list()
    assert len(names) > 100
    for name in names:
        provider = open_provider(f"{name}/some-model", ProviderOptions(), "litellm")
        assert provider.name.endswith("through litellm"), name
    for unknown in ("antropic", "str", "LlmProviders", "a.i", "openai|x", ""):
        assert not litellm_knows(f"{unknown}/some-model"), unknown
        with pytest.raises(UsageError, match="unknown model"):
            open_provider(f"{unknown}/some-model", ProviderOptions())


@pytest.mark.parametrize("name", UNLISTED)
async def test_a_provider_without_a_listed_model_answers_with_calls(
    name: str, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    assert not [entry for entry in whole_map().values() if entry.get("litellm_provider") == name]
    model_server.script = [Reply("Looking.", calls=[CALL])]
    provider = open_provider(f"{name}/some-model", options(model_server.openai), "litellm")
    said = joined(await collect(provider))
    await provider.close()
    assert (said["text"], said["calls"]) == ("Looking.", [("c1", "read", CALL.json)])
    [sent] = model_server.requests
    assert [tool["function"]["name"] for tool in sent.json["tools"]] == [tool["function"]["name"] for tool in TOOLS]
    assert sent.json["model"] == "some-model"
    assert sent.header("authorization") == "Bearer test-key"


async def test_litellms_proxy_is_found_by_its_own_variables(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LITELLM_PROXY_API_BASE", model_server.openai)
    monkeypatch.setenv("LITELLM_PROXY_API_KEY", "proxy-key")
    model_server.script = [Reply("hi")]
    provider = open_provider("litellm_proxy/house-1", ProviderOptions(deadlines=QUICK))
    assert joined(await collect(provider))["text"] == "hi"
    await provider.close()
    assert model_server.requests[0].header("authorization") == "Bearer proxy-key"


@pytest.mark.parametrize("model", ["my-model", "org/my-model"])
async def test_any_name_goes_to_an_address_that_was_given(model: str, model_server: ModelServer):
    model_server.script = [Reply("hi")]
    provider = open_provider(model, options(model_server.openai), "litellm")
    assert joined(await collect(provider))["text"] == "hi"
    await provider.close()
    assert model_server.requests[0].json["model"] == model
