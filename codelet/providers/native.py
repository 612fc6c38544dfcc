"""What both native wires share: one connection, retries, and what an answer's status and type mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from codelet.errors import ProviderError
from codelet.messages import Message
from codelet.providers.base import LONGEST_ORIGIN, Chunk, ProviderOptions, Request, UsageChunk
from codelet.providers.catalog import Endpoint
from codelet.providers.encoding import PrefixCache
from codelet.providers.failure import failure, without_key
from codelet.providers.http import HttpClient
from codelet.providers.retry import with_retries
from codelet.providers.sse import json_events


class NativeProvider(ABC):
    """A model behind a server over HTTP. A wire gives `_path`, `_headers`, `_body`, `_encode` and `_chunks`."""

    def __init__(self, model: str, endpoint: Endpoint, options: ProviderOptions, *, origin: str) -> None:
        self.model = model
        self.name = endpoint.name
        self.origin = origin[:LONGEST_ORIGIN]
        self.local = endpoint.local
        self._endpoint = endpoint
        self._options = options
        self._http = HttpClient(endpoint.base, options.deadlines, endpoint.check)
        self._cache = PrefixCache(self._encode)
        self._other_base: str | None = None
        self._notes: list[str] = []

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of one answer; see `Provider.stream`."""
        body = self.body(request)

        def adapted(error: ProviderError) -> bool:
            nonlocal body
            if not self._adapted(error):
                return False
            body = self.body(request)
            return True

        return with_retries(lambda: self._attempt(body), self._options.retries, adapted, self._notes)

    async def warm(self) -> None:
        """Start opening the connection."""
        self._http.warm()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    @abstractmethod
    def body(self, request: Request) -> bytes:
        """The request's body: what never changes comes first, then the messages, then the options."""

    @abstractmethod
    def _path(self) -> str:
        """The path behind the endpoint's base."""

    @abstractmethod
    def _headers(self) -> dict[str, str]:
        """The wire's own headers, the key's among them."""

    @abstractmethod
    def _encode(self, message: Message, state: str) -> tuple[bytes, str]:
        """One message's bytes; see `PrefixCache`."""

    @abstractmethod
    def _chunks(self, events: AsyncGenerator[dict[str, Any], None]) -> AsyncGenerator[Chunk, None]:
        """The chunks of an answer's events, ended by the finish marker."""

    def _adapted(self, error: ProviderError) -> bool:
        """Whether the wire sends requests in another form from now on, for what the error says of this one."""
        return False

    async def _attempt(self, body: bytes) -> AsyncGenerator[Chunk, None]:
        async with self._http.post(self._path(), self._headers(), body) as response:
            if response.status != 200:
                raise failure(
                    response.status,
                    response.headers,
                    await response.text(),
                    place=self._endpoint.name,
                    key_name=self._endpoint.key_name,
                    key=self._endpoint.key,
                    other_base=self._other_base,
                )
            if "text/html" in response.headers.get("content-type", ""):
                raise ProviderError(f"{self._http.place} answered with a web page; check --api-base")
            try:
                async with aclosing(json_events(response.body())) as events:
                    async for chunk in self._chunks(events):
                        if not isinstance(chunk, UsageChunk):
                            response.heard()
                        yield chunk
            except ProviderError as error:
                error.args = (without_key(str(error), self._endpoint.key),)
                raise
