"""What a model demands of requests beyond its wire: known by its name, or learnt from how a server refuses one.

Sources: the vendors' words in their error answers, as `learnt` reads them, and litellm's bundled map for which of
OpenAI's models reason unless they are told not to. What a model demands follows its name, at whatever address; what a
vendor demands follows the prefix (`catalog.py`).
"""

from __future__ import annotations

import re
from typing import Any, Literal

from codelet.errors import ProviderError
from codelet.messages import Message
from codelet.providers.catalog import CUSTOM, alternates, vendor_of
from codelet.providers.failure import wants_alternation
from codelet.record import Record
from codelet.tokens.windows import model_facts, real_name

NO_REASONING = " "
"""What stands where a model gave no reasoning. An empty text serves at DeepSeek, but Kimi takes it for none."""

UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Google's documentation names for calls that none of its models made."""

_THINKING = re.compile(r"deepseek|kimi")
_SIGNING = re.compile(r"gemini-(?![12]\b)")
_SIGNED = {"extra_content", "provider_specific_fields"}
_MISSING = ("must be passed back", "missing", "requires reasoning_content")
_UNKNOWN = (
    "unsupported",
    "not supported",
    "unknown",
    "unrecognized",
    "unexpected",
    "extra",
    "not permitted",
    "invalid",
)
_FORM_REFUSED = (400, 422)


def returned(message: Message) -> dict[str, Any]:
    """What came beside an assistant's text, as the server that sent it takes it back."""
    fields: dict[str, Any] = dict(message.get("extra", {}))
    if "reasoning_details" in message:
        fields["reasoning_details"] = message["reasoning_details"]
    elif "reasoning" in message:
        fields["reasoning"] = message["reasoning"]
    elif "reasoning_content" in message:
        fields["reasoning_content"] = message["reasoning_content"]
    return fields


class Demands(Record):
    """How requests to one model differ from what the wire would send.

    `alternating`: user and assistant take turns. `effort`: `reasoning_effort` as it is said where tools are sent;
    "never" where a server refused it. `reasoning`: every assistant message has `reasoning_content`, a stand-in where
    there is none. `signatures`: a message with calls has a thought signature on the first. `returns`: what came beside
    a text goes back to where it came from. `id_length`, `longest_id`: how long a call's id must be, or may be.
    """

    alternating: bool = False
    effort: Literal["", "none", "never"] = ""
    reasoning: bool = False
    signatures: bool = False
    returns: bool = True
    id_length: int | None = None
    longest_id: int | None = None

    def reasoning_effort(self, *, tools: bool) -> str | None:
        """What a request says of its effort, or None where it says nothing."""
        return "none" if tools and self.effort == "none" else None

    def call_id(self, call_id: str) -> str:
        """A call's id as the server takes it: one that came from elsewhere may be too long for it, or too short."""
        exact, most = self.id_length, self.longest_id
        if exact is None and (most is None or len(call_id) <= most):
            return call_id
        if exact is not None and len(call_id) == exact and call_id.isascii() and call_id.isalnum():
            return call_id
        from hashlib import sha256  # only after a switch of models, or for an id that was made here

        return sha256(call_id.encode("utf-8", "replace")).hexdigest()[: exact or most]

    def completed(self, wire: dict[str, Any]) -> dict[str, Any]:
        """The message with what the model demands of one that it did not make, or made without."""
        if wire["role"] != "assistant":
            return wire
        if self.reasoning and "reasoning_content" not in wire and "reasoning_details" not in wire:
            wire["reasoning_content"] = wire.pop("reasoning", NO_REASONING)
        calls = wire.get("tool_calls")
        if self.signatures and calls and not any(_SIGNED & call.keys() for call in calls):
            wire["tool_calls"] = [{**calls[0], "extra_content": UNSIGNED}, *calls[1:]]
        return wire

    def learnt(self, error: ProviderError) -> Demands | None:
        """These demands and the one that a refusal tells of, or None where it tells nothing new.

        Each can change once and never back, so a server that contradicts itself is not asked for ever.
        """
        if not self.alternating and wants_alternation(error):
            return self.replace(alternating=True)
        if error.status not in _FORM_REFUSED:
            return None
        said = str(error).lower()
        if "reasoning_effort" in said or "reasoningeffort" in said:
            if self.effort == "" and "tools" in said and "none" in said:
                return self.replace(effort="none")
            return self.replace(effort="never") if self.effort == "none" else None
        if "thought_signature" in said and "missing" in said:
            return None if self.signatures else self.replace(signatures=True)
        if "reasoning" in said and self.returns:
            if any(words in said for words in _MISSING):
                return None if self.reasoning else self.replace(reasoning=True)
            if any(words in said for words in _UNKNOWN):
                return self.replace(returns=False, reasoning=False)
        return None

    def note(self, model: str) -> str | None:
        """What the user should know of the requests, in a sentence."""
        if self.effort != "none":
            return None
        return f"{model} has tools over Chat Completions only without reasoning: it is asked not to reason"


def demands_of(model: str, api_base: str | None) -> Demands:
    """What is known of a model by its name, before anything was sent."""
    vendor = vendor_of(model) or CUSTOM
    name = real_name(model).rpartition("/")[2].lower()
    service = not (vendor.local and vendor.prefix)  # a local server's template takes what it is given
    thinks = bool(_THINKING.search(name)) and "instruct" not in name
    silent = vendor.prefix in ("openai", "") and model_facts(model).tools_without_reasoning
    return Demands(
        alternating=alternates(model, api_base),
        effort="none" if silent else "",
        reasoning=thinks and service and not vendor.strict,
        signatures=vendor.prefix in ("gemini", "openai", "") and bool(_SIGNING.search(name)),
        returns=not vendor.strict,
        id_length=vendor.call_id_length,
        longest_id=vendor.longest_call_id,
    )
