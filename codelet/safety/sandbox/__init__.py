"""Confines shell commands: the workspace can be written, the rest only read, the network not reached.

bubblewrap is used where it works, else Landlock with a seccomp filter, else nothing, and then the user is told. Which
one works is tried before the first command that is to be confined, not at the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from codelet.errors import ToolError
from codelet.record import Record

Use = Literal["auto", "on", "off"]
"""When commands are confined: in the mode `auto` only, always, never."""

_SECONDS = 5.0


class Confinement(Record):
    """What confines commands here: the way, or None, and in words what it is or why there is none.

    `program` is bubblewrap's path. It is looked for once, before the first command that could put another one there.
    """

    way: Literal["bubblewrap", "landlock"] | None
    detail: str
    program: str | None = None


async def find_confinement(workspace: Path) -> Confinement:
    """Try the ways in their order, each with a real command."""
    from codelet.system.process import StartError, capture, child_environment, find_program, shell_argv

    nothing = shell_argv(":", child_environment(), workspace)
    program = find_program("bwrap", workspace)
    reasons: list[str] = []
    ways = (Confinement("bubblewrap", "", program), Confinement("landlock", ""))
    for found in ways:
        way = found.way
        try:
            argv = _confined(found, nothing, workspace, network=False)
            done = await capture(argv, cwd=workspace, timeout=_SECONDS)
        except (StartError, FileNotFoundError) as error:
            reasons.append(f"{way}: {error}")
            continue
        if done.exit_code == 0:
            detail = f"{way} ({'; '.join(reasons)})" if reasons else way
            return found.replace(detail=detail)
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        reasons.append(f"{way}: {said or f'exit code {done.exit_code}'}")
    return Confinement(None, "; ".join(reasons))


def _confined(found: Confinement, command: Sequence[str], workspace: Path, *, network: bool) -> list[str]:
    """The words that run `command` confined. Raises FileNotFoundError where that way is not installed."""
    from codelet.safety.sandbox.command_lines import bubblewrap_argv, landlock_argv

    if found.way == "landlock":
        return landlock_argv(command, workspace, network=network)
    if found.program is None:
        raise FileNotFoundError("it is not installed, or only in the workspace")
    return bubblewrap_argv(found.program, command, workspace, network=network)


class Sandbox:
    """The confinement of one session's commands. `found` is None until it was first looked for."""

    def __init__(self, workspace: Path, use: Use = "auto", *, network: bool = False) -> None:
        self.use = use
        self.network = network
        self.found: Confinement | None = None
        self._workspace = workspace
        self._before: set[str] | None = None

    def demanded(self, mode: str) -> bool:
        """Whether commands are to be confined in this mode."""
        return self.use == "on" or (self.use == "auto" and mode == "auto")

    async def works(self) -> bool:
        """Whether there is a confinement. Raises ToolError where there is none and one was asked for by name."""
        found = await self.look()
        if found.way is None and self.use == "on":
            raise ToolError(f"no sandbox works here ({found.detail}), and the user demands one: commands cannot run")
        return found.way is not None

    async def look(self) -> Confinement:
        """What confinement there is, looked for at the first call."""
        if self.found is None:
            self.found = await find_confinement(self._workspace)
        return self.found

    def wrap(self, command: str, environment: Mapping[str, str]) -> list[str]:
        """The words that run the shell command confined; only after `works` said so."""
        from codelet.safety.sandbox.command_lines import protected_places
        from codelet.system.process import shell_argv

        assert self.found is not None
        self._before = set(protected_places(self._workspace.resolve()))
        shell = shell_argv(command, environment, self._workspace)
        return _confined(self.found, shell, self._workspace, network=self.network)

    def newly_protected(self) -> list[str]:
        """Names that the last confined command made and that nothing may write at, each told once.

        What is absent cannot be made read-only.
        """
        before, self._before = self._before, None
        if before is None:
            return []
        from codelet.safety.sandbox.command_lines import protected_places

        root = self._workspace.resolve()
        return [str(Path(place).relative_to(root)) for place in protected_places(root) if place not in before]
