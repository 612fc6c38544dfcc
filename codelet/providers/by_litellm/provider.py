"""A model through litellm: Chat Completions, to its process and back over a pipe.

Retries, deadlines and the folding of tool calls are codelet's own. One process serves all open providers of an event
loop. It ends some time after the last of them, with the event loop, or if it ignores a cancel.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

from codelet.errors import CodeletError, ProviderError, UsageError
from codelet.messages import Message, ToolCall, answer_parts
from codelet.providers import protocol
from codelet.providers.answer import chunks_of
from codelet.providers.by_litellm import LONGEST_LINE
from codelet.providers.catalog import Quirks, Vendor, asked_wire, holds, real_name, table, vendor_of
from codelet.providers.endpoint import Endpoint, base_of, key_variable
from codelet.providers.facts import on_this_machine
from codelet.providers.failure import unreachable
from codelet.providers.http import show_request
from codelet.providers.openai_chat import ChatDecoder, OpenAIChatProvider
from codelet.system.process.service import Service, ServiceError, start_service
from codelet.system.process.start import StartError

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
        if self._process is None or self._process.is_over:
            self._process = LiteLLMProcess.shared()
            self._process.users += 1
        return self._process

    async def ask(self) -> None:
        """Not supported: litellm has its own ways to servers."""

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.users -= 1
            asyncio.get_running_loop().call_later(process.idle_seconds, process.end_if_unused)

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
        valid = isinstance(protocol.json_value(wire["function"]["arguments"]), dict)
        return wire if valid else {**wire, "function": {**wire["function"], "arguments": "{}"}}

    async def _attempt(self, body: bytes, digest: str) -> AsyncGenerator[protocol.Chunk, None]:
        """One attempt. Leaving it cancels the request in the process, which closes the connection."""
        process = self._started()
        if not process.ready.done():
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
            process.request(call) as answers,
            aclosing(_events_in(answers, deadlines)) as events,
            aclosing(chunks_of(_Decoder(), events)) as chunks,
        ):
            async for chunk in chunks:
                yield chunk.replace(bound_to=digest) if isinstance(chunk, protocol.FinishChunk) else chunk


async def _events_in(
    answers: asyncio.Queue[dict[str, Any]], deadlines: protocol.Deadlines
) -> AsyncGenerator[list[dict[str, Any]], None]:
    """The events of one answer from the process; raises CodeletError if it fails or is late.

    Once the answer has begun, lines without a piece of it are signs of life, within the first-token limit.
    """
    now, begun, ended = asyncio.get_running_loop().time, False, False
    latest = now() + deadlines.first_token
    while not ended:
        limit = deadlines.between_chunks if begun else deadlines.first_token
        try:
            async with asyncio.timeout_at(min(latest, now() + limit)):
                lines = [await answers.get()]
        except TimeoutError:
            raise unreachable(f"no data for {limit:g} seconds: the answer has stalled") from None
        while not answers.empty():
            lines.append(answers.get_nowait())
        if events := [line["event"] for line in lines if "event" in line]:
            begun, latest = True, now() + max(deadlines.first_token, deadlines.between_chunks)
            yield events
        for line in lines:
            if "failed" in line:
                raise failure_in(line["failed"])
            ended = ended or "ended" in line


class _Decoder(ChatDecoder):
    """The decoder for litellm: adds blocks of thinking and the order of an answer's parts."""

    def __init__(self) -> None:
        super().__init__()
        self._thinking = ""
        self._in_text = False

    def decode(self, event: dict[str, Any]) -> list[protocol.Chunk]:
        delta = event["choices"][0]["delta"] if event.get("choices") else {}
        chunks: list[protocol.Chunk] = []
        for chunk in (*self._kept(delta), *super().decode(event)):
            is_text = isinstance(chunk, protocol.TextChunk)
            if is_text and not self._in_text:
                chunks.append(protocol.BlockChunk("text"))
            elif isinstance(chunk, protocol.ToolCallChunk) and (chunk.id or chunk.name):
                chunks.append(protocol.BlockChunk("tool_use"))
            self._in_text = is_text
            chunks.append(chunk)
        return chunks

    def _kept(self, delta: dict[str, Any]) -> Iterator[protocol.Chunk]:
        """Yield reasoning and signatures, which go back where litellm looks for them."""
        for block in delta.get("thinking_blocks") or ():
            if block.get("type") == "redacted_thinking":
                yield protocol.ReasoningChunk(block=dict(block))
                continue
            self._thinking += block.get("thinking") or ""
            if block.get("signature"):
                yield protocol.ReasoningChunk(
                    block={"type": "thinking", "thinking": self._thinking, "signature": block["signature"]}
                )
                self._thinking = ""
        if items := delta.get("reasoning_items"):
            yield protocol.ExtraChunk({"reasoning_items": items})
        if signatures := (delta.get("provider_specific_fields") or {}).get("thought_signatures"):
            yield protocol.ExtraChunk({"provider_specific_fields": {"thought_signatures": signatures}})


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
    """litellm's process, from its import to its end.

    An import of more than `import_seconds` is ended, and a process without users after `idle_seconds`: the next session
    need not import litellm again.
    """

    _newest: ClassVar[LiteLLMProcess | None] = None

    def __init__(self, *, import_seconds: float = 120.0, idle_seconds: float = 20.0) -> None:
        LiteLLMProcess._newest = self
        loop = asyncio.get_running_loop()
        self.users = 0
        self.is_over = False
        self.idle_seconds = idle_seconds
        self.ready: asyncio.Future[Service] = loop.create_future()
        self.ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Queue[dict[str, Any]]] = {}  # of requests that have not ended
        self._life = loop.create_task(self._live(import_seconds))
        self._cancels: set[asyncio.Task[None]] = set()

    @classmethod
    def shared(cls) -> LiteLLMProcess:
        """Return the process of this event loop, or start it."""
        newest, loop = cls._newest, asyncio.get_running_loop()
        return cls() if newest is None or newest.is_over or newest.ready.get_loop() is not loop else newest

    def end_if_unused(self) -> None:
        if not self.users:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self.ready.cancel()
        self._life.cancel()

    @asynccontextmanager
    async def request(self, call: dict[str, Any]) -> AsyncGenerator[asyncio.Queue[dict[str, Any]]]:
        """Send a request; yields the queue of its answers, the last one `ended`. Leaving early cancels it."""
        service, number = await asyncio.shield(self.ready), next(self._numbers)
        answers = self._answers[number] = asyncio.Queue()
        try:
            await _write(service, {"id": number, "environment": {**os.environ, **_SWITCHES}, "call": call})
            yield answers
        finally:
            if number in self._answers:
                task = asyncio.create_task(self._cancel(service, number))
                self._cancels.add(task)
                task.add_done_callback(self._cancels.discard)

    async def _live(self, import_seconds: float) -> None:
        """Start the process and hand each line to its request; at its end all requests fail."""
        service = None
        try:
            service = await _start()
            async with asyncio.timeout(import_seconds):
                line = await service.read_line()
            if (failed := json.loads(line).get("failed") if line else _ended(service)) is not None:
                raise failure_in(failed)
            self.ready.set_result(service)
            while (line := await service.read_line()) is not None:
                answer = json.loads(line)
                queue = self._answers.get(answer["id"])
                if "ended" in answer:
                    self._answers.pop(answer["id"], None)
                if queue is not None:
                    queue.put_nowait(answer)
        except TimeoutError:
            late = f"litellm was not imported within {import_seconds:g} s; it was ended"
            self.ready.set_exception(ProviderError(late))
        except (CodeletError, ServiceError) as error:
            if not self.ready.done():
                self.ready.set_exception(error)
        finally:
            self.is_over = True
            if service is not None:
                for queue in self._answers.values():
                    queue.put_nowait({"failed": _ended(service)})
                self._answers.clear()
                await service.close(patience=0.0)

    async def _cancel(self, service: Service, number: int) -> None:
        """Cancel a request; a process that does not end it soon is ended."""
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await _write(service, {"id": number, "cancel": True})
        await asyncio.sleep(_CANCEL_SECONDS)
        if number in self._answers:
            self._end()


async def _start() -> Service:
    paths = json.dumps([str(Path(__file__).parents[3]), *filter(None, sys.path)])
    flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
    command, environment = [sys.executable, *flags, "-c", _PROGRAM, paths], {**os.environ, **_SWITCHES}
    try:
        return await start_service(command, cwd=Path.cwd(), environment=environment, limit=LONGEST_LINE)
    except (StartError, OSError) as error:
        raise ProviderError(f"litellm's process cannot be started: {error}") from error


async def _write(service: Service, message: dict[str, Any]) -> None:
    try:
        await service.write(json.dumps(message, default=str).encode() + b"\n")
    except ServiceError as error:
        raise failure_in(_ended(service)) from error


def failure_in(reply: dict[str, Any]) -> CodeletError:
    """The error that the process reports."""
    facts = dict(reply)
    kind, text = facts.pop("kind", "ProviderError"), facts.pop("text")
    return UsageError(text) if kind == "UsageError" else ProviderError(text, **facts)


def _ended(service: Service) -> dict[str, Any]:
    last = service.errors.strip().rpartition("\n")[2][-200:]
    text = f"litellm's process ended before it had answered{f': {last}' if last else ''}"
    return {"text": text, "retryable": True}
