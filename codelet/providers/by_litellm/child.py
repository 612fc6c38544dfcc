"""Runs in litellm's own process: requests in, events of Chat Completions out, as lines of JSON.

Input: `{"id": N, "resolve": {…}}`, `{"id": N, "call": {…}}`, `{"id": N, "cancel": true}`, and `{"environment": {…}}`
before a request if codelet's own has changed. Output: first whether litellm was imported, then `resolved`, `event`,
`failed` and `ended` with the request's number; `alive` marks input without a piece of the answer. litellm's own
output goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from contextlib import suppress
from types import ModuleType
from typing import Any

from codelet.errors import CodeletError, ProviderError
from codelet.providers.by_litellm import MALICIOUS

_LATER = (
    "litellm.litellm_core_utils.default_encoding",
    "litellm.proxy.openai_files_endpoints.common_utils",
    "litellm._service_logger",
    "openai.resources",
)
"""Imports of litellm's first request, a quarter of the whole: they would count as the server's time."""


def main() -> None:
    """Import litellm and serve requests until standard input ends."""
    output = os.dup(1)
    os.dup2(2, 1)  # litellm's prints
    try:
        litellm = _imported()
    except ProviderError as error:
        _send(output, {"failed": {"text": str(error)}})
        return
    _send(output, {"ready": True})
    asyncio.run(_Server(litellm, output).serve())


def _imported() -> ModuleType:
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("litellm")
    except PackageNotFoundError as error:
        raise ProviderError("litellm cannot be imported: it is not installed") from error
    if installed in MALICIOUS:
        raise ProviderError(f"litellm {installed} is malicious: remove it and replace the keys it could read")
    try:
        return import_litellm()
    except BaseException as error:
        raise ProviderError(f"litellm cannot be imported: {type(error).__name__}: {error}") from error


def import_litellm() -> ModuleType:
    """Import litellm and what its first request would import."""
    from importlib import import_module

    tempfile.tempdir = os.environ.get("TMPDIR") or "/tmp"  # else a file is written there to try it
    import litellm

    for name in _LATER:
        with suppress(ImportError):  # another release may lack it, and not need it
            import_module(name)
    return litellm


class _Server:
    def __init__(self, litellm: ModuleType, output: int) -> None:
        self._litellm = litellm
        self._output = output
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def read() -> None:
            for line in sys.stdin.buffer:
                loop.call_soon_threadsafe(self._take, json.loads(line))
            loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=read, daemon=True).start()
        await ended.wait()
        os._exit(0)  # without waiting for litellm

    def _take(self, message: dict[str, Any]) -> None:
        if "environment" in message:
            os.environ.clear()
            os.environ.update(message["environment"])
            return
        number = message["id"]
        if "cancel" not in message:
            self._tasks[number] = asyncio.create_task(self._answer(number, message))
        elif number in self._tasks:
            self._tasks[number].cancel()

    async def _answer(self, number: int, message: dict[str, Any]) -> None:
        try:
            if "resolve" in message:
                self._send(number, resolved=self._resolved(**message["resolve"]))
            else:
                await self._call(number, **message["call"])
        except CodeletError as error:
            facts = {name: value for name, value in vars(error).items() if not name.startswith("_")}
            self._send(number, failed={"kind": type(error).__name__, "text": str(error), **facts})
        finally:
            del self._tasks[number]
            self._send(number, ended=True)

    def _resolved(self, name: str, about: dict[str, Any], *, has_base: bool) -> tuple[str, str, list[str]]:
        """The model's name and provider in litellm's terms, and the parameters it takes there.

        An unknown model with an address is OpenAI's.
        """
        litellm = self._litellm
        try:
            model, provider, _, _ = litellm.get_llm_provider(name)
        except litellm.BadRequestError as error:
            if not has_base:
                raise _translated(error, about) from error
            model, provider = name, "openai"
        return model, provider, list(litellm.get_supported_openai_params(model, provider) or ())

    async def _call(
        self, number: int, arguments: dict[str, Any], about: dict[str, Any], limits: list[float], *, counts: bool
    ) -> None:
        """One request: its events as they come. `limits`: seconds for reading and connecting."""
        import httpx

        from codelet.providers.by_litellm.stream import InterceptedStream, StreamEnd, StreamReader

        reader: StreamReader | None = None
        try:
            timeout = httpx.Timeout(limits[0], connect=limits[1])
            stream = await self._litellm.acompletion(**arguments, timeout=timeout)
            InterceptedStream.into(stream)
            reader = StreamReader(stream, counts_reasoning=counts)
            async for chunk in stream:
                event = reader.event(chunk)
                self._send(number, **({"alive": True} if event is None else {"event": event}))
        except StreamEnd:
            pass
        except Exception as error:
            raise _translated(error, about, begun=reader is not None and reader.begun) from error
        for event in reader.end() if reader else ():
            self._send(number, event=event)

    def _send(self, number: int, **message: object) -> None:
        _send(self._output, {"id": number, **message})


def _translated(error: Exception, about: dict[str, Any], *, begun: bool = False) -> CodeletError:
    from codelet.providers.by_litellm.failed_call import translated

    return translated(error, **about, begun=begun)


def _send(output: int, message: dict[str, Any]) -> None:
    data = memoryview(json.dumps(message, default=_plain).encode() + b"\n")
    while data:
        data = data[os.write(output, data) :]


def _plain(value: object) -> object:
    return value.model_dump() if hasattr(value, "model_dump") else str(value)
