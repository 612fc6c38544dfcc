"""The catalogue of vendors: addresses, the variables that hold keys, and quirks. Model names are litellm's.

A new vendor is one row in VENDORS. The user's settings may add others (`custom_vendors`): those come as `own`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from codelet.providers.facts import asked_wire, model_facts, on_this_machine, real_name
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
        default_model="openai/gpt-6.2-sol",
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
    _hosted("xai", "xAI", "https://api.x.ai/v1", "XAI_API_KEY", model="grok-4.7"),
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
        default_model="moonshot/kimi-k3.1-pro",
        quirks=Quirks(effort_field="thinking"),
    ),
    _hosted(
        "zai",
        "Z.ai",
        "https://api.z.ai/api/paas/v4",
        "ZAI_API_KEY",
        base_names=("ZAI_API_BASE",),
        model="glm-5.3",
        # Without `tool_stream` it holds a call's arguments back until they are whole, in silence.
        quirks=Quirks(effort_field="thinking", keeps_thinking=True),
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

_THINKS = ("deepseek", "kimi")
_MARKED = r"openrouter/~?(?:anthropic|qwen)/"
"""Models that are cached only where a request says so. Source: OpenRouter, "Prompt Caching"."""
_SIGNS = r"gemini-(?![12]\b)"
_ALIASES = {"ollama_chat": "ollama", "llamacpp": "llamafile", "vllm": "hosted_vllm"}
_BARE_NAMES = (("claude", "anthropic"), ("gpt-", "openai"), ("chatgpt-", "openai"))
_BY_PREFIX = {vendor.prefix: vendor for vendor in VENDORS}
_HOSTED = frozenset(urlsplit(vendor.base).hostname for vendor in VENDORS if not (vendor.local or vendor.cloud))
CUSTOM = Vendor(prefix="", name="the endpoint", base="", key_names=("OPENAI_API_KEY",), local=True)
"""Whatever `--api-base` names, for a model of no vendor's name."""


def is_vendor(prefix: str) -> bool:
    """Whether names that begin so are those of a vendor's models."""
    return prefix in _BY_PREFIX or prefix in _ALIASES


def vendor_of(model: str, own: Sequence[Vendor] = ()) -> Vendor | None:
    """The vendor of a model name, the user's `own` ones among them; None where only litellm may know it."""
    prefix, slash, _ = model.partition("/")
    if slash:
        added = next((vendor for vendor in own if vendor.prefix == prefix), None)
        return added or _BY_PREFIX.get(_ALIASES.get(prefix, prefix))
    lowered = model.lower()
    for start, name in _BARE_NAMES:
        if lowered.startswith(start):
            return _BY_PREFIX[name]
    if lowered[:1] == "o" and lowered[1:2].isdigit():
        return _BY_PREFIX["openai"]
    return None


def quirks_of(model: str, api_base: str | None, own: Sequence[Vendor] = ()) -> Quirks:
    """What is known of a model before anything is sent: its vendor's quirks, and those that its name implies.

    A model's quirks follow its name, at whatever address; a vendor's follow the prefix. Which of OpenAI's models reason
    unless they are told not to, litellm's bundled map says.
    """
    vendor = vendor_of(model, own) or CUSTOM
    name = real_name(model).rpartition("/")[2].lower()
    quirks = vendor.quirks
    service = not (vendor.local and vendor.prefix)  # a local server's template takes what it is given
    thinks = any(maker in name for maker in _THINKS) and "instruct" not in name
    chats = vendor.prefix in ("openai", "azure", "") and asked_wire(model) != "responses"
    silent = chats and model_facts(model).tools_without_reasoning
    own_server = not vendor.cloud and on_this_machine(api_base or "") and not model_facts(model).known
    signs = vendor.prefix in ("gemini", "vertex_ai", "openai", "") and "gemini-" in name and re.search(_SIGNS, name)
    marked = quirks.cache_marks or re.match(_MARKED, real_name(model).lower()) is not None
    return quirks.replace(
        alternating=_alternates(model, api_base, own) and (quirks.alternating or not marked),
        max_output_option="max_tokens" if own_server else quirks.max_output_option,  # every server knows that one
        effort="none" if silent else quirks.effort,
        reasoning=quirks.reasoning or (thinks and service and not quirks.strict),
        signatures=quirks.signatures or bool(signs),
        cache_marks=marked,
    )


def _alternates(model: str, api_base: str | None, own: Sequence[Vendor]) -> bool:
    """Whether user and assistant have to take turns in what is sent to the model, over whichever wire.

    Local and unknown servers apply the model's own chat template, and nobody can see from here how strict it is.
    """
    vendor = vendor_of(model, own) or (CUSTOM if api_base else None)
    if vendor is None:
        return model.startswith("codestral/")
    if vendor.quirks.alternating or vendor.cloud or vendor.wire != "openai":
        return vendor.quirks.alternating
    try:
        host = urlsplit(api_base or vendor.base).hostname
    except ValueError:
        return False  # the wire says what is wrong with the address
    return host not in _HOSTED and all(urlsplit(one.base).hostname != host for one in own if not one.local)
