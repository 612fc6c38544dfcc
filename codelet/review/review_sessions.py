"""Sessions that review for another session: its model, masker, rules and guards, and the tools of a review."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
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
    from codelet.providers.asking import ServerFacts
    from codelet.providers.protocol import Chunk, Provider, Request


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


class Borrowed:
    """A provider that another session owns: it is asked, and not closed."""

    def __init__(self, provider: Provider) -> None:
        self.model = provider.model
        self.name = provider.name
        self.origin = provider.origin
        self.local = provider.local
        self.effort = provider.effort
        self._owned = provider

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The owner's answer."""
        return self._owned.stream(request)

    @property
    def prefix_bound(self) -> bool:
        """Whether the owner's model binds its reasoning to the prefix."""
        return self._owned.prefix_bound

    @property
    def drops_thinking(self) -> bool:
        """Whether the owner leaves reasoning out."""
        return self._owned.drops_thinking

    def drop_thinking(self) -> None:
        """That is the owner's to do."""

    async def warm(self) -> None:
        """Nothing to do ahead."""

    async def ask(self) -> ServerFacts | None:
        """What the server says of the model."""
        return await self._owned.ask()

    async def close(self) -> None:
        """The owner closes it."""
