"""The budget: the tokens we allow ourselves to use, the user's options, and the limits for compaction, in integers.

There are two limits. The hard one counts real tokens and keeps the prompt and its answer inside the window. The cost
one counts cached tokens at a tenth, so that a cold cache, which makes a rewrite cheap, compacts earlier than a warm
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from codelet.errors import UsageError
from codelet.providers.facts import ModelFacts
from codelet.record import Record

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
