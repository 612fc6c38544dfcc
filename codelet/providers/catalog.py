"""The vendors in `vendors.toml`, and their quirks. Model names are litellm's.

A new vendor is one table there. The user's settings may add others (`custom_vendors`), which come as `own`. Quirks say
how requests differ from the wire's usual form: a vendor's table names its own, others follow from a model's name
(`endpoint.quirks_of`) or a refusal (`NativeProvider.learn`). They change the bytes on the wire, never the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from codelet.record import Record

Wire = Literal["openai", "anthropic"]
WIRES = ("chat", "responses")

NO_REASONING = " "
"""Replaces missing reasoning. DeepSeek accepts an empty text, but Kimi does not."""

SUMMARIES = {"google": {"thinking_config": {"include_thoughts": True}}}
"""Requests summaries of thoughts from Google's models; they come in tags, at the start of the text."""

UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""The signature that Google's documentation gives for calls of other models."""

_SIGNED = {"extra_content", "provider_specific_fields"}

EffortField = Literal["reasoning_effort", "reasoning", "thinking", "chat_template_kwargs"]
"""The field of a Chat Completions request for an effort."""


Structured = Literal["always", "alone", "never"]
"""The requests that carry the schema of the final answer: all, those without tools, none."""


class Quirks(Record):
    """The quirks of one vendor or model, by the names that a settings file uses.

    `alternating`: user and assistant must take turns. `usage_option`: usage must be requested. `max_output_option`: the
    name of the output limit. `call_id_length`, `longest_call_id`: the exact or largest length of a call's id. `strict`:
    messages may hold OpenAI's own fields only, so reasoning and other fields do not go back. `reasoning`: every
    assistant message needs `reasoning_content`, or a placeholder. `signatures`: the first call of a message needs a
    thought signature. `effort`: the `reasoning_effort` of requests with tools; "never" after a refusal. `effort_field`:
    the field for the user's effort; "thinking" takes only the effort "none". `structured`: which requests carry the
    answer's schema. `cache_marks`: only text marked with `cache_control` is cached. `keeps_thinking`: earlier reasoning
    is used only on request. `images`: the model takes images. `prefix_bound`: reasoning is valid only after its exact
    prefix; `drops_thinking`: the server has refused some for that. `summaries`: reasoning is shown only on request.
    Responses only: `cache_key`, `encrypted_reasoning`.
    """

    alternating: bool = False
    usage_option: bool = True
    max_output_option: str = "max_tokens"
    call_id_length: int | None = None
    longest_call_id: int | None = None
    strict: bool = False
    reasoning: bool = False
    signatures: bool = False
    effort: Literal["", "none", "never"] = ""
    effort_field: EffortField = "reasoning_effort"
    structured: Structured = "alone"
    cache_marks: bool = False
    keeps_thinking: bool = False
    images: bool = True
    prefix_bound: bool = False
    drops_thinking: bool = False
    cache_key: bool = False
    encrypted_reasoning: bool = False
    summaries: bool = False

    def options(self, *, tools: bool, max_output: int | None) -> dict[str, Any]:
        """The last fields of a Chat Completions request."""
        options: dict[str, Any] = {"stream": True}
        if self.usage_option:
            options["stream_options"] = {"include_usage": True}
        if max_output is not None:
            options[self.max_output_option] = max_output
        if self.keeps_thinking:
            options |= {
                "thinking": {"type": "enabled", "clear_thinking": False},
                **({"tool_stream": True} if tools else {}),
            }
        if tools and self.effort == "none":
            options["reasoning_effort"] = "none"
        return options

    def call_id(self, call_id: str) -> str:
        """A call's id in the server's form: another vendor's may be too long or too short."""
        exact, most = self.call_id_length, self.longest_call_id
        if exact is None and (most is None or len(call_id) <= most):
            return call_id
        if exact is not None and len(call_id) == exact and call_id.isascii() and call_id.isalnum():
            return call_id
        from hashlib import sha256  # only after a switch of models, or for codelet's own ids

        return sha256(call_id.encode("utf-8", "replace")).hexdigest()[: exact or most]

    def completed(self, wire: dict[str, Any]) -> dict[str, Any]:
        """The message with fields that the server requires, though the model did not send them."""
        if wire["role"] != "assistant":
            return wire
        if self.reasoning and "reasoning_content" not in wire and "reasoning_details" not in wire:
            wire["reasoning_content"] = wire.pop("reasoning", NO_REASONING)
        calls = wire.get("tool_calls")
        if self.signatures and calls and not any(_SIGNED & call.keys() for call in calls):
            wire["tool_calls"] = [{**calls[0], "extra_content": UNSIGNED}, *calls[1:]]
        return wire

    def note(self, model: str, effort: str | None = None) -> str:
        """A sentence for the user who asked for this effort, which requests with tools do not hold."""
        vendor, slash, name = model.partition("/")
        way = f"{vendor}/responses/{name.removeprefix('chat/')}" if slash else f"openai/responses/{model}"
        silent = f"{model} has tools over Chat Completions only without reasoning: it is asked not to reason"
        unsent = "" if effort in (None, "none") else f"the effort {effort!r} is not sent: "
        return f"{unsent}{silent}; over {way} it may"


class Vendor(Record, kw_only=True):
    """A service or a local server. Model names begin with `prefix` and a slash; `name` is for users.

    `vendors.toml` explains the fields.
    """

    prefix: str
    name: str
    base: str
    key_names: tuple[str, ...] = ()
    base_names: tuple[str, ...] = ()
    bearer_names: tuple[str, ...] = ()
    wire: Wire = "openai"
    default_model: str | None = None
    local: bool = False
    responses: bool = False
    plain_name: str = "{}"
    marked: str = ""
    signs: bool = False
    silent_tools: bool = False
    charges: bool = False
    litellm: str = ""
    quirks: Quirks = Quirks()


CUSTOM = Vendor(
    prefix="",
    name="the endpoint",
    base="",
    key_names=("OPENAI_API_KEY",),
    local=True,
    signs=True,
    silent_tools=True,
)
"""Any server at `--api-base`, for a model without a vendor's prefix."""


_FILE = "vendors.toml"


@cache
def _sections(file: str = _FILE) -> Mapping[str, str]:
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    sections = (section.partition("]\n") for section in text.split("\n[")[1:])
    return {name: rows for name, _, rows in sections}


def table_names(file: str = _FILE) -> list[str]:
    """The names of all tables in a file, in order."""
    return list(_sections(file))


@cache
def table(name: str, file: str = _FILE) -> Mapping[str, Any]:
    """One table of `vendors.toml`, or of another `file` next to it; empty if it is missing.

    Only that table is read, each value as JSON: importing a TOML parser would take a fifth of the start.
    """
    rows = [line.partition(" = ") for line in _sections(file).get(name, "").splitlines() if line[:1] not in ("", "#")]
    return {json.loads(key) if key[0] == '"' else key: json.loads(value) for key, _, value in rows}


def vendor_from(prefix: str, fields: Mapping[str, Any], quirks: Mapping[str, Any]) -> Vendor:
    """The vendor in a table."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in fields.items()
        if name in Vendor.fields
    }
    default = f"{prefix}/{fields['model']}" if "model" in fields else None
    return Vendor(prefix=prefix, default_model=default, quirks=Quirks(**quirks), **given)


@cache
def known_vendor(prefix: str) -> Vendor | None:
    """The known vendor whose models' names begin with this prefix, or another spelling of it."""
    if (real := table("also").get(prefix)) is not None:
        return known_vendor(real)
    fields = table(prefix)
    return vendor_from(prefix, fields, table(f"{prefix}.quirks")) if "base" in fields else None


@cache
def vendors() -> tuple[Vendor, ...]:
    """All known vendors, in the order in which a model is chosen."""
    return tuple(vendor for name in table_names() if (vendor := known_vendor(name)) is not None)


def vendor_of(model: str, own: Sequence[Vendor] = ()) -> Vendor | None:
    """The vendor of a model name, the user's `own` included; None if only litellm may know it."""
    prefix, slash, _ = model.partition("/")
    if slash:
        added = next((vendor for vendor in own if vendor.prefix == prefix), None)
        return added or known_vendor(prefix)
    lowered = model.lower()
    return next((known_vendor(name) for start, name in table("bare").items() if re.match(start, lowered)), None)


def holds(fact: str, model: str) -> bool:
    """Return whether a fact holds for a model by its name, at any vendor: a table `named` of the file."""
    name = model.lower()
    known = table(f"named.{fact}").items()
    return any(piece in name and re.search(pattern, name) is not None for piece, pattern in known)


def real_name(model: str) -> str:
    """The model's litellm name, without the API in `openai/chat/NAME` or `xai/responses/NAME`."""
    wire = asked_wire(model)
    return model if wire is None else model.replace(f"/{wire}/", "/", 1)


def asked_wire(model: str) -> str | None:
    """The API in a name, "chat" or "responses", if its vendor has both; else None."""
    vendor, _, rest = model.partition("/")
    wire, slash, _ = rest.partition("/")
    return wire if slash and wire in WIRES and table(vendor).get("responses") else None
