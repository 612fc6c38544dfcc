"""The native wire for Anthropic's Messages.

Source: Anthropic's API reference for `POST /v1/messages` with `stream: true`, prompt caching, and extended thinking.
Cache marks: on the system prompt (which covers the tools), on the last block before the volatile reminders, and on the
last request's mark, so that a step with many results still finds its prefix.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from codelet import prompt
from codelet.messages import Message, answer_parts, images_of
from codelet.providers import protocol
from codelet.providers.catalog import holds
from codelet.providers.endpoint import Endpoint
from codelet.providers.facts import model_facts
from codelet.providers.native import NativeProvider, compact_json
from codelet.providers.protocol import as_count, as_text, json_value, value_at
from codelet.usage import Usage

_VERSION = "2023-06-01"
_DEFAULT_MAX_OUTPUT = 8_192
_THINKING_MAX_OUTPUT = 32_000  # includes thinking; the context's budget keeps as much free
_MARK = {"cache_control": {"type": "ephemeral"}}
_LONG_MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
"""For tools and system prompt: small, the same in each session, and still cached after five minutes."""
_MARK_BYTES = b"," + compact_json(_MARK)[1:]


class AnthropicProvider(NativeProvider):
    """A model at a server with Anthropic's Messages."""

    api = "messages"

    def __init__(self, model: str, endpoint: Endpoint, options: protocol.ProviderOptions) -> None:
        own = endpoint.vendor.prefix == "anthropic" and endpoint.base.endswith("://api.anthropic.com")
        super().__init__(model, endpoint, options, origin="anthropic" if own else f"anthropic:{endpoint.base}")
        self.decoder = MessageDecoder
        self._last_mark = -1
        self._shared_end = ""
        self._offered: Sequence[dict[str, Any]] = ()
        self.path = "/messages" if endpoint.base.endswith("/v1") else "/v1/messages"
        self._own = own
        self._hides = own and holds("hides", model)
        self._hides_if_asked = own and holds("hides_if_asked", model)
        self._max_output = _DEFAULT_MAX_OUTPUT
        if options.effort is not None:
            self._ask_effort("adaptive")
            most = model_facts(model).max_output
            if most is not None and options.effort != "none":
                self._max_output = min(most, _THINKING_MAX_OUTPUT)

    def body(self, request: protocol.Request) -> bytes:
        model, head, offered = b'{"model":' + compact_json(self._endpoint.model_name(self.model)), b"", request.tools
        if not offered and any(message["role"] == "tool" for message in request.messages):
            offered = self._offered  # a list with calls in it is refused without tools
        self._offered = offered
        if offered:
            head += b',"tools":' + compact_json([_tool(tool["function"]) for tool in offered])
        if request.system:
            mark = _LONG_MARK if self._own else _MARK
            head += b',"system":' + compact_json([{"type": "text", "text": request.system, **mark}])
        options = {"max_tokens": request.max_output or self._max_output, "stream": True, **self._effort_fields()}
        for name, value in self._answer_fields(request).items():
            options[name] = {**options.get(name, {}), **value}
        if offered and not request.tools:
            options["tool_choice"] = {"type": "none"}
        if self._hides:
            options.setdefault("thinking", {"type": "adaptive"})  # its default
        if (self._hides or self._hides_if_asked) and options.get("thinking", {}).get("type") == "adaptive":
            options["thinking"] = {**options["thinking"], "display": "summarized"}  # else the API omits its text
        fragments = self._cache.fragments(request.messages, head)
        self._mark(fragments, len(request.messages) - request.tail)
        roles = [b"assistant" if message["role"] == "assistant" else b"user" for message in request.messages]
        pairs = [(role, blocks) for role, blocks in zip(roles, fragments, strict=True) if blocks]
        runs = [
            b'{"role":"%s","content":[%s]}' % (role, b",".join(map(itemgetter(1), run)))
            for role, run in groupby(pairs, itemgetter(0))
        ]
        return b"".join([model, head, b',"messages":[', b",".join(runs), b"],", compact_json(options)[1:]])

    def share_cache(self, key: str, end: str) -> None:
        """Mark the shared part of the prompt, in a separate block."""
        self._shared_end = end

    def _mark(self, fragments: list[bytes], stable: int) -> None:
        here = stable - 1
        while here > 0 and not fragments[here]:
            here -= 1
        for place in {here, self._last_mark}:
            if 0 <= place < stable and fragments[place]:
                fragments[place] = fragments[place][:-1] + _MARK_BYTES
        self._last_mark = here

    def _encode(self, message: Message) -> bytes:
        return b",".join(map(compact_json, self._blocks(message)))

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        message = self._without_refused(message)
        for each in images_of(message):
            data = {"type": "base64", "media_type": each["media_type"], "data": each["data"]}
            blocks.append({"type": "image", "source": data})
        text = message["content"] or ""
        if message["role"] == "tool":
            call_id = _call_id(message.get("tool_call_id", ""))
            shown = [*blocks, {"type": "text", "text": text}] if blocks else text or prompt.NO_OUTPUT
            result = {"type": "tool_result", "tool_use_id": call_id, "content": shown}
            return [{**result, "is_error": True} if message.get("failed") else result]
        if message["role"] == "user":
            shared, end, text = text.rpartition(self._shared_end) if self._shared_end else ("", "", text)
            blocks += [{"type": "text", "text": shared + end, **_MARK}] if end else []
            return [*blocks, {"type": "text", "text": text}] if text.strip() else blocks
        own = message.get("origin") == self.origin
        inline = message.get("inline_reasoning", "") if own else ""
        for block, content in answer_parts(message):
            if isinstance(content, str):
                written, inline = inline + content, ""  # part of the first text
                blocks += [{"type": "text", "text": written}] if written.strip() else []
            elif content is not None:
                function, given = content["function"], json_value(content["function"]["arguments"])
                given = given if isinstance(given, dict) else {}  # a foreign list may hold anything
                call_id = _call_id(content["id"])
                blocks.append({"type": "tool_use", "id": call_id, "name": function["name"], "input": given})
            elif own:
                blocks.append(block)
        while blocks and blocks[-1]["type"] not in ("text", "tool_use"):
            del blocks[-1]  # thinking may not come last
        return blocks

    def _headers(self) -> dict[str, str]:
        endpoint, headers = self._endpoint, {"anthropic-version": _VERSION}
        if endpoint.key is None or endpoint.key_from in endpoint.vendor.bearer_names:
            return headers | super()._headers()
        return {**headers, "x-api-key": endpoint.key}


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    return {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}


def _call_id(call_id: str) -> str:
    """Other vendors' ids may contain characters that this API refuses."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)


_FINISH: dict[str, protocol.FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "paused",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class MessageDecoder(protocol.Decoder):
    """The decoder for Messages; holds the open thinking block and the usage so far."""

    last_events = frozenset({"message_stop"})

    def __init__(self) -> None:
        self._thinking: dict[str, Any] | None = None
        self._thoughts: list[str] = []
        self._input: dict[str, int] = {}

    def decode(self, event: dict[str, Any]) -> list[protocol.Chunk]:
        index, part = event.get("index", 0), event.get("content_block") or event.get("delta") or {}
        match event.get("type"), part.get("type"):
            case "message_start", _:
                return [self._usage(event.get("message") or {})]
            case "content_block_start", "tool_use":
                call = protocol.ToolCallChunk(index=index, id=as_text(part.get("id")), name=as_text(part.get("name")))
                return [protocol.BlockChunk("tool_use"), call]
            case "content_block_start", "thinking" | "redacted_thinking":
                self._thinking, self._thoughts = dict(part), []
                return [protocol.BlockChunk("silent")]
            case "content_block_start", "text":
                text = as_text(part.get("text"))
                return [protocol.BlockChunk("text"), *([protocol.TextChunk(text)] if text else ())]
            case "content_block_delta", "text_delta":
                return [protocol.TextChunk(as_text(part.get("text")))]
            case "content_block_delta", "input_json_delta":
                return [protocol.ToolCallChunk(index=index, arguments=as_text(part.get("partial_json")))]
            case "content_block_delta", "thinking_delta" if self._thinking is not None:
                self._thoughts.append(as_text(part.get("thinking")))
                return [protocol.ReasoningChunk(text=self._thoughts[-1])]
            case "content_block_delta", "signature_delta" if self._thinking is not None:
                self._thinking["signature"] = self._thinking.get("signature", "") + as_text(part.get("signature"))
            case "content_block_stop", _ if self._thinking is not None:
                block, self._thinking = self._thinking, None
                if self._thoughts:
                    block["thinking"] = block.get("thinking", "") + "".join(self._thoughts)
                return [protocol.ReasoningChunk(block=block)]
            case "message_delta", _:
                reason = part.get("stop_reason")
                finish = [protocol.FinishChunk(_FINISH.get(reason, "stop"))] if reason else []
                return [self._usage(event), *finish]
            case "error", _:
                raise protocol.ErrorEvent(event.get("error") or {})
        return []

    def _usage(self, report: dict[str, Any]) -> protocol.UsageChunk:
        """Later reports replace the fields they name; input is the sum of its three parts."""
        if isinstance(reported := report.get("usage"), dict):
            self._input.update({name: as_count(value) for name, value in reported.items() if value is not None})
            if isinstance(cached := reported.get("cache_creation"), dict):
                self._input["hour"] = as_count(cached.get("ephemeral_1h_input_tokens"))
        get = self._input.get
        read, write = get("cache_read_input_tokens", 0), get("cache_creation_input_tokens", 0)
        total = get("input_tokens", 0) + read + write
        usage = Usage(total_input=total, cache_read=read, cache_write=write, output=get("output_tokens", 0))
        changes = report.get("input_transformations")
        kinds = [value_at(change, "type") for change in changes] if isinstance(changes, list) else []
        hour = min(get("hour", 0), write)
        return protocol.UsageChunk(usage.replace(cache_write_hour=hour), kinds.count("thinking_dropped"))
