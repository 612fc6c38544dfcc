"""How servers say that a prompt is longer than the model's window: in an error answer, or in an error event."""

from __future__ import annotations

WORDINGS = (
    "context_length_exceeded",  # the code at OpenAI, Groq, Cerebras
    "exceed_context_size_error",  # the type at llama.cpp
    "model_max_prompt_tokens_exceeded",  # the code at Copilot
    "tokens_limit_reached",  # the code at GitHub Models
    "context length",  # OpenAI, vLLM, OpenRouter, Mistral, LM Studio, SGLang, Ollama
    "context window",  # MiniMax, OpenAI's Responses
    "context size",  # llama.cpp
    "context limit",  # Anthropic, where the answer's room is counted in
    "maximum context",
    "maximum model length",  # vLLM
    "maximum prompt length",  # xAI
    "maximum allowed length",  # SGLang
    "maximum number of tokens",  # Gemini
    "prompt is too long",  # Anthropic, Fireworks
    "prompt too long",  # Ollama
    "prompt exceeds max length",  # Z.ai
    "prompt token count of",  # Copilot
    "input is too long",  # Bedrock
    "input tokens exceed",  # OpenAI, Azure
    "too many tokens",  # Cohere
    "exceeds the limit of tokens",
    "token limit",  # Kimi
    "tokens limit",  # watsonx
    "max input length limit",  # Databricks
    "max_input_len",  # TensorRT-LLM
    "range of input length should be",  # Qwen
    "`inputs` tokens + `max_new_tokens`",  # Together, TGI
    "`inputs` must have less than",  # TGI
)
"""Lower-case pieces of the vendors' messages, types and codes."""

_OF_THE_RATE = ("per minute", "per day", "per hour", "(tpm)", "rate_limit", "rate limit", "please wait", "throttl")
_STATUSES = (400, 413, 422, 500)


def is_overflow(said: str, status: int | None = None) -> bool:
    """Whether an error says that the prompt does not fit. `status` is None for an error event, which has none.

    Limits of tokens in a time are said in the same words, and are none: a shorter prompt is no cure for them.
    """
    lowered = said.lower()
    if status not in (None, *_STATUSES) or any(words in lowered for words in _OF_THE_RATE):
        return False
    return status == 413 or any(words in lowered for words in WORDINGS)
