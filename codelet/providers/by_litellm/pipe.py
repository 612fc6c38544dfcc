"""codelet's end of the pipe to litellm's process: one for all providers, in any event loop.

A thread with its own event loop talks to the process, so that it outlives a session's loop, and a switch of models does
not import litellm again. It ends some time after the last provider was closed, with codelet, or if it ignores a cancel.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from codelet.errors import CodeletError, ProviderError, UsageError
from codelet.providers.by_litellm import LONGEST_LINE
from codelet.system.process.service import Service, ServiceError, start_service
from codelet.system.process.start import StartError

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
_END_SECONDS = 2.0
_GONE = "litellm's process ended before it had answered"

_Line = dict[str, Any]


class LiteLLMProcess:
    """litellm's process, started on demand, and again if it is gone. Methods are thread-safe.

    An import of more than `import_seconds` is ended, and a process without users after `idle_seconds`.
    """

    def __init__(self, *, import_seconds: float = 120.0, idle_seconds: float = 20.0) -> None:
        self._import_seconds = import_seconds
        self._idle_seconds = idle_seconds
        self._loop = asyncio.new_event_loop()
        self._numbers = itertools.count(1)
        self._starting: asyncio.Task[Service] | None = None
        self._service: Service | None = None
        self._listeners: dict[int, Callable[[_Line], object] | None] = {}  # None: the request was left
        self._users: set[int] = set()
        self._writing = asyncio.Lock()
        threading.Thread(target=self._loop.run_forever, name="litellm", daemon=True).start()

    def warm(self, user: object) -> Future[Service]:
        """Start the process for a user. The result raises ProviderError if it cannot be used."""
        return asyncio.run_coroutine_threadsafe(self._started(id(user)), self._loop)

    def release(self, user: object) -> Future[None]:
        """A user is done. An import without users is ended immediately."""

        async def idled() -> None:
            await asyncio.sleep(self._idle_seconds)
            await self._stop_if_unused()

        async def released() -> None:
            self._users.discard(id(user))
            if self._service is None:
                await self._stop_if_unused()
            self._idling = self._loop.create_task(idled())

        return asyncio.run_coroutine_threadsafe(released(), self._loop)

    @asynccontextmanager
    async def request(self, user: object, call: dict[str, Any]) -> AsyncGenerator[asyncio.Queue[_Line]]:
        """Send a request; yields the queue of its answers, the last one `ended`. Leaving early cancels it."""
        loop, answers = asyncio.get_running_loop(), asyncio.Queue[_Line]()
        number = next(self._numbers)
        message = {"id": number, "call": call, "environment": {**os.environ, **_SWITCHES}}

        def deliver(answer: _Line) -> None:
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(answers.put_nowait, answer)

        async def sent() -> None:
            service = await self._started(id(user))
            self._listeners[number] = deliver
            try:
                await self._write(service, message)
            except ServiceError as error:
                raise ProviderError(f"{_GONE}: {error}", retryable=True) from error

        sending = asyncio.run_coroutine_threadsafe(sent(), self._loop)
        try:
            await asyncio.wrap_future(sending)
            yield answers
        finally:
            self._loop.call_soon_threadsafe(self._leave, number)

    async def _started(self, user: int) -> Service:
        self._users.add(user)
        if self._starting is None or (self._starting.done() and self._service is None):
            self._starting = self._loop.create_task(self._start())
        return await asyncio.shield(self._starting)

    async def _start(self) -> Service:
        paths = json.dumps([str(Path(__file__).parents[3]), *filter(None, sys.path)])
        flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        command = [sys.executable, *flags, "-c", _PROGRAM, paths]
        environment = {**os.environ, **_SWITCHES}
        try:
            service = await start_service(command, cwd=Path.cwd(), environment=environment, limit=LONGEST_LINE)
        except (StartError, OSError) as error:
            raise ProviderError(f"litellm's process cannot be started: {error}") from error
        atexit.unregister(self._stop_at_exit)
        atexit.register(self._stop_at_exit)  # now, to be called before the end of the supervisor
        try:
            async with asyncio.timeout(self._import_seconds):
                line = await service.read_line()
            reply: _Line = json.loads(line) if line else {"failed": {"text": _ended(service)}}
            if "failed" in reply:
                raise failure_in(reply["failed"])
        except BaseException as error:
            await service.close(patience=0.0)
            if isinstance(error, TimeoutError):
                text = f"litellm was not imported within {self._import_seconds:g} s; it was ended"
                raise ProviderError(text) from None
            raise
        self._service = service
        self._reading = self._loop.create_task(self._read(service))
        return service

    async def _read(self, service: Service) -> None:
        """Hand each line to its request; once the process is gone, notify all that wait."""
        try:
            with suppress(ServiceError):
                while (line := await service.read_line()) is not None:
                    answer = json.loads(line)
                    listener = self._listeners.get(answer["id"])
                    if "ended" in answer:
                        self._listeners.pop(answer["id"], None)
                    if listener is not None:
                        listener(answer)
        finally:
            await self._end(service)

    async def _end(self, service: Service) -> None:
        """End the process and notify all requests; the next one starts another."""
        if service is self._service:
            self._service = None
            waiting, self._listeners = self._listeners, {}
            for listener in filter(None, waiting.values()):
                listener({"failed": {"text": _ended(service), "retryable": True}})
        await service.close(patience=0.0)

    async def _write(self, service: Service, message: _Line) -> None:
        async with self._writing:
            await service.write(json.dumps(message, default=str).encode() + b"\n")

    def _leave(self, number: int) -> None:
        """Cancel an unfinished request; a process that does not end it soon is ended."""
        service = self._service
        if number not in self._listeners or service is None:
            return
        self._listeners[number] = None

        async def cancelled() -> None:
            with suppress(ServiceError):
                await self._write(service, {"id": number, "cancel": True})
            await asyncio.sleep(_CANCEL_SECONDS)
            if number in self._listeners and service is self._service:
                await self._end(service)

        self._cancelling = self._loop.create_task(cancelled())

    async def _stop_if_unused(self) -> None:
        if not self._users:
            await self._stop()

    async def _stop(self) -> None:
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        elif self._service is not None:
            await self._end(self._service)

    def _stop_at_exit(self) -> None:
        with suppress(Exception):  # its guard ends the process anyway
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_END_SECONDS)


def failure_in(reply: dict[str, Any]) -> CodeletError:
    """The error that the process reports."""
    facts = dict(reply)
    kind, text = facts.pop("kind", "ProviderError"), facts.pop("text")
    return UsageError(text) if kind == "UsageError" else ProviderError(text, **facts)


def _ended(service: Service) -> str:
    last = service.errors.strip().rpartition("\n")[2][-200:]
    return f"{_GONE}{f': {last}' if last else ''}"
