"""Reports files that run later, if a confined command created them or they were written without asking."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from codelet.extensions.base import Extension, Guard, GuardedCall
from codelet.safety.paths import runs_later
from codelet.safety.sandbox import Sandbox
from codelet.tools.tool import ToolOutput

if TYPE_CHECKING:
    from codelet.extensions.session_view import SessionView

_MADE_BY_IT = "it"
_MADE_BY_SOME = "it, or a command in the background,"
_PROTECTED = "[{by} made {names}, which programs outside the sandbox obey: tell the user, or ask with unconfined]"
_MOVED_ASIDE = "{name} (moved aside to {aside})"
_MADE_READ_ONLY = "[{by} made {names}, which commands can read but not write from now on]"


_RUN_LATER = "written without asking, and run at the next build, test or start: {names}"


class ProtectedFiles(Extension, Guard):
    """Reports files that a confined command created and that programs outside the sandbox obey.

    A missing file cannot be made read-only, so new ones are found after each confined command and moved aside.
    """

    in_subsessions = False

    def __init__(self, sandbox: Sandbox) -> None:
        self.guards = (self,)
        self._sandbox = sandbox
        self._session: SessionView | None = None
        self._written: set[str] = set()
        self._began = 0.0  # when the first command of the turn began that could write the workspace, without asking

    @classmethod
    def from_session(cls, session: SessionView) -> Self:
        assert session.safeguards.sandbox is not None
        return cls(session.safeguards.sandbox)

    def attach(self, session: SessionView) -> None:
        self._session = session

    async def starting(self, call: GuardedCall) -> None:
        """Note when a command begins that no one is asked about and that can write the workspace."""
        verdict = call.verdict
        if verdict is not None and verdict.action == "allow" and verdict.tier != "read" and not self._began:
            self._began = time.time() if any(touch.kind == "run" for touch in call.touches or ()) else 0.0

    async def between_turns(self) -> None:
        """Name the files that were written in the turn without a question and that run later."""
        if self._session is None:
            return
        if self._began:
            with suppress(OSError), os.scandir(self._session.workspace) as entries:
                made = (one.name for one in entries if runs_later(one.name) and one.stat().st_mtime >= self._began)
                self._written.update(made)
        if self._written:
            self._session.notices.say(_RUN_LATER.format(names=", ".join(sorted(self._written))))
        self._written.clear()
        self._began = 0.0

    async def after(self, call: GuardedCall, output: ToolOutput) -> ToolOutput:
        """The output, failed where the command made such files."""
        verdict = call.verdict
        place = verdict.place if call.ran and verdict is not None and verdict.action == "allow" else None
        writes = any(touch.kind == "write" for touch in call.touches or ())
        if place is not None and writes and self._session is not None and runs_later(place.name):
            self._written.add(os.path.relpath(place, self._session.workspace))
        by = _MADE_BY_SOME if self._sandbox.held else _MADE_BY_IT
        made = self._sandbox.newly_protected() if call.ran else ()
        if not made:
            return output
        obeyed = [
            _MOVED_ASIDE.format(name=one.name, aside=one.aside) if one.aside else one.name
            for one in made
            if not one.stays
        ]
        stays = [one.name for one in made if one.stays]
        notes = [_MADE_READ_ONLY.format(by=by, names=", ".join(stays))] if stays else []
        notes += [_PROTECTED.format(by=by, names=", ".join(obeyed))] if obeyed else []
        return output.replace(text="\n".join((output.text, *notes)), failed=output.failed or bool(obeyed))
