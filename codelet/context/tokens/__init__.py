"""Tokens: the estimate of what a text takes, the budget that we allow ourselves to use, and the fill of the window.

The estimate is our own count, cheap enough for every step: a message is measured once, when it is new, so that a step
costs no more in a long list.

The budget has two limits, in integers. The hard one counts real tokens and keeps the prompt and its answer inside the
window. The cost one counts cached tokens at a tenth, so that a cold cache compacts earlier, as a rewrite is cheap then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from codelet.errors import UsageError
from codelet.messages import ForeignMessage, Message, images_of, text_of
from codelet.providers.facts import ModelFacts
from codelet.record import Record
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.conversation import Parts

Estimate = Callable[[ForeignMessage], int]
"""Measures one message in tokens."""

CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 4
_LARGEST_PICTURE = 1_600
# `json.dumps` with options makes an encoder again each time.
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def characters(message: ForeignMessage) -> int:
    """Return the characters of a message: text, calls as JSON, and call id; an image counts as text of its tokens."""
    content = message.get("content")
    size = len(content) if isinstance(content, str) else len(text_of(message))
    calls = message.get("tool_calls")
    if calls:
        size += len(_ENCODER.encode(calls))
    call_id = message.get("tool_call_id")
    if "images" in message:
        size += CHARACTERS_PER_TOKEN * picture_tokens(message)
    return size + len(call_id) if isinstance(call_id, str) else size


def picture_tokens(message: ForeignMessage) -> int:
    """Return the approximate tokens of a message's images: one for 750 pixels, as Anthropic counts.

    Most vendors shrink a large image before they count it.
    """
    return sum(min(_LARGEST_PICTURE, -(-each["width"] * each["height"] // 750)) for each in images_of(message))


def estimate_text(text: str) -> int:
    """Return the approximate tokens of a text: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def estimate_message(message: ForeignMessage) -> int:
    """Return the approximate tokens of a message of any shape: a quarter of its characters, rounded up, and four."""
    return -(-characters(message) // CHARACTERS_PER_TOKEN) + _TOKENS_PER_MESSAGE


LARGEST = 1 << 40
LARGEST_OUTPUT = 32_000
Reason = Literal["hard", "cost", "entries", "asked", "overflow"]
"""The reason for a compaction: one of the limits, too many entries, the user, or a request refused as too long."""


def checked_tokens(value: object, name: str, *, at_most: int = LARGEST) -> int:
    """Return the value if it is a positive integer up to `at_most`, and no bool; raise ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of tokens of at least 1, not {value!r}")
    if value > at_most:
        raise ValueError(f"{name} must be at most {at_most} tokens, not {value}")
    return value


def effective_tokens(total: int, cache_read: int) -> int:
    """Return the tokens, with the cached ones counted at a tenth."""
    return total - 9 * cache_read // 10


def percent_of(part: int, whole: int) -> int:
    """Return `part` of `whole` in %, rounded up so that any use is visible; 0 if the whole is unknown."""
    return -(-part * 100 // whole) if part > 0 and whole > 0 else 0


class Budget(Record):
    """The limits of a window of `window` tokens. `user_limit` is the user's own budget, `max_output` the model's.

    Raises ValueError if one of them is not a positive integer, or the user's budget is larger than the window.
    """

    window: int
    max_output: int | None = None
    user_limit: int | None = None

    def __init__(self, window: int, max_output: int | None = None, user_limit: int | None = None) -> None:
        super().__init__(window, max_output, user_limit)
        checked_tokens(self.window, "window")
        if self.max_output is not None:
            checked_tokens(self.max_output, "max_output")
        if self.user_limit is not None:
            checked_tokens(self.user_limit, "budget", at_most=self.window)

    @property
    def reserve(self) -> int:
        """O: the tokens reserved for the answer."""
        return min(self.max_output or LARGEST_OUTPUT, LARGEST_OUTPUT, self.window // 4)

    @property
    def hard(self) -> int:
        """B: the most real tokens of a prompt."""
        return self.window - self.reserve

    @property
    def limit(self) -> int:
        """H: the limit of the prompt, the user's budget included."""
        return self.hard if self.user_limit is None else min(self.hard, self.user_limit)

    @property
    def hard_trigger(self) -> int:
        """The real tokens at which a compaction is due."""
        return self.limit - max(self.window // 100, min(2_000, self.limit // 10))

    @property
    def cost_trigger(self) -> int:
        """The effective tokens at which a compaction is due: nine tenths of H, rounded up."""
        return -(-9 * self.limit // 10)

    def trigger(self, prompt: int, cache_read: int) -> Reason | None:
        """Return the limit that a prompt of this many real tokens exceeds, if any."""
        if prompt >= self.hard_trigger:
            return "hard"
        return "cost" if effective_tokens(prompt, cache_read) >= self.cost_trigger else None


def had_effect(before: int, after: int, budget: Budget) -> bool:
    """Return whether a compaction had effect: at most 0.6 H, and at least 15 % saved."""
    return 10 * after <= 6 * budget.limit and 100 * (before - after) >= 15 * before


CATEGORIES: Mapping[str, int] = {"core": 5, "context": 30, "history": 15, "working": 50}


def shares_of(total: int, percent: Sequence[int] = tuple(CATEGORIES.values())) -> dict[str, int]:
    """Split the budget by the shares, rounded down; return the tokens of each category.

    core: system prompt, tools, reminders; context: kept turns; history: segments; working: the current turn and its
    answer. Raises ValueError for a total or a share that is not a positive integer, and for shares that are not 100 %
    together.
    """
    checked_tokens(total, "budget")
    for name, share in zip(CATEGORIES, percent, strict=True):
        checked_tokens(share, f"share of {name}", at_most=100)
    if sum(percent) != 100:
        raise ValueError(f"the shares must add up to 100 %, not {sum(percent)}")
    return {name: total * share // 100 for name, share in zip(CATEGORIES, percent, strict=True)}


class CompactionOptions(Record):
    """The user's settings: `at` in % of the budget (None: only the two limits), `keep_last` in turns.

    `entries` is the most messages before a compaction. `shares` splits the budget between core, context, history and
    working, in %.
    """

    automatic: bool = True
    at: int | None = None
    entries: int | None = None
    keep_last: int = 3
    shares: tuple[int, ...] = tuple(CATEGORIES.values())


class SizeTarget(Record, kw_only=True):
    """The sizes of a compacted list, in tokens; None is the usual share of `size`.

    The list takes at most `size`, the newest turns at most `whole` of it, the last results or the last prompt at most
    `unseen`; larger ones are cut. `history` limits the user's words and the recorded state in segments, `context`
    earlier turns, the agent's prose and evidence. `note` says why fewer turns than asked for stay whole.
    """

    size: int
    whole: int | None = None
    unseen: int | None = None
    history: int | None = None
    context: int | None = None
    note: str = ""


class ContextLimits(Record):
    """The user's window and budget in tokens; None is the model's own window, or no budget."""

    window: int | None = None
    budget: int | None = None

    def of(self, facts: ModelFacts) -> Budget:
        """Return the budget for a model. Raises UsageError for an invalid size or a budget larger than the window."""
        window = facts.window if self.window is None else self.window
        try:
            return Budget(window, facts.max_output, self.budget)
        except ValueError as error:
            hint = "; --window names the window of a model that is not known" if self.budget is not None else ""
            raise UsageError(f"{error}{hint}") from None

    def within(self, facts: ModelFacts) -> Budget:
        """Return the budget for a model that was chosen later, cut to its window."""
        window = facts.window if self.window is None else self.window
        return Budget(window, facts.max_output, None if self.budget is None else min(self.budget, window))


CACHE_LIFETIME = 300.0
"""Seconds after which a provider's prompt cache counts as gone."""

_LEAST_DOUBTED = 4_000
"""Tokens below which a report is always believed: such a list fits any window, even if the report is wrong."""
_LEAST_SAMPLE = 200
"""Tokens below which a report says nothing about the tokeniser."""
_LEAST_FACTOR, _LARGEST_FACTOR = 700, 2_000

Measurement = tuple[Budget, Usage | None, float, int, int]
"""A window's knowledge of a list: budget, last report and its time, the number of counted messages, tokens since."""


class ContextWindow:
    """Measures one message list. `fixed` is the plain estimate of system prompt and tools in tokens.

    New messages are estimated, the rest is the provider's report; each report calibrates the estimate. A message is
    counted once, when it is settled, so that a measurement costs no more for a long list. A report under a third of the
    estimate is not believed: some gateways omit the cached part, and the list would never be compacted.
    `at` is the user's threshold for compaction in % of the budget.
    """

    def __init__(self, budget: Budget, fixed: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.budget = budget
        self.at: int | None = None
        self.fixed = fixed
        self._clock = clock
        self.factor = 1_000
        """The provider's count for 1,000 of our estimate; an integer, so that equal histories give equal numbers."""
        self._last: Usage | None = None
        self._reported_at = 0.0
        self._settled = 0
        self._since = 0
        self._whole = 0

    def estimate(self, message: ForeignMessage) -> int:
        """Return the size of a message in tokens, calibrated."""
        return self._scaled(estimate_message(message))

    def characters(self, tokens: int) -> int:
        """Return the approximate characters in `tokens`, calibrated, rounded down."""
        return tokens * CHARACTERS_PER_TOKEN * 1_000 // self.factor

    def _scaled(self, tokens: int) -> int:
        """Calibrate a plain estimate, rounded up."""
        return -(-tokens * self.factor // 1_000)

    @property
    def fixed_size(self) -> int:
        """System prompt and tools in tokens, calibrated."""
        return self._scaled(self.fixed)

    def beside(self, parts: Parts) -> int:
        """Return the tokens next to the conversation: system prompt, tools and reminders."""
        return self.fixed_size + sum(map(self.estimate, [*parts.head, *parts.tail]))

    def size(self, parts: Parts) -> int:
        """P: real tokens of the next request."""
        new = self._since + _plain(parts.messages[self._settled :])
        # The last tail is part of what was reported.
        beside = 0 if self._last is not None else self.fixed + _plain(parts.tail)
        known = self._last.total if self._last is not None else 0
        return known + self._scaled(beside + new)

    def rewritten(self, parts: Parts) -> int:
        """P of the next request if the list became `parts`: an estimate, as reports are void then."""
        return self._scaled(self.fixed + _plain(parts.messages) + _plain(parts.tail))

    def measurement(self) -> Measurement:
        """Return what is known of the list, for `restore` if the same list returns."""
        return self.budget, self._last, self._reported_at, self._settled, self._since

    def restore(self, known: Measurement) -> None:
        """Restore the measurement of a list that returned; one for another model is void."""
        self.forget()
        if known[0] is self.budget:
            _, self._last, self._reported_at, self._settled, self._since = known

    @property
    def cached(self) -> int:
        """Tokens that the next request can get from the cache; 0 if the list was rewritten, or too much time passed."""
        if self._last is None or self._clock() - self._reported_at > CACHE_LIFETIME:
            return 0
        return self._last.cache_read

    def effective(self, parts: Parts) -> int:
        """E: P with the cached tokens counted at a tenth."""
        return effective_tokens(self.size(parts), self.cached)

    def settle(self, parts: Parts, end: int | None = None) -> None:
        """Count the new messages, up to `end`, for good: none of them changes before the next rewrite."""
        end = len(parts.messages) if end is None else end
        new = _plain(parts.messages[self._settled : end])
        self._since += new
        self._whole += new
        self._settled = end

    def measured(self, usage: Usage, parts: Parts, answered: int) -> str | None:
        """Note a request's usage, which counts the messages up to index `answered`, its answer included.

        Returns a notice if the report is not believed.
        """
        self.settle(parts, answered)
        beside = self.fixed + _plain(parts.tail)
        sent = beside + self._whole - _plain(parts.messages[answered - 1 : answered])
        if usage.total < 1 or (sent >= _LEAST_DOUBTED and 3 * usage.total_input < sent):
            notice = f"the provider counts {usage.total_input:,} tokens, but about {sent:,} were sent"
            return notice if sent >= _LEAST_DOUBTED else None
        known, plain = (self._last.total, self._since) if self._last is not None else (0, self._since + beside)
        if plain >= _LEAST_SAMPLE and (reported := usage.total - known) > 0:
            # A quarter of the way to what was seen.
            seen = min(_LARGEST_FACTOR, max(_LEAST_FACTOR, 1_000 * reported // plain))
            self.factor = (3 * self.factor + seen + 2) // 4
        self._last, self._reported_at = usage, self._clock()
        self._since = 0
        return None

    def list_changed(self, *, body: bool) -> None:
        """Void the measurement, and with it the cache, after the list was rewritten."""
        self.forget()

    def forget(self) -> None:
        self._last, self._settled, self._since, self._whole = None, 0, 0, 0

    def replaced(self, place: int) -> None:
        """Note that the message at `place` was replaced; a measurement that counted it is void."""
        if place < self._settled:
            self.forget()

    def switch(self, budget: Budget) -> None:
        """Switch to another model's budget; its tokeniser differs too."""
        self.budget = budget
        self.factor = 1_000
        self.forget()


def _plain(messages: Sequence[Message]) -> int:
    return sum(map(estimate_message, messages))
