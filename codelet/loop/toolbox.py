"""What the tool calls of a session are run with: the tools, who decides on a call, and what stands around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from codelet.extensions.base import Guard, Guards, named
from codelet.loop.approvals import Approvals
from codelet.record import Record
from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox
from codelet.safety.secrets import Masker, own_masker
from codelet.safety.verdict import Ask, Touch
from codelet.tools.tool import Tool, ToolContext
from codelet.tools.touched import Touched

if TYPE_CHECKING:
    from codelet.safety.audit.log import AuditLog


class Safeguards(Record):
    """What guards a session beside its policy.

    `masker` keeps secrets out of what leaves the session; None is the one for this process's environment.
    `ask_timeout` is in seconds. `audit` and `sandbox` are None where there is none.
    """

    masker: Masker | None = None
    ask_timeout: float | None = None
    audit: AuditLog | None = None
    sandbox: Sandbox | None = None

    @property
    def hides(self) -> Masker:
        """What keeps secrets out."""
        return self.masker or own_masker()


class Toolbox:
    """What calls are run with. `approvals` decides on each, `guards` stand before and after it; `masker` keeps secrets
    out of what they answer; `touched` are the folders that they worked in.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        context: ToolContext,
        approvals: Approvals,
        guards: Guards,
        sandbox: Sandbox | None = None,
    ) -> None:
        self.tools = tools
        self.context = context
        self.approvals = approvals
        self.masker = approvals.masker
        self.touched = Touched(context.workspace)
        self.guards = guards
        self.sandbox = sandbox

    async def ready(self, touches: Sequence[Touch]) -> ToolContext:
        """What a call that touches these is to run with. Raises ToolError where a sandbox is due and none works."""
        policy = self.approvals.policy
        if self.sandbox is None or all(touch.kind != "run" for touch in touches):
            return self.context
        policy.sandboxed = self.sandbox.demanded(policy.mode) and await self.sandbox.works()
        return self.context.replace(wrap_command=self.sandbox.wrap if policy.sandboxed else None)

    def add(self, tool: Tool) -> None:
        """Offer one more tool from the next request on."""
        self.tools = {**self.tools, tool.name: tool}
        self.__dict__.pop("schemas", None)

    @cached_property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools as a request carries them."""
        return [tool.schema() for tool in self.tools.values()]


def equip(
    tools: Sequence[Tool],
    context: ToolContext,
    policy: Policy,
    ask: Ask | None,
    safeguards: Safeguards,
    guards: Sequence[Guard] = (),
    closing: Sequence[Guard] = (),
) -> Toolbox:
    """The toolbox of a session; the answers of calls are masked behind `guards` and before `closing`."""
    masker = safeguards.hides
    standing = Guards(masker, guards, closing)
    approvals = Approvals(policy, masker, ask, safeguards.ask_timeout, standing)
    guarded = context.replace(prepare_command=policy.prepare)
    return Toolbox(named("tool", tools), guarded, approvals, standing, safeguards.sandbox)
