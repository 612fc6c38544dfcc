"""A prompt that is too long: the words of each vendor, as a status and as an event of the stream, on each wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codelet.errors import ProviderError
from codelet.providers import open_provider
from codelet.providers.catalog import table
from codelet.providers.failure import (
    http_failure,
    reported_number,
    stream_failure,
)
from tests.providers.chunks import WAYS, collect_until_error, options
from tests.support.script import HttpError, Reply, Step, StreamError
from tests.support.server import ModelServer

# Who says it: the status, then the error object, or the body's text where it is none.
OVERFLOWS: dict[str, tuple[int, Any]] = {
    "OpenAI": (
        400,
        {
            "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in "
            "130000 tokens.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        },
    ),
    "OpenAI, by code": (400, {"message": "Please shorten it.", "code": "context_length_exceeded"}),
    "OpenAI's Responses": (400, {"message": "Your input exceeds the context window of this model."}),
    "Azure": (400, {"message": "Input tokens exceed the configured limit of 272000 tokens. Your messages ..."}),
    "Anthropic": (
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 215000 tokens > 200000 maximum"},
    ),
    "Anthropic with output": (
        400,
        {
            "message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input "
            "length or `max_tokens`"
        },
    ),
    "Anthropic, by size": (413, {"type": "request_too_large", "message": "Request exceeds the maximum size"}),
    "Gemini": (
        400,
        {
            "code": 400,
            "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "status": "INVALID_ARGUMENT",
        },
    ),
    "llama.cpp": (
        400,
        {
            "code": 400,
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
        },
    ),
    "llama.cpp, older": (500, {"code": 500, "message": "the request exceeds the available context size", "type": "x"}),
    "llama.cpp, by type": (400, {"message": "it is too long", "type": "exceed_context_size_error"}),
    "vLLM": (
        400,
        {"message": "This model's maximum context length is 4096 tokens. However, you requested 5000.", "code": 400},
    ),
    "vLLM, newer": (
        400,
        {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", "code": 400},
    ),
    "xAI": (
        400,
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    ),
    "Together, TGI": (
        422,
        {"message": "`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 6000 `inputs` tokens"},
    ),
    "TGI, input alone": (422, {"message": "`inputs` must have less than 4096 tokens. Given: 6000"}),
    "Z.ai": (400, {"code": "1261", "message": "Prompt exceeds max length"}),
    "Copilot": (400, {"message": "prompt token count of 140000 exceeds the limit of 128000"}),
    "Copilot, by code": (400, {"message": "too much", "code": "model_max_prompt_tokens_exceeded"}),
    "GitHub Models": (413, {"message": "Request body too large for the model", "code": "tokens_limit_reached"}),
    "Databricks": (400, {"message": "the input of 9000 tokens exceeds the max input length limit of 8192"}),
    "TensorRT-LLM": (400, {"message": "Prompt length (9000) exceeds max_input_len (8192)"}),
    "SGLang": (400, {"message": "Input length (9000 tokens) exceeds the maximum allowed length (8192 tokens)."}),
    "SGLang, input alone": (
        400,
        {"message": "The input (9000 tokens) is longer than the model's context length (8192)"},
    ),
    "Bedrock": (400, {"message": "Input is too long for requested model."}),
    "Bedrock, Mistral": (400, {"message": "This model's maximum context length is 32768. Please reduce the length"}),
    "Mistral": (
        400,
        {"message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"},
    ),
    "Cohere": (400, {"message": "too many tokens: total number of tokens in the prompt exceeds 128000"}),
    "Kimi": (400, {"message": "Invalid request: Your request exceeded model token limit: 131072"}),
    "MiniMax": (400, {"message": "invalid params, context window exceeds limit"}),
    "Ollama": (400, {"message": "prompt too long; exceeded max context length by 4 tokens"}),
    "Ollama, by words": (400, {"message": "prompt too long for this runner"}),
    "LM Studio": (
        400,
        "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens",
    ),
    "OpenRouter": (400, {"message": "This endpoint's maximum context length is 8192 tokens.", "code": 400}),
    "Qwen": (400, {"message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"}),
    "watsonx": (400, {"message": "the number of input tokens 9000 cannot exceed the total tokens limit 8192"}),
    "Fireworks": (400, {"message": "The prompt is too long: 140000, model maximum context length: 131071"}),
    "a gateway": (400, {"message": "the prompt exceeds the limit of tokens"}),
    "another gateway": (400, {"message": "maximum context reached"}),
}

WINDOWS = {
    "OpenAI": 128_000,
    "Azure": 272_000,
    "Anthropic": 200_000,
    "Anthropic with output": 200_000,
    "Gemini": 1_048_576,
    "vLLM": 4096,
    "vLLM, newer": 4096,
    "xAI": 131_072,
    "Together, TGI": 4097,
    "TGI, input alone": 4096,
    "Copilot": 128_000,
    "Databricks": 8192,
    "TensorRT-LLM": 8192,
    "SGLang": 8192,
    "SGLang, input alone": 8192,
    "Bedrock, Mistral": 32_768,
    "Mistral": 32_768,
    "Cohere": 128_000,
    "Kimi": 131_072,
    "LM Studio": 4096,
    "OpenRouter": 8192,
    "Qwen": 30_720,
    "watsonx": 8192,
    "Fireworks": 131_071,
}
"""The windows that these name; the others name none."""

PROMPTS = {
    "the prompt's length (1500), of 32000 for the answer": (None, None),
    "maximum context length is 4096 tokens. However, you requested 33500 tokens (1500 in the messages, 32000 in the "
    "completion).": (4096, 1500),
    "This model's maximum context length is 16384 tokens and your request has 1,500 input tokens": (16_384, 1500),
    '{"error":{"message":"it is too long","n_prompt_tokens":5000,"n_ctx":4096}}': (4096, 5000),
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it": (4096, 5000),
    "You requested a total of 33500 tokens: 1500 tokens from the input messages. Context length of 4096": (4096, 1500),
    "context limit: 190000 + 20000 > 200000": (200_000, 190_000),
    "a context length of 12": (None, None),
    f"a context length of {'9' * 40}": (None, None),
}

GROQ = {
    "message": "Request too large for model `gpt-oss-120b` in organization `org_1` service tier `on_demand` on tokens "
    "per minute (TPM): Limit 8000, Requested 9137, please reduce your message size and try again.",
    "type": "tokens",
    "code": "rate_limit_exceeded",
}
NO_OVERFLOWS: dict[str, tuple[int, Any]] = {
    "Groq's rate": (413, GROQ),
    "OpenAI's rate": (429, {"message": "Limit reached for tokens per min. Limit: 30000, too many tokens"}),
    "Bedrock's rate": (400, {"message": "Too many tokens, please wait before trying again."}),
    "an output limit": (400, {"message": "max_tokens is too large: 100000"}),
    "another refusal": (404, {"message": "no model with a context length of 1"}),
    "a gateway": (503, {"message": "the context window service is away"}),
}


def failing(status: int, error: Any) -> ProviderError:
    return http_failure(status, {}, json.dumps({"error": error}), place="Somewhere", key_name="SOME_API_KEY")


@pytest.mark.parametrize("vendor", OVERFLOWS)
def test_each_vendors_words_are_known_as_a_status_and_as_an_event(vendor: str):
    status, error = OVERFLOWS[vendor]
    told = failing(status, error)
    assert (told.overflow, told.retryable) == (True, False)
    if status != 413:
        streamed = stream_failure(error)
        assert (streamed.overflow, streamed.retryable) == (True, False)


def test_the_window_that_a_refusal_names_is_read():
    found = {vendor: failing(status, error).window for vendor, (status, error) in OVERFLOWS.items()}
    assert {vendor: window for vendor, window in found.items() if window is not None} == WINDOWS
    assert stream_failure(OVERFLOWS["vLLM"][1]).window == 4096
    assert failing(400, {"message": "max_tokens is too large, the limit is 4096"}).window is None
    for said, sizes in PROMPTS.items():
        assert (reported_number("window", said), reported_number("prompt_size", said)) == sizes, said


def test_each_wording_is_somebodys():
    said = [json.dumps(error).lower() for _, error in OVERFLOWS.values()]
    assert [words for words in table("overflow", "refusals.toml") if not any(words in each for each in said)] == []


def test_a_body_that_says_nothing_is_too_large_by_its_status():
    for proxy in ("", "http://127.0.0.1:3128"):  # in whose form it comes matters not
        told = http_failure(413, {}, "<html>nginx</html>", place="Somewhere", key_name="SOME_API_KEY", proxy=proxy)
        assert told.overflow and "does not fit the model's window" in str(told)


@pytest.mark.parametrize("case", NO_OVERFLOWS)
def test_limits_of_the_rate_and_other_refusals_are_none(case: str):
    status, error = NO_OVERFLOWS[case]
    told = failing(status, error)
    assert not told.overflow
    if case.startswith("Groq"):
        assert told.status == 413
        assert not told.retryable, "waiting makes no room for a request larger than the limit"


TOO_LONG = "prompt is too long: 215000 tokens > 200000 maximum"


@pytest.mark.parametrize(("model", "transport"), WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(
    "step",
    [HttpError(400, TOO_LONG), Reply(fault=StreamError(TOO_LONG, "invalid_request_error", after=0))],
    ids=["status", "event"],
)
async def test_an_overflow_is_one_on_every_wire(step: Step, model: str, transport: Any, model_server: ModelServer):
    model_server.script = [step] * 3
    provider = open_provider(model, options(model_server.openai, attempts=3), transport)
    _, error = await collect_until_error(provider)
    await provider.close()
    assert error is not None
    assert (error.overflow, error.retryable) == (True, False)
    assert TOO_LONG in str(error)
    assert len(model_server.requests) == 1
