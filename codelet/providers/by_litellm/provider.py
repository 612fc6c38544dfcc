"""A model through litellm: Chat Completions, to its process and back over a pipe.

Retries, deadlines and the folding of tool calls are codelet's own. One process serves all providers of an event loop,
so a switch of models does not import litellm again. It ends some time after the last provider was closed, with the
event loop, or if it ignores a cancel.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from codelet.errors import CodeletError, ProviderError, UsageError
from codelet.messages import Message, ToolCall, answer_parts
from codelet.providers import protocol
from codelet.providers.answer import chunks_of
from codelet.providers.by_litellm import LONGEST_LINE
from codelet.providers.catalog import Vendor, asked_wire, holds, real_name, table, vendor_of
from codelet.providers.endpoint import Endpoint, base_of, key_variable
from codelet.providers.facts import on_this_machine
from codelet.providers.failure import stalled
from codelet.providers.http import show_request
from codelet.providers.openai_chat import ChatDecoder, OpenAIChatProvider
from codelet.providers.quirks import Quirks
from codelet.system.process.service import Service, ServiceError, start_service
from codelet.system.process.start import StartError

_SILENCE = 1.0
"""Seconds of import after which the user is notified."""
IMPORTING = "litellm is being imported, which takes some seconds"
_TAKEN = ("messages", "tools", "reasoning_effort", "thinking", "response_format", "max_tokens")
_CLAUDE_MAX_OUTPUT = 8_192
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from codelet.providers.by_litellm.child import main; main()"
)
_SWITCHES = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it fetches a price map
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",  # else it fetches a list of headers
    "LITELLM_MODE": "PRODUCTION",  # else it loads a .env, and a repository's own one can redirect requests
    "REPEATED_STREAMING_CHUNK_LIMIT": "1000000",  # else 100 equal chunks in a row are an error
}
_CANCEL_SECONDS = 2.0
"""Seconds after which a process that ignores a cancel is ended."""
_GONE = "litellm's process ended before it had answered"


class LiteLLMProvider(OpenAIChatProvider):
    """A model through litellm; `model` is its name in litellm's spelling."""

    over_http = False

    def __init__(self, model: str, options: protocol.ProviderOptions) -> None:
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
        self._process: LiteLLMProcess | None = None

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
        self._started()

    def _started(self) -> LiteLLMProcess:
        self._process = process_in(asyncio.get_running_loop())
        self._process.warm(self)
        return self._process

    async def ask(self) -> None:
        """Not supported: litellm has its own ways to servers."""

    async def close(self) -> None:
        if self._process is not None:
            self._process.release(self)
            self._process = None

    def body(self, request: protocol.Request) -> bytes:
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

    def _ordered(self, request: protocol.Request) -> Any:
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

    async def _attempt(self, body: bytes, digest: Callable[[], str]) -> AsyncGenerator[protocol.Chunk, None]:
        """One attempt. Leaving it cancels the request in the process, which closes the connection."""
        process = self._started()
        warmed = process.warm(self)
        done, _ = await asyncio.wait([warmed], timeout=_SILENCE)
        if not done and not self._told:
            self._told = True
            yield protocol.NoteChunk(IMPORTING)
        deadlines, call = self._options.deadlines, json.loads(body)
        if self._options.debug_requests:
            shown = {name: value for name, value in call["arguments"].items() if name != "api_key"}
            headers = {"api-key": call["arguments"].get("api_key", "")}
            show_request("litellm.acompletion", headers, json.dumps({"model": call["name"], **shown}).encode())
        about = {"model": self.model, "place": self.name, "key_name": self.key_name, "local": self.local}
        call["about"] = {**about, "key": self._endpoint.key}
        reading = max(deadlines.first_token, deadlines.between_chunks) + 5  # later than ours
        call |= {"limits": [reading, deadlines.connect], "counts": not self._claude}
        async with (
            process.request(self, call) as answers,
            aclosing(_events_in(answers, deadlines)) as events,
            aclosing(chunks_of(_Decoder(), events)) as chunks,
        ):
            async for chunk in chunks:
                yield self._with_digest(chunk, digest)


async def _events_in(
    answers: asyncio.Queue[dict[str, Any]], deadlines: protocol.Deadlines
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
            raise failure_in(failed)


class _Decoder(ChatDecoder):
    """The decoder for litellm: adds blocks of thinking and the order of an answer's parts."""

    def __init__(self) -> None:
        super().__init__()
        self._thinking = ""
        self._in_text = False

    def decode(self, event: dict[str, Any]) -> list[protocol.Chunk]:
        chunks = super().decode(event)
        delta = event["choices"][0]["delta"] if event.get("choices") else {}
        kept = [*self._blocks(delta), *_extra(delta)]
        if kept:
            others = (place for place, chunk in enumerate(chunks) if not isinstance(chunk, protocol.ReasoningChunk))
            place = next(others, len(chunks))
            chunks[place:place] = kept
        return [piece for chunk in chunks for piece in (*self._opened(chunk), chunk)]

    def _blocks(self, delta: dict[str, Any]) -> list[protocol.Chunk]:
        found: list[protocol.Chunk] = []
        for block in delta.get("thinking_blocks") or ():
            if block.get("type") == "redacted_thinking":
                found.append(protocol.ReasoningChunk(block=dict(block)))
                continue
            self._thinking += block.get("thinking") or ""
            if block.get("signature"):
                whole = {"type": "thinking", "thinking": self._thinking, "signature": block["signature"]}
                found.append(protocol.ReasoningChunk(block=whole))
                self._thinking = ""
        return found

    def _opened(self, chunk: protocol.Chunk) -> list[protocol.Chunk]:
        """The mark that a text or call begins with this chunk."""
        was_text, self._in_text = self._in_text, isinstance(chunk, protocol.TextChunk)
        if isinstance(chunk, protocol.ToolCallChunk):
            return [protocol.BlockChunk("tool_use")] if chunk.id or chunk.name else []
        return [protocol.BlockChunk("text")] if self._in_text and not was_text else []


def _extra(delta: dict[str, Any]) -> list[protocol.Chunk]:
    """Signatures and encrypted reasoning, which go back where litellm looks for them."""
    found: list[protocol.Chunk] = []
    if items := delta.get("reasoning_items"):
        found.append(protocol.ExtraChunk({"reasoning_items": items}))
    fields = delta.get("provider_specific_fields")
    if isinstance(fields, dict) and (signatures := fields.get("thought_signatures")):
        found.append(protocol.ExtraChunk({"provider_specific_fields": {"thought_signatures": signatures}}))
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


class LiteLLMProcess:
    """litellm's process, started on demand, and again if it is gone.

    An import of more than `import_seconds` is ended, and a process without users after `idle_seconds`.
    """

    def __init__(self, *, import_seconds: float = 120.0, idle_seconds: float = 20.0) -> None:
        self._import_seconds = import_seconds
        self._idle_seconds = idle_seconds
        self._numbers = itertools.count(1)
        self._starting: asyncio.Task[Service] | None = None
        self._service: Service | None = None
        self._answers: dict[int, asyncio.Queue[dict[str, Any]]] = {}  # of requests that have not ended
        self._users: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def warm(self, user: object) -> asyncio.Task[Service]:
        self._users.add(id(user))
        if self._starting is None or (self._starting.done() and self._service is None):
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._starting

    def release(self, user: object) -> None:
        """A user is done. Without users an import is ended immediately, a process after a while."""
        self._users.discard(id(user))
        if not self._users and self._starting is not None and not self._starting.done():
            self._starting.cancel()
        asyncio.get_running_loop().call_later(self._idle_seconds, self._end_if_unused)

    def _end_if_unused(self) -> None:
        if not self._users and self._service is not None:
            self._run(self._end(self._service))

    @asynccontextmanager
    async def request(self, user: object, call: dict[str, Any]) -> AsyncGenerator[asyncio.Queue[dict[str, Any]]]:
        """Send a request; yields the queue of its answers, the last one `ended`. Leaving early cancels it."""
        service = await asyncio.shield(self.warm(user))
        number = next(self._numbers)
        answers = self._answers[number] = asyncio.Queue()
        try:
            try:
                await _write(service, {"id": number, "call": call, "environment": {**os.environ, **_SWITCHES}})
            except ServiceError as error:
                raise ProviderError(f"{_GONE}: {error}", retryable=True) from error
            yield answers
        finally:
            if number in self._answers:
                self._run(self._cancel(service, number))

    async def _start(self) -> Service:
        paths = json.dumps([str(Path(__file__).parents[3]), *filter(None, sys.path)])
        flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        command = [sys.executable, *flags, "-c", _PROGRAM, paths]
        environment = {**os.environ, **_SWITCHES}
        try:
            service = await start_service(command, cwd=Path.cwd(), environment=environment, limit=LONGEST_LINE)
        except (StartError, OSError) as error:
            raise ProviderError(f"litellm's process cannot be started: {error}") from error
        try:
            async with asyncio.timeout(self._import_seconds):
                line = await service.read_line()
            reply: dict[str, Any] = json.loads(line) if line else {"failed": {"text": _ended(service)}}
            if "failed" in reply:
                raise failure_in(reply["failed"])
        except BaseException as error:
            await service.close(patience=0.0)
            if isinstance(error, TimeoutError):
                text = f"litellm was not imported within {self._import_seconds:g} s; it was ended"
                raise ProviderError(text) from None
            raise
        self._service = service
        self._run(self._read(service))
        return service

    async def _read(self, service: Service) -> None:
        """Hand each line to its request, until the process or the event loop ends."""
        try:
            with suppress(ServiceError):
                while (line := await service.read_line()) is not None:
                    answer = json.loads(line)
                    queue = self._answers.get(answer["id"])
                    if "ended" in answer:
                        self._answers.pop(answer["id"], None)
                    if queue is not None:
                        queue.put_nowait(answer)
        finally:
            await self._end(service)

    async def _cancel(self, service: Service, number: int) -> None:
        """Cancel a request; a process that does not end it soon is ended."""
        with suppress(ServiceError):
            await _write(service, {"id": number, "cancel": True})
        await asyncio.sleep(_CANCEL_SECONDS)
        if number in self._answers:
            await self._end(service)

    async def _end(self, service: Service) -> None:
        """End the process and notify all requests; the next one starts another."""
        if service is self._service:
            self._service = None
            waiting, self._answers = self._answers, {}
            for queue in waiting.values():
                queue.put_nowait({"failed": {"text": _ended(service), "retryable": True}})
        await service.close(patience=0.0)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@lru_cache(maxsize=1)
def process_in(loop: asyncio.AbstractEventLoop) -> LiteLLMProcess:
    """Return the process of an event loop."""
    return LiteLLMProcess()


async def _write(service: Service, message: dict[str, Any]) -> None:
    await service.write(json.dumps(message, default=str).encode() + b"\n")


def failure_in(reply: dict[str, Any]) -> CodeletError:
    """The error that the process reports."""
    facts = dict(reply)
    kind, text = facts.pop("kind", "ProviderError"), facts.pop("text")
    return UsageError(text) if kind == "UsageError" else ProviderError(text, **facts)


def _ended(service: Service) -> str:
    last = service.errors.strip().rpartition("\n")[2][-200:]
    return f"{_GONE}{f': {last}' if last else ''}"
