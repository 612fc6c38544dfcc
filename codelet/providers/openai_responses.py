"""The native wire for OpenAI's Responses.

Source: OpenAI's API reference for `POST /responses` with `stream: true`. The server stores nothing (`store: false`):
the whole list goes out each time, and an answer's encrypted reasoning goes back before its text and calls. Models with
explicit caching get the four marks that are written ("Prompt caching"): after the system prompt, which then is the
first input item, and at the ends of the last requests, so that a resumed conversation finds its prefix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codelet.messages import Message, ToolCall, answer_parts, assistant, kind_of
from codelet.providers.endpoint import Endpoint
from codelet.providers.facts import model_facts
from codelet.providers.native import OpenAIWire, compact_json
from codelet.providers.protocol import ProviderOptions, Request

if TYPE_CHECKING:
    from codelet.providers.answer import Decoder

_LEAST_OUTPUT = 16  # the API's minimum
_NO_OUTPUT = "(no output)"
_MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


class OpenAIResponsesProvider(OpenAIWire):
    """A model at a server with OpenAI's Responses."""

    path = "/responses"
    answer_form = "text"
    api = "responses"
    checks_prefix = False
    _effort_field = "reasoning"
    _text_type = "input_text"
    _cache_mark = _MARK

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions) -> None:
        name = endpoint.model_name(model)
        super().__init__(model, endpoint, options, origin=f"responses:{endpoint.base}#{name}")
        facts = model_facts(model)
        self._key = ""
        self.quirks = self.quirks.replace(
            cache_marks=facts.cache_marks,
            alternating=self.quirks.alternating and not facts.cache_marks,
            cache_key=True,
            encrypted_reasoning=facts.reasons or not facts.known,
            summaries=facts.reasons,
        )

    def body(self, request: Request) -> bytes:
        """The request's body: the constant part first, then the messages, then the options."""
        head = b'{"model":' + compact_json(self._endpoint.model_name(self.model))
        if request.tools:
            head += b',"tools":' + compact_json([_tool(tool["function"]) for tool in request.tools])
        opening = b""
        if request.system and self.quirks.cache_marks:  # only input can carry a mark
            part = {"type": "input_text", "text": request.system, **_MARK}
            opening = compact_json({"role": "developer", "content": [part]}) + b","
        elif request.system:
            head += b',"instructions":' + compact_json(request.system)
        options: dict[str, Any] = {"stream": True, "store": False}
        if self.quirks.cache_key:
            self._key = options["prompt_cache_key"] = self._key or _key_of(request)
        if self.quirks.encrypted_reasoning:
            options["include"] = ["reasoning.encrypted_content"]
        if self.quirks.summaries:
            options["reasoning"] = {"summary": "auto"}
        if (effort := self._effort_fields().get("reasoning")) is not None:
            options["reasoning"] = {**options.get("reasoning", {}), **effort}
        options |= self._answer_fields(request)
        if request.max_output is not None:
            options["max_output_tokens"] = max(_LEAST_OUTPUT, request.max_output)
        if self.quirks.images:
            self._look(request.messages)
        fragments = self._cache.fragments(request.messages if self.quirks.cache_marks else self._ordered(request))
        if self.quirks.cache_marks:
            options["prompt_cache_options"] = {"mode": "explicit"}
            self._mark(fragments, request.messages[: len(request.messages) - request.tail], has_opening=bool(opening))
        closing = self._closing(self._cache.state) + b"]," + compact_json(options)[1:]
        return b"".join([head, b',"input":[', opening, *fragments, closing])

    def share_cache(self, key: str, end: str) -> None:
        """Send this key instead of the conversation's own."""
        self._key = key

    def _items(self, message: Message) -> list[dict[str, Any]]:
        if message["role"] == "tool":
            call_id = self.quirks.call_id(message.get("tool_call_id", ""))
            output = self._content(message, _NO_OUTPUT)
            return [{"type": "function_call_output", "call_id": call_id, "output": output}]
        if message["role"] != "assistant":
            return [{"role": message["role"], "content": self._content(message)}]
        return self._answer(message)

    def _content(self, message: Message, empty: str = "") -> str | list[dict[str, Any]]:
        """The content, its text last; only text in a list can carry a mark."""
        text = message["content"] or empty
        if not self.quirks.cache_marks and not self._in_parts(message):
            return text
        return [*(self._pictures(message) if "images" in message else ()), {"type": "input_text", "text": text}]

    def _pictures(self, message: Message) -> list[dict[str, Any]]:
        from codelet.providers.content.picture_forms import responses_parts

        return responses_parts(message)

    def _answer(self, message: Message) -> list[dict[str, Any]]:
        """An assistant message as items; the server's own items keep their ids.

        Reasoning without a following item is left out: the server refuses it.
        """
        own = message.get("origin") == self.origin
        inline = message.get("inline_reasoning", "") if own else ""
        own = own and not self.quirks.strict
        if not own:
            message = {**assistant(message["content"]), "tool_calls": message.get("tool_calls", [])}
        items: list[dict[str, Any]] = []
        reasoning: list[dict[str, Any]] = []
        for block, content in answer_parts(message):
            if content is None:
                reasoning += [block] if block.get("type") == "reasoning" else []
                continue
            if isinstance(content, str):
                written, inline = inline + content, ""
                found = [_text(written, block)] if written else []
            else:
                found = [self._call(content, block)]
            if found:
                items += [*(reasoning if len(block) > 1 else ()), *found]  # only before the server's own items
                reasoning = []
        return items

    def _call(self, call: ToolCall, item: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        own = {name: item[name] for name in ("id", "status") if name in item}
        called = {"call_id": self.quirks.call_id(call["id"]), "name": function["name"]}
        return {"type": "function_call", **own, **called, "arguments": function["arguments"]}

    def _decoder(self) -> Decoder:
        from codelet.providers.openai_responses_decode import ResponseDecoder

        return ResponseDecoder()


def _key_of(request: Request) -> str:
    """The conversation's cache key: a checksum of its beginning, so that a resumed one has the same key.

    A collision is harmless: the server compares the prompts.
    """
    from zlib import crc32

    first = next((message["content"] for message in request.messages if kind_of(message) == "prompt"), "") or ""
    return "".join(f"{crc32(text.encode('utf-8', 'replace')):08x}" for text in (request.system, first))


def _tool(function: dict[str, Any]) -> dict[str, Any]:
    """A tool in this API's form. `strict` defaults to true there, which restricts schemas."""
    return {
        "type": "function",
        "name": function["name"],
        "description": function["description"],
        "parameters": function["parameters"],
        "strict": False,
    }


def _text(text: str, item: dict[str, Any]) -> dict[str, Any]:
    """An assistant's text: the server's own item if it has an id, else plain text."""
    phase = {"phase": item["phase"]} if "phase" in item else {}
    if "id" not in item:
        return {"role": "assistant", "content": text, **phase}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    own = {"type": "message", "id": item["id"], "role": "assistant", "status": item.get("status", "completed")}
    return {**own, "content": content, **phase}
