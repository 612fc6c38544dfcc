"""The vendors: addresses, the variables that hold keys, and quirks. A new one is one row in VENDORS.

`catalog.py` finds the row of a model; the rows that the user's settings add are made in `custom_vendors.py`.
"""

from __future__ import annotations

from typing import Any, Literal

from codelet.providers.quirks import Quirks
from codelet.record import Record

Wire = Literal["openai", "anthropic"]


class Vendor(Record, kw_only=True):
    """A service or a local server. Model names begin with `prefix` and a slash; `name` is for people.

    `base` is its address, `key_names` are the variables that may hold its key, `base_names` those that move its
    address. A `local` server needs no key. Of a `cloud` the address depends on the account and the model:
    `addresses.clouds` knows it.
    """

    prefix: str
    name: str
    base: str
    key_names: tuple[str, ...] = ()
    base_names: tuple[str, ...] = ()
    wire: Wire = "openai"
    default_model: str | None = None
    local: bool = False
    cloud: bool = False
    quirks: Quirks = Quirks()


def _local(prefix: str, name: str, port: int, *base_names: str, **more: Any) -> Vendor:
    """A local server at its usual port."""
    return Vendor(
        prefix=prefix, name=name, base=f"http://127.0.0.1:{port}/v1", base_names=base_names, local=True, **more
    )


def _hosted(prefix: str, name: str, base: str, *key_names: str, model: str | None = None, **more: Any) -> Vendor:
    """A service whose default model, where it has one, is called `model` there."""
    default = f"{prefix}/{model}" if model else None
    return Vendor(prefix=prefix, name=name, base=base, key_names=key_names, default_model=default, **more)


VENDORS = (
    Vendor(
        prefix="anthropic",
        name="Anthropic",
        base="https://api.anthropic.com",
        key_names=("ANTHROPIC_API_KEY",),
        base_names=("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
        wire="anthropic",
        default_model="anthropic/claude-sonnet-5-5",
    ),
    Vendor(
        prefix="openai",
        name="OpenAI",
        base="https://api.openai.com/v1",
        key_names=("OPENAI_API_KEY",),
        base_names=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        default_model="openai/gpt-5.6",
        quirks=Quirks(max_output_option="max_completion_tokens", longest_call_id=40, structured="always"),
    ),
    Vendor(
        prefix="gemini",
        name="Gemini",
        base="https://generativelanguage.googleapis.com/v1beta/openai",
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        default_model="gemini/gemini-3.8-flash",
    ),
    Vendor(
        prefix="openrouter",
        name="OpenRouter",
        base="https://openrouter.ai/api/v1",
        key_names=("OPENROUTER_API_KEY",),
        base_names=("OPENROUTER_API_BASE",),
        default_model="openrouter/auto",
        quirks=Quirks(effort_field="reasoning"),
    ),
    Vendor(
        prefix="deepseek",
        name="DeepSeek",
        base="https://api.deepseek.com/v1",
        key_names=("DEEPSEEK_API_KEY",),
        base_names=("DEEPSEEK_API_BASE",),
        default_model="deepseek/deepseek-v4-pro",
        # Its reasoning counts from one user message to the next: a reminder would end a turn.
        quirks=Quirks(alternating=True, effort_field="thinking"),
    ),
    Vendor(
        prefix="xai", name="xAI", base="https://api.x.ai/v1", key_names=("XAI_API_KEY",), default_model="xai/grok-4.7"
    ),
    Vendor(
        prefix="mistral",
        name="Mistral",
        base="https://api.mistral.ai/v1",
        key_names=("MISTRAL_API_KEY",),
        base_names=("MISTRAL_API_BASE",),
        default_model="mistral/devstral-latest",
        quirks=Quirks(alternating=True, usage_option=False, call_id_length=9, strict=True),
    ),
    Vendor(
        prefix="groq",
        name="Groq",
        base="https://api.groq.com/openai/v1",
        key_names=("GROQ_API_KEY",),
        base_names=("GROQ_API_BASE",),
        default_model="groq/openai/gpt-oss-120b",
        quirks=Quirks(strict=True),
    ),
    Vendor(
        prefix="moonshot",
        name="Moonshot AI",
        base="https://api.moonshot.ai/v1",
        key_names=("MOONSHOT_API_KEY",),
        base_names=("MOONSHOT_API_BASE",),
        default_model="moonshot/kimi-k3",
        quirks=Quirks(effort_field="thinking"),
    ),
    _hosted(
        "zai",
        "Z.ai",
        "https://api.z.ai/api/paas/v4",
        "ZAI_API_KEY",
        base_names=("ZAI_API_BASE",),
        model="glm-5.2",
        quirks=Quirks(effort_field="thinking"),
    ),
    # Over Chat Completions its models mix what they think into the text.
    _hosted(
        "minimax",
        "MiniMax",
        "https://api.minimax.io/anthropic",
        "MINIMAX_API_KEY",
        model="MiniMax-M3",
        wire="anthropic",
    ),
    _hosted(
        "dashscope",
        "Qwen",
        "https://dashscope.aliyuncs.com/compatible-mode/v1",
        "DASHSCOPE_API_KEY",
        base_names=("DASHSCOPE_API_BASE",),
        model="qwen3.8-max",
    ),
    _hosted(
        "cerebras",
        "Cerebras",
        "https://api.cerebras.ai/v1",
        "CEREBRAS_API_KEY",
        base_names=("CEREBRAS_API_BASE",),
        model="gpt-oss-120b",
    ),
    _hosted("together_ai", "Together AI", "https://api.together.ai/v1", "TOGETHER_API_KEY", "TOGETHERAI_API_KEY"),
    _hosted("fireworks_ai", "Fireworks AI", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    _hosted("nvidia_nim", "NVIDIA", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", "NVIDIA_NIM_API_KEY"),
    _hosted("github", "GitHub Models", "https://models.github.ai/inference", "GITHUB_API_KEY"),
    _hosted(
        "azure",
        "Azure OpenAI",
        "",
        *("AZURE_OPENAI_API_KEY", "AZURE_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_AD_TOKEN"),
        cloud=True,
        quirks=Quirks(max_output_option="max_completion_tokens", longest_call_id=40, structured="always"),
    ),
    _hosted("bedrock_mantle", "Amazon Bedrock", "", "AWS_BEARER_TOKEN_BEDROCK", "BEDROCK_MANTLE_API_KEY", cloud=True),
    _hosted("vertex_ai", "Vertex AI", "", "GOOGLE_OAUTH_ACCESS_TOKEN", cloud=True),
    _local("ollama", "Ollama", 11434, "OLLAMA_API_BASE", "OLLAMA_HOST"),
    _local("lm_studio", "LM Studio", 1234, "LM_STUDIO_API_BASE", key_names=("LM_STUDIO_API_KEY",)),
    _local("llamafile", "llama.cpp", 8080, "LLAMAFILE_API_BASE", quirks=Quirks(effort_field="chat_template_kwargs")),
    _local(
        "hosted_vllm",
        "vLLM",
        8000,
        "HOSTED_VLLM_API_BASE",
        key_names=("HOSTED_VLLM_API_KEY",),
        quirks=Quirks(effort_field="chat_template_kwargs"),
    ),
)

CUSTOM = Vendor(prefix="", name="the endpoint", base="", key_names=("OPENAI_API_KEY",), local=True)
"""Whatever `--api-base` names, for a model of no vendor's name."""
