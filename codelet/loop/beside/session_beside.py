"""A session beside another one: what it has of that one, and what it may not do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from codelet.context import CompactionOptions
from codelet.extensions.base import Extension, Guard
from codelet.loop.session import Session
from codelet.providers.protocol import Chunk, Provider, Request
from codelet.safety import Policy
from codelet.safety.verdict import Ask, Mode
from codelet.tools.tool import Tool

_WIDTHS: tuple[Mode, ...] = ("read-only", "ask", "auto-edit", "auto")


class Borrowed(Extension):
    """The tools that a session beside another one has, and the guards that stand before them."""

    def __init__(self, tools: Sequence[Tool], guards: Sequence[Guard] = ()) -> None:
        self.tools = tools
        self.guards = guards


class BorrowedProvider(Provider):
    """A session's provider for one beside it, which leaves it open when it ends."""

    def __init__(self, own: Provider) -> None:
        self._own = own
        self.model, self.name, self.origin = own.model, own.name, own.origin
        self.local, self.effort = own.local, own.effort

    @property
    def prefix_bound(self) -> bool:
        return self._own.prefix_bound

    @property
    def drops_thinking(self) -> bool:
        return self._own.drops_thinking

    def drop_thinking(self) -> None:
        self._own.drop_thinking()

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        return self._own.stream(request)


class NarrowerPolicy(Policy):
    """A session's policy for one beside it: the same rules, those that are added later too, and no wider mode.

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
        """The mode that it was given, or the other session's if that is narrower."""
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
    """Open a session with the masker, the rules, and the sandbox of another one; the caller closes it.

    A turn of it has at most `most_steps` requests, and the time of the other one's turn. With `permits` the rules that
    allow hold too. Raises UsageError.
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
    opened.is_beside = True
    return opened
