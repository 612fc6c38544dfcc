"""The response to a request: h11 over the received bytes, with a request's deadlines.

Imported after the first request has left: h11 costs more than the request, and the server needs a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Self

import h11

from codelet.errors import ProviderError
from codelet.providers.answer import unpacked
from codelet.providers.connection import ClosedEarly, Connection
from codelet.providers.failure import stalled
from codelet.providers.protocol import Deadlines

_TURN = 0.005
"""Seconds of uninterrupted reading before signals and other tasks get their turn."""
_TRAILER_WAIT = 0.3
_TLS_ALERT = b"\x15\x03"
_CUT = "the connection was cut in the middle of the answer"


class Response:
    """The response to a request that has just left; `read_head` comes first, then `body()` yields the rest.

    Its reader calls `heard` for each piece of the answer, and `opened` when a block begins. The deadline for the first
    token counts from the request until the first byte of the body (many servers send headers before they read a long
    prompt), then again from the first byte, each piece, and each new block: a model may think for minutes while the
    server sends only keep-alives. Between the pieces of a block the shorter deadline for bytes of any kind counts too.
    """

    def __init__(self, connection: Connection, deadlines: Deadlines, method: str) -> None:
        self.connection = connection
        self.proxy = connection.proxy
        self.status = 0
        self.headers: dict[str, str] = {}
        self._deadlines = deadlines
        self._heard = self._begun = False
        self._since: float | None = None
        self._event: object = h11.NEED_DATA  # the event after the last piece
        self._turned = asyncio.get_running_loop().time()
        self._first_until = self._turned + deadlines.first_token
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
        self._state.send(h11.Request(method=method, target="/", headers=[("host", "-")]))  # what was sent matters not
        self._state.send(h11.EndOfMessage())

    async def read_head(self) -> None:
        """Read status and headers; raises ClosedEarly if the peer hangs up instead, and ProviderError."""
        while not isinstance(event := await self._next_event(*self._due()), h11.Response):
            pass  # an interim answer
        self.status = event.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}

    def heard(self) -> None:
        """The last bytes held a piece of the answer."""
        self._heard = True

    def opened(self) -> None:
        """A block has begun: its first piece may take as long as the first token."""
        self._heard, self._since, self._begun = False, None, True
        self._first_until = asyncio.get_running_loop().time() + self._deadlines.first_token

    def body(self) -> AsyncIterator[bytes]:
        """The body's pieces; raises ProviderError if it stalls or is cut."""
        encoding = self.headers.get("content-encoding", "identity")
        return self if encoding == "identity" else unpacked(self, encoding)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The data of all chunks that came together: many servers send each event as a chunk."""
        if (now := asyncio.get_running_loop().time()) - self._turned > _TURN:
            await asyncio.sleep(0)  # signals get their turn, however fast the server is
            self._turned = now
        event = await self._next_event(*self._due()) if self._event is h11.NEED_DATA else self._event
        if isinstance(event, h11.Data):
            pieces = []
            try:
                while isinstance(event, h11.Data):
                    pieces.append(event.data)
                    event = self._parsed()
            except ProviderError as error:
                event = error
            self._event = event
            if not self._begun:
                self.opened()
            return b"".join(pieces)
        if isinstance(event, h11.EndOfMessage):
            self._event = event
            raise StopAsyncIteration
        raise event if isinstance(event, ProviderError) else ProviderError(_CUT, retryable=True)

    async def text(self) -> str:
        """The body as text, cut at 64 KiB: for error messages."""
        return (await self.read(65_536)).decode("utf-8", "replace")

    async def read(self, limit: int, until: float | None = None) -> bytes:
        """The body, cut at `limit` bytes, at the loop's time `until`, or where it fails."""
        data = bytearray()
        with suppress(ProviderError, TimeoutError):
            async with asyncio.timeout_at(until):
                async for piece in self.body():
                    data += piece
                    if len(data) >= limit:
                        break
        return bytes(data[:limit])

    async def finish(self) -> bool:
        """Read past the stream's end marker. Return whether the connection can carry another request."""
        until = asyncio.get_running_loop().time() + _TRAILER_WAIT
        with suppress(ProviderError):
            while self._state.their_state is h11.SEND_BODY:
                await self._next_event(until, "no end")
        return self._state.our_state is h11.DONE and self._state.their_state is h11.DONE

    def _due(self) -> tuple[float, str]:
        """The loop's time until which the next event may take, and what to say after it."""
        now, first = asyncio.get_running_loop().time(), self._deadlines.first_token
        silence = self._deadlines.between_chunks
        if self._heard:
            self._since, self._heard = now, False
        if not self._begun:
            return self._first_until, f"no token within {first:g} seconds"
        if self._since is None:
            return self._first_until, f"nothing but signs of life for {first:g} seconds"
        most = max(silence, first)
        if now + silence <= self._since + most:
            return now + silence, f"no data for {silence:g} seconds"
        return self._since + most, f"nothing but signs of life for {most:g} seconds"

    async def _next_event(self, until: float, late: str) -> object:
        """The next protocol event; raises ProviderError with `late` after the loop's time `until`."""
        has_head = self._state.their_state is not h11.SEND_RESPONSE
        try:
            if (event := self._parsed()) is h11.NEED_DATA:
                async with asyncio.timeout_at(until):
                    while (event := self._parsed()) is h11.NEED_DATA:
                        data = await self.connection.read()
                        if not has_head and data[:2] == _TLS_ALERT:
                            raise ProviderError("the server speaks https: begin --api-base with https://")
                        if not has_head and not data:
                            raise ClosedEarly
                        self._state.receive_data(data)
        except TimeoutError:
            raise stalled(f"{late}: the answer has stalled") from None
        except OSError:
            if not has_head:
                raise ClosedEarly from None
            raise ProviderError(_CUT, retryable=True) from None
        return event

    def _parsed(self) -> object:
        """The next protocol event in the read bytes, or NEED_DATA; raises ProviderError for invalid HTTP."""
        try:
            return self._state.next_event()
        except h11.RemoteProtocolError as error:
            if self.connection.reader.at_eof():
                raise ProviderError(_CUT, retryable=True) from None
            raise ProviderError(f"the answer is not valid HTTP: {error}") from None
