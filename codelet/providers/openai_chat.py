"""The native wire for OpenAI's Chat Completions, as many servers speak it.

Source: OpenAI's API reference for `POST /chat/completions` with `stream: true`; reasoning fields as DeepSeek,
vLLM (`reasoning_content`) and OpenRouter (`reasoning`, `reasoning_details`) send them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from codelet.errors import ProviderError
from codelet.messages import Message, ToolCall
from codelet.providers.catalog import Endpoint
from codelet.providers.native import OpenAIWire, compact_json
from codelet.providers.protocol import Chunk, ProviderOptions, Request
from codelet.providers.quirks import returned


class OpenAIChatProvider(OpenAIWire):
    """A model behind a server that speaks Chat Completions."""

    decoder = "openai_chat_decode"
    _lead = b","  # behind the system prompt

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions) -> None:
        super().__init__(model, endpoint, options, origin=f"openai:{endpoint.origin(model)}")
        self._noted = False

    def body(self, request: Request) -> bytes:
        """The request's body: what never changes comes first, then the messages, then the options."""
        head = b'{"model":' + compact_json(self._endpoint.model_name(self.model))
        if request.tools:
            head += b',"tools":' + compact_json(list(request.tools))
        system = compact_json({"role": "system", "content": request.system})
        options = self._quirks.options(tools=bool(request.tools), max_output=request.max_output)
        if "reasoning_effort" in options:
            self._note()
        else:
            options |= self._effort_fields()
        fragments = self._cache.fragments(self._ordered(request))
        closing = self._closing(self._cache.state) + b"]," + compact_json(options)[1:]
        return b"".join([head, b',"messages":[', system, *fragments, closing])

    def _items(self, message: Message) -> list[dict[str, Any]]:
        wire = self._wire(message)
        if self._closing(message["role"]):
            wire["content"] = wire.pop("content") or ""  # it comes last, so that more can be joined to it
        return [wire]

    def _wire(self, message: Message) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": message["role"], "content": message["content"]}
        own = message.get("origin") == self.origin and not self._quirks.strict
        if "tool_calls" in message:
            wire["tool_calls"] = [self._wire_call(call, own=own) for call in message["tool_calls"]]
        if "tool_call_id" in message:
            wire["tool_call_id"] = self._quirks.call_id(message["tool_call_id"])
        if own:
            wire.update(returned(message))
        return self._quirks.completed(wire)

    def _wire_call(self, call: ToolCall, *, own: bool) -> dict[str, Any]:
        extra = call.get("extra", {}) if own else {}
        given = call["function"]
        function = {"name": given["name"], "arguments": given["arguments"]}  # a file may hold more beside them
        return {"id": self._quirks.call_id(call["id"]), "type": call["type"], "function": function, **extra}

    def _learnt(self, error: ProviderError) -> bool:
        learnt = self._quirks.learnt(error)
        self._quirks = learnt or self._quirks
        return learnt is not None

    def _note(self) -> None:
        """Tell the user, once, what the requests are like."""
        note = None if self._noted else self._quirks.note(self.model, self.effort)
        if note is not None:
            self._notes.append(note)
            self._noted = True

    def _path(self) -> str:
        return "/chat/completions"

    def _chunks(self, events: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[Chunk, None]:
        from codelet.providers.openai_chat_decode import decoded_chunks

        return decoded_chunks(events)
