"""The Provider protocol: messages in, a stream of chunks out; failed requests are retried."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Literal, Protocol

from codelet.errors import ProviderError
from codelet.messages import Message
from codelet.providers.catalog import Vendor
from codelet.record import Record
from codelet.usage import Usage

LONGEST_ORIGIN = 512
"""Characters of a provider's `origin` that an export takes."""

LARGEST_ANSWER = 16_000_000
"""Characters of one answer: text, reasoning, names and arguments of calls."""

MOST_CALLS = 1_000
MOST_TOKENS = 10**9
"""More than any request has: a larger number is not a count, and its sums would leave an export's range."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The levels of effort that a user can name."""

FinishReason = Literal["stop", "tool_calls", "length", "refused", "paused"]


class TextChunk(Record):
    """A piece of the answer."""

    text: str


class ReasoningChunk(Record):
    """A piece of reasoning: `text` to show, and what goes back.

    `inline` is the same as it came in the answer's own text; `block` a complete block of reasoning (Anthropic),
    `details` entries of `reasoning_details` (OpenAI-like servers). The texts become the message's field `field`.
    """

    text: str = ""
    block: dict[str, Any] | None = None
    details: list[dict[str, Any]] | None = None
    field: Literal["reasoning_content", "reasoning"] = "reasoning_content"
    inline: str = ""


class BlockChunk(Record):
    """A text or a call begins, on wires that keep the order of an answer's blocks; "silent" blocks stay in the wire."""

    kind: Literal["text", "tool_use", "silent"]


class BlocksChunk(Record):
    """The order of a complete answer, as in a message's `blocks`, on wires that report it at the end."""

    blocks: list[dict[str, Any]]


class ExtraChunk(Record):
    """Fields that go back with the answer's text."""

    extra: dict[str, Any]


class ToolCallChunk(Record, kw_only=True):
    """A piece of a tool call: `index` is the server's number, `arguments` the next piece of JSON text.

    `extra` holds the fields that go back with the call.
    """

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    extra: dict[str, Any] | None = None


class RefusalChunk(Record):
    """A piece of a refusal, on wires that distinguish it from text."""

    text: str


class UsageChunk(Record):
    """The usage so far; a later one replaces an earlier one. `dropped`: invalid earlier blocks the server left out."""

    usage: Usage
    dropped: int = 0


class FinishChunk(Record):
    """The stream's finish marker. A stream without it was cut.

    `bound_to` is the request's digest, if the answer's reasoning is valid only after that prefix.
    """

    reason: FinishReason
    bound_to: str = ""


class RetryChunk(Record, kw_only=True):
    """The request failed and is repeated after `wait` seconds, without the earlier pieces of its answer.

    `other_form`: the server required another form, which is not a failure.
    """

    attempt: int
    attempts: int
    wait: float
    reason: str
    other_form: bool = False


class NoteChunk(Record):
    """A sentence that the user sees once: how requests to this model differ, and why."""

    text: str


_Content = TextChunk | ReasoningChunk | BlockChunk | BlocksChunk | ExtraChunk | RefusalChunk
Chunk = _Content | ToolCallChunk | UsageChunk | FinishChunk | RetryChunk | NoteChunk


class ErrorEvent(Exception):
    """An event of an answer is the server's error, which is the argument."""


class Decoder(ABC):
    """Turns the events of one answer into chunks."""

    last_events: ClassVar[frozenset[str]] = frozenset()
    """The types that end the answer; without them it ends with a finish reason, or with `[DONE]` alone."""
    may_be_empty: ClassVar[bool] = True
    """A stream without any event is an empty answer."""

    @abstractmethod
    def decode(self, event: dict[str, Any]) -> list[Chunk]:
        """The chunks of one event. Raises ErrorEvent, ProviderError, and any error of a wrong part if it is garbled."""


def as_text(value: object) -> str:
    """A text; null is empty, a list is joined from its text parts. Raises TypeError for anything else."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(as_text(part.get("text")) for part in value if part.get("type") == "text")
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {type(value).__name__}")
    return value


def as_count(value: object, most: int = MOST_TOKENS) -> int:
    """A number of tokens; anything else counts as 0: usage is never worth losing an answer for."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        return 0
    return int(value)


def json_value(text: str | bytes | bytearray) -> Any:
    """The value of a JSON text; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def value_at(value: object, *names: str) -> Any:
    """The value at these names in nested objects; None if it is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def usage_of(reported: object, prompt: str = "prompt", answer: str = "completion") -> Usage:
    """The usage in a `usage` object of OpenAI's wires, whose prompt tokens include cached ones.

    `prompt` and `answer` are the words in the names of the fields: Responses has "input" and "output".
    Gemini and xAI leave reasoning out of `completion_tokens`, though it is charged as output: only their total has it.
    """

    def count(*names: str) -> int:
        return as_count(value_at(reported, *names))

    read, written = f"{prompt}_tokens_details", f"{answer}_tokens_details"
    cache_write = count(read, "cache_write_tokens") or count("cache_creation_input_tokens")
    usage = Usage(
        total_input=count(f"{prompt}_tokens"),
        cache_read=count(read, "cached_tokens") or count("prompt_cache_hit_tokens"),
        cache_write=cache_write,
        output=count(f"{answer}_tokens"),
        reasoning=count(written, "reasoning_tokens"),
        cache_write_hour=min(count(read, "cache_creation_token_details", "ephemeral_1h_input_tokens"), cache_write),
    )
    missing = count("total_tokens") - usage.total_input - usage.output
    cached = (usage.cache_read, usage.cache_write, usage.cache_read + usage.cache_write)  # gateways count them twice
    if usage.total_input and missing > 0 and usage.reasoning in (0, missing) and missing not in cached:
        usage = usage.replace(output=usage.output + missing, reasoning=missing)
    return usage.consistent


class Request(Record):
    """One model request. The last `tail` messages are volatile reminders: the cache mark goes before them.

    `schema` is the JSON Schema of the final answer, if there is one. `unseen`: the answer is shown only when complete,
    so a broken one is repeated.
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
    """The number of attempts, and limits in seconds: of all waits that a server asks for, and of all others."""

    attempts: int = 5
    total_wait: float = 30.0
    asked_wait: float = 120.0
    first_wait: float = 1.0


class ProviderOptions(Record):
    """The options of every wire. `vendors` are those of the user's settings; `debug_requests` prints every request."""

    api_base: str | None = None
    api_key: str | None = None
    deadlines: Deadlines = Deadlines()
    retries: Retries = Retries()
    vendors: Sequence[Vendor] = ()
    effort: Effort | None = None
    debug_requests: bool = False


class ServerFacts(Record):
    """A server's report on a model, sizes in tokens. None if it says nothing."""

    window: int | None = None
    max_output: int | None = None
    tools: bool | None = None
    images: bool | None = None


class Provider(Protocol):
    """A model at the end of a wire. `name` is for users; `origin` marks fields only it can read, such as reasoning.

    `local`: it answers on this machine, where no list price holds. `effort` is the user's.
    """

    model: str
    name: str
    origin: str
    local: bool
    effort: Effort | None

    @property
    def prefix_bound(self) -> bool:
        """Return whether reasoning is valid only after the exact prefix that it was made with."""
        return False

    @property
    def drops_thinking(self) -> bool:
        """Return whether the server has refused reasoning for its prefix, so that it is left out."""
        return False

    def drop_thinking(self) -> None:
        """Leave out reasoning whose prefix has changed, as the session did before."""
        return

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The chunks of one answer, in order; raises ProviderError. Cancel its task to end it."""
        ...

    async def warm(self) -> None:
        """Start what the first request would wait for, a connection or an import, and return immediately."""
        return

    async def ask(self) -> ServerFacts | None:
        """The server's report on the model, within seconds; None if it cannot be asked."""
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
    """Yield the chunks of the first attempt that yields any; a RetryChunk announces each wait.

    `adapted` receives a failure before the first chunk. If it returns True, the next attempt, in the server's form, is
    sent immediately and not counted. `notes` are sent before the next attempt; `adapted` may add some. An attempt that
    fails after its first chunk (usage and notes aside) is not repeated, unless it is `unseen`.
    """
    waits, number = _Waits(retries), 1
    while True:
        begun, size, calls = False, 0, set[tuple[int, str]]()
        while notes:
            yield NoteChunk(notes.pop(0))
        try:
            async with aclosing(attempt()) as chunks:
                async for chunk in chunks:
                    if not isinstance(chunk, UsageChunk):
                        values = (value for value in vars(chunk).values() if value)
                        size += sum(len(value if isinstance(value, str) else repr(value)) for value in values)
                    if isinstance(chunk, ToolCallChunk) and (chunk.id or chunk.name):
                        calls.add((chunk.index, chunk.id))
                    if size > LARGEST_ANSWER or len(calls) > MOST_CALLS:  # an endless answer must not fill the memory
                        most = f"{LARGEST_ANSWER / 1e6:.0f} MB or {MOST_CALLS:,} tool calls"
                        raise ProviderError(f"the answer has more than {most}: it was not read to its end")
                    begun = begun or not isinstance(chunk, UsageChunk | NoteChunk | BlockChunk)
                    yield chunk
            return
        except ProviderError as error:
            reason, wait = str(error), 0.0
            other_form = not begun and adapted(error)
            if not other_form:
                if (begun and not unseen) or not error.retryable or number >= retries.attempts:
                    raise
                wait = waits.before(number + 1, error)
        number += not other_form
        yield RetryChunk(attempt=number, attempts=retries.attempts, wait=wait, reason=reason, other_form=other_form)
        await asyncio.sleep(wait)


class _Waits:
    """The waits between the attempts of one request: growing, as long as the server asks for, and bounded in sum."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._own = self._asked = 0.0
        self._failed: float | None = None

    def before(self, number: int, error: ProviderError) -> float:
        """The seconds before that attempt. Raises ProviderError if no time is left, or the server asks for too much."""
        from random import uniform

        grown: float = self._retries.first_wait * 2 ** (number - 2) * uniform(0.75, 1.25)
        asked, most = error.retry_after, self._retries.asked_wait
        if asked is not None and asked >= grown:
            self._asked += asked
            if self._asked > most:
                message = f"{error}; waiting {asked:.0f} s more would pass the limit of {most:.0f} s"
                raise ProviderError(message, status=error.status) from None
            return asked
        wait = min(grown, self._retries.total_wait - self._own)
        if error.patience is not None:
            now = asyncio.get_running_loop().time()
            self._failed = now if self._failed is None else self._failed
            wait = min(wait, error.patience - (now - self._failed))
        if wait <= 0:
            raise error
        self._own += wait
        return max(wait, asked or 0.0)
