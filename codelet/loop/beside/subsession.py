"""Subsessions: sessions that work for another one, never with wider rights; their limits, and their usage."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from codelet.context import CompactionOptions
from codelet.errors import LimitReached, SpendingLimit
from codelet.extensions.base import Extension, Guard
from codelet.loop.meter import SHORTEST_ANSWER, Limits, Meter
from codelet.loop.session import Session
from codelet.providers.native import NativeProvider
from codelet.providers.protocol import Provider
from codelet.safety import Policy
from codelet.safety.verdict import Ask, Mode
from codelet.tools.tool import Tool
from codelet.usage import Usage

if TYPE_CHECKING:
    from codelet.providers.protocol import ServerFacts

_WIDTHS: tuple[Mode, ...] = ("read-only", "ask", "auto-edit", "auto")


class Borrowed(Extension):
    """The tools and the guards of a subsession."""

    def __init__(self, tools: Sequence[Tool], guards: Sequence[Guard] = ()) -> None:
        self.tools = tools
        self.guards = guards


class NarrowerPolicy(Policy):
    """The policy of a subsession: the session's rules, including later ones, and no wider mode.

    Without `permits` it has only the rules that ask and deny.
    """

    def __init__(self, wider: Policy, mode: Mode, *, permits: bool) -> None:
        self._wider = wider
        super().__init__(wider.workspace, mode, yes=wider.yes and permits)
        self.deny, self.ask, self.kept, self.mounts = wider.deny, wider.ask, wider.kept, wider.mounts
        if permits:
            self.allow, self.exact = wider.allow, wider.exact

    @property
    def mode(self) -> Mode:
        """The given mode, or the session's if that is narrower."""
        return min(self._most, self._wider.mode, key=_WIDTHS.index)

    @mode.setter
    def mode(self, mode: Mode) -> None:
        self._most = mode


def open_beside(
    session: Session,
    provider: Provider,
    *,
    system: str,
    mode: Mode,
    most_steps: int,
    tools: Sequence[Tool],
    extensions: Sequence[Extension],
    bare: bool,
    permits: bool = False,
    ask: Ask | None = None,
    compaction: CompactionOptions | None = None,
) -> Session:
    """Open a subsession with the session's masker, rules and sandbox; the caller closes it.

    A turn has at most `most_steps` requests, and no time limit apart from the session's turn. With `permits` the rules
    that allow apply too. Raises UsageError.
    """
    limits = session.meter.limits
    steps = min(most_steps, limits.max_turns or most_steps)
    opened = Session(
        provider,
        workspace=session.workspace,
        tools=tools,
        policy=NarrowerPolicy(session.policy, mode, permits=permits),
        ask=ask,
        system_prompt=system,
        limits=limits.replace(max_turns=steps, timeout=None),
        bare=bare,
        window=session.models.limits.window,
        budget=session.models.limits.budget,
        compaction=compaction,
        environment=session.toolbox.context.environment,
        safeguards=session.safeguards.replace(masker=session.safeguards.hides, audit=None),
        extensions=extensions,
    )
    opened.models.learn(session.models.facts)
    opened.is_beside, opened.owns_provider = True, provider is not session.provider
    return opened


class Spending:
    """The usage of concurrent subsessions, and its limits.

    `parent` is the meter of the session that they work for, or None; its usage counts too. `shared` is the last text of
    the prefix that all prompts share.
    """

    def __init__(self, limits: Limits, parent: Meter | None = None, shared: str = "") -> None:
        self.requests = 0
        self._limits = limits
        self._parent = parent
        self._shared = shared
        self._sessions: list[Session] = []
        self._open: list[Session] = []
        self._cache_key = os.urandom(8).hex()
        self._replies: dict[tuple[str, str], asyncio.Task[ServerFacts | None]] = {}

    def watch(self, session: Session) -> None:
        """Count this session's usage; its requests share the cache of the others, and what their server said."""
        self._sessions.append(session)
        session.upkeep.server.replies = self._replies
        self._open.append(session)
        if self._shared and isinstance(session.provider, NativeProvider):
            session.provider.share_cache(self._cache_key, self._shared)

    @property
    def usage(self) -> Usage:
        """The tokens that were reported."""
        return sum((each.meter.spent for each in self._sessions), Usage())

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The models that replaced the chosen one."""
        changes = [change.model for each in self._sessions for change in each.models.changes]
        return tuple(dict.fromkeys(changes))

    @property
    def cost(self) -> float | None:
        """US dollars; None if a price or a usage is unknown."""
        costs = [each.meter.spent_cost for each in self._sessions]
        known = [each for each in costs if each is not None]
        return sum(known) if len(known) == len(costs) else None

    def check(self) -> None:
        """Raise LimitReached if a limit of the run is passed."""
        if (passed := self._limits.passed(self._held, self._charged)) is not None:
            raise LimitReached(passed)

    def bound(self, session: Session) -> None:
        """Limit this session to what is left. A request beyond it is not sent.

        Raises LimitReached if too little is left for an answer.
        """
        limits, meter = self._limits, session.meter
        if limits.max_cost is not None:
            meter.limits = meter.limits.replace(max_cost=limits.max_cost - self._charged + meter.charged)
        if limits.max_tokens is not None:
            left = limits.max_tokens - self._held.output
            if left < min(SHORTEST_ANSWER, limits.max_tokens):
                raise LimitReached(f"of the limit of {limits.max_tokens} output tokens {left} are left (--max-tokens)")
            meter.limits = meter.limits.replace(max_tokens=left + meter.held.output)

    def limit_of_run(self, reached: SpendingLimit) -> LimitReached:
        """Return the error with the limit of the run instead of the session's rest."""
        cost, output = self._limits.max_cost, self._limits.max_tokens
        if cost is not None and "--max-cost" in str(reached):
            return LimitReached(f"the next request would pass the limit of {cost:g} dollars (--max-cost)")
        if output is not None and "--max-tokens" in str(reached):
            return LimitReached(f"the next request would pass the limit of {output} output tokens (--max-tokens)")
        return reached

    def settle(self, *sessions: Session) -> None:
        """Add the usage of these sessions, or of all, to the session that they work for; each once."""
        for each in [each for each in self._open if not sessions or each in sessions]:
            if self._parent is not None:
                self._open.remove(each)
                self._parent.take_over(each.meter)

    @property
    def _held(self) -> Usage:
        before = Usage() if self._parent is None else self._parent.held
        return sum((each.meter.held for each in self._open), before)

    @property
    def _charged(self) -> float:
        return sum((each.meter.charged for each in self._open), 0.0 if self._parent is None else self._parent.charged)
