"""What is known of a model: its window, its output limit and its prices, from litellm's bundled map.

The map is read in place, without importing litellm and without parsing its three megabytes: only the entry
that is asked for is decoded.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codelet.record import Record
from codelet.usage import Usage

if TYPE_CHECKING:
    import mmap

DEFAULT_WINDOW = 128_000
CHAT_PREFIX = "openai/chat/"
"""What stands before the name of a model that is to be reached over Chat Completions."""
RESPONSES_PREFIX = "openai/responses/"
"""What stands before the name of a model that is to be reached over OpenAI's Responses."""


class ModelFacts(Record):
    """Sizes in tokens; prices in US dollars per token, None if unknown (the map's 0 means unknown).

    `tools_without_reasoning`: it reasons unless told not to, and takes tools over Chat Completions only then.
    `reasons`: it can reason. `cache_marks`: it can be told where the part of a prompt ends that is to be cached.
    `efforts` are the words for an effort that it takes, weakest first, `default_effort` the one that holds unless a
    request says another, if the map tells. `adaptive_thinking`: one of Anthropic's that decides itself how long it
    thinks; `always_thinks`: it cannot be told not to. `told`: the server itself named the window; `local`: it answers
    on this machine.
    """

    window: int = DEFAULT_WINDOW
    max_output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None
    tools_without_reasoning: bool = False
    reasons: bool = False
    cache_marks: bool = False
    efforts: tuple[str, ...] = ()
    default_effort: str | None = None
    adaptive_thinking: bool = False
    always_thinks: bool = False
    known: bool = False
    told: bool = False
    local: bool = False

    def without_prices(self) -> ModelFacts:
        """The same for a server of the user's own, for which no list price holds."""
        unknown = dict.fromkeys(("input_price", "output_price", "cache_read_price", "cache_write_price"))
        return self.replace(**unknown)

    def cost(self, usage: Usage) -> float | None:
        """What `usage` cost in US dollars, or None if a price is unknown."""
        if self.input_price is None or self.output_price is None:
            return None
        read_price = self.input_price if self.cache_read_price is None else self.cache_read_price
        write_price = self.input_price if self.cache_write_price is None else self.cache_write_price
        plain = usage.total_input - usage.cache_read - usage.cache_write
        return (
            plain * self.input_price
            + usage.cache_read * read_price
            + usage.cache_write * write_price
            + usage.output * self.output_price
        )


@cache
def model_facts(model: str) -> ModelFacts:
    """The facts of a model by its litellm name, with or without the vendor's prefix.

    Of a model of the same name at another vendor the sizes are taken, not the prices.
    """
    model = real_name(model)
    vendor = model.partition("/")[0]
    for name in dict.fromkeys((model, model.partition("/")[2], model.rpartition("/")[2])):
        entry = _entry(name) if name else None
        if entry is not None:
            facts = _facts(entry)
            own = name == model or entry.get("litellm_provider") == vendor
            return facts if own else facts.without_prices()
    return ModelFacts()


def real_name(model: str) -> str:
    """The model's litellm name, also if `openai/chat/NAME` or `openai/responses/NAME` asks for one of OpenAI's APIs."""
    for prefix in (CHAT_PREFIX, RESPONSES_PREFIX):
        if model.startswith(prefix):
            return f"openai/{model.removeprefix(prefix)}"
    return model


def is_listed(text: str) -> bool:
    """Whether the map holds this model name, or a provider of this name."""
    quoted = json.dumps(text).encode()
    return _position(b"\n    " + quoted + b": {") >= 0 or _position(b'"litellm_provider": ' + quoted) >= 0


def is_provider(name: str) -> bool:
    """Whether litellm has a provider of this name, by the list in its own code, which is read and not run."""
    import re

    folder = _folder()
    path = folder / "types" / "utils.py" if folder else None
    if path is None or not path.is_file():
        return False
    _, found, behind = path.read_text(encoding="utf-8", errors="replace").partition("class LlmProviders(")
    listed = behind.partition("\nclass ")[0]
    return bool(found) and re.search(rf'^    \w+ = "{re.escape(name)}" *(#.*)?$', listed, re.MULTILINE) is not None


def _entry(name: str) -> dict[str, Any] | None:
    key = b"\n    " + json.dumps(name).encode() + b": "
    start = _position(key)
    if start < 0:
        return None
    with _open_map() as data:
        text = data[start + len(key) : start + len(key) + 16_384].decode("utf-8", "replace")
    entry, _ = json.JSONDecoder().raw_decode(text)
    return entry if isinstance(entry, dict) else None


def _position(needle: bytes) -> int:
    if _map_path() is None:
        return -1
    with _open_map() as data:
        return data.rfind(needle)  # the map names a few twice; in JSON the last one counts


def _open_map() -> mmap.mmap:
    import mmap

    path = _map_path()
    assert path is not None
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@cache
def _map_path() -> Path | None:
    """The map beside litellm's code; None if litellm is not installed."""
    folder = _folder()
    path = folder / "model_prices_and_context_window_backup.json" if folder else None
    return path if path is not None and path.is_file() else None


def _folder() -> Path | None:
    """Where litellm's code is, found without importing it; None if it is not installed."""
    from importlib.util import find_spec

    spec = find_spec("litellm")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else None


def _facts(entry: dict[str, Any]) -> ModelFacts:
    return ModelFacts(
        window=_positive_int(entry.get("max_input_tokens") or entry.get("max_tokens")) or DEFAULT_WINDOW,
        max_output=_positive_int(entry.get("max_output_tokens")),
        input_price=entry.get("input_cost_per_token") or None,
        output_price=entry.get("output_cost_per_token") or None,
        cache_read_price=entry.get("cache_read_input_token_cost") or None,
        cache_write_price=entry.get("cache_creation_input_token_cost") or None,
        tools_without_reasoning=_reasons_unless_told(entry),
        reasons=bool(entry.get("supports_reasoning")),
        cache_marks=bool(entry.get("supports_prompt_cache_breakpoint")),
        efforts=_efforts(entry),
        default_effort=entry.get("default_reasoning_effort"),
        adaptive_thinking=bool(entry.get("supports_adaptive_thinking")),
        always_thinks=bool(entry.get("thinking_always_on")),
        known=True,
    )


def _efforts(entry: dict[str, Any]) -> tuple[str, ...]:
    """The words that the map lists, else those that its switches leave: low, medium and high unless it denies one."""
    if (listed := entry.get("reasoning_effort_levels")) is not None:
        return tuple(map(str, listed))
    if not entry.get("supports_reasoning"):
        return ()
    usual = {"low": True, "medium": True, "high": True}
    words = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    return tuple(word for word in words if entry.get(f"supports_{word}_reasoning_effort", usual.get(word)))


def _reasons_unless_told(entry: dict[str, Any]) -> bool:
    """Whether the map says of one of OpenAI's models that it can be told not to reason, and not that it starts so."""
    own = entry.get("litellm_provider") == "openai" and entry.get("mode") == "chat"
    return own and bool(entry.get("supports_none_reasoning_effort")) and entry.get("default_reasoning_effort") != "none"


def _positive_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
