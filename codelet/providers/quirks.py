"""Quirks: how requests to a vendor or model differ from the wire's usual form. Each new one belongs here.

A vendor's table in `vendors.toml` names its quirks, and so can one in the user's settings; others follow from a model's
name (`endpoint.quirks_of`) or a refusal (`NativeProvider.learn`). Quirks change the bytes on the wire, never the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from codelet import prompt
from codelet.messages import Message, assistant, images_of, kind_of, user
from codelet.record import Record

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


_SEPARATOR = "\n\n"
_SHORT_PROMPT = 4_000
"""Characters of a prompt that a local server can read twice."""


class Turns:
    """Makes user and assistant take turns. A longer list gives the same objects again, which stay encoded.

    Many chat templates refuse two user messages in a row, and a user message after a tool's. Reminders are separate
    messages, and a stopped turn ends with results: so user messages in a row become one, reminders become part of the
    result before them, and a short message fills a missing turn.
    """

    def __init__(self) -> None:
        self._no_prompt, self._no_answer = user(prompt.NO_PROMPT), assistant(prompt.NO_ANSWER)
        self._joined: dict[tuple[int, ...], tuple[list[Message], Message]] = {}

    def of(self, messages: Sequence[Message]) -> list[Message]:
        runs: list[list[Message]] = []
        before = ""
        for message in messages:
            role = message["role"]
            if role == "user" and (before == "user" or (before == "tool" and kind_of(message) == "reminder")):
                runs[-1].append(message)
                continue
            if role == "user" and before == "tool":
                runs.append([self._no_answer])
            elif role == "assistant" and before in ("", "assistant"):
                runs.append([self._no_prompt])
            runs.append([message])
            before = role
        known, self._joined = self._joined, {}
        for run in runs:
            if len(run) > 1:
                key = tuple(map(id, run))
                self._joined[key] = known.get(key) or (run, _joined(run))
        return [run[0] if len(run) == 1 else self._joined[tuple(map(id, run))][1] for run in runs]


def _joined(run: Sequence[Message]) -> Message:
    joined = run[0].copy()
    joined["content"] = _SEPARATOR.join(message["content"] or "" for message in run)
    if images := [image for message in run for image in images_of(message)]:
        joined["images"] = images
    return joined


def prompt_last(messages: Sequence[Message], tail: int) -> Sequence[Message]:
    """The messages with the `tail` of volatile reminders before the prompt, for a local server.

    Small models answer what they read last. The next request has the reminders elsewhere, so the prompt is not cached:
    a long one stays in place.
    """
    last = len(messages) - tail - 1
    if tail == 0 or last < 0 or kind_of(messages[last]) != "prompt":
        return messages
    if len(messages[last]["content"] or "") > _SHORT_PROMPT:
        return messages
    return [*messages[:last], *messages[last + 1 :], messages[last]]
