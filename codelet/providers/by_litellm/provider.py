"""A model through litellm: Chat Completions, to its process and back.

Retries, deadlines and the folding of tool calls are codelet's own.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from codelet.messages import Message, ToolCall, answer_parts
from codelet.providers.catalog import Vendor, asked_wire, holds, real_name, table, vendor_of
from codelet.providers.endpoint import Endpoint, base_of, key_variable
from codelet.providers.facts import on_this_machine
from codelet.providers.failure import stalled
from codelet.providers.openai_chat import OpenAIChatProvider
from codelet.providers.openai_chat_decode import ChatDecoder
from codelet.providers.protocol import (
    BlockChunk,
    Chunk,
    Deadlines,
    ExtraChunk,
    NoteChunk,
    ProviderOptions,
    ReasoningChunk,
    Request,
    TextChunk,
    ToolCallChunk,
)
from codelet.providers.quirks import Quirks

_SILENCE = 1.0
"""Seconds of import after which the user is notified."""
IMPORTING = "litellm is being imported, which takes some seconds"
_TAKEN = ("messages", "tools", "reasoning_effort", "thinking", "response_format", "max_tokens")
_CLAUDE_MAX_OUTPUT = 8_192


@functools.cache
def _process() -> Any:
    from codelet.providers.by_litellm.pipe import LiteLLMProcess  # with the first use

    return LiteLLMProcess()


class LiteLLMProvider(OpenAIChatProvider):
    """A model through litellm; `model` is its name in litellm's spelling."""

    over_http = False

    def __init__(self, model: str, options: ProviderOptions) -> None:
        vendor, prefix = vendor_of(model), model.partition("/")[0]
        key_from = key_variable(vendor, options.api_key)
        key = options.api_key or (os.environ[key_from] if key_from else None)
        known = vendor or Vendor(prefix=prefix, name=prefix, base="")
        maker = "/".join(real_name(model).split("/")[1:-1])
        origin = f"litellm:{options.api_base or known.prefix}{f'#{maker}' if maker else ''}"
        endpoint = Endpoint(vendor=known, base=options.api_base or "", key=key, key_from=key_from)
        super().__init__(model, endpoint, options, origin=origin)
        self.name = f"{known.name} through litellm"
        self.local = on_this_machine(options.api_base or (base_of(vendor) if vendor else ""))
        self._claude = holds("claude", model)
        named = table(known.prefix).get("credentials") or next(iter(known.key_names), "the provider's key")
        self.key_name = key_from or named
        self._marked = -1
        self._told = False

    def _first_quirks(self) -> Quirks:
        """The quirks for litellm, which sets cache marks and efforts in its own way.

        For some back ends it turns an answer's schema into a tool, so a schema goes without other tools.
        """
        quirks = super()._first_quirks()
        return quirks.replace(
            structured="never" if quirks.structured == "never" else "alone",
            effort_field="thinking" if quirks.effort_field == "thinking" else "reasoning_effort",
            max_output_option="max_tokens",
            cache_marks=False,
            keeps_thinking=False,
            summaries=False,
        )

    async def warm(self) -> None:
        """Start importing litellm."""
        _process().warm(self)

    async def ask(self) -> None:
        """Not supported: litellm has its own ways to servers."""

    async def close(self) -> None:
        """Release the process, which ends without users."""
        if _process.cache_info().currsize:
            await asyncio.wrap_future(_process().release(self))

    def body(self, request: Request) -> bytes:
        """The process's call as JSON. Cache marks: after system prompt, before the tail, and at the last one."""
        made = json.loads(super().body(request))
        arguments = {name: made[name] for name in _TAKEN if name in made}
        messages = arguments["messages"] = made["messages"][0 if request.system else 1 :]
        marks = []
        if self._claude:
            arguments.setdefault("max_tokens", _CLAUDE_MAX_OUTPUT)
        if self._claude and not self.quirks.alternating:  # joined, reminders are not messages
            stable = len(messages) - request.tail
            places = {0 if request.system else -1, stable - 1, self._marked}
            marks = sorted(place for place in places if 0 <= place < stable)
            self._marked = stable - 1
        name = self.model if asked_wire(self.model) == "responses" else real_name(self.model)
        vendor = vendor_of(name)
        if vendor is not None and "/" not in name:
            name = f"{vendor.prefix}/{name}"
        if vendor is not None and vendor.litellm:
            name = f"{vendor.litellm}/{name.partition('/')[2]}"
        if self._options.api_base:
            arguments["api_base"] = self._options.api_base
        if self._options.api_key:
            arguments["api_key"] = self._options.api_key
        return json.dumps({"name": name, "arguments": arguments, "marks": marks}).encode()

    def _ordered(self, request: Request) -> Any:
        return request.messages if self._claude else super()._ordered(request)  # after the last mark

    def _returned_fields(self, message: Message) -> dict[str, Any]:
        if "blocks" in message or "thinking_blocks" in message:
            return _in_order(message)
        return super()._returned_fields(message)

    def _wire_call(self, call: ToolCall, *, own: bool) -> dict[str, Any]:
        """A call whose arguments are a JSON object: some back ends refuse the whole list otherwise."""
        wire = super()._wire_call(call, own=own)
        try:
            valid = isinstance(json.loads(wire["function"]["arguments"]), dict)
        except (ValueError, RecursionError):
            valid = False
        return wire if valid else {**wire, "function": {**wire["function"], "arguments": "{}"}}

    async def _attempt(self, body: bytes, digest: Callable[[], str]) -> AsyncGenerator[Chunk, None]:
        """One attempt. Leaving it cancels the request in the process, which closes the connection."""
        warmed = asyncio.wrap_future(_process().warm(self))
        done, _ = await asyncio.wait([warmed], timeout=_SILENCE)
        if not done and not self._told:
            self._told = True
            yield NoteChunk(IMPORTING)
        await warmed
        deadlines, call = self._options.deadlines, json.loads(body)
        if self._options.debug_requests:
            from codelet.providers.content.shown_requests import show_request

            shown = {name: value for name, value in call["arguments"].items() if name != "api_key"}
            headers = {"api-key": call["arguments"].get("api_key", "")}
            show_request("litellm.acompletion", headers, json.dumps({"model": call["name"], **shown}).encode())
        about = {"model": self.model, "place": self.name, "key_name": self.key_name, "local": self.local}
        call["about"] = {**about, "key": self._endpoint.key}
        reading = max(deadlines.first_token, deadlines.between_chunks) + 5  # later than ours
        call |= {"limits": [reading, deadlines.connect], "counts": not self._claude}
        async with (
            _process().request(self, call) as answers,
            aclosing(_events_in(answers, deadlines)) as events,
            aclosing(_Decoder().chunks(events)) as chunks,
        ):
            async for chunk in chunks:
                yield self._with_digest(chunk, digest)


async def _events_in(
    answers: asyncio.Queue[dict[str, Any]], deadlines: Deadlines
) -> AsyncGenerator[list[dict[str, Any]], None]:
    """The events of one answer from the process; raises CodeletError if it fails or is late.

    Lines without a piece of the answer are signs of life, within the first-token limit.
    """
    now, silence = asyncio.get_running_loop().time, deadlines.between_chunks
    limit, begun, ended = deadlines.first_token, False, False
    due = latest = now() + limit
    while not ended:
        await asyncio.sleep(0)  # however much has come, signals and other tasks have their turn
        events, failed = [], None
        try:
            async with asyncio.timeout_at(due):
                come = [await answers.get()]
        except TimeoutError:
            raise stalled(f"no data for {limit:g} seconds: the answer has stalled") from None
        while not answers.empty():
            come.append(answers.get_nowait())
        for answer in come:
            if "event" in answer:
                events.append(answer["event"])
                begun, latest = True, now() + max(deadlines.first_token, silence)
            failed, ended = failed or answer.get("failed"), ended or "ended" in answer
        if begun:
            limit, due = silence, min(now() + silence, latest)
        if events:
            yield events
        if failed:
            from codelet.providers.by_litellm.pipe import failure_in

            raise failure_in(failed)


class _Decoder(ChatDecoder):
    """The decoder for litellm: adds blocks of thinking and the order of an answer's parts."""

    def __init__(self) -> None:
        super().__init__()
        self._thinking = ""
        self._in_text = False

    def decode(self, event: dict[str, Any]) -> list[Chunk]:
        """The chunks of one event."""
        chunks = super().decode(event)
        delta = event["choices"][0]["delta"] if event.get("choices") else {}
        kept = [*self._blocks(delta), *_extra(delta)]
        if kept:
            others = (place for place, chunk in enumerate(chunks) if not isinstance(chunk, ReasoningChunk))
            place = next(others, len(chunks))
            chunks[place:place] = kept
        return [piece for chunk in chunks for piece in (*self._opened(chunk), chunk)]

    def _blocks(self, delta: dict[str, Any]) -> list[Chunk]:
        found: list[Chunk] = []
        for block in delta.get("thinking_blocks") or ():
            if block.get("type") == "redacted_thinking":
                found.append(ReasoningChunk(block=dict(block)))
                continue
            self._thinking += block.get("thinking") or ""
            if block.get("signature"):
                whole = {"type": "thinking", "thinking": self._thinking, "signature": block["signature"]}
                found.append(ReasoningChunk(block=whole))
                self._thinking = ""
        return found

    def _opened(self, chunk: Chunk) -> list[Chunk]:
        """The mark that a text or call begins with this chunk."""
        was_text, self._in_text = self._in_text, isinstance(chunk, TextChunk)
        if isinstance(chunk, ToolCallChunk):
            return [BlockChunk("tool_use")] if chunk.id or chunk.name else []
        return [BlockChunk("text")] if self._in_text and not was_text else []


def _extra(delta: dict[str, Any]) -> list[Chunk]:
    """Signatures and encrypted reasoning, which go back where litellm looks for them."""
    found: list[Chunk] = []
    if items := delta.get("reasoning_items"):
        found.append(ExtraChunk({"reasoning_items": items}))
    fields = delta.get("provider_specific_fields")
    if isinstance(fields, dict) and (signatures := fields.get("thought_signatures")):
        found.append(ExtraChunk({"provider_specific_fields": {"thought_signatures": signatures}}))
    return found


def _in_order(message: Message) -> dict[str, Any]:
    """An answer's thinking blocks as litellm sends them back: before or between its texts.

    Between calls it cannot send them, and elsewhere the vendor refuses them: then they are left out.
    """
    parts = [block if content is None else content for block, content in answer_parts(message)]
    calls = [place for place, part in enumerate(parts) if not isinstance(part, str) and "function" in part]
    texts = [part for part in parts[: calls[0] if calls else len(parts)] if part]
    reasoning = [place for place, part in enumerate(texts) if not isinstance(part, str)]
    if len(reasoning) < len(parts) - len(calls) - sum(isinstance(part, str) for part in parts):
        return {}
    if reasoning == list(range(len(reasoning))):
        return {"thinking_blocks": [part for part in texts if not isinstance(part, str)]} if reasoning else {}
    return {"content": [{"type": "text", "text": part} if isinstance(part, str) else part for part in texts]}
