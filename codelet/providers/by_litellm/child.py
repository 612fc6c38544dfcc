"""Runs in litellm's own process: requests in, events of Chat Completions out, as lines of JSON.

Input: `{"id": N, "environment": {…}, "call": {…}}` and `{"id": N, "cancel": true}`. Output: first whether litellm was
imported; then, with the request's number, `event`, `alive` for input without a piece of the answer, `failed`, and
last `ended`. litellm's own output goes to standard error.
"""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from codelet.errors import CodeletError, ProviderError, UsageError
from codelet.providers.answer import NO_MARKER, SILENCE
from codelet.providers.by_litellm import LONGEST_LINE, MALICIOUS
from codelet.providers.catalog import table
from codelet.providers.failure import http_failure, stream_failure, unreachable, without_key

_LATER = (
    "litellm.litellm_core_utils.default_encoding",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "litellm._service_logger",
    "openai.resources",
)
"""Imports of litellm's first request, a quarter of the whole: they would count as the server's time."""
_NO_STREAMS = ("text/html", "application/json")
_SIGNATURE = "__thought__"
_NO_REASON = (None, "", "FINISH_REASON_UNSPECIFIED")
_MISSING_KEY = (
    "missing credentials",
    "api key",
    "api_key",
    "unable to locate credentials",
    "default credentials were not found",
)
_MARK = {"cache_control": {"type": "ephemeral"}}


def main() -> None:
    """Import litellm and serve requests until standard input ends."""
    output = os.dup(1)
    os.dup2(2, 1)  # litellm's prints
    try:
        import_litellm()
    except ProviderError as error:
        _send(output, failed={"text": str(error)})
        return
    _send(output, ready=True)
    asyncio.run(_serve(output))


def import_litellm() -> ModuleType:
    """Import litellm and what its first request would import. Raises ProviderError."""
    from importlib import import_module
    from importlib.metadata import version

    tempfile.tempdir = os.environ.get("TMPDIR") or "/tmp"  # else a file is written there to try it
    try:
        installed = version("litellm")
        if installed not in MALICIOUS:
            import litellm
    except BaseException as error:
        raise ProviderError(f"litellm cannot be imported: {type(error).__name__}: {error}") from error
    if installed in MALICIOUS:
        raise ProviderError(f"litellm {installed} is malicious: remove it and replace the keys it could read")
    for name in _LATER:
        with suppress(ImportError):  # another release may lack it, and not need it
            import_module(name)
    return litellm


async def _serve(output: int) -> None:
    lines, tasks = asyncio.StreamReader(LONGEST_LINE), dict[int, asyncio.Task[None]]()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        message = json.loads(line)
        number = message["id"]
        tasks = {each: task for each, task in tasks.items() if not task.done()}
        if "call" in message:
            os.environ.clear()
            os.environ.update(message["environment"])  # a key or a proxy may be new
            tasks[number] = asyncio.create_task(_answer(partial(_send, output, id=number), message["call"]))
        elif number in tasks:
            tasks[number].cancel()
    os._exit(0)  # without waiting for litellm


async def _answer(send: Callable[..., None], call: dict[str, Any]) -> None:
    """One request: its events as they come. `limits`: seconds for reading and connecting."""
    import httpx
    import litellm

    reader: _Reader | None = None
    try:
        try:
            timeout = httpx.Timeout(call["limits"][0], connect=call["limits"][1])
            arguments = _completed(litellm, call["name"], call["arguments"], call["marks"])
            reader = _Reader(stream := await litellm.acompletion(**arguments, timeout=timeout), counts=call["counts"])
            with suppress(_StreamEnd):
                async for chunk in stream:
                    event = reader.event(chunk)
                    send(**({"alive": True} if event is None else {"event": event}))
        except Exception as error:
            raise translated(error, **call["about"], begun=reader is not None and reader.begun) from error
        for event in reader.end():
            send(event=event)
    except CodeletError as error:
        facts = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        send(failed={"kind": type(error).__name__, "text": str(error), **facts})
    finally:
        send(ended=True)


def _completed(litellm: Any, name: str, arguments: dict[str, Any], marks: list[int]) -> dict[str, Any]:
    """The arguments of `acompletion`: `arguments`, as the model's provider takes them.

    An unknown model with an address is OpenAI's. `marks` are the messages that end a cached prefix.
    """
    base, key = arguments.get("api_base"), arguments.get("api_key")
    try:
        model, provider, _, _ = litellm.get_llm_provider(name)
    except litellm.BadRequestError:
        if not base:
            raise
        model, provider = name, "openai"
    for place in marks if provider != "openai" else ():
        _mark(arguments["messages"][place])
    taken = litellm.get_supported_openai_params(model, provider) or ()
    needed = [each for each in ("tools", "reasoning_effort", "thinking") if each in arguments and each not in taken]
    if needed:
        arguments["allowed_openai_params"] = needed  # else litellm drops them silently
    if base and provider == "anthropic":
        arguments["api_base"] = base.rstrip("/").removesuffix("/v1")
    if base and not key and provider == "openai" and not os.environ.get("OPENAI_API_KEY"):
        arguments["api_key"] = "none"  # a local server needs none, but the library does
    return {
        **arguments,
        "model": model,
        "custom_llm_provider": provider,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_retries": 0,
        "drop_params": True,
        "_skip_mcp_handler": True,  # else the first call with tools imports another library
    }


def _mark(message: dict[str, Any]) -> None:
    content = message["content"]
    if message["role"] == "tool":
        message.update(_MARK)
    elif isinstance(content, list):
        content[-1] |= _MARK
    elif isinstance(content, str) and content.strip():
        message["content"] = [{"type": "text", "text": content, **_MARK}]


def _send(output: int, **message: object) -> None:
    data = memoryview(json.dumps(message, default=_plain).encode() + b"\n")
    while data:
        data = data[os.write(output, data) :]


def _plain(value: object) -> object:
    return value.model_dump() if hasattr(value, "model_dump") else str(value)


class _StreamEnd(BaseException):
    """The provider's own stream has ended. Not an Exception, so that litellm does not catch it."""


class _Reader:
    """Reads one stream of litellm's; `begun` after the first piece of the answer.

    `counts` is False if litellm estimates reasoning tokens instead of passing them on.
    litellm reads the provider's own stream through `_own`. `_whole`: whether the server's own finish reason came, for
    Gemini only: litellm's adapter says "stop" with each piece, so its raw objects are inspected.
    """

    def __init__(self, stream: Any, *, counts: bool) -> None:
        self.begun = False
        self._counts = counts
        self._stream = stream
        self._whole: bool | None = None
        own, opened = stream.completion_stream, stream.make_call

        async def tapped(**options: Any) -> Any:
            return self._own(await opened(**options))

        if own is None and opened is not None:  # it opens its own stream when it is first read
            stream.make_call = tapped
        elif hasattr(own, "__aiter__"):
            stream.completion_stream = self._own(own)

    async def _own(self, own: Any) -> AsyncIterator[Any]:
        """The provider's own pieces; raises _StreamEnd after the last, or if silence follows the finish marker.

        Past the end litellm would rebuild the answer, count unreported tokens and, for Ollama, send another request.
        After the finish marker only usage passes: anything else makes litellm see the end.
        """
        if callable(parse := getattr(own, "chunk_parser", None)):
            own.chunk_parser = lambda chunk: parse(self._seen(chunk))  # litellm names it
        pieces = aiter(own)
        with suppress(StopAsyncIteration):
            while True:
                is_over = bool(self._stream.received_finish_reason)
                try:
                    async with asyncio.timeout(SILENCE if is_over else None):
                        piece = await anext(pieces)
                except TimeoutError:
                    if is_over:
                        break
                    raise
                usage = piece.get("usage") if isinstance(piece, dict) else getattr(piece, "usage", None)
                if usage is not None or not self._stream.received_finish_reason:
                    yield piece
        raise _StreamEnd

    def _seen(self, piece: Any) -> Any:
        if isinstance(piece, dict) and ("candidates" in piece or "promptFeedback" in piece):
            reasons = [candidate.get("finishReason") for candidate in piece.get("candidates") or ()]
            blocked = (piece.get("promptFeedback") or {}).get("blockReason")
            self._whole = self._whole or bool(blocked) or any(reason not in _NO_REASON for reason in reasons)
        return piece

    def event(self, chunk: Any) -> dict[str, Any] | None:
        """The event in a chunk, without finish marker and usage; None if it is empty."""
        if not chunk.choices:
            return None
        delta = {name: value for name, value in chunk.choices[0].delta.model_dump().items() if value}
        for call in delta.get("tool_calls", ()):
            # litellm repeats a signature in the id: other vendors would get it, and refuse the length.
            call["id"] = (call.get("id") or "").partition(_SIGNATURE)[0]
        if not delta.keys() - {"role"}:
            return None
        self.begun = True
        return {"choices": [{"delta": delta}]}

    def end(self) -> Iterator[dict[str, Any]]:
        """The last events; raises ProviderError without a finish marker, unless nothing came at all.

        Usage and marker are the received ones: litellm invents missing ones.
        """
        stream = self._stream
        reported = [usage for chunk in stream.chunks if (usage := getattr(chunk, "usage", None)) is not None]
        usage = reported[-1].model_dump(exclude={"total_tokens"}) if reported else {}
        if not self._counts:
            usage.pop("completion_tokens_details", None)
        if usage.get("prompt_tokens") or usage.get("completion_tokens"):
            yield {"usage": usage}
        reason = stream.received_finish_reason or stream.intermittent_finish_reason
        is_whole = bool(reason) if self._whole is None else self._whole
        if not is_whole:
            headers = (getattr(stream, "_hidden_params", None) or {}).get("additional_headers") or {}
            kind = str(headers.get("llm_provider-content-type")).partition(";")[0]
            if not self.begun and kind in _NO_STREAMS:  # litellm reads nothing from it and says nothing
                raise ProviderError(f"the answer is no event stream but {kind}; check --api-base")
            if self.begun or reported or reason:
                raise ProviderError(NO_MARKER, retryable=True)
        yield {"choices": [{"delta": {}, "finish_reason": reason or "stop"}]}


def translated(
    error: Exception, *, model: str, place: str, key_name: str, begun: bool, local: bool, key: str | None = None
) -> CodeletError:
    """The error to raise instead of `error`. Its class and text mislead, so the exceptions underneath decide.

    Measured: a refused connection has status 500, Anthropic's 413 becomes 400 and its 529 becomes 500, a missing key
    500, any failure within a stream 503. The HTTP client's exception is still in the chain, with the server's real
    status and headers: the innermost status counts. `begun`: the stream had yielded something; `local`: the server is
    on this machine.
    """
    chain = list(_chain(error))
    names = {kind.__name__ for link in chain for kind in type(link).__mro__}
    codes = [code for link in chain if isinstance(code := getattr(link, "status_code", None), int)]
    headers = next((found for link in chain if (found := getattr(link, "litellm_response_headers", None))), None)
    made: CodeletError
    if headers is not None:
        named = {str(name).lower(): str(value) for name, value in headers.items()}
        made = http_failure(codes[-1] if codes else 500, named, _body(chain), place=place, key_name=key_name, key=key)
        made.overflow = made.overflow or "ContextWindowExceededError" in names
    elif names & {"OSError", "TransportError", "ClientError"}:
        made = _lost_connection(chain, place, begun, local)
    elif names & {"JSONDecodeError", "MidStreamFallbackError"}:
        body = next((found for link in chain if isinstance(found := getattr(link, "body", None), dict)), None)
        made = stream_failure(body or _body(chain))
    else:
        made = _of_text(_text(error), model, place, key_name)
    made.args = (without_key(str(made), key),)
    return made


def _of_text(text: str, model: str, place: str, key_name: str) -> CodeletError:
    if "LLM Provider NOT provided" in text:
        return UsageError(f"unknown model {model!r}: write it as provider/name, as litellm spells it")
    if any(words in text.lower() for words in _MISSING_KEY):
        return ProviderError(f"no key for {place}: set {key_name} ({text})", status=401)
    words, package = table(model.partition("/")[0]).get("package", ("(?!)", ""))
    if re.search(words, text):
        return ProviderError(f"litellm needs {package}")
    found = stream_failure(text)
    return ProviderError(f"{place}: {text}", overflow=found.overflow, window=found.window)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and its causes, outermost first."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        link = waiting.pop(0)
        if isinstance(link, BaseException) and link not in seen:
            seen.append(link)
            yield link
            waiting += [getattr(link, "original_exception", None), link.__cause__, link.__context__]


def _body(chain: list[BaseException]) -> str:
    for link in reversed(chain):
        if isinstance(body := getattr(link, "body", None), dict):
            return json.dumps({"error": body})
        if isinstance(message := getattr(link, "message", None), str) and message:
            with suppress(ValueError, SyntaxError, TypeError, AttributeError):  # it may be the repr of bytes
                message = ast.literal_eval(message).decode("utf-8", "replace")
            return str(message)
    return _text(chain[0])


def _lost_connection(chain: list[BaseException], place: str, begun: bool, local: bool) -> ProviderError:
    cause = next((link for link in reversed(chain) if isinstance(link, OSError)), None)
    reason = (cause.strerror or str(cause)) if cause else ""
    if isinstance(cause, ssl.SSLError):
        return ProviderError(f"TLS with {place} failed: {reason}; is SSL_CERT_FILE needed?")
    if begun:
        return ProviderError("the connection was cut in the middle of the answer", retryable=True)
    message = f"cannot reach {place}: {reason or 'no answer came'}; check the network and --api-base"
    return unreachable(message, local=local, refused=isinstance(cause, ConnectionRefusedError))


def _text(error: BaseException) -> str:
    text = str(error).partition("\nTraceback")[0]
    head, separator, rest = text.partition(": ")
    if separator and head.startswith("litellm."):
        text = rest
    return " ".join(text.split())[:300]
