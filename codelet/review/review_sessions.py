"""Sessions that review for another session: its model, masker, rules and guards, and the tools of a review."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from codelet.context import CompactionOptions
from codelet.extensions.base import guards_beside
from codelet.loop.session import Session
from codelet.loop.toolbox import Safeguards
from codelet.review.review_rules import system_prompt
from codelet.review.reviewed_change import ReviewedChange
from codelet.review.reviewer import MOST_STEPS, Reviewer, ReviewTools, Spending
from codelet.safety import Policy

if TYPE_CHECKING:
    from codelet.providers.protocol import Provider


class ReviewSessions:
    """Opens the sessions of one review beside `session`; `provider` makes a provider for each.

    The session's limits on tokens and cost hold for all of them together with what it has used already.
    """

    def __init__(self, session: Session, change: ReviewedChange, provider: Callable[[], Provider]) -> None:
        self._session = session
        self._change = change
        self._provider = provider
        self._system = ""
        self.spending = Spending(session.meter.limits, session.meter)

    async def open(self) -> Reviewer:
        """One more. Raises UsageError where the rules or the model cannot be had."""
        folder, change = self._session.workspace, self._change
        if not self._system:
            self._system = await system_prompt(folder, change.rules_at, None)
        tools = change.tools(folder)
        rules = self._session.policy.rules
        session = Session(
            self._provider(),
            workspace=folder,
            tools=(),
            policy=Policy(folder, mode="read-only", deny=rules["deny"], ask=rules["ask"]),
            system_prompt=self._system,
            limits=self._session.meter.limits.replace(max_turns=MOST_STEPS, timeout=None),
            bare=True,
            compaction=CompactionOptions(automatic=False),  # what is reviewed is sent whole, or said not to be
            safeguards=Safeguards(masker=self._session.safeguards.hides),
            extensions=[ReviewTools(tools, guards_beside(self._session.extensions))],
        )
        return Reviewer(session, self.spending)
