"""The sandbox for shell commands: without approval they write nothing, or the workspace alone, and reach no network.

It is bubblewrap if that works, else Landlock with a filter of system calls, on a Mac sandbox-exec. The first command
tries them, not the start.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codelet.errors import ToolError
from codelet.record import Record
from codelet.safety.verdict import SandboxKind

if TYPE_CHECKING:
    from codelet.safety.sandbox.command_lines import Bounds
    from codelet.safety.sandbox.places import MadeFile, Secrets

Use = Literal["auto", "on", "off"]
"""The commands that are confined: those without approval, all, or none."""

_SECONDS, _CAP = 5.0, 1 << 12


class Confinement(Record):
    """The confinement that works here, or None, with a description or the reasons.

    `program` is bubblewrap's path, looked up once, before any command could put another one there.
    """

    way: Literal["bubblewrap", "landlock", "sandbox-exec"] | None
    detail: str
    program: str | None = None


def variables_for_reading(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a command that only reads: those of a list, and git's hardening."""
    from codelet.safety.sandbox.places import VARIABLES
    from codelet.system.git import settings_environment
    from codelet.system.git.hardening import ENVIRONMENT, SETTINGS
    from codelet.system.process.start import reading_environment

    return reading_environment(environment, VARIABLES) | ENVIRONMENT | settings_environment(SETTINGS, {})


async def find_confinement(workspace: Path) -> Confinement:
    """Try each way in order, with a real command."""
    from codelet.safety.sandbox.command_lines import Bounds, writable_root
    from codelet.system.process import StartError, child_environment, find_program, run_child, shell_argv

    environment = child_environment()
    nothing = shell_argv(":", environment, workspace)
    of_linux = (Confinement("bubblewrap", "", find_program("bwrap", workspace)), Confinement("landlock", ""))
    reasons: list[str] = []
    for found in (Confinement("sandbox-exec", ""),) if sys.platform == "darwin" else of_linux:
        try:
            argv = _confined(found, nothing, Bounds(writable_root(workspace), "read-only"))
            done = await run_child(argv, cwd=workspace, environment=environment, timeout=_SECONDS, output_limit=_CAP)
            if done.exit_code == 0:
                return found.replace(detail=f"{found.way} ({'; '.join(reasons)})" if reasons else found.way)
            why = done.output.strip().partition("\n")[0] or f"exit code {done.exit_code}"
        except (StartError, FileNotFoundError) as error:
            why = str(error)
        reasons.append(f"{found.way}: {why}")
    return Confinement(None, "; ".join(reasons))


def _confined(found: Confinement, command: Sequence[str], bounds: Bounds) -> Sequence[str]:
    """The words that run `command` confined. Raises FileNotFoundError if the way is not installed."""
    from codelet.safety.sandbox.command_lines import bubblewrap_argv, landlock_argv, profile

    if found.way == "landlock":
        return landlock_argv(command, bounds)
    if found.way == "sandbox-exec":  # part of the system; nothing else of that name is taken
        return ["/usr/bin/sandbox-exec", "-p", profile(bounds), *command]
    if found.program is None:
        raise FileNotFoundError("it is not installed, or only in the workspace")
    return bubblewrap_argv(found.program, command, bounds)


class Sandbox:
    """The confinement of one session's commands. `found` is None until the first look.

    `network` permits the network. `open_home` lets commands read the whole home but its secrets, `seen` are further
    places that they may read (see `places`). `kept` are files of the workspace that no confined command may write,
    such as the audit file.
    """

    def __init__(
        self,
        workspace: Path,
        use: Use = "auto",
        *,
        network: bool = False,
        open_home: bool = False,
        seen: Sequence[str] = (),
        kept: Sequence[Path] = (),
    ) -> None:
        self.use = use
        self.open_home = open_home
        self.network = network
        self.found: Confinement | None = None
        self._workspace = workspace
        self._seen = seen
        self._kept = kept
        self._before: set[tuple[str, str]] | None = None  # the protected entries before a command, see `standing`
        self._repositories: set[str] = set()
        self._held = 0
        self._owed = False
        self._looking = asyncio.Lock()

    @property
    def wanted(self) -> bool:
        """Return whether commands are confined: all of them, or those without approval."""
        return self.use != "off"

    @property
    def state(self) -> str | None:
        """The way that confines commands, "none" if none works, "off", or None before the first look."""
        if self.use == "off":
            return "off"
        return None if self.found is None else self.found.way or "none"

    def kind(self, wanted: SandboxKind | None) -> SandboxKind | None:
        """The sandbox of a command whose verdict requires `wanted`; None if it runs without."""
        return "workspace" if wanted is None and self.use == "on" else wanted

    async def works(self) -> bool:
        """Return whether a confinement works. Raises ToolError if none does and the user demands one."""
        found = await self.look()
        if found.way is None and self.use == "on":
            raise ToolError(f"no sandbox works here ({found.detail}), and the user demands one: commands cannot run")
        return found.way is not None

    async def look(self) -> Confinement:
        """Return the confinement, found at the first call."""
        async with self._looking:
            if self.found is None:
                self.found = await find_confinement(self._workspace)
        return self.found

    def wrap(
        self, command: str, environment: Mapping[str, str], kind: SandboxKind = "workspace", *, lasting: bool = False
    ) -> Sequence[str]:
        """The words that run the shell command confined, after `works` returned True.

        A `lasting` command runs alongside others: it could write the hooks of a repository that is made later, so in
        a workspace without one it can write only entries that are at the top of the workspace now.
        """
        from codelet.safety.sandbox.command_lines import Bounds, writable_root
        from codelet.safety.sandbox.places import find_attributes, protected_places, seen_places, standing
        from codelet.system.process import shell_argv

        assert self.found is not None
        mounted = self.found.way == "bubblewrap" and kind == "read-only" and "git" in command
        root = writable_root(self._workspace)
        protected = protected_places(Path(root), self._kept) if kind == "workspace" else []
        if kind == "workspace" and (self._before is None or not self.held):
            self._before, self._repositories = standing(Path(root), protected), self._secrets.repositories()
        bounds = Bounds(
            root=root,
            kind=kind,
            network=self.network,
            protected=tuple(protected),
            hidden=tuple(self._secrets.hidden_from(command, kind)),
            seen=tuple(seen_places(root, environment, self._seen)),
            open_home=self.open_home,
            attributes=find_attributes(root) if mounted else None,
            settled=lasting and kind == "workspace" and self.is_without_repository,
        )
        return _confined(self.found, shell_argv(command, environment, self._workspace), bounds)

    def kept_from_writing(self, kind: SandboxKind, output: str) -> bool:
        """Return whether the output of a failed command shows that only its sandbox kept it from writing.

        Only bubblewrap has a distinct error for that. Elsewhere it is that of any file with another owner; a line that
        names a protected or secret file does not count.
        """
        assert self.found is not None
        if self.found.way == "bubblewrap":
            return kind == "read-only" and "Read-only file system" in output
        from codelet.safety.paths import protected, why_unread

        root = str(self._workspace.resolve())
        for line in output.splitlines():
            if any(error in line for error in ("Permission denied", "Operation not permitted")):
                words = re.split(r"[\s:'\"`‘’(),]+", line)[1:]
                places = [place for word in words if os.path.lexists(place := os.path.join(root, word))]
                hidden = (why_unread(os.path.realpath(place), root) for place in places)
                if not any(map(protected, words)) and not any(hidden):
                    return True
        return False

    @cached_property
    def _secrets(self) -> Secrets:
        from codelet.safety.sandbox.places import Secrets

        return Secrets(os.path.realpath(self._workspace), open_home=self.open_home)

    @property
    def sees_home(self) -> bool:
        """Return whether the workspace is, or holds, the home, which confined commands then see."""
        from codelet.safety.sandbox.places import holds_home

        return holds_home(str(self._workspace.resolve()))

    @property
    def is_without_repository(self) -> bool:
        """Return whether the workspace is in no repository, so that a command may make one."""
        from codelet.system.git.hardening import find_repository

        return find_repository(str(self._workspace.resolve())) is None

    def newly_protected(self) -> Sequence[MadeFile]:
        """Move aside the protected entries that the last confined command made, and return them, each once.

        An absent entry cannot be made read-only. Repositories and environments stay, and are read-only from now on; so
        do entries that a command in the background, or someone else, may have made.
        """
        before, self._before = self._before, None
        if before is None:
            return []
        from codelet.safety.git_targets import names_programs
        from codelet.safety.sandbox.places import protected_places, settle, standing

        root = self._workspace.resolve()
        now = standing(root, protected_places(root, self._kept))
        held, self._owed = self.held, False
        if self._held:
            self._before = before | now
        new = now - before
        deep = {place for place in self._secrets.repositories() - self._repositories if names_programs(Path(place))}
        links = tuple(f"{place}/" for place, target in new if target)
        made = sorted({place for place, _ in new if not place.startswith(links)} | deep)  # not the targets of links
        return [settle(Path(place), root, move=not held) for place in made]

    @property
    def held(self) -> bool:
        """Return whether a confined command runs in the background, or has since the last `newly_protected`."""
        return self._held > 0 or self._owed

    def hold(self) -> None:
        """A confined command continues in the background."""
        self._held += 1

    def release(self) -> None:
        """It has ended; its last new entries are reported after the next call."""
        self._held -= 1
        self._owed = True
