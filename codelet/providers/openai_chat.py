"""The native wire for OpenAI's Chat Completions, as many servers speak it.

Sources: OpenAI's API reference for `POST /chat/completions` with `stream: true`; reasoning fields of DeepSeek and vLLM
(`reasoning_content`) and OpenRouter (`reasoning`, `reasoning_details`); OpenRouter's cache marks (`cache_control`) for
Anthropic's and Qwen's models: on the last part of a prompt's or a result's content.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codelet.messages import Message, ToolCall
from codelet.providers.endpoint import Endpoint
from codelet.providers.native import OpenAIWire, compact_json, has_pictures
from codelet.providers.protocol import ProviderOptions, Request
from codelet.providers.quirks import SUMMARIES

if TYPE_CHECKING:
    from codelet.providers.answer import Decoder
    from codelet.providers.content.picture_forms import ResultPictures


_MARK = {"cache_control": {"type": "ephemeral"}}


class OpenAIChatProvider(OpenAIWire):
    """A model at a server with Chat Completions."""

    path = "/chat/completions"
    answer_form = "response_format"
    _cache_mark = _MARK
    api = "chat"
    _lead = b","  # after the system prompt

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions, *, origin: str = "") -> None:
        super().__init__(model, endpoint, options, origin=origin or f"openai:{endpoint.origin(model)}")
        self._noted = False
        self._spread: ResultPictures | None = None

    def body(self, request: Request) -> bytes:
        """The request's body: the constant part first, then the messages, then the options."""
        head = b'{"model":' + compact_json(self._endpoint.model_name(self.model))
        if request.tools:
            head += b',"tools":' + compact_json(list(request.tools))
        marks = self.quirks.cache_marks and bool(request.system)
        text = [{"type": "text", "text": request.system, **_MARK}] if marks else request.system
        system = compact_json({"role": "system", "content": text})
        options = self.quirks.options(tools=bool(request.tools), max_output=request.max_output)
        if "reasoning_effort" in options:
            self._note()
        else:
            options |= self._effort_fields()
        if self.quirks.summaries and self.asked is None:  # with an effort the vendor may refuse it
            options["extra_body"] = SUMMARIES
        options |= self._answer_fields(request)
        listed = request.messages if self.quirks.cache_marks else self._ordered(request)
        messages = self._with_pictures(listed)  # which may begin another cache
        fragments = self._cache.fragments(messages, head + system)
        if self.quirks.cache_marks:
            self._mark(fragments, messages[: len(messages) - request.tail], has_opening=marks)
        closing = self._closing(self._cache.state) + b"]," + compact_json(options)[1:]
        return b"".join([head, b',"messages":[', system, *fragments, closing])

    def _with_pictures(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages; images of results follow them in user messages."""
        if not self.quirks.images or not has_pictures(messages):
            return messages
        if self._spread is None:
            from codelet.providers.content.picture_forms import ResultPictures

            self._spread = ResultPictures(self.refused_images)
        self._look(messages)
        return self._spread.spread(messages, alternating=self.quirks.alternating)

    def _pictures(self, message: Message) -> list[dict[str, Any]]:
        from codelet.providers.content.picture_forms import chat_parts

        return chat_parts(message)

    def _in_parts(self, message: Message) -> bool:
        if self.quirks.cache_marks and message["role"] in ("user", "tool"):
            return True
        return message["role"] == "user" and super()._in_parts(message)

    def _items(self, message: Message) -> list[dict[str, Any]]:
        wire = self._wire(message)
        if self._in_parts(message):
            pictures = self._pictures(message) if "images" in message and message["role"] == "user" else []
            wire["content"] = [*pictures, {"type": "text", "text": wire["content"] or ""}]
        if self._closing(message["role"]) or self.quirks.cache_marks:
            wire["content"] = wire.pop("content") or ""  # it comes last, so that more can be joined to it, or marked
        return [wire]

    def _wire(self, message: Message) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": message["role"], "content": message["content"]}
        own = message.get("origin") == self.origin and not self.quirks.strict
        if "tool_calls" in message:
            wire["tool_calls"] = [self._wire_call(call, own=own) for call in message["tool_calls"]]
        if "tool_call_id" in message:
            wire["tool_call_id"] = self.quirks.call_id(message["tool_call_id"])
        if own:
            wire.update(self._returned_fields(message))
            if "inline_reasoning" in message and not self.quirks.signatures:  # else the signature replaces it
                wire["content"] = f"{message['inline_reasoning']}{message['content'] or ''}"
        return self.quirks.completed(wire)

    def _returned_fields(self, message: Message) -> dict[str, Any]:
        """The reasoning fields of an assistant's message, as the server sent them."""
        fields: dict[str, Any] = dict(message.get("extra", {}))
        if "reasoning_details" in message:
            fields["reasoning_details"] = message["reasoning_details"]
        elif "reasoning" in message:
            fields["reasoning"] = message["reasoning"]
        elif "reasoning_content" in message:
            fields["reasoning_content"] = message["reasoning_content"]
        return fields

    def _wire_call(self, call: ToolCall, *, own: bool) -> dict[str, Any]:
        extra = call.get("extra", {}) if own else {}
        given = call["function"]
        function = {"name": given["name"], "arguments": given["arguments"]}  # a file may hold other fields
        return {"id": self.quirks.call_id(call["id"]), "type": call["type"], "function": function, **extra}

    def _note(self) -> None:
        """Notify the user once of how the requests differ."""
        note = None if self._noted else self.quirks.note(self.model, self.effort)
        if note is not None:
            self.notes.append(note)
            self._noted = True

    def _decoder(self) -> Decoder:
        from codelet.providers.openai_chat_decode import ChatDecoder

        return ChatDecoder(charged=self._endpoint.vendor.charges)
