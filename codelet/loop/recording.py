"""`--record`: a provider that passes on another one's answers, and keeps each in a file.

The file is a recording that `replay:FILE` plays: whole JSON after every answer, readable by its owner only, without
secrets. An answer that someone stopped is not kept; one that failed is kept with the failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

from codelet.errors import ProviderError, UsageError
from codelet.loop.reply import Reply
from codelet.providers.protocol import Chunk, Provider, ReasoningChunk, Request, RetryChunk, ServerFacts
from codelet.safety.opener import open_named
from codelet.safety.secrets import mask
from codelet.tools.call_forms import strict_object

_VERSION = 1
_END = b"\n]}\n"


def begin_recording(path: str, model: str, *, force: bool) -> None:
    """Make the file, without an answer yet. Raises UsageError if there is one, unless `force` replaces it."""
    head = {"version": _VERSION, "model": model}
    data = json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "steps": [' + _END
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    try:
        with os.fdopen(open_named(path, flags), "wb") as file:
            file.write(data)
    except FileExistsError:
        raise UsageError(f"--record {path}: there is such a file already; --force replaces it") from None
    except OSError as error:
        raise UsageError(f"--record {path}: {error.strerror or error}") from None


class RecordingProvider:
    """Another provider, whose answers go into the file of a recording that was begun."""

    def __init__(self, provider: Provider, path: str) -> None:
        self.model = provider.model
        self.name = provider.name
        self.origin = provider.origin
        self.local = provider.local
        self.effort = provider.effort
        self._provider = provider
        self._path = os.path.abspath(path)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The other's chunks. Once the last one was taken, the answer is in the file."""
        reply, reasoning = Reply(), ""
        try:
            async with aclosing(self._provider.stream(request)) as chunks:
                async for chunk in chunks:
                    reply.add(chunk)
                    if isinstance(chunk, ReasoningChunk):
                        reasoning += chunk.text
                    elif isinstance(chunk, RetryChunk):
                        reasoning = ""  # of an answer that is requested again
                    yield chunk
        except ProviderError as error:
            failure = {"message": _masked(str(error)), "overflow": error.overflow}
            failure |= {"status": error.status, "window": error.window, "prompt_size": error.prompt_size}
            self._keep({**_step(reply, reasoning), "error": failure})
            raise
        self._keep(_step(reply, reasoning))

    async def warm(self) -> None:
        """Start ahead what the first request would wait for."""
        await self._provider.warm()

    @property
    def prefix_bound(self) -> bool:
        """Return whether the model binds its reasoning to the prefix."""
        return self._provider.prefix_bound

    @property
    def drops_thinking(self) -> bool:
        """Return whether reasoning is left out."""
        return self._provider.drops_thinking

    def drop_thinking(self) -> None:
        """Leave reasoning out from now on."""
        self._provider.drop_thinking()

    async def ask(self) -> ServerFacts | None:
        """Return what the server itself says of the model."""
        return await self._provider.ask()

    async def close(self) -> None:
        """Close the other one."""
        await self._provider.close()

    def _keep(self, step: dict[str, object]) -> None:
        """Add an answer to the file. Raises ProviderError if it cannot be written: none is left out in silence."""
        line = json.dumps(step, ensure_ascii=False).encode("utf-8", "replace")
        try:
            with os.fdopen(open_named(self._path, os.O_RDWR), "r+b") as file:
                file.seek(-len(_END), os.SEEK_END)
                start = file.tell()
                if file.read() != _END:
                    raise ProviderError(f"the recording {self._path} was changed by another process")
                file.seek(start - 1)
                first = file.read(1) == b"["  # after which the file is at `start` again
                file.write((b"\n" if first else b",\n") + line + _END)
        except OSError as error:
            raise ProviderError(f"the recording {self._path} cannot be written: {error.strerror or error}") from None


def _step(reply: Reply, reasoning: str) -> dict[str, object]:
    """An answer as a recording has it; what is empty is left out."""
    calls = []
    for call in reply.calls(set()):
        arguments = _masked(call["function"]["arguments"])
        parsed = strict_object(arguments)
        calls.append(
            {
                "id": call["id"],
                "name": _masked(call["function"]["name"]) or "unnamed",
                "arguments": arguments if parsed is None else parsed,
            }
        )
    usage = reply.usage
    step = {
        "reasoning": _masked(reasoning),
        "text": _masked(reply.text),
        "refusal": _masked(reply.refusal),
        "tool_calls": calls,
        "usage": {} if usage is None else {name: getattr(usage, name) for name in usage.fields},
        "finish": reply.finish or "",
    }
    return {name: value for name, value in step.items() if value}


def _masked(text: str) -> str:
    return mask(text, patterns=True)
