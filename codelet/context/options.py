"""What the user chose about the context, and the budget that follows from it."""

from __future__ import annotations

from typing import Literal

from codelet.context.tokens.budget import CATEGORIES, Budget
from codelet.errors import UsageError
from codelet.providers.facts import ModelFacts
from codelet.record import Record

Reason = Literal["hard", "cost", "entries", "asked", "overflow"]
"""Why the list is compacted: one of the two limits, too many entries, the user, or a request refused as too long."""


class CompactionOptions(Record):
    """The user's settings: `at` in per cent of the budget (None: the two limits alone), `keep_last` in turns.

    With `entries` a conversation of more messages is compacted too, whatever its size. `shares` splits the budget
    between core, context, history and working, in per cent.
    """

    automatic: bool = True
    at: int | None = None
    entries: int | None = None
    keep_last: int = 3
    minimum_score: int = 0
    shares: tuple[int, ...] = tuple(CATEGORIES.values())


class ContextLimits(Record):
    """The window and the budget that the user named, in tokens; None is the model's own window, or no budget."""

    window: int | None = None
    budget: int | None = None

    def of(self, facts: ModelFacts) -> Budget:
        """The budget for a model.

        Raises UsageError for a size that is not a positive whole number, or a budget larger than the window.
        """
        window = facts.window if self.window is None else self.window
        try:
            return Budget(window, facts.max_output, self.budget)
        except ValueError as error:
            hint = "; --window names the window of a model that is not known" if self.budget is not None else ""
            raise UsageError(f"{error}{hint}") from None

    def within(self, facts: ModelFacts) -> Budget:
        """The budget for a model that was chosen later: the user's is cut to its window."""
        window = facts.window if self.window is None else self.window
        return Budget(window, facts.max_output, None if self.budget is None else min(self.budget, window))
