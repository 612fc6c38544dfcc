"""The Provider protocol: what turns messages into a stream of chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from codelet.messages import Message
from codelet.providers.catalog import Vendor
from codelet.record import Record
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.providers.asking import ServerFacts

LONGEST_ORIGIN = 512
"""Characters of a provider's `origin`, as an export takes it."""

FinishReason = Literal["stop", "tool_calls", "length", "refused", "paused"]


class TextChunk(Record):
    """A piece of the answer."""

    text: str


class ReasoningChunk(Record):
    """A piece of reasoning to show, or what must be kept of it to send it back.

    `text` is for people; `block` is a finished `thinking_blocks` entry (Anthropic), `details` entries of
    `reasoning_details` (OpenAI-like servers). The texts become the message's field `field`, as the server named it.
    """

    text: str = ""
    block: dict[str, Any] | None = None
    details: list[dict[str, Any]] | None = None
    field: Literal["reasoning_content", "reasoning"] = "reasoning_content"


class ExtraChunk(Record):
    """What the server sent beside the answer's text and must get back with it, field by field."""

    extra: dict[str, Any]


class ToolCallChunk(Record, kw_only=True):
    """A piece of a tool call: `index` is the server's own number, `arguments` the next piece of JSON text.

    `extra` is what the server sent beside it and must get back with the call, field by field.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: dict[str, Any] | None = None


class RefusalChunk(Record):
    """A piece of a refusal, where the wire distinguishes it from text."""

    text: str


class UsageChunk(Record):
    """The usage so far; a later one replaces an earlier one."""

    usage: Usage


class FinishChunk(Record):
    """The stream's finish marker. A stream that ends without one was cut."""

    reason: FinishReason


class RetryChunk(Record, kw_only=True):
    """The request failed before it gave anything and will be sent again after `wait` seconds."""

    attempt: int
    attempts: int
    wait: float
    reason: str


class NoteChunk(Record):
    """A sentence that the user is shown once: how requests to this model differ, and why."""

    text: str


Chunk = (
    TextChunk
    | ReasoningChunk
    | ExtraChunk
    | RefusalChunk
    | ToolCallChunk
    | UsageChunk
    | FinishChunk
    | RetryChunk
    | NoteChunk
)


class Request(Record):
    """One model request. The last `tail` messages are volatile reminders: the cache mark goes before them."""

    system: str
    messages: Sequence[Message]
    tail: int = 0
    tools: Sequence[dict[str, Any]] = ()
    max_output: int | None = None


class Deadlines(Record, kw_only=True):
    """Time limits of one request in seconds."""

    connect: float = 15.0
    first_token: float = 300.0
    between_chunks: float = 120.0


class Retries(Record, kw_only=True):
    """How often a failed request is sent again, and how long all waits together may last, in seconds.

    `asked_wait` bounds those that the server asks for, `total_wait` the others.
    """

    attempts: int = 5
    total_wait: float = 30.0
    asked_wait: float = 120.0
    first_wait: float = 1.0


class ProviderOptions(Record):
    """What a provider is opened with, whichever wire it speaks. `vendors` are those of the user's settings."""

    api_base: str | None = None
    api_key: str | None = None
    deadlines: Deadlines = Deadlines()
    retries: Retries = Retries()
    vendors: Sequence[Vendor] = ()


class Provider(Protocol):
    """A model behind a wire. `name` says who answers; `origin` marks what only it can read, such as reasoning.

    `local` says that it answers on this machine, where no list price holds.
    """

    model: str
    name: str
    origin: str
    local: bool

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of one answer, in order; raises ProviderError. Ended by cancelling its task."""
        ...

    async def warm(self) -> None:
        """Start ahead what the first request would wait for, a connection or an import, and return at once."""
        ...

    async def ask(self) -> ServerFacts | None:
        """What the server itself says of the model, in a few seconds at most; None where nobody can be asked."""
        ...

    async def close(self) -> None:
        """Close connections. Safe to call twice."""
        ...
