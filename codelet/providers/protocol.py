"""The Provider protocol: what turns messages into a stream of chunks; a request that fails is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Literal, Protocol

from codelet.errors import ProviderError
from codelet.messages import Message
from codelet.providers.catalog import Vendor
from codelet.record import Record
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.providers.asking import ServerFacts

LONGEST_ORIGIN = 512
"""Characters of a provider's `origin`, as an export takes it."""

LARGEST_ANSWER = 16_000_000
"""Characters of all that an answer holds: text, reasoning, and the names and arguments of its calls."""

MOST_CALLS = 1_000
"""Tool calls of one answer."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How hard a model is to think before it answers, as a user says it."""

FinishReason = Literal["stop", "tool_calls", "length", "refused", "paused"]


class TextChunk(Record):
    """A piece of the answer."""

    text: str


class ReasoningChunk(Record):
    """A piece of reasoning to show, or what must be kept of it to send it back.

    `text` is for people, `inline` the same as it came in the answer's own text; `block` is a finished block of
    reasoning (Anthropic), `details` entries of `reasoning_details` (OpenAI-like servers). The texts become the
    message's field `field`, as the server named it.
    """

    text: str = ""
    block: dict[str, Any] | None = None
    details: list[dict[str, Any]] | None = None
    field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    inline: str = ""


class BlockChunk(Record):
    """A text or a call begins, on wires whose answers go back with their blocks in order."""

    kind: Literal["text", "tool_use"]


class BlocksChunk(Record):
    """The order of a whole answer, as a message's `blocks` hold it, on wires that tell it at the end."""

    blocks: list[dict[str, Any]]


class OpenedChunk(Record):
    """A block of the answer has begun whose pieces come later, such as hidden reasoning. A wire keeps it to itself."""


class DroppedChunk(Record):
    """How many blocks of earlier reasoning the server left out of the request, because they were not valid there."""

    count: int


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
    """The stream's finish marker. A stream that ends without one was cut.

    `bound_to` is the digest of the request, if the answer's reasoning is valid only after that very prefix.
    """

    reason: FinishReason
    bound_to: str = ""


class RetryChunk(Record, kw_only=True):
    """The request failed and will be sent again after `wait` seconds. What came of its answer counts no more.

    `other_form` says that the server wanted it otherwise, which is no failure of the server's.
    """

    attempt: int
    attempts: int
    wait: float
    reason: str
    other_form: bool = False


class NoteChunk(Record):
    """A sentence that the user is shown once: how requests to this model differ, and why."""

    text: str


Chunk = (
    TextChunk
    | ReasoningChunk
    | BlockChunk
    | BlocksChunk
    | OpenedChunk
    | DroppedChunk
    | ExtraChunk
    | RefusalChunk
    | ToolCallChunk
    | UsageChunk
    | FinishChunk
    | RetryChunk
    | NoteChunk
)


class Request(Record):
    """One model request. The last `tail` messages are volatile reminders: the cache mark goes before them.

    `schema` is the JSON Schema that the final answer has to meet, if there is one. `unseen`: no one sees the answer
    before it is whole, so one that broke off is asked for again.
    """

    system: str
    messages: Sequence[Message]
    tail: int = 0
    tools: Sequence[dict[str, Any]] = ()
    max_output: int | None = None
    schema: dict[str, Any] | None = None
    unseen: bool = False


class Deadlines(Record, kw_only=True):
    """Time limits of one request in seconds."""

    connect: float = 15.0
    first_token: float = 900.0
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
    """What a provider is opened with, whichever wire it speaks. `vendors` are those of the user's settings.

    Without an `effort` requests do not mention one. `debug_requests` prints every request.
    """

    api_base: str | None = None
    api_key: str | None = None
    deadlines: Deadlines = Deadlines()
    retries: Retries = Retries()
    vendors: Sequence[Vendor] = ()
    effort: Effort | None = None
    debug_requests: bool = False


class Provider(Protocol):
    """A model behind a wire. `name` says who answers; `origin` marks what only it can read, such as reasoning. A method
    that a class derived from it leaves out does nothing.

    `local` says that it answers on this machine, where no list price holds. `effort` is what was asked for.
    """

    model: str
    name: str
    origin: str
    local: bool
    effort: Effort | None

    @property
    def prefix_bound(self) -> bool:
        """Return whether reasoning is valid only after the very prefix that it was made with."""
        return False

    @property
    def drops_thinking(self) -> bool:
        """Return whether the server has refused reasoning for its prefix once: it is left out from then on."""
        return False

    def drop_thinking(self) -> None:
        """Leave reasoning out from now on if its prefix has changed, as a session did before."""
        return

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of one answer, in order; raises ProviderError. Ended by cancelling its task."""
        ...

    async def warm(self) -> None:
        """Start ahead what the first request would wait for, a connection or an import, and return at once."""
        return

    async def ask(self) -> ServerFacts | None:
        """Return what the server itself says of the model, in a few seconds at most; None if it cannot be asked."""
        return None

    async def close(self) -> None:
        """Close connections. Safe to call twice."""
        return


async def with_retries(
    attempt: Callable[[], AsyncGenerator[Chunk, None]],
    retries: Retries,
    adapted: Callable[[ProviderError], bool] = lambda _: False,
    notes: list[str] | None = None,
    *,
    unseen: bool = False,
) -> AsyncGenerator[Chunk, None]:
    """The chunks of the first attempt that yields any; a RetryChunk announces each wait.

    `adapted` is called with a failure that comes before the first chunk. If it returns True, the next attempt is sent
    at once, in the form that the server wants, and does not count as a repetition.

    `notes` go out before the next attempt and are taken off the list; `adapted` may add to it.

    An attempt that fails after its first chunk (usage and notes aside) is not repeated, unless it is `unseen`: it has
    been shown already. Each wait is twice the one before, with jitter, and never shorter than the server asks for;
    their sum is bounded.
    """
    waits = _Waits(retries)
    number = 1
    while True:
        begun = False
        size = AnswerSize()
        while notes:
            yield NoteChunk(notes.pop(0))
        try:
            async with aclosing(attempt()) as chunks:
                async for chunk in chunks:
                    size.add(chunk)
                    begun = begun or not isinstance(chunk, UsageChunk | NoteChunk | BlockChunk | DroppedChunk)
                    yield chunk
            return
        except ProviderError as error:
            reason = str(error)
            other_form = not begun and adapted(error)
            if not other_form:
                shown = begun and not unseen
                if shown or not error.retryable or number >= retries.attempts:
                    raise
                wait = waits.before(number + 1, error)
        if other_form:
            yield RetryChunk(attempt=number, attempts=retries.attempts, wait=0.0, reason=reason, other_form=True)
            continue
        number += 1
        yield RetryChunk(attempt=number, attempts=retries.attempts, wait=wait, reason=reason)
        await asyncio.sleep(wait)


class _Waits:
    """The waits before the attempts of one request, and what they come to."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._own = 0.0
        self._asked = 0.0
        self._failed: float | None = None

    def before(self, number: int, error: ProviderError) -> float:
        """The seconds to wait before that attempt, after that error.

        Raises ProviderError if none are left to wait, or where the server asks for more than is waited.
        """
        from random import uniform

        grown: float = self._retries.first_wait * 2 ** (number - 2) * uniform(0.75, 1.25)
        if error.retry_after is not None and error.retry_after >= grown:
            return self._as_asked(error, error.retry_after)
        wait = min(grown, self._left(error))
        if wait <= 0:
            raise error
        self._own += wait
        return max(wait, error.retry_after or 0.0)

    def _as_asked(self, error: ProviderError, asked: float) -> float:
        most = self._retries.asked_wait
        if self._asked + asked > most:
            message = f"{error}; waiting {asked:.0f} s more would pass the limit of {most:.0f} s"
            raise ProviderError(message, status=error.status) from None
        self._asked += asked
        return asked

    def _left(self, error: ProviderError) -> float:
        left = self._retries.total_wait - self._own
        if error.patience is None:
            return left
        now = asyncio.get_running_loop().time()
        self._failed = now if self._failed is None else self._failed
        return min(left, error.patience - (now - self._failed))


class AnswerSize:
    """What one answer has come to so far: a server that never ends must not fill the memory."""

    def __init__(self) -> None:
        self._size = 0
        self._calls: set[tuple[int, str]] = set()

    def add(self, chunk: Chunk) -> None:
        """Count a chunk; raises ProviderError if the answer is too large with it."""
        match chunk:
            case TextChunk() | RefusalChunk():
                self._size += len(chunk.text)
            case ReasoningChunk():
                self._size += max(len(chunk.text), len(chunk.inline)) + _size(chunk.block) + _size(chunk.details)
            case BlockChunk():
                self._size += len(chunk.kind)
            case BlocksChunk():
                self._size += _size(chunk.blocks)
            case ExtraChunk():
                self._size += _size(chunk.extra)
            case ToolCallChunk():
                self._size += len(chunk.name) + len(chunk.arguments) + _size(chunk.extra)
                if chunk.id or chunk.name:
                    self._calls.add((chunk.index, chunk.id))
        if self._size > LARGEST_ANSWER:
            raise ProviderError(f"the answer is longer than {LARGEST_ANSWER / 1e6:.0f} MB: it was not read to its end")
        if len(self._calls) > MOST_CALLS:
            raise ProviderError(f"the answer has more than {MOST_CALLS:,} tool calls: it was not read to its end")


def _size(value: object) -> int:
    return 0 if value is None else len(repr(value))
