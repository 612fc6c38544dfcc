"""Names that are accepted as a model's, and those that could be an address."""

from __future__ import annotations

import pytest

from codelet.errors import UsageError
from codelet.providers import open_provider
from codelet.providers.choice.names import check_for_litellm, check_form, refused_from_file
from codelet.providers.facts import whole_map
from codelet.providers.protocol import ProviderOptions

HOSTILE = (
    "oobabooga/https://evil.example/x",
    "oobabooga/HTTPS://evil.example",
    "oobabooga/http:/evil.example",
    "http:evil.example",
    "oobabooga/https%3A%2F%2Fevil.example",
    "oobabooga/https%253A%252F%252Fevil.example",
    "oobabooga/https:\\\\evil.example",
    "oobabooga/ht\ttps://evil.example",
    "oobabooga/h ttps://evil.example",
    "ws://evil.example",
    " openai/gpt-5.6",
    "openai/gpt-5.6\n",
    "openai/gpt\x00-5.6",
    "openai/\u202egpt",
    "bedrock/agentcore/arn:aws:bedrock-agentcore:evil.example/x:1:runtime/r",
    "bedrock/agentcore/arn:aws:bedrock-agentcore:evil.example#:1:runtime/r",
    "openai/chat/https://evil.example",
)
FOR_A_SERVER_ONLY = (
    "oobabooga//evil.example",
    "oobabooga/evil.example:8000",
    "oobabooga/localhost:8000",
    "oobabooga/127.0.0.1",
    "oobabooga/10.0.0.1:80/v1",
    "oobabooga/[::1]:80",
    "replicate/../../x",
    "replicate/a?b=c",
    "replicate/a#b",
    "replicate/a%2fb",
    "sagemaker/a\\b",
    "cohere/user@evil.example:80",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_address_is_no_name_however_it_is_written(name: str):
    with pytest.raises(UsageError):
        check_form(name)
    for base in (None, "http://127.0.0.1:1/v1"):
        with pytest.raises(UsageError):
            open_provider(name, ProviderOptions(base, "k"))
    assert refused_from_file(name, "http://127.0.0.1:1/v1") is not None


@pytest.mark.parametrize("name", FOR_A_SERVER_ONLY)
def test_litellm_is_given_no_host_and_no_path(name: str):
    check_form(name)  # a server may call a model so
    with pytest.raises(UsageError):
        open_provider(name, ProviderOptions(None, "k"))
    with pytest.raises(UsageError):
        open_provider(name, ProviderOptions(None, "k"), "litellm")
    assert refused_from_file(name, None) is not None


def test_every_name_in_litellms_map_is_accepted():
    names = [name for name in whole_map() if "*" not in name]
    assert len(names) > 1_000
    for name in names:
        check_form(name)
        check_for_litellm(name)
        assert refused_from_file(name, None) is None


def test_a_server_may_call_its_models_by_paths():
    for name in ("/models/My Model.gguf", "C:\\models\\x.gguf", "hf.co/someone/Some-GGUF:Q4_K_M"):
        assert open_provider(f"openai/{name}", ProviderOptions("http://127.0.0.1:1/v1", "k")).model.endswith(name)


def test_a_file_names_no_model_that_no_list_has():
    assert refused_from_file("oobabooga/x", None) is not None
    assert refused_from_file("replay:tape.json", "http://127.0.0.1:1/v1") is not None
    assert refused_from_file("cohere/command-a-03-2025", None) is None
    assert refused_from_file("replicate/command-a-03-2025", None) is not None, "of another provider"
