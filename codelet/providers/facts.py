"""A model's window, output limit and prices, from litellm's bundled map.

The map is read without importing litellm and without parsing its three megabytes: only the requested entry is decoded.
Without litellm, `models.json` is read, a part of its map (MIT licence).
"""

from __future__ import annotations

import json
import re
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from codelet.providers.catalog import WIRES, holds, known_vendor, real_name, table, vendor_of, vendors
from codelet.record import Record
from codelet.usage import ChargedUsage, Usage

if TYPE_CHECKING:
    import mmap

DEFAULT_WINDOW = 128_000

_WEEK, _DAY = 7 * 24 * 60, 24 * 60
_PRICES = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
    "cache_creation_input_token_cost_above_1hr": "cache_write_hour",
    "output_cost_per_reasoning_token": "reasoning",
}


COPY = Path(__file__).with_name("models.json")
"""The part of the map that ships with codelet; `python -m scripts.model_map` writes it."""


class Prices(Record, kw_only=True):
    """Prices in US dollars per token.

    Missing prices follow others: cached input costs as much as input, an entry cached for an hour as one for five
    minutes, reasoning as output.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None
    reasoning: float | None = None

    def cost(self, usage: Usage) -> float:
        write = self.input if self.cache_write is None else self.cache_write
        hour = write if self.cache_write_hour is None else self.cache_write_hour
        read = self.input if self.cache_read is None else self.cache_read
        thought = self.output if self.reasoning is None else self.reasoning
        plain = usage.total_input - usage.cache_read - usage.cache_write
        thinking = min(usage.reasoning, usage.output)
        return (
            plain * self.input
            + usage.cache_read * read
            + (usage.cache_write - usage.cache_write_hour) * write
            + usage.cache_write_hour * hour
            + (usage.output - thinking) * self.output
            + thinking * thought
        )


class ModelFacts(Record):
    """Sizes in tokens, and `tiers`: prices by the input tokens above which they hold, lowest first.

    Without tiers the prices are unknown (the map's 0 means unknown); `free`: nothing is paid.
    `tools_without_reasoning`: it reasons by default, and takes tools over Chat Completions only without. `cache_marks`:
    requests can mark the end of a cached prefix. `efforts` are its words for an effort, weakest first, `default_effort`
    the one without a request. `adaptive_thinking`: one of Anthropic's that decides how long it thinks; `always_thinks`:
    it cannot be switched off. `images`: None if unknown. `told`: the server named the window. `like`: the model of its
    family whose facts are used, if it is not `known`. `prefix_bound`: its reasoning is valid only after its exact
    prefix. `off_peak`: other prices and their times, in minutes of the week (UTC): first minute and count.
    """

    window: int = DEFAULT_WINDOW
    max_output: int | None = None
    tiers: tuple[tuple[int, Prices], ...] = ()
    free: bool = False
    tools_without_reasoning: bool = False
    reasons: bool = False
    cache_marks: bool = False
    efforts: tuple[str, ...] = ()
    default_effort: str | None = None
    adaptive_thinking: bool = False
    always_thinks: bool = False
    tools: bool | None = None
    images: bool | None = None
    known: bool = False
    told: bool = False
    like: str = ""
    prefix_bound: bool = False
    off_peak: tuple[Prices, tuple[tuple[int, int], ...]] | None = None

    @property
    def prices(self) -> Prices | None:
        """The prices of a request with little input; None if unknown."""
        return self.tiers[0][1] if self.tiers else None

    def priced_at(self, total_input: int) -> Prices | None:
        """The prices of a request with that input: above a tier's bound they hold for all of it."""
        return next((prices for above, prices in reversed(self.tiers) if total_input > above or not above), None)

    def cost(self, usage: Usage, at: float | None = None) -> float | None:
        """The cost of one request in US dollars; None if a price is unknown. The server's own charge comes first.

        `at` is the time of the answer in Unix seconds; None is now.
        """
        if isinstance(usage, ChargedUsage):
            return usage.cost
        if self.off_peak is not None and self.tiers:
            cheaper, windows = self.off_peak
            minute = ((time.time() if at is None else at) // 60 + 3 * _DAY) % _WEEK  # Unix time began on a Thursday
            if any((minute - first) % _WEEK < count for first, count in windows):
                return cheaper.cost(usage)
        prices = self.priced_at(usage.total_input)
        return None if prices is None else prices.cost(usage)


def on_this_machine(address: str) -> bool:
    """Return whether an address is on this machine."""
    try:
        host = (urlsplit(address).hostname or "").rstrip(".")
    except ValueError:
        return False  # the wire reports it
    first, *rest = host.split(".")
    loopback = first == "127" and 1 <= len(rest) <= 3 and all(part.isdecimal() and len(part) <= 3 for part in rest)
    return loopback or host in ("localhost", "::1", "0.0.0.0") or host.endswith(".localhost")


def facts_of(model: str, *, local: bool) -> ModelFacts:
    """The facts of a model; on this machine (`local`) nothing is paid, and no list price holds."""
    facts = model_facts(model)
    return facts.replace(tiers=(), free=True) if local else facts


@cache
def model_facts(model: str) -> ModelFacts:
    """The facts of a model by its litellm name, with or without the vendor's prefix.

    A model of the same name at another vendor gives sizes, but no prices.
    """
    model = real_name(model)
    vendor, _, rest = model.partition("/")
    facts, last = None, model.rpartition("/")[2]
    if _map().find(json.dumps(last)[1:].encode() + b": {") >= 0:  # one search, for each start
        for name in dict.fromkeys((model, rest, last)):
            if facts is None and (entry := _entry(name)) is not None:
                facts = entry_facts(entry)
                if name != model and entry.get("litellm_provider") != vendor:
                    facts = facts.replace(tiers=())
    return (facts or _family_facts(model)).replace(prefix_bound=holds("bound", model))


def names_entry(model: str) -> bool:
    """Return whether the map lists this model: by its full name, or at the prefix's provider."""
    provider, _, rest = model.partition("/")
    if _entry(model) is not None:
        return True
    listed_for = str((_entry(rest) or {}).get("litellm_provider"))
    return listed_for == provider or listed_for.startswith((f"{provider}_", f"{provider}-"))  # such as bedrock_converse


def whole_map() -> dict[str, dict[str, Any]]:
    """All entries by name."""
    found: dict[str, dict[str, Any]] = json.loads(_map()[:])
    return found


def litellm_knows(model: str) -> bool:
    """Return whether the map has this model or its provider, or litellm's source, which is read, not run, has the
    provider.
    """
    provider, slash, _ = model.partition("/")
    if _entry(model) is not None or not slash:
        return _entry(model) is not None
    if _map().find(b'"litellm_provider": ' + json.dumps(provider).encode()) >= 0:
        return True
    path = (litellm_folder() or COPY) / "types" / "utils.py"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    listed = text.partition("class LlmProviders(")[2].partition("\nclass ")[0]
    return re.search(rf'^    \w+ = "{re.escape(provider)}" *(#.*)?$', listed, re.MULTILINE) is not None


def _entry(name: str) -> dict[str, Any] | None:
    """The map's entry of that name: the last one, as a few occur twice."""
    key = json.dumps(name).encode() + b": {"
    at = _map().rfind(key) if name else -1
    if at < 0:
        return None
    start = at + len(key) - 1
    entry: dict[str, Any] = json.JSONDecoder().raw_decode(_map()[start : start + 16_384].decode("utf-8", "replace"))[0]
    return entry


def _map() -> mmap.mmap:
    """The text of the map for one search: what is read of a map that stays open counts as memory."""
    import mmap

    with _map_path().open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@cache
def _map_path() -> Path:
    """The map next to litellm's code, else codelet's copy."""
    folder = litellm_folder()
    path = folder / "model_prices_and_context_window_backup.json" if folder else COPY
    return path if path.is_file() else COPY


def map_source() -> str:
    """Return the source of windows and prices, in a few words."""
    if _map_path() == COPY:
        return "windows and prices are from codelet's copy of litellm's map"
    from importlib.metadata import version

    return f"windows and prices are from litellm {version('litellm')}'s map"


def litellm_folder() -> Path | None:
    """The folder of litellm's code, found without importing it; None if it is not installed."""
    from importlib.util import find_spec

    spec = find_spec("litellm")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else None


def entry_facts(entry: dict[str, Any]) -> ModelFacts:
    """The facts in an entry of the map.

    Some makers' own models take images only if it says so. Some of OpenAI's reason unless a request switches it off.
    """
    own, images = table(str(entry.get("litellm_provider"))), entry.get("supports_vision")
    takes_none = own.get("silent_tools") and entry.get("supports_none_reasoning_effort") and entry.get("mode") == "chat"
    return ModelFacts(
        window=_positive_int(entry.get("max_input_tokens") or entry.get("max_tokens")) or DEFAULT_WINDOW,
        max_output=_positive_int(entry.get("max_output_tokens")),
        tiers=(tiers := _tiers(entry)),
        off_peak=_off_peak(entry.get("off_peak_pricing"), tiers[0][1]) if tiers else None,
        tools_without_reasoning=bool(takes_none) and entry.get("default_reasoning_effort") != "none",
        reasons=bool(entry.get("supports_reasoning")),
        cache_marks=bool(entry.get("supports_prompt_cache_breakpoint")),
        efforts=_efforts(entry),
        default_effort=entry.get("default_reasoning_effort"),
        adaptive_thinking=bool(entry.get("supports_adaptive_thinking")),
        always_thinks=bool(entry.get("thinking_always_on")),
        tools=bool(entry.get("supports_function_calling")),
        images=bool(images) if images is not None or own.get("pictures") else None,
        known=True,
    )


def _tiers(entry: dict[str, Any]) -> tuple[tuple[int, Prices], ...]:
    """The prices in an entry; a tier overrides those below it. Empty without prices of input and output."""
    prices: dict[int, dict[str, float]] = {}
    for name, price in entry.items():
        match = re.fullmatch(r"(\w+?)(?:_above_(\d+)k_tokens)?", name)
        if price and match is not None and match[1] in _PRICES:
            prices.setdefault(int(match[2] or 0) * 1_000, {})[_PRICES[match[1]]] = price
    base = prices.pop(0, {})
    if not {"input", "output"} <= base.keys():
        return ()
    tiers = [(0, Prices(**base))]
    for above in sorted(prices):
        tiers.append((above, tiers[-1][1].replace(**prices[above])))
    return tuple(tiers)


def _off_peak(told: object, usual: Prices) -> tuple[Prices, tuple[tuple[int, int], ...]] | None:
    """The prices at some hours, `10:00-00:00` in the map, and weekdays (Monday is 1)."""
    if not isinstance(told, dict):
        return None
    prices = usual.replace(**{field: told[name] for name, field in _PRICES.items() if told.get(name)})
    windows = []
    for window in told.get("windows", ()):
        hours = window["hours_utc"]
        for each in [hours] if isinstance(hours, str) else hours:
            first, last = (
                int(hour) * 60 + int(minute) for hour, _, minute in (t.partition(":") for t in each.split("-"))
            )
            windows += [((day - 1) * _DAY + first, (last - first - 1) % _DAY + 1) for day in window["weekdays"]]
    return prices, tuple(windows)


def _efforts(entry: dict[str, Any]) -> tuple[str, ...]:
    """The words in the map, else those its switches leave: low, medium and high by default."""
    if (listed := entry.get("reasoning_effort_levels")) is not None:
        return tuple(map(str, listed))
    if not entry.get("supports_reasoning"):
        return ()
    usual = {"low": True, "medium": True, "high": True}
    words = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    return tuple(word for word in words if entry.get(f"supports_{word}_reasoning_effort", usual.get(word)))


def _positive_int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _family_facts(model: str) -> ModelFacts:
    """The facts for a model newer than the map: the vendor's own figures, else its family's.

    A family is the name without its version: `gpt-7-sol` belongs to that of `gpt-6.1-sol`, else to that of `gpt-6`. The
    newest known model that is not newer gives window, output limit and abilities, but no prices: they change with each
    version. A window below the default counts only for the same main version: windows grow.
    """
    vendor, _, name = model.rpartition("/")
    bare = vendor_of(name)
    maker = vendor.rpartition("/")[2] or (bare.prefix if bare else "")
    if known_vendor(maker) is None:
        maker = next((each.prefix for each in vendors() if maker in table(each.prefix).get("called", ())), maker)
    newer = table(f'{maker}.newer."{name}"')
    if (known := _entry(newer.get("like", ""))) is not None:
        facts = entry_facts({**known, **newer})
        return facts if vendor in ("", maker) else facts.replace(tiers=())
    wanted, found = name_parts(name), []
    if wanted is None or not maker:
        return ModelFacts()
    prefix = "" if maker in table("bare").values() else f"{maker}/"
    for match in re.finditer(rb'\n *"(%b[0-9][^"/]*)": \{' % re.escape(prefix + wanted[0]).encode(), _map()):
        entry, other = _entry(match[1].decode()) or {}, match[1].decode().rpartition("/")[2]
        parts = name_parts(other)
        if parts is None or parts[0] != wanted[0] or parts[1] > wanted[1]:
            continue
        if entry.get("litellm_provider") == maker and entry.get("mode") in WIRES:
            found.append(((parts[2] == wanted[2], parts[1], not parts[2]), other, entry))
    if not found:
        return ModelFacts()
    (_, version, _), like, entry = max(found, key=lambda each: each[0])
    facts = entry_facts(entry)
    if facts.window < DEFAULT_WINDOW and version[0] != wanted[1][0]:
        return ModelFacts()
    return facts.replace(known=False, tiers=(), like=like)


def name_parts(name: str) -> tuple[str, tuple[int, int], str] | None:
    """The name before the version, the version, and the kind after it, in small letters; None without a version."""
    match = re.fullmatch(r"([a-z][a-z0-9-]*?[a-z-]?)(\d{1,2})(?:[.-](\d{1,2}))?((?:-[a-z][a-z0-9]*)*)", name.lower())
    if match is None:
        return None
    return match[1], (int(match[2]), int((match[3] or "").ljust(2, "0"))), match[4]  # 4.20 came before 4.7


class ModelChange(Record, kw_only=True):
    """A model that replaced another, and the reason."""

    replaced: str
    model: str
    reason: str


class Circuit(Record, kw_only=True):
    """A provider's health, for the user and the export."""

    model: str
    provider: str
    state: str
    failures: int
    wait: float
