"""The native wire for OpenAI's Responses.

Source: OpenAI's API reference for `POST /responses` with `stream: true`. The server stores nothing (`store: false`):
the whole list goes out each time, and an answer's encrypted reasoning goes back before its text and calls. Models with
explicit caching get the four marks that are written ("Prompt caching"): after the system prompt, which then is the
first input item, and at the ends of the last requests, so that a resumed conversation finds its prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codelet.errors import ProviderError
from codelet.messages import Message, ToolCall, answer_parts, assistant, images_of, kind_of
from codelet.providers import protocol
from codelet.providers.endpoint import Endpoint
from codelet.providers.facts import model_facts
from codelet.providers.native import OpenAIWire, address_of, compact_json
from codelet.providers.protocol import as_text, usage_of

_LEAST_OUTPUT = 16  # the API's minimum
_NO_OUTPUT = "(no output)"
_MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


class OpenAIResponsesProvider(OpenAIWire):
    """A model at a server with OpenAI's Responses."""

    path = "/responses"
    api = "responses"
    checks_prefix = False
    _effort_field = "reasoning"
    _cache_mark = _MARK

    def __init__(self, model: str, endpoint: Endpoint, options: protocol.ProviderOptions) -> None:
        name = endpoint.model_name(model)
        super().__init__(model, endpoint, options, origin=f"responses:{endpoint.base}#{name}")
        facts = model_facts(model)
        self.decoder = ResponseDecoder
        self._key = ""
        self.quirks = self.quirks.replace(
            cache_marks=facts.cache_marks,
            alternating=self.quirks.alternating and not facts.cache_marks,
            cache_key=True,
            encrypted_reasoning=facts.reasons or not facts.known,
            summaries=facts.reasons,
        )

    def body(self, request: protocol.Request) -> bytes:
        head = b'{"model":' + compact_json(self._endpoint.model_name(self.model))
        if request.tools:
            # `strict` defaults to true there, which restricts schemas.
            tools = [{"type": "function", **tool["function"], "strict": False} for tool in request.tools]
            head += b',"tools":' + compact_json(tools)
        opening = b""
        if request.system and self.quirks.cache_marks:  # only input can carry a mark
            part = {"type": "input_text", "text": request.system, **_MARK}
            opening = compact_json({"role": "developer", "content": [part]})
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
        if self.quirks.cache_marks:
            options["prompt_cache_options"] = {"mode": "explicit"}
        listed = self._listed(request, opening, head, has_mark=bool(opening))
        return b"".join([head, b',"input":[', listed, b"],", compact_json(options)[1:]])

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
        form = {"type": "input_image", "detail": "auto"}
        pictures = [{**form, "image_url": address_of(each)} for each in images_of(message)]
        return [*pictures, {"type": "input_text", "text": text}] if pictures or self.quirks.cache_marks else text

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
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        called = {"call_id": self.quirks.call_id(call["id"]), "name": name, "arguments": arguments}
        return {"type": "function_call", **_fields(item, "id", "status"), **called}


def _key_of(request: protocol.Request) -> str:
    """The conversation's cache key: a checksum of its beginning, so that a resumed one has the same key.

    A collision is harmless: the server compares the prompts.
    """
    from zlib import crc32

    first = next((message["content"] for message in request.messages if kind_of(message) == "prompt"), "") or ""
    return "".join(f"{crc32(text.encode('utf-8', 'replace')):08x}" for text in (request.system, first))


def _text(text: str, item: dict[str, Any]) -> dict[str, Any]:
    """An assistant's text: the server's own item if it has an id, else plain text."""
    phase = {"phase": item["phase"]} if "phase" in item else {}
    if "id" not in item:
        return {"role": "assistant", "content": text, **phase}
    content = [{"type": "output_text", "text": text, "annotations": []}]
    own = {"type": "message", "id": item["id"], "role": "assistant", "status": item.get("status", "completed")}
    return {**own, "content": content, **phase}


_INCOMPLETE: dict[object, protocol.FinishReason] = {"max_output_tokens": "length", "content_filter": "refused"}


class ResponseDecoder(protocol.Decoder):
    """The decoder for Responses; holds how much of each item was given, and the order of its items."""

    last_events = frozenset({"response.completed", "response.incomplete"})
    may_be_empty = False

    def __init__(self) -> None:
        self._given: dict[int, int] = {}  # characters by output index
        self._blocks: list[dict[str, Any]] = []
        self._returnable = True
        self._calls = False

    def decode(self, event: dict[str, Any]) -> list[protocol.Chunk]:
        index = event.get("output_index") or 0
        match event.get("type"):
            case "response.output_item.added":
                return self._begun(index, event["item"])
            case "response.output_text.delta":
                return [protocol.TextChunk(self._piece(index, event))]
            case "response.refusal.delta":
                return [protocol.RefusalChunk(self._piece(index, event))]
            case "response.function_call_arguments.delta":
                return [protocol.ToolCallChunk(index=index, arguments=self._piece(index, event))]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [protocol.ReasoningChunk(self._piece(index, event))]
            case "response.reasoning_summary_part.added" if event.get("summary_index"):
                return [protocol.ReasoningChunk("\n\n")]
            case "response.output_item.done":
                return self._whole(index, event["item"])
            case "response.completed" | "response.incomplete":
                return self._finished(event["response"])
            case "response.failed" | "response.cancelled":
                raise protocol.ErrorEvent(event["response"].get("error") or {"message": "the answer failed"})
            case "error":
                raise protocol.ErrorEvent(event.get("error") or {**event, "type": None})
            case _ if event.get("error"):
                raise protocol.ErrorEvent(event["error"])
        return []

    def _piece(self, index: int, event: dict[str, Any]) -> str:
        piece = as_text(event.get("delta"))
        self._given[index] = self._given.get(index, 0) + len(piece)
        return piece

    def _begun(self, index: int, item: dict[str, Any]) -> list[protocol.Chunk]:
        self._given[index] = 0
        if item.get("type") != "function_call":
            return [protocol.BlockChunk("silent")]
        self._calls = True
        return [protocol.ToolCallChunk(index=index, id=_call_id(item), name=as_text(item.get("name")))]

    def _whole(self, index: int, item: dict[str, Any]) -> list[protocol.Chunk]:
        """The part of a finished item that no delta brought; keeps its fields that go back with the message."""
        chunks = [] if index in self._given else self._begun(index, item)
        given = self._given.pop(index)
        match item.get("type"):
            case "message":
                length = 0
                for part in item["content"]:
                    refused = part.get("type") == "refusal"
                    piece = as_text(part.get("refusal" if refused else "text"))
                    length += 0 if refused else len(piece)
                    if rest := piece[given:]:
                        chunks.append(protocol.RefusalChunk(rest) if refused else protocol.TextChunk(rest))
                    given = max(0, given - len(piece))
                self._blocks.append({"type": "text", **_fields(item, "id", "phase", "status"), "length": length})
            case "function_call":
                if rest := as_text(item.get("arguments"))[given:]:
                    chunks.append(protocol.ToolCallChunk(index=index, arguments=rest))
                self._blocks.append({"type": "tool_use", **_fields(item, "id", "status"), "call_id": _call_id(item)})
            case "reasoning":
                parts: Sequence[dict[str, Any]] = item.get("summary") or item.get("content") or ()
                if not given and (visible := "\n\n".join(as_text(part.get("text")) for part in parts)):
                    chunks.append(protocol.ReasoningChunk(visible))
                fields = _fields(item, "type", "id", "summary", "content", "encrypted_content")
                self._blocks.append({**fields, "summary": item.get("summary") or []})
                # Without storage the server needs the reasoning's own content.
                self._returnable = self._returnable and bool(fields.keys() & {"content", "encrypted_content"})
        return chunks

    def _finished(self, response: dict[str, Any]) -> list[protocol.Chunk]:
        """The end of the answer. Raises ProviderError if it is incomplete for an unknown reason."""
        chunks: list[protocol.Chunk] = []
        if not self._blocks and not self._given:
            for index, item in enumerate(response.get("output") or ()):
                chunks += self._whole(index, item)
        if self._returnable and any(block["type"] == "reasoning" or "phase" in block for block in self._blocks):
            chunks.append(protocol.BlocksChunk(self._blocks))
        if response.get("usage"):
            chunks.append(protocol.UsageChunk(usage_of(response["usage"], "input", "output")))
        if response.get("status") != "incomplete":
            return [*chunks, protocol.FinishChunk("tool_calls" if self._calls else "stop")]
        why = (response.get("incomplete_details") or {}).get("reason")
        if why not in _INCOMPLETE:
            raise ProviderError(f"the provider ended the answer before it was whole: {why or 'no reason given'}")
        return [*chunks, protocol.FinishChunk(_INCOMPLETE[why])]


def _fields(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: item[name] for name in names if item.get(name)}


def _call_id(item: dict[str, Any]) -> str:
    """The id that a result refers to; `id` is only the item's."""
    return as_text(item.get("call_id") or item.get("id"))
