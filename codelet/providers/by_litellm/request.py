"""A request as litellm takes it: Chat Completions messages, with what its back ends need done to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from codelet.messages import Message, ToolCall, answer_parts
from codelet.providers.prefix import PrefixCache
from codelet.providers.protocol import Request
from codelet.providers.quirks import Quirks, alternating, prompt_last, returned

if TYPE_CHECKING:
    from codelet.providers.content.picture_forms import RefusedPictures
    from codelet.providers.effort import AskedEffort

_MARK = {"cache_control": {"type": "ephemeral"}}
_CLAUDE_MAX_OUTPUT = 8_192


def is_claude(model: str) -> bool:
    """Whether the model is one of Anthropic's, whoever serves it."""
    return "claude" in model.lower()


class Requests:
    """Makes the arguments of one `acompletion` call after another for one model.

    Remembers where the last cache mark stood, so that a step with many results still finds its prefix.
    `quirks` says what its requests need beyond that, `asked` is the effort that the user asked for, `local` that the
    server is on this machine.
    """

    api = "chat"

    def __init__(
        self, model: str, origin: str, quirks: Quirks, asked: AskedEffort | None = None, *, local: bool = False
    ) -> None:
        self.model = model
        self.quirks = quirks if quirks.structured == "never" else quirks.replace(structured="alone")
        self.notes: list[str] = []
        self.learnt: set[str] = set()
        self._local = local
        self.asked = asked
        self._origin = origin
        self._last_mark = -1
        self.refused_pictures: RefusedPictures | None = None
        self.digest: Callable[[], str] = str

    def arguments(self, request: Request, *, marks: bool) -> dict[str, Any]:
        """What differs from request to request: messages, tools and output limit. All lists are fresh ones.

        `marks` sets Anthropic's cache marks.
        """
        messages: Sequence[Message] = prompt_last(request.messages, request.tail) if self._local else request.messages
        if any("images" in message for message in messages):
            messages = self._with_pictures(messages)
        if self.quirks.alternating:
            messages = alternating(messages)
        wire = self._encoded(messages, f"{request.system}{request.tools}".encode(errors="replace"))
        head: list[dict[str, Any]] = []
        if request.system:
            head.append({"role": "system", "content": request.system})
        if marks and not self.quirks.alternating:  # joined, the volatile reminders are no messages of their own
            self._mark(head, wire, len(wire) - request.tail)
        arguments: dict[str, Any] = {"messages": head + wire}
        if request.tools:
            arguments["tools"] = list(request.tools)
        if (effort := self.quirks.reasoning_effort(tools=bool(request.tools))) is not None:
            arguments["reasoning_effort"] = effort
        elif self.asked is not None:
            arguments |= self.asked.fields()
        if request.schema is not None:
            arguments |= self._answer_fields(request.schema, tools=bool(request.tools))
        limit = request.max_output or (_CLAUDE_MAX_OUTPUT if is_claude(self.model) else None)
        if limit is not None:
            arguments["max_tokens"] = limit
        return arguments

    def _encoded(self, messages: Sequence[Message], head: bytes) -> list[dict[str, Any]]:
        """The messages as litellm takes them; reasoning goes back only after the prefix that it is bound to."""
        if not self.quirks.prefix_bound:
            return [self._wire(message) for message in messages]
        wire: list[dict[str, Any]] = []

        def encode(message: Message, _: str) -> tuple[bytes, str]:
            wire.append(self._wire(message))
            return json.dumps(wire[-1]).encode(), ""

        cache = PrefixCache(encode, "none" if self.quirks.drops_thinking else "valid")
        cache.fragments(messages, head)
        self.digest = cache.seal()
        return wire

    def _with_pictures(self, messages: Sequence[Message]) -> list[Message]:
        """The messages with the pictures of results in messages of the user's behind them, or with none at all."""
        from codelet.providers.content.picture_forms import ResultPictures, unseen

        if not self.quirks.images:
            return [unseen(message) for message in messages]
        if self.refused_pictures is not None:
            messages = self.refused_pictures.without(messages)
        return ResultPictures().spread(messages, alternating=self.quirks.alternating)

    def _answer_fields(self, schema: dict[str, Any], *, tools: bool) -> dict[str, Any]:
        """What a request says of the final answer's schema. For some back ends litellm makes a tool of it, so it goes
        with no others.
        """
        from codelet.providers.content.structured import answer_fields  # only where there is a schema

        return answer_fields("response_format", schema, self.quirks.structured, tools=tools)

    def _wire(self, message: Message) -> dict[str, Any]:
        wire: dict[str, Any] = {"role": message["role"], "content": message["content"]}
        own = message.get("origin") == self._origin and not self.quirks.strict
        if "images" in message and message["role"] == "user":
            from codelet.providers.content.picture_forms import chat_parts

            wire["content"] = [*chat_parts(message), {"type": "text", "text": message["content"] or ""}]
        if "tool_calls" in message:
            wire["tool_calls"] = [self._wire_call(call, own=own) for call in message["tool_calls"]]
        if "tool_call_id" in message:
            wire["tool_call_id"] = self.quirks.call_id(message["tool_call_id"])
        if own and ("blocks" in message or "thinking_blocks" in message):
            wire.update(_in_order(message))
        elif own:
            wire.update(returned(message))
        if own and "inline_reasoning" in message:
            wire["content"] = f"{message['inline_reasoning']}{message['content'] or ''}"
        return self.quirks.completed(wire)

    def _wire_call(self, call: ToolCall, *, own: bool) -> dict[str, Any]:
        """A call whose arguments are a JSON object: anything else makes back ends refuse the whole list."""
        arguments = call["function"]["arguments"]
        try:
            valid = isinstance(json.loads(arguments), dict)
        except (ValueError, RecursionError):
            valid = False
        function = {"name": call["function"]["name"], "arguments": arguments if valid else "{}"}
        extra = call.get("extra", {}) if own else {}
        return {"id": self.quirks.call_id(call["id"]), "type": call["type"], "function": function, **extra}

    def _mark(self, head: list[dict[str, Any]], wire: list[dict[str, Any]], stable: int) -> None:
        """Set the cache marks: after tools and system, before the tail, and where the last one stood."""
        for message in head:
            message["content"] = [{"type": "text", "text": message["content"], **_MARK}]
        here = stable - 1
        for place in {here, self._last_mark}:
            if 0 <= place < stable:
                _mark_message(wire[place])
        self._last_mark = here


def _in_order(message: Message) -> dict[str, Any]:
    """An answer's blocks of reasoning as litellm sends them back: before its text, or between its texts.

    Between calls it cannot send them. There they are left out: in another place the vendor refuses them.
    """
    parts = [block if content is None else content for block, content in answer_parts(message)]
    calls = [place for place, part in enumerate(parts) if not isinstance(part, str) and "function" in part]
    said = [part for part in parts[: calls[0] if calls else len(parts)] if part]
    reasoning = [place for place, part in enumerate(said) if not isinstance(part, str)]
    if len(reasoning) < len(parts) - len(calls) - sum(isinstance(part, str) for part in parts):
        return {}
    if reasoning == list(range(len(reasoning))):
        return {"thinking_blocks": [part for part in said if not isinstance(part, str)]} if reasoning else {}
    return {"content": [{"type": "text", "text": part} if isinstance(part, str) else part for part in said]}


def _mark_message(message: dict[str, Any]) -> None:
    if message["role"] == "tool":
        message.update(_MARK)
    elif isinstance(message["content"], list):
        message["content"][-1] |= _MARK
    elif isinstance(message["content"], str) and message["content"].strip():
        message["content"] = [{"type": "text", "text": message["content"], **_MARK}]
