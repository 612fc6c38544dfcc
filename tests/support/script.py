"""What the model server plays: replies, and everything that can go wrong in their place.

A script is a list of steps, one a request, or a function from the recorded request to a step. Each step is a
frozen dataclass that knows no protocol; `wires.py` writes it as Chat Completions, Responses or Messages.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from tests.support.server import Recorded

Finish = Literal["stop", "tool_calls", "length", "refused"]


@dataclass(frozen=True)
class Tokens:
    """Usage as codelet counts it: `total_input` includes the cached part; each wire tells it its own way."""

    total_input: int = 100
    cache_read: int = 0
    cache_write: int = 0
    output: int = 10
    reasoning: int = 0


@dataclass(frozen=True)
class Call:
    """One tool call. `arguments` is an object or raw text; `splits` are the offsets where it is cut.

    `index` overrides the number that the server gives the call (several servers give 0 to all of them);
    `repeat_id` sends the id with each piece; `extra` are fields beside the function, such as a signature.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str
    splits: tuple[int, ...] = ()
    index: int | None = None
    repeat_id: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def json(self) -> str:
        """The arguments as the text that travels."""
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    @property
    def pieces(self) -> list[str]:
        """The argument text cut at `splits`."""
        text = self.json
        edges = [0, *self.splits, len(text)]
        return [text[start:end] for start, end in pairwise(edges)]


@dataclass(frozen=True)
class Delivery:
    """How the bytes of an answer travel. None of these is a fault: a client must read all of them.

    `piece` cuts the whole answer into pieces of so many bytes; `pause` waits so many seconds before each
    piece or event; `usage` goes out in a last chunk of its own, beside the finish reason, or never; `done`
    sends Chat Completions' [DONE]; `odd_chunks` are chunked encoding's rarities (extensions, leading zeros,
    capitals, a trailer); `comments` puts a ": ping" line before each event; `close` is what happens to the
    connection afterwards: kept, closed without notice, or closed as the header said.
    """

    framing: Literal["chunked", "length", "close"] = "chunked"
    piece: int | None = None
    pause: float = 0.0
    line_end: str = "\n"
    content_type: str = "text/event-stream"
    odd_chunks: bool = False
    comments: bool = False
    bom: bool = False
    done: bool = True
    usage: Literal["own", "finish", "none"] = "own"
    close: Literal["keep", "silent", "announced"] = "keep"


@dataclass(frozen=True)
class Stop:
    """The stream stops after `after` events: None before the headers, 0 right after them.

    `stall` says nothing more until the client leaves (or for `seconds`, then goes on), `cut` closes the
    connection in mid-message, `reset` sends RST, `half_close` shuts down only the server's sending side,
    `clean_end` ends the HTTP message as if all were well, without a finish marker.
    """

    how: Literal["stall", "cut", "reset", "half_close", "clean_end"]
    after: int | None = 0
    seconds: float | None = None


@dataclass(frozen=True)
class Insert:
    """Raw bytes in the stream after `after` events; then the stream goes on."""

    raw: bytes
    after: int = 1


@dataclass(frozen=True)
class StreamError:
    """The vendor's error event after `after` events, and the end of the stream."""

    message: str = "the server is overloaded"
    kind: str = "overloaded_error"
    after: int = 1


Fault = Stop | Insert | StreamError


@dataclass(frozen=True)
class Reply:
    """One answer of the model, in pieces. Calls go out one after the other, or `interleaved` piece by piece.

    `finish` defaults to what the content says. `refusal` is what the model says in place of an answer: Anthropic's wire
    has a stop reason for that, and no text. `fault` is what goes wrong on the way. `reasoning_field` is what Chat
    Completions calls the reasoning; `details` are entries of `reasoning_details`. `order` lists the blocks of an answer
    over Anthropic's wire: "think" (with the next of `signatures`, and no text, as new models send it), "text" (the next
    piece) and "call" (the next one). `dropped` thinking blocks of the request were left out, says that wire.
    """

    text: str | Sequence[str] = ()
    reasoning: str | Sequence[str] = ()
    reasoning_field: str = "reasoning_content"
    details: Sequence[Mapping[str, Any]] = ()
    signature: str = "c2lnbmF0dXJl"
    order: Sequence[str] = ()
    signatures: Sequence[str] = ()
    dropped: int = 0
    calls: Sequence[Call] = ()
    interleaved: bool = False
    usage: Tokens | None = Tokens()
    finish: Finish | None = None
    refusal: str = ""
    delivery: Delivery = Delivery()
    fault: Fault | None = None

    @property
    def text_pieces(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else list(self.text)

    @property
    def reasoning_pieces(self) -> list[str]:
        return [self.reasoning] if isinstance(self.reasoning, str) else list(self.reasoning)

    @property
    def reason(self) -> Finish:
        return self.finish or ("tool_calls" if self.calls else "stop")


@dataclass(frozen=True)
class HttpError:
    """An answer with an error status and the vendor's JSON body, or `body` as it is."""

    status: int
    message: str = "something is wrong"
    kind: str | None = None
    retry_after: float | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"


@dataclass(frozen=True)
class Body:
    """A whole answer of other bytes, with status 200 unless told: an HTML page, JSON, nothing at all."""

    raw: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200


Step = Reply | HttpError | Body | Stop
Script = Sequence[Step] | Callable[["Recorded"], Step]


def redirect(location: str, status: int = 307) -> HttpError:
    """A redirect to another address."""
    return HttpError(status, headers={"Location": location}, body=b"")


def load(path: Path) -> list[Step]:
    """The script in a JSON file: a list of objects with the fields of Reply.

    `{"status": 429, …}` is an HttpError, `{"stop": {…}}` inside an object the reply's Stop. `"repeat": N`
    stands for N steps with `{n}` in ids and arguments replaced by the step's number from 0.
    """
    steps: list[Step] = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        count = entry.pop("repeat", 1)
        for number in range(count):
            steps.append(_step(entry, number))
    return steps


def _step(entry: dict[str, Any], number: int) -> Step:
    if "status" in entry:
        return HttpError(**entry)
    fields = dict(entry)
    fields["calls"] = [_call(call, number) for call in entry.get("calls", ())]
    if "usage" in fields and fields["usage"] is not None:
        fields["usage"] = Tokens(**fields["usage"])
    if "delivery" in fields:
        fields["delivery"] = Delivery(**fields["delivery"])
    if "stop" in fields:
        fields["fault"] = Stop(**fields.pop("stop"))
    return Reply(**fields)


def _call(entry: dict[str, Any], number: int) -> Call:
    text = entry["arguments"] if isinstance(entry["arguments"], str) else json.dumps(entry["arguments"])
    call = Call(entry["id"], entry["name"], text, tuple(entry.get("splits", ())))
    mark = str(number)
    return dataclasses.replace(call, id=call.id.replace("{n}", mark), arguments=text.replace("{n}", mark))
