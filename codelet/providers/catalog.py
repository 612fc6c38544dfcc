"""Which models the native wires reach: names as litellm spells them, addresses and the variables with keys."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from codelet.errors import UsageError
from codelet.record import Record
from codelet.tokens.windows import real_name

Wire = Literal["openai", "anthropic"]


class Vendor(Record):
    """A service or local server: its address, the variables that hold its key or move its address.

    `local` servers need no key. The last six are quirks: whether user and assistant must take turns, whether usage must
    be asked for, the name of the output limit, how long a call's id must be or may be, and whether a message may have
    no field beyond OpenAI's own (`strict`): what it sent itself, such as reasoning, does not go back to it.
    """

    prefix: str
    name: str
    base: str
    key_names: tuple[str, ...] = ()
    base_names: tuple[str, ...] = ()
    wire: Wire = "openai"
    default_model: str | None = None
    local: bool = False
    alternating: bool = False
    usage_option: bool = True
    max_output_option: str = "max_tokens"
    call_id_length: int | None = None
    longest_call_id: int | None = None
    strict: bool = False


VENDORS = (
    Vendor(
        "anthropic",
        "Anthropic",
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
        wire="anthropic",
        default_model="anthropic/claude-sonnet-5-5",
    ),
    Vendor(
        "openai",
        "OpenAI",
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        default_model="openai/gpt-5.6",
        max_output_option="max_completion_tokens",
        longest_call_id=40,
    ),
    Vendor(
        "gemini",
        "Gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        default_model="gemini/gemini-3.8-flash",
    ),
    Vendor(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        ("OPENROUTER_API_BASE",),
        default_model="openrouter/auto",
    ),
    Vendor(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        ("DEEPSEEK_API_KEY",),
        ("DEEPSEEK_API_BASE",),
        default_model="deepseek/deepseek-v4-pro",
        alternating=True,  # its reasoning counts from one user message to the next: a reminder would end a turn
    ),
    Vendor("xai", "xAI", "https://api.x.ai/v1", ("XAI_API_KEY",), default_model="xai/grok-4.7"),
    Vendor(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        ("MISTRAL_API_BASE",),
        default_model="mistral/devstral-latest",
        alternating=True,
        usage_option=False,
        call_id_length=9,
        strict=True,
    ),
    Vendor(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        ("GROQ_API_BASE",),
        default_model="groq/openai/gpt-oss-120b",
        strict=True,
    ),
    Vendor(
        "moonshot",
        "Moonshot AI",
        "https://api.moonshot.ai/v1",
        ("MOONSHOT_API_KEY",),
        ("MOONSHOT_API_BASE",),
        default_model="moonshot/kimi-k3",
    ),
    Vendor("ollama", "Ollama", "http://127.0.0.1:11434/v1", (), ("OLLAMA_API_BASE", "OLLAMA_HOST"), local=True),
    Vendor(
        "lm_studio",
        "LM Studio",
        "http://127.0.0.1:1234/v1",
        ("LM_STUDIO_API_KEY",),
        ("LM_STUDIO_API_BASE",),
        local=True,
    ),
    Vendor("llamafile", "llama.cpp", "http://127.0.0.1:8080/v1", (), ("LLAMAFILE_API_BASE",), local=True),
    Vendor(
        "hosted_vllm",
        "vLLM",
        "http://127.0.0.1:8000/v1",
        ("HOSTED_VLLM_API_KEY",),
        ("HOSTED_VLLM_API_BASE",),
        local=True,
    ),
)

_LOOPBACK = re.compile(r"127(\.\d{1,3}){1,3}")
_ALIASES = {"ollama_chat": "ollama", "llamacpp": "llamafile", "vllm": "hosted_vllm"}
_BARE_NAMES = (("claude", "anthropic"), ("gpt-", "openai"), ("chatgpt-", "openai"))
_BY_PREFIX = {vendor.prefix: vendor for vendor in VENDORS}
_HOSTED = frozenset(urlsplit(vendor.base).hostname for vendor in VENDORS if not vendor.local)
OWN_KEY = "CODELET_API_KEY"
"""The variable whose key is sent to whichever server is asked."""

CUSTOM = Vendor("", "the endpoint", "", ("OPENAI_API_KEY",), local=True)
"""Whatever `--api-base` names, for a model of no vendor's name."""


class Endpoint(Record):
    """Where a request goes: the vendor, its address and key as this process knows them.

    `key_from` is the variable that holds the key, where there is one.
    """

    vendor: Vendor
    base: str
    key: str | None
    key_from: str | None = None

    @property
    def name(self) -> str:
        """The vendor's name for people, with the address where it is not the vendor's own."""
        return self.vendor.name if self.base == self.vendor.base else self.base

    @property
    def check(self) -> str:
        """What to look at where it cannot be reached."""
        own = self.vendor.local and self.base == self.vendor.base
        return f"whether {self.vendor.name} runs, and --api-base" if own else "the network and --api-base"

    @property
    def key_name(self) -> str:
        """The variable that the key came from, or those to set, as an error message names them."""
        if self.key_from is not None:
            return self.key_from
        names = self.vendor.key_names[:1]
        return names[0] if names and self.base == self.vendor.base else " or ".join((OWN_KEY, *names))

    @property
    def local(self) -> bool:
        """Whether it is on this machine."""
        return on_this_machine(self.base)

    @property
    def usage_option(self) -> bool:
        """Whether usage must be asked for."""
        return self.vendor.usage_option

    @property
    def max_output_option(self) -> str:
        """What the output limit is called."""
        return self.vendor.max_output_option

    def model_name(self, model: str) -> str:
        """The model's name as the server knows it: without the vendor's prefix, but for OpenRouter's own models."""
        prefix, _, rest = real_name(model).partition("/")
        if prefix == "openrouter" and "/" not in rest:
            return model
        return rest if rest and (prefix in _BY_PREFIX or prefix in _ALIASES) else model

    def origin(self, model: str) -> str:
        """What marks the fields that only this server can read: its address, and the maker where it serves several."""
        maker = self.model_name(model).rpartition("/")[0]
        return f"{self.base}#{maker}" if maker else self.base


def vendor_of(model: str) -> Vendor | None:
    """The vendor of a model name, or None where only litellm may know it."""
    prefix, slash, _ = model.partition("/")
    if slash:
        return _BY_PREFIX.get(_ALIASES.get(prefix, prefix))
    lowered = model.lower()
    for start, name in _BARE_NAMES:
        if lowered.startswith(start):
            return _BY_PREFIX[name]
    if lowered[:1] == "o" and lowered[1:2].isdigit():
        return _BY_PREFIX["openai"]
    return None


def alternates(model: str, api_base: str | None) -> bool:
    """Whether user and assistant must take turns in what is sent to the model, through whichever wire.

    Local and unknown servers apply the model's own chat template, and nobody can see from here how strict it is.
    """
    vendor = vendor_of(model) or (CUSTOM if api_base else None)
    if vendor is None:
        return model.startswith("codestral/")
    return _alternating(vendor, api_base or vendor.base)


def _alternating(vendor: Vendor, base: str) -> bool:
    if vendor.alternating or vendor.wire != "openai":
        return vendor.alternating
    try:
        return urlsplit(base).hostname not in _HOSTED
    except ValueError:
        return False  # the wire says what is wrong with the address


def endpoint_for(
    model: str, api_base: str | None, api_key: str | None, environment: Mapping[str, str] = os.environ
) -> Endpoint | None:
    """The native endpoint for a model, or None where there is none. Raises UsageError without a needed key.

    With `api_base` every name is native: Anthropic's wire for Anthropic's names, Chat Completions for others.
    """
    vendor = vendor_of(model)
    if vendor is None and api_base is None:
        return None
    vendor = vendor or CUSTOM
    key_from = key_variable(vendor, api_key, environment)
    key = api_key or (environment[key_from] if key_from else None)
    key = _checked_key(key) if key else None
    base = api_base or base_of(vendor, environment)
    if key is None and not vendor.local and base == vendor.base:
        raise UsageError(f"no key for {vendor.name}: set {vendor.key_names[0]}, or choose another --model")
    return Endpoint(vendor, base.rstrip("/"), key, key_from)


def key_variable(vendor: Vendor | None, api_key: str | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """The variable that a key comes from: codelet's own, where `api_key` was given, else the vendor's; None without."""
    if api_key:
        return OWN_KEY
    return next((name for name in (vendor.key_names if vendor else ()) if environment.get(name)), None)


def on_this_machine(address: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        host = (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return False  # the wire says what is wrong with it
    return (
        host in ("localhost", "::1", "0.0.0.0") or host.endswith(".localhost") or _LOOPBACK.fullmatch(host) is not None
    )


def base_of(vendor: Vendor, environment: Mapping[str, str] = os.environ) -> str:
    """The vendor's address, or the one that a variable moves it to."""
    moved = next((environment[name] for name in vendor.base_names if environment.get(name)), None)
    if moved is None:
        return vendor.base
    return _local_base(moved, vendor) if vendor.local else moved


def _local_base(address: str, vendor: Vendor) -> str:
    """A local server's address from a variable: often without scheme, host, port or path, or what it listens on."""
    try:
        url = urlsplit(address if "//" in address else f"http://{address}")
        own = urlsplit(vendor.base)
        port = url.port or (None if "//" in address else own.port)
    except ValueError:
        return address  # the wire says what is wrong with it
    host = own.hostname if url.hostname in (None, "0.0.0.0", "::") else url.hostname
    place = f"[{host}]" if ":" in (host or "") else host
    path = url.path.rstrip("/")
    return f"{url.scheme}://{place}{f':{port}' if port else ''}{path if path.endswith('/v1') else path + '/v1'}"


def _checked_key(key: str) -> str:
    """The key as a header can carry it; a line end at its end, as files have it, is taken off."""
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise UsageError("the API key holds characters that no key has; was it copied whole?")
    return key
