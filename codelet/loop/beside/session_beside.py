"""Subsessions: sessions that work for another one, with its provider and rules, and never with wider rights."""

from __future__ import annotations

from collections.abc import Sequence

from codelet.context import CompactionOptions
from codelet.extensions.base import Extension, Guard
from codelet.loop.session import Session
from codelet.providers.protocol import Provider
from codelet.safety import Policy
from codelet.safety.verdict import Ask, Mode
from codelet.tools.tool import Tool

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
