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
from codelet.providers.connection import ClosedEarly, Connection
from codelet.providers.failure import stalled
from codelet.providers.protocol import Deadlines

_TURN = 0.005
"""Seconds of uninterrupted reading before signals and other tasks get their turn."""
_TRAILER_WAIT = 0.3
_TLS_ALERT = b"\x15\x03"


async def read_head(connection: Connection, first_until: float, deadlines: Deadlines) -> h11.Response:
    """The status and headers; raises ClosedEarly if the peer hangs up instead, and ProviderError."""
    while True:
        event = await _first_event(connection, first_until, deadlines)
        if isinstance(event, h11.Response):
            return event


async def finish(connection: Connection) -> None:
    """Read past the stream's end marker, so that the connection can be kept."""
    until = asyncio.get_running_loop().time() + _TRAILER_WAIT
    with suppress(ProviderError, ClosedEarly):
        while connection.state.their_state is h11.SEND_BODY:
            await _next_event(connection, until, "no end")


def can_be_kept(connection: Connection) -> bool:
    """Return whether the connection can carry another request, and prepare it."""
    state = connection.state
    if state.our_state is not h11.DONE or state.their_state is not h11.DONE:
        return False
    state.start_next_cycle()
    return True


class Response:
    """A response whose headers have arrived; `body()` yields the rest.

    Its reader calls `heard` for each piece of the answer, and `opened` when a block begins. The deadline for the first
    token counts from the request until the first byte of the body (many servers send headers before they read a long
    prompt), then again from the first byte, each piece, and each new block: a model may think for minutes while the
    server sends only keep-alives. Between the pieces of a block the shorter deadline for bytes of any kind counts too.
    """

    def __init__(self, connection: Connection, head: h11.Response, deadlines: Deadlines, first_until: float) -> None:
        self.status = head.status_code
        self.proxy = connection.proxy
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        self._heard = False
        self._since: float | None = None
        self._connection = connection
        self._deadlines = deadlines
        self._first_until = first_until
        self._begun = False
        self._event: object = h11.NEED_DATA  # the event after the last piece
        self._turned = asyncio.get_running_loop().time()

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
        if encoding == "identity":
            return self
        from codelet.providers.answer import unpacked  # never requested

        return unpacked(self, encoding)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if (now := asyncio.get_running_loop().time()) - self._turned > _TURN:
            await asyncio.sleep(0)  # signals get their turn, however fast the server is
            self._turned = now
        event = await self._next_event() if self._event is h11.NEED_DATA else self._event
        if isinstance(event, h11.Data):
            data, self._event = _with_available(self._connection, event)
            if not self._begun:
                self.opened()
            return data
        if isinstance(event, h11.EndOfMessage):
            self._event = event
            raise StopAsyncIteration
        if isinstance(event, ProviderError):
            raise event
        raise ProviderError("the connection was closed in the middle of the answer", retryable=True)

    async def text(self) -> str:
        """The body as text, cut at 64 KiB: for error messages."""
        return (await self.read(65_536)).decode("utf-8", "replace")

    async def read(self, limit: int) -> bytes:
        """The body, cut at `limit` bytes, or where it fails."""
        data = bytearray()
        with suppress(ProviderError):
            async for piece in self.body():
                data += piece
                if len(data) >= limit:
                    break
        return bytes(data[:limit])

    async def _next_event(self) -> object:
        now = asyncio.get_running_loop().time()
        if self._heard:
            self._since, self._heard = now, False
        if self._since is None:
            if not self._begun:
                return await _first_event(self._connection, self._first_until, self._deadlines)
            return await _next_event(self._connection, self._first_until, _only_signs(self._deadlines.first_token))
        silence = self._deadlines.between_chunks
        most = max(silence, self._deadlines.first_token)
        if now + silence <= self._since + most:
            return await _next_event(self._connection, now + silence, f"no data for {silence:g} seconds")
        return await _next_event(self._connection, self._since + most, _only_signs(most))


def _only_signs(seconds: float) -> str:
    return f"nothing but signs of life for {seconds:g} seconds"


async def _first_event(connection: Connection, until: float, deadlines: Deadlines) -> object:
    """The next event before the first token."""
    return await _next_event(connection, until, f"no token within {deadlines.first_token:g} seconds")


async def _next_event(connection: Connection, until: float, late: str) -> object:
    """The next protocol event; raises ProviderError with `late` after the loop's time `until`."""
    state = connection.state
    try:
        if (event := _parsed_event(connection)) is h11.NEED_DATA:
            async with asyncio.timeout_at(until):
                while (event := _parsed_event(connection)) is h11.NEED_DATA:
                    data = await connection.read()
                    if data[:2] == _TLS_ALERT and state.their_state is h11.SEND_RESPONSE:
                        raise ProviderError("the server speaks https: begin --api-base with https://")
                    if not data and state.their_state is h11.SEND_RESPONSE:
                        raise ClosedEarly
                    state.receive_data(data)
    except TimeoutError:
        raise stalled(f"{late}: the answer has stalled") from None
    except OSError:
        if state.their_state is h11.SEND_RESPONSE:
            raise ClosedEarly from None
        raise ProviderError("the connection was cut in the middle of the answer", retryable=True) from None
    return event


def _with_available(connection: Connection, event: h11.Data) -> tuple[bytes, object]:
    """The data with that of the following chunks already read, and the event or error after them.

    Many servers send each event as a chunk; those that came together are passed on together.
    """
    pieces = [event.data]
    try:
        while isinstance(following := _parsed_event(connection), h11.Data):
            pieces.append(following.data)
    except ProviderError as error:
        return b"".join(pieces), error
    return b"".join(pieces), following


def _parsed_event(connection: Connection) -> object:
    """The next protocol event in the read bytes, or NEED_DATA; raises ProviderError for invalid HTTP."""
    try:
        return connection.state.next_event()
    except h11.RemoteProtocolError as error:
        if connection.reader.at_eof():
            raise ProviderError("the connection was cut in the middle of the answer", retryable=True) from None
        raise ProviderError(f"the answer is not valid HTTP: {error}") from None
