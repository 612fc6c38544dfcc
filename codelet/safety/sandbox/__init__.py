"""Confines shell commands: what runs unasked writes nothing, or the workspace alone, and does not reach the network.

bubblewrap is used where it works, else Landlock with a filter of system calls, on a Mac sandbox-exec, else nothing, and
then the user is told.
Which one works is tried before the first command, not at the start.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from codelet.errors import ToolError
from codelet.record import Record
from codelet.safety.verdict import SandboxKind

if TYPE_CHECKING:
    from codelet.safety.sandbox.aside import MadeFile
    from codelet.safety.sandbox.command_lines import Bounds
    from codelet.safety.sandbox.places import Secrets

Use = Literal["auto", "on", "off"]
"""When commands are confined: what no one said yes to, all of them, none."""

_SECONDS, _CAP = 5.0, 1 << 12
_REFUSED = ("Permission denied", "Operation not permitted")
_NO_NAME = re.compile(r"[\s:'\"`‘’(),]+")


class Confinement(Record):
    """What confines commands here: the way, or None, and in words what it is or why there is none.

    `program` is bubblewrap's path. It is looked for once, before the first command that could put another one there.
    """

    way: Literal["bubblewrap", "landlock", "sandbox-exec"] | None
    detail: str
    program: str | None = None


def variables_for_reading(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a command that only reads gets of its variables: a list, and git's hardening."""
    from codelet.safety.sandbox.visible import VARIABLES
    from codelet.system.git import settings_environment
    from codelet.system.git.hardening import ENVIRONMENT, SETTINGS
    from codelet.system.process.start import reading_environment

    return reading_environment(environment, VARIABLES) | ENVIRONMENT | settings_environment(SETTINGS, {})


async def find_confinement(workspace: Path, *, sockets: bool = False) -> Confinement:
    """Try the ways in their order, each with a real command."""
    from codelet.safety.sandbox.command_lines import Bounds, writable_root
    from codelet.system.process import StartError, child_environment, find_program, run_child, shell_argv

    environment = child_environment()
    nothing = shell_argv(":", environment, workspace)
    program = find_program("bwrap", workspace)
    reasons: list[str] = []
    of_linux = (Confinement("bubblewrap", "", program), Confinement("landlock", ""))
    ways = (Confinement("sandbox-exec", ""),) if sys.platform == "darwin" else of_linux
    for found in ways:
        way = found.way
        try:
            argv = _confined(found, nothing, Bounds(writable_root(workspace), "read-only", sockets=sockets))
            done = await run_child(argv, cwd=workspace, environment=environment, timeout=_SECONDS, output_limit=_CAP)
        except (StartError, FileNotFoundError) as error:
            reasons.append(f"{way}: {error}")
            continue
        if done.exit_code == 0:
            detail = f"{way} ({'; '.join(reasons)})" if reasons else way
            return found.replace(detail=detail)
        said = done.output.strip().partition("\n")[0]
        reasons.append(f"{way}: {said or f'exit code {done.exit_code}'}")
    return Confinement(None, "; ".join(reasons))


def _confined(found: Confinement, command: Sequence[str], bounds: Bounds) -> Sequence[str]:
    """The words that run `command` confined. Raises FileNotFoundError if that way is not installed."""
    from codelet.safety.sandbox.command_lines import bubblewrap_argv, landlock_argv

    if found.way == "landlock":
        return landlock_argv(command, bounds)
    if found.way == "sandbox-exec":
        from codelet.safety.sandbox.mac_profile import sandbox_exec_argv

        return sandbox_exec_argv(command, bounds)
    if found.program is None:
        raise FileNotFoundError("it is not installed, or only in the workspace")
    return bubblewrap_argv(found.program, command, bounds)


class Sandbox:
    """The confinement of one session's commands. `found` is None until it was first looked for.

    `network` and `sockets` leave confined commands the network, and sockets of their own making. `open_home` lets them
    read the whole home but its secrets, `seen` are places that they may read besides (see `visible`). `kept` are files
    that no confined command may write, wherever in the workspace they stand: the audit file, say.
    """

    def __init__(
        self,
        workspace: Path,
        use: Use = "auto",
        *,
        network: bool = False,
        sockets: bool = False,
        open_home: bool = False,
        seen: Sequence[str] = (),
        kept: Sequence[Path] = (),
    ) -> None:
        self.use = use
        self.open_home = open_home
        self.network = network
        self.sockets = sockets
        self.found: Confinement | None = None
        self._workspace = workspace
        self._seen = seen
        self._kept = kept
        self._before: set[tuple[str, str]] | None = None  # what stood where programs outside obey, as `_standing` tells
        self._repositories: set[str] = set()
        self._held = 0
        self._owed = False
        self._looking = asyncio.Lock()

    @property
    def wanted(self) -> bool:
        """Return whether commands should be confined: all of them, or those that the user did not approve."""
        return self.use != "off"

    @property
    def state(self) -> str | None:
        """Return what confines commands: the way, "none" where none works, "off", or None if it was not looked for
        yet.
        """
        if self.use == "off" or self.found is None:
            return "off" if self.use == "off" else None
        return self.found.way or "none"

    def kind(self, wanted: SandboxKind | None) -> SandboxKind | None:
        """The sandbox that a command runs in, where its verdict wants this one; None if it runs without."""
        return "workspace" if wanted is None and self.use == "on" else wanted

    async def works(self) -> bool:
        """Return whether there is a confinement. Raises ToolError if there is none and one was asked for by name."""
        found = await self.look()
        if found.way is None and self.use == "on":
            raise ToolError(f"no sandbox works here ({found.detail}), and the user demands one: commands cannot run")
        return found.way is not None

    async def look(self) -> Confinement:
        """Return what confinement there is, looked for at the first call."""
        async with self._looking:
            if self.found is None:
                self.found = await find_confinement(self._workspace, sockets=self.sockets)
        return self.found

    def wrap(
        self,
        command: str,
        environment: Mapping[str, str],
        kind: SandboxKind = "workspace",
        *,
        lasting: bool = False,
    ) -> Sequence[str]:
        """The words that run the shell command confined; only after `works` said so.

        A `lasting` one runs alongside others: if there is no repository yet, it could write the hooks of one that is
        made later, so nothing at the top of the workspace but what stands there now can be written by it.
        """
        from codelet.safety.sandbox.command_lines import Bounds, writable_root
        from codelet.safety.sandbox.places import protected_places, seen_places
        from codelet.system.process import shell_argv

        assert self.found is not None
        root = writable_root(self._workspace)
        protected = protected_places(Path(root), self._kept) if kind == "workspace" else []
        if kind == "workspace" and (self._before is None or not self.held):
            self._before, self._repositories = self._standing(protected), self._secrets.repositories()
        bounds = Bounds(
            root=root,
            kind=kind,
            network=self.network,
            sockets=self.sockets,
            protected=tuple(protected),
            hidden=tuple(self._secrets.hidden_from(command, kind)),
            seen=tuple(seen_places(root, environment, self._seen)),
            open_home=self.open_home,
            attributes=self.git_attributes(root) if kind == "read-only" and "git" in command else None,
            settled=lasting and kind == "workspace" and self.is_without_repository,
        )
        return _confined(self.found, shell_argv(command, environment, self._workspace), bounds)

    def kept_from_writing(self, kind: SandboxKind, output: str) -> bool:
        """Return whether the output of a command that failed says that its sandbox kept it from writing what it may ask
        for.

        Only bubblewrap has an error of its own for that. Elsewhere it is that of any file which is not the user's; so a
        line that names a file which no one reads or writes without asking does not count.
        """
        assert self.found is not None
        if self.found.way == "bubblewrap":
            return kind == "read-only" and "Read-only file system" in output
        from codelet.safety.paths import why_unread
        from codelet.safety.sensitive_names import protected

        root = str(self._workspace.resolve())
        for line in output.splitlines():
            if any(error in line for error in _REFUSED):
                _, *words = _NO_NAME.split(line)
                places = [
                    os.path.realpath(os.path.join(root, word))
                    for word in words
                    if os.path.lexists(os.path.join(root, word))
                ]
                if not any(map(protected, words)) and not any(why_unread(place, root) for place in places):
                    return True
        return False

    def git_attributes(self, root: str) -> tuple[str, bytes] | None:
        """Return what keeps git from showing secrets there; None if nothing can be mounted to do so."""
        from codelet.safety.sandbox.git_attributes import find_attributes

        return find_attributes(root) if self.found is not None and self.found.way == "bubblewrap" else None

    @cached_property
    def _secrets(self) -> Secrets:
        from codelet.safety.sandbox.command_lines import writable_root
        from codelet.safety.sandbox.places import Secrets

        return Secrets(writable_root(self._workspace), open_home=self.open_home)

    @property
    def sees_home(self) -> bool:
        """Return whether confined commands see the home because the workspace is, or holds, the home."""
        from codelet.safety.sandbox.visible import holds_home

        return holds_home(str(self._workspace.resolve()))

    @property
    def is_without_repository(self) -> bool:
        """Return whether the workspace lies in no repository, so that one may still be made there."""
        from codelet.system.git.hardening import find_repository

        return find_repository(str(self._workspace.resolve())) is None

    def newly_protected(self) -> Sequence[MadeFile]:
        """Return what the last confined command made and nothing may write at, each told once; it is moved aside.

        What is absent cannot be made read-only. A repository and an environment stay where they are, and are read-only
        from now on; so does what a command in the background, or anyone beside it, may have made.
        """
        before, self._before = self._before, None
        if before is None:
            return []
        from codelet.safety.git_targets import names_programs
        from codelet.safety.sandbox.places import protected_places

        root = self._workspace.resolve()
        standing = self._standing(protected_places(root, self._kept))
        held, self._owed = self.held, False
        if self._held:
            self._before = before | standing
        new = standing - before
        deep = {place for place in self._secrets.repositories() - self._repositories if names_programs(Path(place))}
        if not new and not deep:
            return []
        from codelet.safety.sandbox.aside import settle

        links = tuple(f"{place}/" for place, target in new if target)
        made = sorted({place for place, _ in new if not place.startswith(links)} | deep)  # what a link leads to was not
        return [settle(Path(place), root, move=not held) for place in made]

    def _standing(self, protected: Iterable[str]) -> set[tuple[str, str]]:
        """The protected places, and the links of such names with where each leads."""
        from codelet.safety.sandbox.places import obeyed_links

        return {(place, "") for place in protected} | obeyed_links(self._workspace.resolve())

    @property
    def held(self) -> bool:
        """Return whether a confined command runs in the background, or has since the last look at what was made."""
        return self._held > 0 or self._owed

    def hold(self) -> None:
        """A confined command continues in the background."""
        self._held += 1

    def release(self) -> None:
        """It has ended; what it made last is still told, behind the next call."""
        self._held -= 1
        self._owed = True
