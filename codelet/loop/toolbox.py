"""The surroundings of a session's tool calls: the tools, the approvals, the guards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from codelet import prompt
from codelet.context.reminders.instructions import Touched
from codelet.errors import ToolError
from codelet.events import Notices
from codelet.extensions.base import Guard, Guards, named
from codelet.messages import JsonSchema
from codelet.record import Record
from codelet.safety import Policy
from codelet.safety.sandbox import Sandbox
from codelet.safety.secrets import Masker, own_masker
from codelet.safety.verdict import Ask, SandboxKind, Touch, Verdict
from codelet.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from codelet.loop.approvals import Approvals
    from codelet.safety.audit import AuditLog
    from codelet.system.process.shell_start import ResourceLimits


_LIMITS_FOR_READING = {"memory": 4096, "processes": 4096, "file_size": 1024}


class Safeguards(Record):
    """The guards of a session besides its policy.

    `masker` keeps secrets out of what leaves the session; by default it is the one for this process's environment.
    `ask_timeout` is in seconds. `audit` and `sandbox` are optional. `resources` is the bound on each command.
    """

    masker: Masker | None = None
    ask_timeout: float | None = None
    audit: AuditLog | None = None
    sandbox: Sandbox | None = None
    resources: ResourceLimits = MappingProxyType({})

    @property
    def hides(self) -> Masker:
        """Return what keeps secrets out."""
        return self.masker or own_masker()


class Toolbox:
    """The tools of calls and their context: `tools` are the offered ones of those `known`. `approvals` decides on each
    call; `masker` keeps secrets out of the answers, after `guards` and before `closing`; `touched` are the folders that
    calls worked in.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        context: ToolContext,
        policy: Policy,
        ask: Ask | None,
        safeguards: Safeguards,
        guards: Sequence[Guard] = (),
        closing: Sequence[Guard] = (),
        notices: Notices | None = None,
    ) -> None:
        self.known = self.tools = named("tool", tools)
        self.context = context.replace(resources=safeguards.resources)
        self._policy = policy
        self.ask = ask
        self.masker = safeguards.hides
        self.touched = Touched(context.workspace)
        self.guards = Guards(self.masker, guards, closing)
        self.sandbox = safeguards.sandbox
        self._ask_timeout = safeguards.ask_timeout
        self._only: Collection[str] | None = None
        self.notices = notices or Notices(self.masker.mask)

    @property
    def policy(self) -> Policy:
        """Return the policy that judges calls."""
        return self._policy

    @cached_property
    def approvals(self) -> Approvals:
        """Return the approvals."""
        from codelet.loop.approvals import Approvals  # the first request does not wait for it

        return Approvals(self.policy, self.masker, self.guards, lambda: self.ask, self._ask_timeout)

    def tool_named(self, name: str, arguments: object = None) -> Tool | None:
        """The tool of this name, or what a model means that learnt on other tools: `Bash`, `str_replace`."""
        if name in self.tools:
            return self.tools[name]
        from codelet.tools.call_forms import meant_tool, plain_name

        return self.tools.get(plain_name(name)) or self.tools.get(meant_tool(name, arguments))

    async def confines(self, touches: Sequence[Touch]) -> bool:
        """Return whether a sandbox works for the commands of a call that touches these.

        It is looked for before the first command. Raises ToolError if the user demands one and none works.
        """
        sandbox = self.sandbox
        runs = any(touch.kind == "run" for touch in touches)
        if runs:
            from codelet.system.process import expect_command

            expect_command()
        if sandbox is None or not sandbox.wanted:
            return False
        if not runs:
            return sandbox.found is not None and sandbox.found.way is not None
        if sandbox.use == "on" and any(touch.unconfined for touch in touches):
            raise ToolError(prompt.NOT_UNCONFINED)
        works = await sandbox.works()
        if sandbox.found is not None and not works:
            self.notices.say(prompt.NO_SANDBOX.format(detail=sandbox.found.detail), once="sandbox")
        elif sandbox.sees_home:
            self.notices.say(prompt.HOME_SEEN, once="sandbox")
        self.policy.mounts = sandbox.found is not None and sandbox.found.way == "bubblewrap"
        return works

    def admitted(self, context: ToolContext, verdict: Verdict, *, confines: bool) -> ToolContext:
        """Return what a call with this verdict runs with: in its sandbox if one `confines` its commands.

        A command that only reads runs with a list of variables and with lower limits.
        """
        if verdict.tier == "read" and verdict.sandbox is not None:
            from codelet.safety.sandbox import variables_for_reading
            from codelet.system.process import child_environment

            own = child_environment() if context.environment is None else context.environment
            most = context.resources
            lower = {name: min(most.get(name) or number, number) for name, number in _LIMITS_FOR_READING.items()}
            context = context.replace(environment=variables_for_reading(own), resources={**most, **lower})
        kind = self.sandbox_kind(verdict, confines=confines)
        if self.sandbox is None or kind is None:
            return context
        told = prompt.SANDBOXED_READ_ONLY if kind == "read-only" else prompt.SANDBOXED
        wrap = partial(self.sandbox.wrap, kind=kind)
        return context.replace(
            wrap_command=wrap,
            wrap_lasting=partial(wrap, lasting=True),
            sandbox_note=told.format(network=self._no_network()),
            write_note=prompt.WROTE_READ_ONLY if kind == "read-only" else prompt.WROTE_CONFINED,
            kept_from_writing=partial(self.sandbox.kept_from_writing, kind),
            home_note="" if self.sandbox.open_home else prompt.HOME_NOT_SEEN,
        )

    def sandbox_kind(self, verdict: Verdict, *, confines: bool) -> SandboxKind | None:
        """Return the sandbox around the commands of a call with this verdict, None if they run without one."""
        return self.sandbox.kind(verdict.sandbox) if self.sandbox is not None and confines else None

    def permissions(self) -> str:
        """One line for the model: the mode, the sandbox, and the treatment of unconfined commands."""
        policy, sandbox = self.policy, self.sandbox
        unattended = prompt.OTHERS_REFUSED if self.ask is None else prompt.OTHERS_ASK
        others = prompt.OTHERS_RUN if policy.yes else unattended
        form = prompt.PERMISSIONS_READING
        if sandbox is None or sandbox.use == "off" or (sandbox.found is not None and sandbox.found.way is None):
            form = prompt.PERMISSIONS_BARE
        elif policy.mode == "auto":
            form = prompt.PERMISSIONS_AUTO
        elif sandbox.use == "on":
            form = prompt.PERMISSIONS_CONFINED
        return form.format(mode=policy.mode, network=self._no_network(), others=others)

    def _no_network(self) -> str:
        return prompt.NO_NETWORK if self.sandbox is not None and not self.sandbox.network else ""

    def add(self, tool: Tool) -> None:
        """Offer one more tool from the next request on."""
        self.known = {**self.known, tool.name: tool}
        self.offer_only(self._only)

    def offer_only(self, names: Collection[str] | None) -> None:
        """Offer of the known tools those of these names alone from the next request on; None for all."""
        self._only = names
        offered = {name: tool for name, tool in self.known.items() if names is None or name in names}
        self.tools = self.known if names is None else offered
        self.__dict__.pop("schemas", None)

    @cached_property
    def schemas(self) -> list[JsonSchema]:
        """Return the tools as a request carries them, in the same bytes for the whole session.

        Tools that can only fail are left out: those that change files, in the mode read-only, if no one can change it.
        A call to one is still refused.
        """
        reading = self.policy.mode == "read-only" and self.ask is None
        return [tool.schema() for tool in self.tools.values() if not (reading and _only_writes(tool))]


def _only_writes(tool: Tool) -> bool:
    """Return whether all that a call of the tool touches is what it writes."""
    touches = tool.touched({"path": "any"})
    return {touch.kind for touch in touches or ()} == {"write"}
