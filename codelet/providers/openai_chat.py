"""The native wire for OpenAI's Chat Completions, as many servers speak it.

Source: OpenAI's API reference for `POST /chat/completions` with `stream: true`; reasoning fields as DeepSeek,
vLLM (`reasoning_content`) and OpenRouter (`reasoning`, `reasoning_details`) send them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from codelet.errors import ProviderError
from codelet.messages import Message, ToolCall
from codelet.providers.catalog import Endpoint, quirks_of
from codelet.providers.native import NativeProvider, PrefixCache, compact_json
from codelet.providers.protocol import Chunk, ProviderOptions, Request
from codelet.providers.quirks import SEPARATOR, joint_of, returned, stand_in

_OPEN, _CLOSING = (
    ("user", "tool"),
    b'"}',
)  # where roles alternate, these messages stay open: a text may be joined to them


class OpenAIChatProvider(NativeProvider):
    """A model behind a server that speaks Chat Completions."""

    decoder = "openai_chat_decode"

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions) -> None:
        super().__init__(model, endpoint, options, origin=f"openai:{endpoint.origin(model)}")
        self._quirks = quirks_of(model, endpoint.base, options.vendors)
        self._noted = False
        if endpoint.base.count("/") == 2:  # no path: most servers have theirs at /v1, and people forget it
            self._other_base = f"{endpoint.base}/v1"

    def body(self, request: Request) -> bytes:
        """The request's body: what never changes comes first, then the messages, then the options."""
        head = b'{"model":' + compact_json(self._endpoint.model_name(self.model))
        if request.tools:
            head += b',"tools":' + compact_json(list(request.tools))
        system = compact_json({"role": "system", "content": request.system})
        options = self._quirks.options(tools=bool(request.tools), max_output=request.max_output)
        if "reasoning_effort" in options:
            self._note()
        fragments = self._cache.fragments(request.messages)
        closing = self._closing(self._cache.state) + b"]," + compact_json(options)[1:]
        return b"".join([head, b',"messages":[', system, *fragments, closing])

    def _encode(self, message: Message, before: str) -> tuple[bytes, str]:
        """A message's bytes after one of the role `before`; where roles alternate, with what closes that one."""
        role = message["role"]
        if not self._quirks.alternating:
            return b"," + compact_json(self._wire(message)), role
        joint = joint_of(message, before)
        if joint == "joined":
            return compact_json(f"{SEPARATOR}{message['content']}")[1:-1], before
        missing = stand_in(joint)
        start = b"" if missing is None else b"," + compact_json(self._wire(missing))
        wire = self._wire(message)
        if role in _OPEN:
            wire["content"] = wire.pop("content") or ""  # it comes last, so that more can be joined to it
        fragment = self._closing(before) + start + b"," + compact_json(wire)
        return (fragment.removesuffix(_CLOSING) if role in _OPEN else fragment), role

    def _closing(self, role: str) -> bytes:
        """What closes a message of that role, the last one so far."""
        return _CLOSING if self._quirks.alternating and role in _OPEN else b""

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

    def _adapted(self, error: ProviderError) -> bool:
        learnt = self._quirks.learnt(error)
        if learnt is None:
            return False
        self._quirks = learnt
        self._cache = PrefixCache(self._encode)
        return True

    def _note(self) -> None:
        """Tell the user, once, what the requests are like."""
        note = None if self._noted else self._quirks.note(self.model)
        if note is not None:
            self._notes.append(note)
            self._noted = True

    def _path(self) -> str:
        return "/chat/completions"

    def _chunks(self, events: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[Chunk, None]:
        from codelet.providers.openai_chat_decode import decoded_chunks

        return decoded_chunks(events)
