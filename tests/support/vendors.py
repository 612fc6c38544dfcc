"""Each vendor's refusals, as rules that a scripted server applies before it answers: a new rule is one row.

A rule reads a request's body and gives the vendor's complaint, or None. The wordings are the vendors' own, as users met
them. `DIALECTS` holds one entry for each vendor of the catalogue, and one for OpenAI's Responses: a model, how it
answers, and its rules.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.support import vendor_claude, vendor_openrouter, vendor_responses, vendor_strict
from tests.support.script import Call, HttpError, Reply
from tests.support.server import Recorded
from tests.support.templates import gemma

Body = dict[str, Any]
Check = Callable[[Body], str | None]

CHAT_FIELDS = frozenset(
    "model messages tools tool_choice stream stream_options max_tokens max_completion_tokens reasoning_effort".split()
)
RESPONSES = "openai responses"
MESSAGE_FIELDS = frozenset("role content tool_calls tool_call_id name".split())


@dataclass(frozen=True)
class Rule:
    """One thing that a vendor refuses."""

    check: Check
    status: int = 400


@dataclass(frozen=True)
class Dialect:
    """A vendor: its model, the extra fields of its answers, and its refusals.

    `reasoning` is the field of its reasoning, "details" for OpenRouter's, "blocks" for Claude's, "" for none; `signed`
    puts a thought signature on each first call. `litellm` is the model's name for litellm where its own protocol is
    another one; `native_only` where litellm cannot keep these rules.
    """

    model: str
    rules: Sequence[Rule]
    reasoning: str = ""
    signed: bool = False
    ids: str = "call_{}"
    litellm: str | None = None
    native_only: bool = False

    def mark(self, number: int) -> str:
        """The vendor's mark in extra fields of an answer: no other vendor may receive it."""
        return f"secret-of-{self.model.replace('/', '-')}-{number}"

    def dressed(self, reply: Reply, number: int, body: Body) -> Reply:
        """The reply to a request with what this vendor sends with it."""
        calls = [replace(call, id=self.ids.format(f"{number}{at}")) for at, call in enumerate(reply.calls)]
        if self.signed and calls:
            calls[0] = replace(calls[0], extra={"extra_content": {"google": {"thought_signature": self.mark(number)}}})
        reply = replace(reply, calls=calls)
        if self.reasoning == "details":
            detail = {"type": "reasoning.encrypted", "data": self.mark(number), "id": f"r{number}", "index": 0}
            return replace(reply, details=[detail])
        if self.reasoning == "blocks":
            return vendor_claude.signed(reply, body, self.mark(number))
        if self.reasoning:
            return replace(
                reply, reasoning=self.mark(number), reasoning_field=self.reasoning, signature=self.mark(number)
            )
        return reply

    def script(self, replies: Sequence[Reply | HttpError]) -> Callable[[Recorded], Reply | HttpError]:
        """Answers that are given one after the other, each only to a request that the vendor takes."""
        taken: list[int] = []

        def answer(request: Recorded) -> Reply | HttpError:
            body = request.json
            for rule in self.rules:
                complaint = rule.check(body)
                if complaint is not None:
                    return HttpError(rule.status, complaint)
            taken.append(request.number)
            reply = replies[len(taken) - 1]
            return reply if isinstance(reply, HttpError) else self.dressed(reply, len(taken), body)

        return answer


def assistants(body: Body) -> list[tuple[int, Body]]:
    return [(at, message) for at, message in enumerate(body["messages"]) if message["role"] == "assistant"]


def known_roles(body: Body) -> str | None:
    odd = [
        message["role"]
        for message in body["messages"]
        if message["role"] not in ("system", "user", "assistant", "tool")
    ]
    return f"Invalid value: '{odd[0]}'" if odd else None


def paired(body: Body) -> str | None:
    """Results follow their calls immediately, one for each."""
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
            )
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    return None


def valid_arguments(body: Body) -> str | None:
    for _, message in assistants(body):
        for call in message.get("tool_calls") or ():
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return "Invalid function arguments"
    return None


def top_fields(wording: str, allowed: frozenset[str] = CHAT_FIELDS) -> Check:
    def check(body: Body) -> str | None:
        odd = sorted(body.keys() - allowed)
        return wording.format(odd[0]) if odd else None

    return check


def without(wording: str, *names: str) -> Check:
    """Options that the vendor does not take."""

    def check(body: Body) -> str | None:
        odd = [name for name in names if name in body]
        return wording.format(odd[0]) if odd else None

    return check


def message_fields(wording: str) -> Check:
    """Messages, and calls in them, with no field but OpenAI's own."""

    def check(body: Body) -> str | None:
        for at, message in enumerate(body["messages"]):
            odd = sorted(message.keys() - MESSAGE_FIELDS)
            for call in message.get("tool_calls") or ():
                odd += sorted(call.keys() - {"id", "type", "function", "index"})
            if odd:
                return wording.format(at=at, role=message["role"], name=odd[0])
        return None

    return check


def effort_with_tools(body: Body) -> str | None:
    if body.get("tools") and body.get("reasoning_effort") != "none":
        return (
            f"Function tools with reasoning_effort are not supported for {body['model']} in /v1/chat/completions. "
            "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        )
    return None


def always_thinks(body: Body) -> str | None:
    if body.get("reasoning_effort") == "none":
        return "Unsupported value: 'reasoning_effort' does not support 'none' with this model."
    return None


def short_ids(body: Body) -> str | None:
    for at, message in assistants(body):
        for number, call in enumerate(message.get("tool_calls") or ()):
            if len(call["id"]) > 40:
                return (
                    f"Invalid 'messages[{at}].tool_calls[{number}].id': string too long. Expected a string with "
                    f"maximum length 40, but got a string with length {len(call['id'])} instead."
                )
    return None


def nine_letters(body: Body) -> str | None:
    for _, message in assistants(body):
        for call in message.get("tool_calls") or ():
            if not re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"]):
                return f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
    return None


def no_user_after_tool(body: Body) -> str | None:
    roles = [message["role"] for message in body["messages"]]
    if ("tool", "user") in itertools.pairwise(roles):
        return "Unexpected role 'user' after role 'tool'"
    return "Expected last role User or Tool for serving but got assistant" if roles[-1] == "assistant" else None


def signed(body: Body, own: str = "secret-of-gemini") -> str | None:
    """Signatures are this vendor's own, or the one that its documentation has for calls of others."""
    for at, message in assistants(body):
        calls = message.get("tool_calls")
        if not calls:
            continue
        google = (calls[0].get("extra_content") or {}).get("google") or {}
        signature = google.get("thought_signature")
        if not signature:
            return (
                f"Function call is missing a thought_signature in functionCall parts. Additional data, position {at}."
            )
        if signature != "skip_thought_signature_validator" and not signature.startswith(own):
            return "Thought signature is not valid"
    return None


def reasoning_on_all(body: Body) -> str | None:
    for _, message in assistants(body):
        if not isinstance(message.get("reasoning_content"), str):
            return "The `reasoning_content` in the thinking mode must be passed back to the API."
    return None


def reasoning_on_calls(body: Body) -> str | None:
    """An empty text counts as none."""
    for at, message in assistants(body):
        if message.get("tool_calls") and not message.get("reasoning_content"):
            return f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
    return None


def reasoning_behind_a_gateway(body: Body) -> str | None:
    for at, message in assistants(body):
        told = [message.get(name) for name in ("reasoning_content", "reasoning", "reasoning_details")]
        if message.get("tool_calls") and not any(told):
            return f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
    return None


def model_with_maker(body: Body) -> str | None:
    return None if "/" in body["model"] else f"{body['model']} is not a valid model ID"


def fireworks_name(body: Body) -> str | None:
    return None if body["model"].startswith("accounts/") else "Model not found, inaccessible, and/or not deployed"


def template(body: Body) -> str | None:
    """A strict one; results in a row are one user's turn, as one message with calls has several."""
    messages = body["messages"]
    kept = [m for at, m in enumerate(messages) if m["role"] != "tool" or messages[at - 1]["role"] != "tool"]
    return gemma(kept)


CHAT = (Rule(known_roles), Rule(paired), Rule(valid_arguments))
CLAUDE = (Rule(vendor_claude.fields), Rule(vendor_claude.blocks))
LOCAL = (*CHAT, Rule(template, 500))

DIALECTS: dict[str, Dialect] = {
    "anthropic": Dialect(
        "anthropic/claude-sonnet-5-5",
        (*CLAUDE, Rule(vendor_claude.thinking), Rule(vendor_claude.prefix)),
        reasoning="blocks",
        ids="toolu_{}",
    ),
    "anthropic, before 5.5": Dialect(
        "anthropic/claude-opus-4-8",
        (*CLAUDE, Rule(vendor_claude.thinking), Rule(vendor_claude.thinking_first), Rule(vendor_claude.order)),
        reasoning="blocks",
        ids="toolu_48_{}",
    ),
    "openai": Dialect(
        "openai/gpt-6.2-sol",
        (
            *CHAT,
            Rule(top_fields("Unrecognized request argument supplied: {}")),
            Rule(without("Unsupported parameter: '{}' is not supported with this model.", "max_tokens")),
            Rule(always_thinks),
            Rule(short_ids),
        ),
    ),
    "openai, told not to think": Dialect(
        "openai/gpt-5.6",
        (
            *CHAT,
            Rule(top_fields("Unrecognized request argument supplied: {}")),
            Rule(without("Unsupported parameter: '{}' is not supported with this model.", "max_tokens")),
            Rule(effort_with_tools),
            Rule(short_ids),
        ),
    ),
    RESPONSES: Dialect(
        "openai/responses/gpt-5.6",
        (
            Rule(top_fields("Unknown parameter: '{}'.", vendor_responses.FIELDS)),
            *map(Rule, vendor_responses.checks("secret-of-openai-responses")),
        ),
        reasoning="reasoning_content",
        native_only=True,
    ),
    "gemini": Dialect(
        "gemini/gemini-3.8-flash",
        (
            *CHAT,
            Rule(
                top_fields(
                    'Invalid JSON payload received. Unknown name "{}": Cannot find field.', CHAT_FIELDS | {"extra_body"}
                )
            ),
            Rule(signed),
        ),
        signed=True,
        litellm="openai/gemini-3.8-flash",
    ),
    "openrouter": Dialect(
        "openrouter/moonshotai/kimi-k3",
        (*CHAT, Rule(model_with_maker), Rule(reasoning_behind_a_gateway)),
        reasoning="details",
        native_only=True,  # litellm drops pieces with nothing but details
    ),
    "openrouter, Claude": Dialect(
        "openrouter/anthropic/claude-sonnet-5.5",
        (*CHAT, Rule(model_with_maker), Rule(vendor_openrouter.cache_marks)),
        reasoning="details",
        native_only=True,  # litellm marks nothing by itself
    ),
    "openrouter, Qwen": Dialect(
        "openrouter/qwen/qwen3.8-max",
        (*CHAT, Rule(model_with_maker), Rule(vendor_openrouter.cache_marks)),
        reasoning="details",
        native_only=True,
    ),
    "deepseek": Dialect("deepseek/deepseek-v4-pro", (*CHAT, Rule(reasoning_on_all)), reasoning="reasoning_content"),
    "moonshot": Dialect(
        "moonshot/kimi-k3.1-pro",
        (*CHAT, Rule(reasoning_on_calls)),
        reasoning="reasoning_content",
        ids="functions.read:{}",
    ),
    "xai": Dialect(
        "xai/grok-4.7",
        (
            *CHAT,
            Rule(without("Model grok-4.7 does not support parameter reasoningEffort.", "reasoning_effort")),
            Rule(without("Argument not supported on this model: {}", "presence_penalty", "frequency_penalty", "stop")),
        ),
        reasoning="reasoning_content",
    ),
    "xai, Responses": Dialect(
        "xai/responses/grok-4.7",
        (
            Rule(top_fields("Argument not supported: {}", vendor_responses.FIELDS)),
            *map(Rule, vendor_responses.checks("secret-of-xai-responses")),
        ),
        reasoning="reasoning_content",
        native_only=True,
    ),
    "mistral": Dialect(
        "mistral/devstral-latest",
        (
            *CHAT,
            Rule(message_fields("messages.{at}.{role}.{name}: Extra inputs are not permitted"), 422),
            Rule(nine_letters),
            Rule(no_user_after_tool),
        ),
        ids="AbCdEf{:0>3}",
    ),
    "groq": Dialect(
        "groq/openai/gpt-oss-120b",
        (
            *CHAT,
            Rule(
                message_fields(
                    "'messages.{at}' : for 'role:{role}' the following must be satisfied"
                    "[('messages.{at}' : property '{name}' is unsupported)]"
                )
            ),
        ),
        reasoning="reasoning",
    ),
    "zai": Dialect(
        "zai/glm-5.3",
        (*CHAT, Rule(without("Invalid API parameter: {}", "max_completion_tokens", "presence_penalty"))),
        reasoning="reasoning_content",
        litellm="openai/glm-5.3",
    ),
    "minimax": Dialect(
        "minimax/MiniMax-M3",
        (Rule(vendor_claude.minimax_fields), Rule(vendor_claude.blocks), Rule(vendor_claude.minimax_thinking)),
        reasoning="reasoning_content",
        ids="call_function_{}",
        native_only=True,  # litellm has it over Chat Completions
    ),
    "dashscope": Dialect("dashscope/qwen3.8-max", CHAT, reasoning="reasoning_content", litellm="openai/qwen3.8-max"),
    "cerebras": Dialect(
        "cerebras/gpt-oss-120b",
        (
            *CHAT,
            Rule(
                without(
                    "{} is not supported",
                    *("frequency_penalty", "presence_penalty", "logit_bias", "parallel_tool_calls", "service_tier"),
                )
            ),
        ),
        reasoning="reasoning",
        litellm="openai/gpt-oss-120b",
    ),
    "together_ai": Dialect("together_ai/openai/gpt-oss-20b", (*CHAT, Rule(model_with_maker)), reasoning="reasoning"),
    "fireworks_ai": Dialect("fireworks_ai/glm-5p3-flash", (*CHAT, Rule(fireworks_name)), reasoning="reasoning_content"),
    "nvidia_nim": Dialect("nvidia_nim/openai/gpt-oss-120b", (*CHAT, Rule(model_with_maker))),
    "github": Dialect("github/openai/gpt-4.1", (*CHAT, Rule(model_with_maker))),
    "ollama": Dialect("ollama/qwen3", LOCAL, reasoning="reasoning", litellm="openai/qwen3"),
    "lm_studio": Dialect("lm_studio/qwen3", LOCAL, reasoning="reasoning_content"),
    "llamafile": Dialect("llamafile/qwen3", LOCAL, reasoning="reasoning_content"),
    "hosted_vllm": Dialect("hosted_vllm/qwen3", LOCAL, reasoning="reasoning"),
}

for name, checks in vendor_strict.CHECKS.items():
    DIALECTS[name] = replace(DIALECTS[name], rules=(*DIALECTS[name].rules, *map(Rule, checks)))

READ = Call("", "read", {"path": "notes.txt"})
GREP = Call("", "grep", {"pattern": "needle", "path": "."})
