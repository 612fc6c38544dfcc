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
from codelet.providers.protocol import LARGEST_ANSWER
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
_LONGEST_LINE = 4 * LARGEST_ANSWER
_IMPORT_SECONDS = 120.0
_CANCEL_SECONDS = 2.0
"""Seconds after which a process that ignores a cancel is ended."""
_IDLE_SECONDS = 20.0
_END_SECONDS = 2.0
_GONE = "litellm's process ended before it had answered"

_Line = dict[str, Any]


class LiteLLMProcess:
    """litellm's process, started on demand, and again if it is gone. Methods are thread-safe."""

    def __init__(self, *, import_seconds: float = _IMPORT_SECONDS, idle_seconds: float = _IDLE_SECONDS) -> None:
        """Start nothing yet. A longer import, or a longer idle process, is ended."""
        self._import_seconds = import_seconds
        self._idle_seconds = idle_seconds
        self._loop = asyncio.new_event_loop()
        self._numbers = itertools.count(1)
        self._starting: asyncio.Task[Service] | None = None
        self._service: Service | None = None
        self._listeners: dict[int, Callable[[_Line], object]] = {}
        self._unwanted: set[int] = set()
        self._users: set[int] = set()
        self._writing = asyncio.Lock()
        self._environment: dict[str, str] = {}
        threading.Thread(target=self._loop.run_forever, name="litellm", daemon=True).start()

    def warm(self, user: object) -> Future[Service]:
        """Start the process for a user. The result raises ProviderError if it cannot be used."""
        return asyncio.run_coroutine_threadsafe(self._started(id(user)), self._loop)

    def release(self, user: object) -> Future[None]:
        """A user is done. An import without users is ended immediately."""

        async def released() -> None:
            self._users.discard(id(user))
            if not self._users and self._starting is not None and not self._starting.done():
                self._starting.cancel()
                await asyncio.wait([self._starting])
            self._loop.call_later(self._idle_seconds, self._end_if_idle)

        return asyncio.run_coroutine_threadsafe(released(), self._loop)

    @asynccontextmanager
    async def request(self, user: object, message: dict[str, Any]) -> AsyncGenerator[asyncio.Queue[_Line]]:
        """Send a request; yields the queue of its answers, the last one `ended`. Leaving early cancels it."""
        loop, answers = asyncio.get_running_loop(), asyncio.Queue[_Line]()
        number = next(self._numbers)
        line = json.dumps({"id": number, **message}, default=str).encode() + b"\n"

        def deliver(answer: _Line) -> None:
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(answers.put_nowait, answer)

        sending = asyncio.run_coroutine_threadsafe(self._send(id(user), number, line, deliver), self._loop)
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
        self._environment = dict(os.environ)
        root = str(Path(__file__).parents[3])
        paths = json.dumps([root, *filter(None, sys.path)])
        flags = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
        try:
            service = await start_service(
                [sys.executable, *flags, "-c", _PROGRAM, paths],
                cwd=Path.cwd(),
                environment={**self._environment, **_SWITCHES},
                limit=_LONGEST_LINE,
            )
        except (StartError, OSError) as error:
            raise ProviderError(f"litellm's process cannot be started: {error}") from error
        atexit.register(self._end_at_exit)
        reply: _Line = {"failed": {"text": f"litellm was not imported within {self._import_seconds:g} s; it was ended"}}
        try:
            async with asyncio.timeout(self._import_seconds):
                line = await service.read_line()
            reply = json.loads(line) if line else {"failed": {"text": _ended(service)}}
        except TimeoutError:
            pass
        except BaseException:
            await service.close(patience=0.0)
            raise
        if "failed" in reply:
            await service.close(patience=0.0)
            raise failure_in(reply["failed"])
        self._service = service
        self._reading = self._loop.create_task(self._read(service))
        self._loop.call_later(self._idle_seconds, self._end_if_idle)
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
                        self._unwanted.discard(answer["id"])
                    if listener is not None:
                        listener(answer)
        finally:
            await self._end(service)

    async def _end(self, service: Service) -> None:
        """End the process and notify all requests; the next one starts another."""
        if service is self._service:
            self._service = None
            waiting, self._listeners = self._listeners, {}
            self._unwanted.clear()
            for listener in waiting.values():
                listener({"failed": {"text": _ended(service), "retryable": True}})
            atexit.unregister(self._end_at_exit)
        await service.close(patience=0.0)

    async def _send(self, user: int, number: int, line: bytes, deliver: Callable[[_Line], object]) -> None:
        service = await self._started(user)
        self._listeners[number] = deliver
        try:
            async with self._writing:
                if self._environment != (environment := dict(os.environ)):  # a key, or a proxy
                    self._environment = environment
                    line = json.dumps({"environment": {**environment, **_SWITCHES}}).encode() + b"\n" + line
                await service.write(line)
        except ServiceError as error:
            raise ProviderError(f"{_GONE}: {error}", retryable=True) from error

    def _leave(self, number: int) -> None:
        """Cancel an unfinished request; a process that does not end it soon is ended."""
        if self._listeners.pop(number, None) is None or self._service is None:
            return
        self._unwanted.add(number)
        self._loop.create_task(self._cancel(self._service, number))
        self._loop.call_later(_CANCEL_SECONDS, self._end_if_deaf, self._service, number)

    async def _cancel(self, service: Service, number: int) -> None:
        with suppress(ServiceError):
            async with self._writing:
                await service.write(json.dumps({"id": number, "cancel": True}).encode() + b"\n")

    def _end_if_deaf(self, service: Service, number: int) -> None:
        if number in self._unwanted and service is self._service:
            self._loop.create_task(self._end(service))

    def _end_if_idle(self) -> None:
        if not self._users and self._service is not None:
            self._loop.create_task(self._end(self._service))

    def _end_at_exit(self) -> None:
        async def ended() -> None:
            if self._starting is not None and not self._starting.done():
                self._starting.cancel()
                await asyncio.wait([self._starting])
            elif self._service is not None:
                await self._service.close(patience=0.0)

        with suppress(Exception):  # its guard ends the process anyway
            asyncio.run_coroutine_threadsafe(ended(), self._loop).result(_END_SECONDS)


def failure_in(reply: dict[str, Any]) -> CodeletError:
    """The error that the process reports."""
    facts = dict(reply)
    kind, text = facts.pop("kind", "ProviderError"), facts.pop("text")
    return UsageError(text) if kind == "UsageError" else ProviderError(text, **facts)


def _ended(service: Service) -> str:
    last = service.errors.strip().rpartition("\n")[2][-200:]
    return f"{_GONE}{f': {last}' if last else ''}"
