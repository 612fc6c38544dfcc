"""Quirks: how requests to one vendor or model differ from what the wire would send. A new one has its place here alone.

A vendor's table in `vendors.toml` names its quirks, and so may one in the user's settings; others are known by the name
of a model (`endpoint.quirks_of`) or learned from how a server refuses a request (`learning.py`). Quirks change the
bytes on the wire, never the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from codelet import prompt
from codelet.messages import Message, assistant, kind_of, user
from codelet.record import Record

NO_REASONING = " "
"""What stands where a model gave no reasoning. An empty text serves at DeepSeek, but Kimi takes it for none."""

SUMMARIES = {"google": {"thinking_config": {"include_thoughts": True}}}
"""What asks Google's models for summaries of their thoughts; they come in tags, at the start of the text."""

UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""What Google's documentation names for calls that none of its models made."""

_SIGNED = {"extra_content", "provider_specific_fields"}
SEPARATOR = "\n\n"
"""What stands between two texts that go out as one message."""

_SHORT_PROMPT = 4_000
"""Characters of a prompt that a local server may as well read twice."""

Joint = Literal["apart", "joined", "after_user", "after_assistant"]
"""How a message follows another: on its own, as a part of it, or behind a message that stands in."""


EffortField = Literal["reasoning_effort", "reasoning", "thinking", "chat_template_kwargs"]
"""The field of a Chat Completions request that an effort stands in."""


Structured = Literal["always", "alone", "never"]
"""Which requests hold the schema that the final answer has to meet: all, those without tools, none."""


class Quirks(Record):
    """The quirks of one vendor or model. Their names are those that a settings file may use.

    `alternating`: user and assistant have to take turns. `usage_option`: usage has to be asked for.
    `max_output_option`: the name of the output limit. `call_id_length`, `longest_call_id`: how long a call's id must
    be, or may be. `strict`: a message may have no field beyond OpenAI's own, so what came beside a text or a call,
    such as reasoning, does not go back. `reasoning`: every assistant message needs `reasoning_content`, a stand-in
    if there is none. `signatures`: a message with calls needs a thought signature on the first of them. `effort`:
    the `reasoning_effort` of requests with tools; "never" once a server has refused it. `effort_field`: where the
    effort goes that a user asks for; with "thinking" only that none is wanted goes there. `structured`: whether
    requests hold the schema of the final answer, or only those without tools. `cache_marks`: only what a request marks
    with `cache_control` is cached. `keeps_thinking`: earlier reasoning is used only where a request says to keep it.
    `images`: pictures reach the model. `prefix_bound`: reasoning is valid only after the very prefix that it was made
    with; `drops_thinking`: the server has refused some for that. `summaries`: it shows what it thinks where a
    request asks for it. What only one API has: `cache_key`, `encrypted_reasoning` (Responses).
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
        """The fields that end the body of a Chat Completions request."""
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
        if (effort := self.reasoning_effort(tools=tools)) is not None:
            options["reasoning_effort"] = effort
        return options

    def reasoning_effort(self, *, tools: bool) -> str | None:
        """Return what a request says of its effort, or None if it says nothing."""
        return "none" if tools and self.effort == "none" else None

    def call_id(self, call_id: str) -> str:
        """A call's id as the server takes it: one that came from elsewhere may be too long for it, or too short."""
        exact, most = self.call_id_length, self.longest_call_id
        if exact is None and (most is None or len(call_id) <= most):
            return call_id
        if exact is not None and len(call_id) == exact and call_id.isascii() and call_id.isalnum():
            return call_id
        from hashlib import sha256  # only after a switch of models, or for an id that was made here

        return sha256(call_id.encode("utf-8", "replace")).hexdigest()[: exact or most]

    def completed(self, wire: dict[str, Any]) -> dict[str, Any]:
        """The message with what has to stand in it though the model did not send it."""
        if wire["role"] != "assistant":
            return wire
        if self.reasoning and "reasoning_content" not in wire and "reasoning_details" not in wire:
            wire["reasoning_content"] = wire.pop("reasoning", NO_REASONING)
        calls = wire.get("tool_calls")
        if self.signatures and calls and not any(_SIGNED & call.keys() for call in calls):
            wire["tool_calls"] = [{**calls[0], "extra_content": UNSIGNED}, *calls[1:]]
        return wire

    def note(self, model: str, effort: str | None = None) -> str | None:
        """Return what the user, who asked for this effort, should know of the requests, in a sentence."""
        if self.effort != "none":
            return None
        vendor, slash, name = model.partition("/")
        way = f"{vendor}/responses/{name.removeprefix('chat/')}" if slash else f"openai/responses/{model}"
        silent = f"{model} has tools over Chat Completions only without reasoning: it is asked not to reason"
        unsent = "" if effort in (None, "none") else f"the effort {effort!r} is not sent: "
        return f"{unsent}{silent}; over {way} it may"


def joint_of(message: Message, before: str) -> Joint:
    """Return how `message` follows one of the role `before` ("" if there is none), where roles have to alternate.

    The chat templates of many models refuse two user messages in a row, and a user message after a tool's. Reminders
    are messages of their own, and a stopped turn ends with tool results: so user messages in a row become one,
    reminders become part of the tool result before them, and a short message stands in for a missing turn. Text is only
    ever added at the end of the last message, so what has been sent stays a prefix of what is sent next.
    """
    if message["role"] == "user":
        if before == "user" or (before == "tool" and kind_of(message) == "reminder"):
            return "joined"
        return "after_assistant" if before == "tool" else "apart"
    if message["role"] == "assistant" and before in ("", "assistant"):
        return "after_user"
    return "apart"


def prompt_last(messages: Sequence[Message], tail: int) -> Sequence[Message]:
    """The messages with the `tail` of volatile reminders before the prompt that they stand behind, for a local server.

    Small models answer what they read last. The next request has the reminders elsewhere, so from the prompt on nothing
    is in the server's cache then: a long prompt stays where it is.
    """
    last = len(messages) - tail - 1
    if tail == 0 or last < 0 or kind_of(messages[last]) != "prompt":
        return messages
    if len(messages[last]["content"] or "") > _SHORT_PROMPT:
        return messages
    return [*messages[:last], *messages[last + 1 :], messages[last]]


def stand_in(joint: Joint) -> Message | None:
    """The message that goes out first where someone's turn is missing; None if no one's is."""
    if joint == "after_user":
        return user(prompt.NO_PROMPT)
    return assistant(prompt.NO_ANSWER) if joint == "after_assistant" else None
